from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from types import MappingProxyType
from typing import Annotated, Any, NotRequired, Required, TypedDict

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError, StateError
from teff.state import (
    DELETE,
    Append,
    FrozenList,
    Overwrite,
    compile_reducers,
    freeze,
    merge,
    merge_into,
    rebound_keys,
    reducers_from_schema,
)

atoms = st.integers() | st.text(max_size=3) | st.none() | st.booleans()
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
items = st.lists(values, max_size=4)
states = st.dictionaries(st.sampled_from("abc"), values)
updates = st.dictionaries(
    st.sampled_from("abcd"),
    values | values.map(Overwrite) | st.just(DELETE) | items.map(Append),
)


def applied(state: dict[str, Any], update: dict[str, Any], reducers: Any = None) -> dict[str, Any]:
    """Return the merged state, or the state where the update is refused."""
    try:
        return merge(state, update, reducers)
    except StateError:
        return merge(state, {})


# The three that have a name


def test_without_a_reducer_the_new_value_replaces_the_old_one() -> None:
    state = {"a": [1], "b": 2}
    assert merge(state, {"a": [3], "c": None}) == {"a": [3], "b": 2, "c": None}
    assert merge(state, {"a": [3]}, {"a": "override"}) == {"a": [3], "b": 2}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([1], [2, 3], [1, 2, 3]),
        ([1], 2, [1, 2]),
        ([1], "ab", [1, "ab"]),
        ([1], {"a": 2}, [1, {"a": 2}]),
        ([1], (2, 3), [1, 2, 3]),
        ([1], [[2]], [1, [2]]),
        ([1], [], [1]),
        ((1,), [2], [1, 2]),
        (None, [2], [2]),
        ([], "ab", ["ab"]),
    ],
)
def test_append_adds_to_the_end(old: object, new: object, expected: list[object]) -> None:
    assert merge({"log": old}, {"log": new}, {"log": "append"}) == {"log": expected}


def test_append_begins_a_list_where_the_key_is_missing() -> None:
    first = merge({}, {"log": "a"}, {"log": "append"})
    assert first == {"log": ["a"]}
    assert merge(first, {"log": "b"}, {"log": "append"}) == {"log": ["a", "b"]}


@pytest.mark.parametrize("old", ["text", 0, {"a": 1}, {1}])
@pytest.mark.parametrize("new", [["x"], Append(["x"])])
def test_append_to_what_is_no_list_is_refused_and_names_the_key(old: object, new: object) -> None:
    with pytest.raises(StateError, match="cannot append to state key 'log': it holds .*Overwrite"):
        merge({"log": old}, {"log": new}, {"log": "append"})


def test_keep_keeps_what_is_there_even_if_it_is_empty() -> None:
    keep = {"a": "keep"}
    assert merge({}, {"a": 1}, keep) == {"a": 1}
    assert merge({"a": 1}, {"a": 2}, keep) == {"a": 1}
    assert merge({"a": None}, {"a": 2}, keep) == {"a": None}


# Functions


def test_a_function_is_called_only_where_the_key_is_present() -> None:
    calls = []

    def largest(old: int, new: int) -> int:
        calls.append((old, new))
        return max(old, new)

    first = merge({}, {"n": 3}, {"n": largest})
    second = merge(first, {"n": 2, "m": 1}, {"n": largest})
    assert (first, second, calls) == ({"n": 3}, {"n": 3, "m": 1}, [(3, 2)])


