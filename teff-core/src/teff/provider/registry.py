"""From the name of a provider, as a workflow writes it, to the object that answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.errors import ConfigError
from teff.plugins.catalogue import Catalogue, catalogue
from teff.provider.construct import ProviderSource, Recipe, check_source, make, recipe
from teff.provider.protocol import Provider

__all__ = ["ProviderRegistry", "ProviderSource"]

_GROUP = "teff.providers"


class ProviderRegistry:
    """The providers that a graph can name.

    A provider is declared by options, or given as an object, which is used as it is. Options name
    the ``type`` (where it is missing, the name itself is the type), how many calls may run at once
    (``max_parallel``; without it there is no bound), and what that type takes. The
    name of an installed type needs no declaration: it is a provider with that type's defaults.
    Providers are made when they are first asked for, once. Names are compared exactly.

    ::

        registry = ProviderRegistry({
            "fast": {"type": "openai", "base_url": "http://localhost:8000/v1"},
            "big": {"type": "openai", "api_key_env": "BIG_API_KEY"},
        })
        registry.resolve("fast")      # made of the options above
        registry.resolve("ollama")    # not declared: the installed type with its defaults

    Args:
        providers: name → options or provider. Another registry gives its declarations; providers
            that it has made stay its own. None declares nothing.
        catalogue: where types are looked up; by default, what is installed.

    Raises:
        ConfigError: an entry is neither options nor a provider, or holds a raw secret.
    """

    def __init__(
        self,
        providers: Mapping[str, ProviderSource] | ProviderRegistry | None = None,
        *,
        catalogue: Catalogue | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._options: dict[str, dict[str, Any]] = {}
        self._given: dict[str, Provider] = {}
        self._made: dict[tuple[str, str], Provider] = {}
        self._replaced: list[Provider] = []
        if isinstance(providers, ProviderRegistry):
            self._catalogue = catalogue or providers._catalogue
            providers = {**providers._options, **providers._given}
        if not (providers is None or isinstance(providers, Mapping)):
            raise ConfigError(
                "providers must be a ProviderRegistry or a dict from name to options, not "
                f"{type(providers).__name__}.",
                path="providers",
            )
        for name, source in (providers or {}).items():
            self.register(name, source)

    @classmethod
    def of(
        cls, providers: Mapping[str, ProviderSource] | ProviderRegistry | None
    ) -> ProviderRegistry:
        """Return ``providers`` itself where it is a registry, else a registry made of it."""
        return providers if isinstance(providers, ProviderRegistry) else cls(providers)

    @classmethod
    def from_presets(cls, *names: str, catalogue: Catalogue | None = None) -> ProviderRegistry:
        """Declare installed provider types under their own names; without names, all of them.

        Raises:
            ConfigError: no such type is installed; the message holds the ``pip`` line.
            AmbiguousName: several distributions offer the type.
        """
        registry = cls(catalogue=catalogue)
        for name in names or registry._types.names(_GROUP):
            registry._types.find(_GROUP, name)
            registry.register(name, {"type": name})
        return registry

    def register(self, name: str, source: ProviderSource, *, replace: bool = False) -> None:
        """Declare a provider.

        Args:
            name: what a workflow calls it.
            source: options, or a provider, which the registry uses and never closes.
            replace: take the place of an earlier declaration.

        Raises:
            ConfigError: the name is declared and ``replace`` is false, or the source is wrong.
        """
        if name in self.declared() and not replace:
            raise ConfigError(
                f"provider {name!r} is declared already.", hint="Pass replace=True to replace it."
            )
        checked = check_source(name, source)
        self._options.pop(name, None)
        self._given.pop(name, None)
        if isinstance(checked, Mapping):
            self._options[name] = dict(checked)
        else:
            self._given[name] = checked
        for key in [key for key in self._made if key[0] == name]:
            self._replaced.append(self._made.pop(key))

    def names(self) -> list[str]:
        """List every name that `resolve` takes: the declared ones and the installed types."""
        return sorted({*self.declared(), *self._types.names(_GROUP)})

    def declared(self) -> dict[str, ProviderSource]:
        """Return what was declared, by name: options, or the provider that was given."""
        return {**self._options, **self._given}

    def resolve(self, name: str) -> Provider:
        """Return the provider of this name, making it on the first call.

        Raises:
            ConfigError: there is none of this name, or its options do not fit its type.
            PluginError: the distribution that offers its type cannot be loaded, offers something
                that is no provider, or shares the name with another one.
        """
        return self.derive(name, {})

    def derive(self, name: str, overrides: Mapping[str, Any]) -> Provider:
        """Return a variant of a provider, with some options replaced.

        A node's own ``base_url``, ``api_key_env``, ``chat_path``, ``auth_header`` and
        ``auth_prefix`` come here. Equal overrides give the same object, and none give what
        `resolve` gives.

        Args:
            name: the provider to start from; the variant has this name too.
            overrides: option → value. An option that is None is not replaced.

        Raises:
            ConfigError: as `resolve`; or the provider was given as an object, whose options are
                not known here.
            PluginError: as `resolve`.
        """
        changed = _replaced_options(overrides)
        if name in self._given:
            return self._as_given(name, changed)
        key = (name, repr(changed))
        if key not in self._made:
            self._made[key] = make(name, self._recipe(name, changed))
        return self._made[key]

    def max_parallel(self, name: str) -> int | None:
        """Return how many calls of a provider may run at once, as it is declared; None: any number.

        Raises:
            ConfigError: what is declared is no whole number of at least 1.
        """
        bound: object = self._options.get(name, {}).get("max_parallel")
        if bound is None:
            return None
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 1:
            raise ConfigError(
                f"provider {name!r}: max_parallel is a whole number of at least 1, not {bound!r}.",
                path="max_parallel",
            )
        return bound

    def check(self, name: str, overrides: Mapping[str, Any] | None = None) -> None:
        """Raise what `derive` would raise; what it makes is kept for the calls to come."""
        self.derive(name, overrides or {})

    async def aclose(self) -> None:
        """Close every provider that this registry made; those given as objects stay open.

        All are closed even where one fails. They can be used again afterwards.

        Raises:
            ExceptionGroup: with what the failing ones raised.
        """
        failures: list[Exception] = []
        for provider in [*self._made.values(), *self._replaced]:
            try:
                await provider.aclose()
            except Exception as error:
                failures.append(error)
        self._replaced.clear()
        if failures:
            raise ExceptionGroup("providers failed to close", failures)

    @property
    def _types(self) -> Catalogue:
        return self._catalogue or catalogue()

    def _as_given(self, name: str, changed: Mapping[str, Any]) -> Provider:
        if changed:
            raise ConfigError(
                f"provider {name!r} was given as an object, so {', '.join(changed)} cannot be set "
                "for one node.",
                hint="Declare it by options, or declare a second provider.",
            )
        return self._given[name]

    def _recipe(self, name: str, changed: Mapping[str, Any]) -> Recipe:
        options = {**self._options.get(name, {}), **changed}
        declared_type = options.pop("type", None)
        options.pop("max_parallel", None)
        self.max_parallel(name)
        return recipe(name, self._load_type(name, declared_type), options)

    def _load_type(self, name: str, declared: object) -> object:
        if name not in self._options:
            return self._types.load(_GROUP, name, known=self.declared())
        if declared is None:
            declared = self._type_of_the_same_name(name)
        if not isinstance(declared, str):
            raise ConfigError(f"provider {name!r}: its type is a name, not {declared!r}.")
        try:
            return self._types.load(_GROUP, declared)
        except ConfigError as error:
            if declared == name:
                raise
            raise ConfigError(f"provider {name!r}: {error.message}", hint=error.hint) from error

    def _type_of_the_same_name(self, name: str) -> str:
        try:
            return self._types.find(_GROUP, name).name
        except ConfigError as error:
            # A known type that is not installed, or is blocked, says what to do; a guess does not.
            if error.hint and "Did you mean" not in error.message:
                raise
            installed = ", ".join(self._types.names(_GROUP)) or "none"
            raise ConfigError(
                f"provider {name!r} has no 'type', and no provider type is called {name!r}.",
                hint=f"Installed types: {installed}.",
            ) from None


def _replaced_options(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {
        option: overrides[option] for option in sorted(overrides) if overrides[option] is not None
    }
