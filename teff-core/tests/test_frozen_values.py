from __future__ import annotations

import copy
import json
import operator
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import StateError
from teff.state import FrozenDict, FrozenList, FrozenSet, freeze, is_filled, thaw

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
values = st.recursive(
    scalars | st.binary(max_size=4) | st.sets(st.integers(), max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


def kinds(value: object) -> list[type]:
    """Return the types of a value and of all that it holds, in a fixed order."""
    found = [type(value)]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            found += kinds(item)
    return found


# What code sees


@given(values)
def test_a_frozen_value_equals_what_it_was_made_of_and_thaws_to_it(value: object) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert thaw(frozen) == value
    assert kinds(thaw(frozen)) == kinds(value)
    assert not {list, dict, set} & set(kinds(frozen))


@given(values)
def test_freezing_again_costs_nothing_and_changes_nothing(value: object) -> None:
    frozen = freeze(value)
    if not isinstance(value, tuple):
        assert freeze(frozen) is frozen
    assert freeze(frozen) == frozen


@given(values)
def test_freezing_and_thawing_leave_the_original_alone(value: object) -> None:
    before = copy.deepcopy(value)
    frozen = freeze(value)
    thaw(frozen)
    assert value == before
    assert kinds(value) == kinds(before)


def test_a_change_to_the_original_does_not_reach_the_frozen_value() -> None:
    original: Any = {"items": [1, {"tags": {"a"}}]}
    frozen = freeze(original)
    original["items"].append(2)
    original["items"][1]["tags"].add("b")
    assert frozen == {"items": [1, {"tags": {"a"}}]}


@given(json_values)
def test_json_sees_no_difference(value: object) -> None:
    frozen = freeze(value)
    assert json.dumps(frozen) == json.dumps(value)
    assert repr(frozen) == repr(value)


def test_frozen_values_are_lists_dicts_and_sets() -> None:
    frozen = freeze({"a": [1], "s": {1}})
    assert isinstance(frozen, dict)
    assert isinstance(frozen["a"], list)
    assert isinstance(frozen["s"], set)
    match frozen:
        case {"a": [first, *_]}:
            assert first == 1
        case _:
            pytest.fail("a frozen dict must match like a dict")


def test_items_keep_their_order() -> None:
    assert list(freeze({"b": 1, "a": 2})) == ["b", "a"]


# What code cannot do

LIST_CHANGES: list[Callable[[Any], object]] = [
    lambda items: items.append(3),
    lambda items: items.extend([3]),
    lambda items: items.insert(0, 3),
    lambda items: items.remove(1),
    lambda items: items.pop(),
    lambda items: items.clear(),
    lambda items: items.sort(),
    lambda items: items.sort(key=str, reverse=True),
    lambda items: items.reverse(),
    lambda items: operator.setitem(items, 0, 3),
    lambda items: operator.setitem(items, slice(0, 1), []),
    lambda items: operator.delitem(items, 0),
    lambda items: operator.delitem(items, slice(None)),
]
DICT_CHANGES: list[Callable[[Any], object]] = [
    lambda mapping: operator.setitem(mapping, "b", 3),
    lambda mapping: operator.delitem(mapping, "a"),
    lambda mapping: mapping.pop("a"),
    lambda mapping: mapping.pop("missing", None),
    lambda mapping: mapping.popitem(),
    lambda mapping: mapping.clear(),
    lambda mapping: mapping.update({"b": 3}),
    lambda mapping: mapping.update(b=3),
    lambda mapping: mapping.setdefault("b", 3),
    lambda mapping: mapping.setdefault("a", 3),
]
SET_CHANGES: list[Callable[[Any], object]] = [
    lambda members: members.add(3),
    lambda members: members.discard(1),
    lambda members: members.remove(1),
    lambda members: members.pop(),
    lambda members: members.clear(),
    lambda members: members.update({3}),
    lambda members: members.difference_update({1}),
    lambda members: members.intersection_update({1}),
    lambda members: members.symmetric_difference_update({1}),
]


@pytest.mark.parametrize(
    ("original", "change"),
    [
        *(([1, 2], change) for change in LIST_CHANGES),
        *(({"a": 1}, change) for change in DICT_CHANGES),
        *(({1, 2}, change) for change in SET_CHANGES),
    ],
)
def test_every_change_in_place_is_refused_with_what_to_do_instead(
    original: object, change: Callable[[object], object]
) -> None:
    frozen = freeze(original)
    with pytest.raises(TypeError, match="cannot be changed in place: return an update instead"):
        change(frozen)
    assert frozen == original


@pytest.mark.parametrize(
    ("plain", "frozen", "harmless"),
    [
        (list, FrozenList, {"copy", "count", "index"}),
        (dict, FrozenDict, {"copy", "fromkeys", "get", "items", "keys", "values"}),
        (
            set,
            FrozenSet,
            {"copy", "difference", "intersection", "isdisjoint", "issubset", "issuperset"}
            | {"symmetric_difference", "union"},
        ),
    ],
)
def test_no_method_that_changes_is_left_out(plain: type, frozen: type, harmless: set[str]) -> None:
    public = {name for name in dir(plain) if not name.startswith("_")}
    operators = {"__setitem__", "__delitem__", "__iadd__", "__imul__", "__ior__", "__iand__"}
    operators |= {"__isub__", "__ixor__"}
    changing = (public - harmless) | (operators & set(dir(plain)))
    assert {name for name in changing if getattr(frozen, name) is getattr(plain, name)} == set()


def test_what_is_nested_cannot_be_changed_either() -> None:
    frozen: Any = freeze({"a": [{"b": [1]}], "t": ({"c": 1}, [2])})
    for part in (frozen["a"], frozen["a"][0]["b"], frozen["t"][1]):
        with pytest.raises(TypeError, match="a list of the state"):
            part.append(1)
    with pytest.raises(TypeError, match="a dict of the state"):
        frozen["t"][0]["c"] = 2


# Operators and copies give ordinary values


def test_plus_equals_on_a_list_makes_a_new_plain_list() -> None:
    frozen = freeze([1])
    items = frozen
    items += [2]
    items.append(3)
    assert (type(items), items, frozen) == (list, [1, 2, 3], [1])

    twice = freeze([1])
    twice *= 2
    assert (type(twice), twice) == (list, [1, 1])

    letters = freeze(["a"])
    letters += "bc"
    assert letters == ["a", "b", "c"]
    with pytest.raises(TypeError):
        letters += 5  # type: ignore[arg-type]


def test_plus_equals_on_a_key_of_a_plain_dict_rebinds_the_key() -> None:
    state = {"log": freeze([1])}
    before = state["log"]
    state["log"] += [2]
    assert state["log"] == [1, 2]
    assert before == [1]


@pytest.mark.parametrize("other", [{"b": 2}, [("b", 2)]])
def test_or_equals_on_a_dict_makes_a_new_plain_dict(other: Any) -> None:
    frozen = freeze({"a": 1})
    mapping = frozen
    mapping |= other
    mapping["c"] = 3
    assert (type(mapping), mapping, frozen) == (dict, {"a": 1, "b": 2, "c": 3}, {"a": 1})


@pytest.mark.parametrize("change", [operator.ior, operator.iand, operator.isub, operator.ixor])
def test_in_place_operators_on_a_set_make_a_new_plain_set(
    change: Callable[[set[int], set[int]], set[int]],
) -> None:
    frozen = freeze({1, 2})
    members = change(frozen, {2, 3})
    assert (type(members), members) == (set, change({1, 2}, {2, 3}))
    assert frozen == {1, 2}


@pytest.mark.parametrize(
    "result",
    [
        operator.add(freeze([1]), [2]),
        operator.add([0], freeze([1])),
        freeze([1]) * 2,
        freeze([1, 2])[:1],
        freeze([1]).copy(),
        [*freeze([1])],
        freeze({"a": 1}) | {"b": 2},
        {"b": 2} | freeze({"a": 1}),
        freeze({"a": 1}).copy(),
        {**freeze({"a": 1})},
        freeze({1}) | {2},
        freeze({1}) - {2},
        freeze({1}).union({2}),
        freeze({1}).copy(),
        {2} | freeze({1}),
    ],
)
def test_other_operators_and_copies_give_plain_values(result: object) -> None:
    assert type(result) in (list, dict, set)


@given(values)
def test_deep_copies_and_pickles_are_plain_through_and_through(value: object) -> None:
    frozen = freeze(value)
    for result in (copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        assert result == value
        assert kinds(result) == kinds(value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol_gives_plain_values(protocol: int) -> None:
    frozen = freeze({"a": [1, {2}]})
    result = pickle.loads(pickle.dumps(frozen, protocol))
    assert kinds(result) == [dict, list, int, set]


@pytest.mark.parametrize(("value", "plain"), [([[1]], list), ({"a": {}}, dict), ({1}, set)])
def test_a_shallow_copy_is_plain_and_shares_what_it_holds(value: Any, plain: type) -> None:
    copied = copy.copy(freeze(value))
    assert copied == value
    assert type(copied) is plain

    nested = freeze([[1]])
    assert copy.copy(nested)[0] is nested[0]


def test_a_deep_copy_keeps_what_is_shared_shared() -> None:
    class Thing:
        pass

    thing = Thing()
    first, second = copy.deepcopy(freeze([thing, thing]))
    assert first is second
    assert first is not thing


# What is frozen, and what is not


class Point(NamedTuple):
    x: list[int]
    y: int


def test_tuples_stay_tuples_and_named_tuples_keep_their_names() -> None:
    frozen: Any = freeze({"p": Point([1], 2), "plain": (1, "a")})
    assert isinstance(frozen["p"], Point)
    assert type(frozen["p"].x) is FrozenList
    assert type(thaw(frozen)["p"].x) is list


def test_a_tuple_of_atoms_is_shared_as_it_is() -> None:
    atoms = (1, "a", (2.0, None))
    assert freeze(atoms) is atoms
    assert thaw(atoms) is atoms


def test_other_mappings_and_lists_become_plain_ones() -> None:
    others: list[Any] = [defaultdict(int, a=1), OrderedDict(a=1)]
    for other in others:
        assert type(freeze(other)) is FrozenDict
        assert type(thaw(freeze(other))) is dict


@pytest.mark.parametrize("value", [object(), MappingProxyType({"a": []}), len, 1 + 2j])
def test_other_objects_are_passed_through(value: object) -> None:
    assert freeze(value) is value
    assert thaw(value) is value
    assert freeze([value])[0] is value


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append({"again": endless})
    with pytest.raises(StateError, match="contains itself or is nested too deeply"):
        freeze(endless)


# Filled


@pytest.mark.parametrize("empty", [None, "", [], {}, (), set(), frozenset()])
def test_nothing_and_empty_values_are_not_filled_frozen_or_not(empty: object) -> None:
    assert not is_filled(empty)
    assert not is_filled(freeze(empty))


@pytest.mark.parametrize("value", [0, 0.0, False, " ", [0], {"a": None}, (None,), {0}, object()])
def test_zero_false_and_everything_else_is_filled(value: object) -> None:
    assert is_filled(value)
    assert is_filled(freeze(value))
