"""The sections of a workflow file beside its steps: what each of them stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from teff.conditions import compile_condition
from teff.errors import ConfigError
from teff.graph.edge import ERROR
from teff.graph.options import Validation, check_validation
from teff.plugins import catalogue
from teff.provider import ProviderRegistry
from teff.runtime import Limits, Price, read_prices
from teff.state import StateSchema, compile_reducers
from teff.state.fits import sentences
from teff.state.keys import KEY_OPTIONS
from teff.tool import Tool, default_tool_registry
from teff.workflow.options import as_written, fields_of, plugin_class, read_options
from teff.workflow.part import Part

__all__ = [
    "STATE",
    "StateSection",
    "check_condition",
    "read_limits",
    "read_price_table",
    "read_providers",
    "read_state",
    "read_tools",
]

#: What may stand under ``state``.
STATE = ("initial", "schema", "reducers", "validate")


def check_condition(part: Part) -> str:
    """Return a condition, which parses.

    Raises:
        ConfigError: it is no text, or it does not parse; the message has a caret under the place.
    """
    text = part.text()
    if text != ERROR:
        with part.errors_here():
            compile_condition(text)
    return text


def read_providers(part: Part) -> dict[str, dict[str, Any]]:
    """Read ``providers``: a mapping by name, or a list in which each has a name."""
    declared: dict[str, Part] = {}
    if isinstance(part.value, list):
        for provider in part.elements():
            if "name" not in provider.entries():
                raise provider.error("a provider in a list needs a 'name'.")
            name = provider["name"].text()
            if name in declared:
                raise provider["name"].error(f"two providers have the name {name!r}.")
            declared[name] = provider.without(["name"])
    else:
        declared = part.entries()
    return {name: _provider(name, provider) for name, provider in declared.items()}


def _provider(name: str, part: Part) -> dict[str, Any]:
    for option in part.entries().values():
        option.check_present()
    expected: Any = Any
    if "type" in part:
        with part["type"].errors_here():
            expected = catalogue().load("teff.providers", part["type"].text())
    options: dict[str, Any] = as_written(part.written, expected)
    with part.errors_here():
        ProviderRegistry({name: options}).check(name)
    return options


@attrs.frozen(kw_only=True)
class StateSection:
    """What ``state`` says.

    Attributes:
        initial: the values that a run starts from.
        schema: the declared keys, or None.
        reducers: by key.
        validate: what happens to what does not fit the schema, or None where nothing is said.
    """

    initial: Mapping[str, Any] = attrs.field(factory=dict)
    schema: StateSchema | None = None
    reducers: Mapping[str, str] = attrs.field(factory=dict)
    validate: Validation | None = None

    def options(self) -> dict[str, Any]:
        """Return what a graph takes of it."""
        said = {"state": self.schema, "reducers": self.reducers, "validate": self.validate}
        return {name: value for name, value in said.items() if value}


def read_state(part: Part) -> StateSection:
    """Read ``state``: the initial values, the schema, and the reducers of keys."""
    part.check_keys(STATE, what="state")
    schema = _schema(part["schema"]) if "schema" in part else None
    validate: Validation | None = None
    if "validate" in part:
        with part["validate"].errors_here():
            validate = check_validation(part["validate"].value)
        if schema is None:
            raise part["validate"].error("'validate' needs a 'schema' to hold the state against.")
    reducers: dict[str, str] = {}
    for key, entry in (part["reducers"].entries() if "reducers" in part else {}).items():
        with entry.errors_here():
            reducers[key] = entry.text()
            compile_reducers({key: reducers[key]})
    initial = part["initial"].entries() if "initial" in part else {}
    values = {key: value.value for key, value in initial.items()}
    if schema is not None and validate in (None, "error"):
        _check_initial(schema, initial)
    return StateSection(initial=values, schema=schema, reducers=reducers, validate=validate)


def _schema(part: Part) -> StateSchema:
    for key, entry in part.entries().items():
        entry.check_present()
        if isinstance(entry.value, dict):
            entry.check_keys(KEY_OPTIONS, what=f"the schema of {key!r}")
    with part.errors_here():
        return StateSchema.of(part.value)


def _check_initial(schema: StateSchema, initial: Mapping[str, Part]) -> None:
    """Refuse an initial value that does not fit; what is missing may come with the run."""
    for key, part in initial.items():
        if key in schema.keys:
            problems = sentences(key, part.value, schema.checks[key])
        else:
            problems = [] if schema.allows(key) else [schema.undeclared(key)]
        if problems:
            raise part.error(f"the initial value of {problems[0]}")


def read_limits(part: Part) -> Limits:
    """Read ``limits``."""
    options = read_options(part, fields_of(Limits), what="limits")
    with part.errors_here():
        return Limits(**options)


def read_price_table(part: Part) -> dict[str, Price]:
    """Read ``prices``: what a million tokens of each model cost."""
    table: dict[str, Price] = {}
    for model, price in part.entries().items():
        options = read_options(price, fields_of(Price), what=f"the price of {model!r}")
        with price.errors_here():
            table |= read_prices({model: options})
    return table


def read_tools(part: Part) -> tuple[Tool, ...]:
    """Read ``tools``: names, or mappings of a name and the options of the tool."""
    tools: dict[str, Tool] = {}
    for entry in part.elements():
        tool = _tool(entry)
        if tool.name in tools:
            raise entry.error(f"two tools have the name {tool.name!r}.")
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(part: Part) -> Tool:
    if not isinstance(part.value, dict):
        with part.errors_here():
            return default_tool_registry.resolve(part.text())
    part.check_keys(["name", "config"], what="a tool")
    if "name" not in part:
        raise part.error("a tool needs a 'name'.")
    name, config = part["name"].text(), part.find("config")
    options: dict[str, Any] = {}
    if config is not None:
        config.entries()
        options = as_written(config.written, plugin_class("teff.tools", name))
    try:
        return default_tool_registry.create(name, options)
    except ConfigError as error:
        raise (config if error.path and config is not None else part["name"]).located(
            error
        ) from None
    except (TypeError, ValueError) as error:  # from the code of a plugin
        raise part.error(f"tool {name!r} refuses its options: {error}.") from error
