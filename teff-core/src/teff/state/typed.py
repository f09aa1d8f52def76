"""A state outside of a run: `State`, and a schema put to use by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.errors import ConfigError
from teff.schema.from_types import json_schema_from_type
from teff.state.frozen import thaw
from teff.state.keys import StateKey
from teff.state.reducers import Reducer, compile_reducers, merge_into
from teff.state.schema import ENGINE_KEYS, StateSchema

__all__ = ["State", "state_schema_to_jsonschema", "validate_state"]


#: The names that need no declaration, as a pattern of JSON Schema.
_UNDECLARED = f"^_|^({'|'.join(sorted(ENGINE_KEYS))})$"


class State(dict[str, Any]):
    """A dict that knows its schema: it starts with the defaults, and merges with the reducers.

    As the input of ``Graph.run`` it brings its reducers; they win over those of the graph, and
    ``run(reducers=)`` wins over them. A stored run that goes on without it does not have them: give
    the schema to the graph there.

    Args:
        schema: a TypedDict, an attrs class, a dataclass or a mapping; see `StateSchema.of`.
        data: what to start with. It is not checked: see `validate_state`.

    Raises:
        ConfigError: the schema is wrong.

    >>> state = State({"log": "append", "n": {"type": "integer", "default": 0}}, {"log": ["a"]})
    >>> state.merge({"log": "b", "n": 1})
    >>> state
    {'log': ['a', 'b'], 'n': 1}
    """

    def __init__(self, schema: object, data: Mapping[str, Any] | None = None) -> None:
        self.schema = StateSchema.of(schema)
        super().__init__(self.schema.filled(data or {}))

    @property
    def reducers(self) -> dict[str, Reducer]:
        """The reducers of the schema, by key."""
        return self.schema.reducers

    def merge(self, update: Mapping[str, Any]) -> None:
        """Apply an update as a run does; afterwards all values are ordinary ones.

        Raises:
            StateError: an append to what is no list.
        """
        merge_into(self, update, compile_reducers(self.reducers))
        super().update({key: thaw(self[key]) for key in update if key in self})


def validate_state(state: Mapping[str, Any], schema: object) -> list[str]:
    """Return what is wrong with a state, one sentence for each thing; an empty list if nothing is.

    Defaults are not filled in; ``input``, ``messages``, ``error``, and keys that begin with ``_``,
    may be there undeclared.

    >>> validate_state({"n": "3", "nn": 1}, {"n": int})
    ["'n' must be a whole number, not text.", "'nn' is not declared in the state schema. Did you mean 'n'?"]

    Raises:
        ConfigError: the schema is wrong.
    """
    return StateSchema.of(schema).problems(state)


def state_schema_to_jsonschema(schema: object) -> dict[str, Any]:
    """Return the JSON Schema of the states that fit; types that JSON cannot carry are left open.

    >>> state_schema_to_jsonschema({"n": {"type": "integer", "default": 0}})["properties"]
    {'n': {'type': 'integer', 'default': 0}}

    Raises:
        ConfigError: the schema is wrong.
    """
    keys = StateSchema.of(schema).keys
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for name, key in keys.items():
        properties[name] = _property(key)
        definitions |= properties[name].pop("$defs", {})
    made: dict[str, Any] = {"type": "object", "properties": properties}
    required = [name for name, key in keys.items() if key.required]
    if required:
        made["required"] = required
    if definitions:
        made["$defs"] = definitions
    return {**made, "patternProperties": {_UNDECLARED: {}}, "additionalProperties": False}


def _property(key: StateKey) -> dict[str, Any]:
    try:
        made = json_schema_from_type(key.type)
    except ConfigError:
        made = {}
    if key.description:
        made["description"] = key.description
    if isinstance(key.default, str | int | float | list | dict):
        made["default"] = key.default
    return made