@pytest.mark.parametrize(
    ("reducer", "old", "new", "expected"),
    [
        (operator.add, [1], [2], [1, 2]),
        (operator.iadd, [1], [2], [1, 2]),
        (operator.or_, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        (operator.ior, {1}, {2}, {1, 2}),
        (max, 3, 5, 5),
        (lambda old, new: None, 3, 5, None),
    ],
)
def test_the_functions_of_the_standard_library_serve(
    reducer: Callable[[Any, Any], Any], old: object, new: object, expected: object
) -> None:
    state = {"k": old}
    assert merge(state, {"k": new}, {"k": reducer}) == {"k": expected}
    assert state == {"k": old}


def test_a_function_cannot_change_the_old_value() -> None:
    def add_in_place(old: list[int], new: list[int]) -> list[int]:
        old.extend(new)
        return old

    with pytest.raises(TypeError, match="cannot be changed in place"):
        merge({"k": [1]}, {"k": [2]}, {"k": add_in_place})


def test_what_a_function_returns_is_frozen() -> None:
    state = {"k": freeze([1])}
    merge_into(state, {"k": [2]}, compile_reducers({"k": lambda old, new: [*old, *new, [3]]}))
    with pytest.raises(TypeError):
        state["k"][2].append(4)  # type: ignore[attr-defined]


# Names that do not exist


@pytest.mark.parametrize("name", ["appnd", "Append", "", None, 3])
def test_an_unknown_reducer_is_refused_and_never_drops_a_write(name: Any) -> None:
    with pytest.raises(ConfigError, match="unknown reducer .* for state key 'messages'") as caught:
        merge({}, {"messages": 1}, {"messages": name})
    assert caught.value.path == "messages"
    assert "append" in caught.value.hint


# Operators win over reducers

REDUCERS: list[Any] = [None, {"k": "append"}, {"k": "keep"}, {"k": "override"}, {"k": max}]


@pytest.mark.parametrize("reducers", REDUCERS)
def test_operators_mean_the_same_whatever_reducer_a_key_has(reducers: Any) -> None:
    state = {"k": [1], "other": 0}
    assert merge(state, {"k": Append([2])}, reducers) == {"k": [1, 2], "other": 0}
    assert merge(state, {"k": Overwrite([])}, reducers) == {"k": [], "other": 0}
    assert merge(state, {"k": Overwrite(None)}, reducers) == {"k": None, "other": 0}
    assert merge(state, {"k": DELETE}, reducers) == {"other": 0}
    assert merge({}, {"k": DELETE}, reducers) == {}
    assert merge({}, {"k": Append([2])}, reducers) == {"k": [2]}


def test_an_empty_append_begins_a_list() -> None:
    assert merge({}, {"k": Append()}) == {"k": []}
    assert merge({"k": [1]}, {"k": Append()}) == {"k": [1]}


def test_operators_leave_no_trace_in_the_state() -> None:
    state = merge({}, {"a": Append([[1]]), "b": Overwrite([1]), "c": Overwrite(Append([1]))})
    assert {key: type(value) for key, value in state.items()} == dict.fromkeys("abc", FrozenList)
    assert type(state["a"][0]) is FrozenList


def test_operators_show_what_they_are() -> None:
    assert repr({"a": Append([1]), "b": Overwrite("x"), "c": DELETE}) == (
        "{'a': Append([1]), 'b': Overwrite('x'), 'c': DELETE}"
    )
    assert Append([1]) == [1]
    assert Overwrite([1]) == Overwrite([1]) != Overwrite([2])
    assert Overwrite(1) != 1
    assert len({Overwrite(1), Overwrite(1)}) == 1


@pytest.mark.parametrize("operator_", [Append([1]), Overwrite({"a": 1}), DELETE])
def test_operators_survive_copies_and_pickles(operator_: Any) -> None:
    for again in (copy.deepcopy(operator_), pickle.loads(pickle.dumps(operator_))):
        assert again == operator_
        assert type(again) is type(operator_)
    assert copy.deepcopy(DELETE) is DELETE
    assert pickle.loads(pickle.dumps(DELETE)) is DELETE


# All of an update, or nothing


@pytest.mark.parametrize(
    ("update", "error"),
    [
        ({"a": 2, "text": Append(["x"]), "b": 2}, StateError),
        ({"a": DELETE, "text": Append(["x"])}, StateError),
        ({"a": 2, "n": 1}, ZeroDivisionError),
        ({"n": 1, "a": DELETE}, ZeroDivisionError),
    ],
)
def test_an_update_that_is_refused_changes_nothing(
    update: dict[str, Any], error: type[Exception]
) -> None:
    state: dict[str, Any] = {"a": 1, "text": "t", "n": 0}
    reducers = compile_reducers({"n": lambda old, new: new / old})
    with pytest.raises(error):
        merge_into(state, update, reducers)
    assert state == {"a": 1, "text": "t", "n": 0}


def test_a_value_that_contains_itself_is_refused_and_changes_nothing() -> None:
    endless: list[object] = []
    endless.append(endless)
    state = {"a": 1}
    with pytest.raises(StateError, match="contains itself"):
        merge_into(state, {"a": 2, "b": endless}, {})
    assert state == {"a": 1}


def test_an_update_may_be_any_mapping() -> None:
    assert merge({"a": 1}, MappingProxyType({"a": 2})) == {"a": 2}


# The dict that a node was given, returned


def rebound(state: dict[str, Any], change: Callable[[Any], object], **reducers: Any) -> Any:
    frozen = {key: freeze(value) for key, value in state.items()}
    view = dict(frozen)
    change(view)
    return rebound_keys(view, frozen, compile_reducers(reducers))


def test_only_the_keys_that_were_rebound_are_the_update() -> None:
    state = {"a": 1, "b": [1], "c": {"d": 1}}
    assert rebound(state, lambda view: None) == {}
    assert rebound(state, lambda view: view.update(a=2, e=3)) == {"a": 2, "e": 3}
    assert rebound(state, lambda view: view.update(b=view["b"])) == {}


def test_a_removed_key_is_deleted() -> None:
    state = {"a": 1, "b": 2}
    assert rebound(state, lambda view: view.pop("a")) == {"a": DELETE}
    assert rebound(state, lambda view: (view.clear(), view.update(c=1))) == {
        "a": DELETE,
        "b": DELETE,
        "c": 1,
    }


@pytest.mark.parametrize("reducer", ["append", operator.add])
def test_under_a_reducer_a_longer_list_stands_for_what_was_added(reducer: Any) -> None:
    def add(view: dict[str, Any]) -> None:
        view["log"] += ["x"]

    update = rebound({"log": ["a"]}, add, log=reducer)
    assert update == {"log": ["x"]}
    assert merge({"log": ["a"]}, update, {"log": reducer}) == {"log": ["a", "x"]}


def test_without_a_reducer_a_longer_list_is_recorded_as_what_was_added() -> None:
    def add(view: dict[str, Any]) -> None:
        view["log"] += ["x"]

    update = rebound({"log": ["a"]}, add)
    assert update == {"log": Append(["x"])}
    assert type(update["log"]) is Append
    assert merge({"log": ["a"]}, update) == {"log": ["a", "x"]}


@pytest.mark.parametrize("reducer", ["append", "keep", operator.add])
@pytest.mark.parametrize("old", [[], ["x"]])
def test_an_operator_in_the_returned_dict_keeps_its_meaning(reducer: Any, old: list[str]) -> None:
    update = rebound({"log": old}, lambda view: view.update(log=Append(["x", "y"])), log=reducer)
    assert merge({"log": old}, update, {"log": reducer}) == {"log": [*old, "x", "y"]}


# Properties


@given(st.none() | items, items, items)
def test_appends_are_associative(
    start: list[Any] | None, first: list[Any], second: list[Any]
) -> None:
    state = {} if start is None else {"k": start}
    for wrap, reducers in ((Append, None), (list, {"k": "append"})):
        one_by_one = merge(
            merge(state, {"k": wrap(first)}, reducers), {"k": wrap(second)}, reducers
        )
        at_once = merge(state, {"k": wrap(first + second)}, reducers)
        assert one_by_one == at_once == {"k": [*(start or []), *first, *second]}


@given(states, updates, updates)
def test_states_that_share_values_stay_apart(
    state: dict[str, Any], left: dict[str, Any], right: dict[str, Any]
) -> None:
    shared = merge(state, {})
    before = copy.deepcopy(shared)

    alone = applied(shared, left)
    remembered = copy.deepcopy(alone)
    applied(shared, right)
    applied(alone, right)

    assert shared == before
    assert alone == remembered
    assert applied(shared, left) == alone


@given(states, updates)
def test_merging_changes_neither_argument(state: dict[str, Any], update: dict[str, Any]) -> None:
    before = copy.deepcopy((state, update))
    applied(state, update)
    assert (state, update) == before


@given(states, updates)
def test_merge_into_does_all_or_nothing(state: dict[str, Any], update: dict[str, Any]) -> None:
    frozen = merge(state, {})
    before = dict(frozen)
    try:
        merge_into(frozen, update, {})
    except StateError:
        assert frozen == before
        return
    for key, value in update.items():
        if value is DELETE:
            assert key not in frozen
        elif isinstance(value, Overwrite):
            assert frozen[key] == value.value
        elif isinstance(value, Append):
            assert frozen[key] == [*(before.get(key) or ()), *value]
        else:
            assert frozen[key] == value
    assert {key: frozen[key] for key in frozen.keys() - update.keys()} == {
        key: before[key] for key in before.keys() - update.keys()
    }


@given(states, states)
def test_a_returned_dict_means_the_state_it_shows(
    state: dict[str, Any], shown: dict[str, Any]
) -> None:
    frozen = merge(state, {})
    update = rebound_keys(shown, frozen, {})
    assert merge(frozen, update) == shown


# Schemas


class Chat(TypedDict, total=False):
    messages: Annotated[list[Any], "append"]
    total: Annotated[int, operator.add]
    title: Annotated[str, "what the chat is about"]
    first: NotRequired[Annotated[str, "keep"]]
    needed: Required[Annotated[list[int], "append"]]
    inside: Annotated[NotRequired[list[int]], "append"]
    plain: str


@attrs.define
class ChatClass:
    messages: Annotated[list[Any], "append"]
    plain: str = ""


def test_a_typed_dict_and_a_class_carry_reducers_in_their_annotations() -> None:
    assert reducers_from_schema(Chat) == {
        "messages": "append",
        "total": operator.add,
        "first": "keep",
        "needed": "append",
        "inside": "append",
    }
    assert reducers_from_schema(ChatClass) == {"messages": "append"}


def test_a_mapping_names_reducers_directly_or_under_reducer() -> None:
    schema = {
        "messages": "append",
        "title": "string",
        "log": {"type": "list", "reducer": "append"},
        "total": {"reducer": operator.add},
        "size": operator.add,
        "plain": {"type": "text"},
        "number": int,
    }
    assert reducers_from_schema(schema) == {
        "messages": "append",
        "log": "append",
        "total": operator.add,
        "size": operator.add,
    }


def test_an_unknown_reducer_of_a_schema_is_refused_when_it_is_compiled() -> None:
    reducers = reducers_from_schema({"log": {"reducer": "appnd"}})
    with pytest.raises(ConfigError, match="'appnd' for state key 'log'"):
        compile_reducers(reducers)


def test_without_a_schema_there_are_no_reducers() -> None:
    assert reducers_from_schema(None) == {}


@pytest.mark.parametrize("annotation", ["Nowhere", "list[", "operator.nothing", "1 + 'a'"])
def test_an_annotation_that_cannot_be_resolved_is_an_error(annotation: str) -> None:
    schema = type("Broken", (), {"__annotations__": {"log": annotation}, "__module__": __name__})
    with pytest.raises(ConfigError, match="'Broken' has an annotation that cannot be resolved"):
        reducers_from_schema(schema)


def test_merging_looks_at_the_keys_of_the_update_alone() -> None:
    class Watched(dict[str, Any]):
        def __iter__(self) -> Any:
            raise AssertionError("the whole state was walked over")

        items = values = keys = __iter__

    log = freeze(["a"])
    state = Watched(log=log, other=freeze([1]))
    merge_into(state, {"log": log, "copy": log, "again": Overwrite(log), "more": [1]}, {})
    assert state["log"] is log
    assert state["copy"] == state["again"] == log
    assert len({id(state[key]) for key in ("log", "copy", "again")}) == 3
