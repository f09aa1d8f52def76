"""Generated schemas: what is built from one fits, and what is broken is named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError, StateError
from teff.graph import Graph
from teff.node import make_function_node
from teff.state import State, StateSchema, state_schema_to_mapping, validate_state

TEXTS = st.text(max_size=5)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS,
    "integer": st.integers(),
    "number": st.floats(allow_nan=False) | st.integers(),
    "boolean": st.booleans(),
    "null": st.none(),
}
VALUES = st.recursive(
    st.one_of(*SCALARS.values()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
#: A value of no type that a schema here can name.
STRANGE = object()


@st.composite
def entries(draw: st.DrawFn) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    """Return an entry of a schema, and the strategy of its values."""
    shape = draw(st.sampled_from(["scalar", "list", "object", "enum", "union"]))
    name = draw(st.sampled_from(sorted(SCALARS)))
    if shape == "scalar":
        return {"type": name}, SCALARS[name]
    if shape == "list":
        return {"type": "list", "items": name}, st.lists(SCALARS[name], max_size=4)
    if shape == "object":
        return {"type": "object"}, st.dictionaries(TEXTS, VALUES, max_size=3)
    if shape == "enum":
        values = draw(st.lists(TEXTS, min_size=1, max_size=3))
        return {"enum": values}, st.sampled_from(values)
    other = draw(st.sampled_from(sorted(SCALARS)))
    return {"type": [name, other]}, SCALARS[name] | SCALARS[other]


KEYS = st.text(alphabet="abcdefgh", min_size=1, max_size=4)


@st.composite
def schemas_and_states(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    schema: dict[str, Any] = {}
    state: dict[str, Any] = {}
    for key in draw(st.lists(KEYS, unique=True, min_size=1, max_size=5)):
        schema[key], values = draw(entries())
        state[key] = draw(values)
    return schema, state


def run(update: Any, given: Any = None, **options: Any) -> Any:
    node = make_function_node(lambda ctx, state: update)
    return asyncio.run(Graph({"a": node}, [], "a", **options).run(given))


@given(schemas_and_states())
def test_a_state_that_is_built_from_its_schema_fits(both: Any) -> None:
    schema, state = both
    assert validate_state(state, schema) == []
    assert run(state, state=schema) == state
    assert run({}, state, state=schema) == state


@given(schemas_and_states(), st.data())
def test_one_corrupted_key_is_always_reported_by_its_name(both: Any, data: st.DataObject) -> None:
    schema, state = both
    key = data.draw(st.sampled_from(sorted(state)))
    broken = {**state, key: STRANGE}
    (problem,) = validate_state(broken, schema)
    assert problem.startswith(f"'{key}' must be ")
    with pytest.raises(StateError, match=f"node 'a' .*'{key}' must be"):
        run(broken, state=schema)
    with pytest.raises(ConfigError, match=f"'{key}' must be"):
        run({}, broken, state=schema)


@given(schemas_and_states(), st.data())
def test_one_undeclared_key_is_always_reported_by_its_name(both: Any, data: st.DataObject) -> None:
    schema, state = both
    key = data.draw(KEYS.filter(lambda key: key not in schema))
    (problem,) = validate_state({**state, key: 1}, schema)
    assert problem.startswith(f"{key!r} is not declared")


@given(schemas_and_states(), st.dictionaries(KEYS, VALUES, max_size=4))
def test_off_equals_no_schema(both: Any, update: Any) -> None:
    schema, state = both
    assert run(update, state, state=schema, validate="off") == run(update, state)


@given(schemas_and_states(), st.dictionaries(KEYS, VALUES, max_size=3))
def test_what_is_accepted_is_merged_as_without_a_schema(both: Any, update: Any) -> None:
    schema, state = both
    fits = validate_state({**state, **update}, schema) == []
    try:
        result = run(update, state, state=schema)
    except StateError:
        assert not fits
    else:
        assert fits
        assert result == run(update, state)


@given(schemas_and_states(), st.booleans())
def test_a_schema_that_is_written_reads_as_the_same(both: Any, with_defaults: bool) -> None:
    entries, state = both
    if with_defaults:
        entries = {key: {**entry, "default": state[key]} for key, entry in entries.items()}
    schema = StateSchema.of(entries)
    written = state_schema_to_mapping(schema)
    assert StateSchema.of(written) == schema
    assert state_schema_to_mapping(written) == written


@given(schemas_and_states(), st.sets(KEYS))
def test_defaults_fill_what_is_left_out_and_no_more(both: Any, given_keys: set[str]) -> None:
    schema, state = both
    filling = {key: {**entry, "default": state[key]} for key, entry in schema.items()}
    part = {key: value for key, value in state.items() if key in given_keys}
    assert StateSchema.of(filling).filled(part) == state
    assert State(filling, part) == state
    assert run({}, part, state=filling) == state


@given(st.lists(st.lists(TEXTS, max_size=3) | TEXTS, max_size=5))
def test_what_is_appended_is_checked_as_items(updates: list[Any]) -> None:
    schema = StateSchema.of({"log": {"type": "list", "items": "text", "reducer": "append"}})
    expected: list[str] = []
    log: list[str] = []
    for update in updates:
        expected += update if isinstance(update, list) else [update]
        log = run({"log": update}, {"log": log}, state=schema)["log"]
    assert log == expected
    with pytest.raises(StateError, match=r"'log\[0\]' must be text"):
        run({"log": 1}, {"log": log}, state=schema)
