"""``hooks``: functions that a workflow file names, told of every node of a run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import attrs

from teff.runtime.node_hooks import NodeHook, NodeHooks
from teff.workflow.options import fields_of
from teff.workflow.part import Part

__all__ = ["HOOKS", "Hooks", "both", "read_hooks"]

#: The names of the hooks.
HOOKS = tuple(fields_of(NodeHooks))

_REFERENCE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


@attrs.frozen
class Hooks:
    """The hooks of a file: where their functions are. Nothing is imported before a run.

    Attributes:
        references: from the names of hooks to ``module:function``, in the order of calling.
    """

    references: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    _parts: Mapping[str, Sequence[Part]] = attrs.field(factory=dict, repr=False, eq=False)

    def resolve(self) -> dict[str, NodeHook]:
        """Import the functions and return them by the names of the hooks.

        Raises:
            ConfigError: one cannot be imported; with its place in the file.
        """
        return {
            name: _in_turn([_function(part) for part in parts])
            for name, parts in self._parts.items()
        }


def read_hooks(part: Part) -> Hooks:
    """Read ``hooks``, without importing anything.

    Raises:
        ConfigError: an unknown hook, or a text that is not ``module:function``.
    """
    part.check_keys(HOOKS, what="hooks")
    parts = {
        name: entry.elements() if isinstance(entry.value, list) else [entry]
        for name, entry in part.entries().items()
    }
    for reference in (reference for references in parts.values() for reference in references):
        if not _REFERENCE.fullmatch(reference.text()):
            raise reference.error(
                f"{reference.text()!r} names no function.",
                "Write `module:function`, such as `my_package.audit:on_node_end`.",
            )
    return Hooks({name: [entry.text() for entry in found] for name, found in parts.items()}, parts)


def _function(part: Part) -> NodeHook:
    module, _, attribute = part.text().partition(":")
    try:
        found: Any = import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise part.error(f"{module!r} cannot be imported: {error}.") from error
        raise part.error(
            f"there is no module {error.name!r}.",
            "Install it, or put its folder on PYTHONPATH.",
        ) from None
    except AttributeError:
        raise part.error(f"{module!r} has no {attribute!r}.") from None
    except Exception as error:  # whatever the code of the module raises
        raise part.error(
            f"{module!r} cannot be imported: {type(error).__name__}: {error}."
        ) from error
    if not callable(found):
        raise part.error(f"{part.text()!r} is no function.")
    hook: NodeHook = found
    return hook


def _in_turn(functions: Sequence[NodeHook]) -> NodeHook:
    """Return a hook that calls several, one after the other."""
    if len(functions) == 1:
        return functions[0]

    async def call_each(*arguments: Any) -> None:
        for function in functions:
            waiting = function(*arguments)
            if inspect.isawaitable(waiting):
                await waiting

    return call_each


def both(
    first: Mapping[str, NodeHook], second: Mapping[str, NodeHook] | None
) -> dict[str, NodeHook]:
    """Return hooks by name that call those of ``first``, then those of ``second``."""
    together = dict(first)
    for name, hook in (second or {}).items():
        if hook is not None:
            together[name] = _in_turn([first[name], hook]) if name in first else hook
    return together
