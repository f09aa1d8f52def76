"""Making one provider: what may be declared, and how a type and its options become an object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import attrs

from teff.errors import ConfigError, PluginError, TeffError, suggest
from teff.provider.keys import names_a_secret
from teff.provider.protocol import Provider

__all__ = ["ProviderSource", "Recipe", "check_source", "make", "recipe"]

#: What stands behind a name: a provider, or the options to make one with.
ProviderSource = Provider | Mapping[str, Any]

#: A call that makes a provider, with every argument in place.
Recipe = Callable[[], object]

#: Options of every provider, whatever its type; the registry reads them.
_OPTIONS_OF_ALL = {"max_parallel", "type"}

#: What others call an option.
_OTHER_NAMES = {
    "address": "base_url",
    "api_base": "base_url",
    "api_url": "base_url",
    "endpoint": "base_url",
    "host": "base_url",
    "max_concurrency": "max_parallel",
    "server": "base_url",
    "uri": "base_url",
    "url": "base_url",
}

_MEMBERS = ("name", "capabilities", "chat", "stream", "aclose")


def check_source(name: object, source: object) -> ProviderSource:
    """Return ``source`` where it is a provider or options for one.

    Raises:
        ConfigError: it is neither, the options hold a raw secret or a name, or ``name`` is none.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError(f"the name of a provider is a text that is not empty, not {name!r}.")
    if isinstance(source, Mapping):
        _check_options(name, source)
        return source
    if isinstance(source, type):
        raise ConfigError(
            f"provider {name!r} is the class {source.__name__}.",
            hint=f"Give an instance, {source.__name__}(…), or options.",
        )
    if isinstance(source, Provider):
        return source
    raise ConfigError(
        f"provider {name!r} is neither options nor a provider: {type(source).__name__} has no "
        f"{_missing_members(source)}.",
        hint='Options look like {"type": "openai", "base_url": "http://localhost:8000/v1"}.',
    )


def recipe(name: str, provider_type: object, options: Mapping[str, Any]) -> Recipe:
    """Check options against a type, and return the call that makes the provider.

    An attrs class gets its options structured by the types of its fields; any other class or
    function gets them as they are, with ``name``.

    Raises:
        ConfigError: the type does not take these options.
        PluginError: the type is neither a class nor a function.
    """
    _check_options(name, options)
    if not callable(provider_type):
        raise PluginError(
            f"provider {name!r}: its type is {provider_type!r}, which is neither a class nor a "
            "function"
        )
    factory: Callable[..., object] = provider_type
    _check_names(name, factory, options)
    if isinstance(provider_type, type) and attrs.has(provider_type):
        from teff.schema.options import missing_fields, structure_fields

        fields = structure_fields(provider_type, options, what=f"provider {name!r}")
        if missing := missing_fields(provider_type, {*fields, "name"}):
            raise ConfigError(f"provider {name!r} needs {' and '.join(missing)}.")
        return partial(factory, name=name, **fields)
    try:
        inspect.signature(factory).bind(name=name, **options)
    except TypeError as error:
        raise ConfigError(f"provider {name!r}: {error}.") from error
    return partial(factory, name=name, **options)


def make(name: str, recipe: Recipe) -> Provider:
    """Make the provider.

    Raises:
        ConfigError: the type refuses a value of an option.
        PluginError: what it made is no provider.
    """
    try:
        made = recipe()
    except TeffError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"provider {name!r}: {error}") from error
    if not isinstance(made, Provider):
        raise PluginError(
            f"provider {name!r}: its type made a {type(made).__name__}, which has no "
            f"{_missing_members(made)}"
        )
    return made


def _check_options(name: str, options: Mapping[Any, Any]) -> None:
    for option in options:
        if not isinstance(option, str):
            raise ConfigError(f"provider {name!r}: option {option!r} is not a text.")
        if option == "name":
            raise ConfigError(
                f"provider {name!r}: the name is not an option.",
                hint="It is the key that the options stand under.",
            )
        if names_a_secret(option):
            raise ConfigError(
                f"provider {name!r}: {option!r} would put a secret into the configuration.",
                hint="Name the environment variable that holds it: api_key_env.",
                path=option,
            )


def _check_names(name: str, factory: Callable[..., object], options: Mapping[str, Any]) -> None:
    """Raise where the type has no option of a name, with what was probably meant."""
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError:  # of a few types that are written in C
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    # The name is the registry's, and a function that gives the key can stand in no configuration.
    known = parameters.keys() - {"name", "api_key"} | _OPTIONS_OF_ALL
    for option in options:
        if option not in parameters:
            raise ConfigError(
                f"provider {name!r}: unknown option {option!r}.",
                hint=_meant(option, known),
                path=option,
            )


def _meant(option: str, known: Collection[str]) -> str:
    if option == "model":
        return "The model is named where it is asked: as model of a node, or as default_model."
    other_name = _OTHER_NAMES.get(option.lower().replace("-", "_"))
    if other_name in known:
        return f"Did you mean {other_name!r}?"
    return suggest(option, known).strip()


def _missing_members(value: object) -> str:
    return " and no ".join(member for member in _MEMBERS if not hasattr(value, member))
