"""Telling plugins what happens, so that none of them can disturb the run or another plugin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, NamedTuple

from teff.errors import PluginError
from teff.plugins.log import warn

if TYPE_CHECKING:
    import pluggy

__all__ = ["FAILURES_BEFORE_MUTING", "Hooks"]

FAILURES_BEFORE_MUTING = 3

# Calling one of these runs nothing of it.
_NOT_PLAIN = (iscoroutinefunction, isasyncgenfunction, isgeneratorfunction)


class _Listener(NamedTuple):
    plugin: str
    function: Callable[..., object]
    arguments: tuple[str, ...]


class Hooks:
    """The plugins that listen, and the way to tell them.

    ::

        hooks = Hooks()
        hooks.register(MyObserver())
        if hooks.listens("teff_run_started"):
            hooks.tell("teff_run_started", run=RunInfo("r-1", "support"))
    """

    def __init__(self) -> None:
        self._manager: pluggy.PluginManager | None = None
        self._listeners: dict[str, list[_Listener]] = {}
        self._failures: Counter[tuple[str, str]] = Counter()

    def listens(self, hook_name: str) -> bool:
        """Say whether anybody implements the hook; cheap enough to ask before every call."""
        return hook_name in self._listeners

    def listens_at_all(self) -> bool:
        """Say whether anybody implements any hook."""
        return bool(self._listeners)

    def tell(self, hook_name: str, **arguments: object) -> None:
        """Call every implementation of a hook with those of ``arguments`` that it takes.

        An implementation that raises, or tries to exit, is logged the first time and left out
        after `FAILURES_BEFORE_MUTING` failures. ``KeyboardInterrupt`` goes through.
        """
        for listener in self._listeners.get(hook_name, ()):
            try:
                listener.function(*[arguments[name] for name in listener.arguments])
            except (Exception, SystemExit) as error:
                self._failed(hook_name, listener, error)

    def register(self, plugin: object, *, name: str | None = None) -> None:
        """Add a plugin: a module or an object with functions marked by ``hookimpl``.

        Args:
            plugin: what implements hooks.
            name: what messages call it; by default the name of the module or of the class.

        Raises:
            PluginError: it is registered already, it takes an argument that the hook does not
                have, it is a class, or an implementation is a wrapper, a coroutine or a generator.
                Nothing of it stays registered.
        """
        label = name or _label(plugin)
        if isinstance(plugin, type):
            raise PluginError(
                f"plugin {label} is a class; register an instance: {plugin.__name__}()",
                plugin=label,
            )
        manager = self._pluggy()
        if manager.is_registered(plugin):
            raise PluginError(f"plugin {label} is registered already", plugin=label)
        try:
            # Two observers of one class are two plugins: the label alone would not tell them apart.
            manager.register(plugin, name or f"{label}#{id(plugin)}")
            unknown = self._check(plugin, label)
        except Exception as error:
            if manager.is_registered(plugin):
                manager.unregister(plugin)
            if isinstance(error, PluginError):
                raise
            raise PluginError(f"plugin {label} does not fit: {error}", plugin=label) from error
        if unknown:
            warn(
                f"plugin {label} implements {', '.join(unknown)}, which this version of Teff does "
                "not know: it was made for a newer one",
                plugin=label,
            )
        self._find_listeners()

    def unregister(self, plugin: object) -> None:
        """Remove a plugin; its failures so far are forgotten.

        Raises:
            PluginError: it is not registered.
        """
        manager = self._pluggy()
        name = manager.get_name(plugin)
        if name is None:
            raise PluginError(f"plugin {_label(plugin)} is not registered")
        manager.unregister(plugin)
        for failed in [key for key in self._failures if key[0] == name]:
            del self._failures[failed]
        self._find_listeners()

    def _pluggy(self) -> pluggy.PluginManager:
        if self._manager is None:
            import pluggy

            from teff.plugins import hookspecs

            self._manager = pluggy.PluginManager("teff")
            self._manager.add_hookspecs(hookspecs)
        return self._manager

    def _check(self, plugin: object, label: str) -> list[str]:
        """Refuse what an observer cannot be; return the hooks that no specification knows."""
        unknown = []
        for caller in self._pluggy().get_hookcallers(plugin) or ():
            if not caller.has_spec():
                unknown.append(caller.name)
            for implementation in caller.get_hookimpls():
                if implementation.plugin is not plugin:
                    continue
                if implementation.wrapper or implementation.hookwrapper:
                    fault = "is a wrapper, but this hook only observes"
                elif any(is_kind(implementation.function) for is_kind in _NOT_PLAIN):
                    fault = "is a coroutine or generator function, but hooks are plain functions"
                else:
                    continue
                raise PluginError(
                    f"plugin {label}: {caller.name} {fault}", plugin=label, hook=caller.name
                )
        return unknown

    def _find_listeners(self) -> None:
        """Look up once who listens, so that telling costs no more than the calls themselves."""
        listeners: dict[str, list[_Listener]] = {}
        manager = self._pluggy()
        for plugin in manager.get_plugins():
            for caller in manager.get_hookcallers(plugin) or ():
                if caller.has_spec() and caller.name not in listeners:
                    listeners[caller.name] = [
                        _Listener(found.plugin_name, found.function, tuple(found.argnames))
                        for found in reversed(caller.get_hookimpls())
                        if not self._is_muted(found.plugin_name, caller.name)
                    ]
        self._listeners = {hook: found for hook, found in listeners.items() if found}

    def _is_muted(self, plugin: str, hook_name: str) -> bool:
        return self._failures[plugin, hook_name] >= FAILURES_BEFORE_MUTING

    def _failed(self, hook_name: str, listener: _Listener, error: BaseException) -> None:
        self._failures[listener.plugin, hook_name] += 1
        if self._failures[listener.plugin, hook_name] == 1:
            label = listener.plugin.partition("#")[0]
            warn(
                f"plugin {label} failed in {hook_name}: {type(error).__name__}: {error}. The run "
                f"goes on; after {FAILURES_BEFORE_MUTING} failures it is not called again",
                plugin=label,
                hook=hook_name,
            )
        if self._is_muted(listener.plugin, hook_name):
            self._find_listeners()


def _label(plugin: Any) -> str:
    return getattr(plugin, "__name__", None) or type(plugin).__qualname__
