from __future__ import annotations

import copy
import pickle
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError
from teff.paths import MISSING, compile_path, lookup, parse_path, root_key


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("items[0].price", ("items", 0, "price")),
        ("grid[1][2]", ("grid", 1, 2)),
        ("messages[-1].content", ("messages", -1, "content")),
        ("xs.0", ("xs", "0")),
        ("my-key", ("my-key",)),
        ("final answer", ("final answer",)),
        ("größe.ß", ("größe", "ß")),
    ],
)
def test_a_path_splits_into_names_and_indexes(text: str, parts: tuple[str | int, ...]) -> None:
    assert parse_path(text) == parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "needs a name"),
        ("[0]", "starts with a name"),
        (".a", "starts with a name"),
        ("a..b", "name is expected after the dot"),
        ("a.", "name is expected after the dot"),
        ("a[x]", "whole number"),
        ("a[]", "whole number"),
        ("a[0", "whole number"),
        ("a[1234567890123456789]", "whole number"),
        ("a[0]b", "expected '.' or '['"),
        ("a]", "expected '.' or '['"),
    ],
)
def test_what_is_no_path_is_refused_with_the_place(text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected.replace("[", r"\[").replace(".", r"\.")):
        compile_path(text)


@pytest.mark.parametrize(
    ("path", "state", "found"),
    [
        ("a", {"a": 1}, 1),
        ("a", {}, MISSING),
        ("a", {"a": None}, None),
        ("a.b", {"a": {"b": 0}}, 0),
        ("a.b", {"a": {}}, MISSING),
        ("a.b", {"a": None}, MISSING),
        ("a.b", {"a": "text"}, MISSING),
        ("a.b.c", {"a": {"b": {"c": [1]}}}, [1]),
        ("xs[0]", {"xs": [5]}, 5),
        ("xs.0", {"xs": [5]}, 5),
        ("xs.0", {"xs": (5,)}, 5),
        ("xs.0", {"xs": {"0": "named"}}, "named"),
        ("xs[0]", {"xs": {"0": "named"}}, "named"),
        ("xs[0]", {"xs": {0: "numbered"}}, "numbered"),
        ("xs[-1]", {"xs": [1, 2]}, 2),
        ("xs[-3]", {"xs": [1, 2]}, MISSING),
        ("xs[2]", {"xs": [1, 2]}, MISSING),
        ("xs.b", {"xs": [1, 2]}, MISSING),
        ("xs.-1", {"xs": [1, 2]}, MISSING),
        ("xs." + "9" * 5000, {"xs": [1, 2]}, MISSING),
        ("text[0]", {"text": "abc"}, MISSING),
        ("text.upper", {"text": "abc"}, MISSING),
        ("a.__class__", {"a": {}}, MISSING),
        ("items[0].price", {"items": [{"price": 3}]}, 3),
    ],
)
def test_a_path_is_followed(path: str, state: dict[str, object], found: object) -> None:
    assert compile_path(path)(state) == found
    assert lookup(state, path) == found


def test_a_literal_dotted_key_wins() -> None:
    state = {"a.b": "flat", "a": {"b": "nested"}, "xs[0]": "literal", "xs": [1]}

    assert lookup(state, "a.b") == "flat"
    assert lookup(state, "xs[0]") == "literal"
    assert lookup({"a": {"b": "nested"}}, "a.b") == "nested"
    assert lookup({"a.b": None, "a": {"b": 1}}, "a.b") is None


def test_lookup_gives_the_default_only_where_nothing_is_held() -> None:
    assert lookup({"a": None}, "a", "default") is None
    assert lookup({}, "a", "default") == "default"
    assert lookup({"a": {}}, "a.b", None) is None


def test_any_mapping_can_be_read() -> None:
    state = MappingProxyType({"a": MappingProxyType({"b": 1})})

    assert lookup(state, "a.b") == 1


def test_the_root_of_a_path_is_its_first_name() -> None:
    assert root_key("items[0].price") == "items"
    assert root_key("a.b") == "a"
    assert root_key("final answer") == "final answer"


def test_missing_stays_itself_when_copied() -> None:
    assert repr(MISSING) == "MISSING"
    assert copy.deepcopy({"a": MISSING})["a"] is MISSING
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING


names = st.text(st.characters(exclude_characters=".[]", exclude_categories=["Cs"]), min_size=1)


@given(names, st.lists(names | st.integers(0, 10**6)), st.integers())
def test_a_path_built_from_names_and_indexes_leads_to_the_value(
    root: str, steps: list[str | int], value: int
) -> None:
    text = root
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    nested: object = value
    for step in reversed(steps):
        nested = {step: nested}

    assert parse_path(text) == (root, *steps)
    assert lookup({root: nested}, text) == value


@given(st.text("ab.[]0-", max_size=12), st.recursive(st.integers(), lambda inner: st.lists(inner)))
def test_a_text_is_a_path_that_can_be_followed_or_is_refused(text: str, value: object) -> None:
    try:
        follow = compile_path(text)
    except ConfigError:
        return
    follow({"a": value, "b": {"a": value}})
