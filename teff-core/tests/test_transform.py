from __future__ import annotations

import asyncio
import copy
import inspect
import typing
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.conditions import evaluate, quote
from teff.errors import ConfigError, StateError
from teff.graph import Graph
from teff.node.base import Node, options
from teff.node.registry import NodeRegistry
from teff.node.transform import Transform
from teff.node.transform_actions import ACTIONS
from teff.runtime import ExecContext
from teff.state import Append


def result_of(state: dict[str, Any], **given: Any) -> Any:
    updates = asyncio.run(Transform(**given).execute(ExecContext(), state))
    assert list(updates) == [given.get("output_key", "output")]
    return updates[given.get("output_key", "output")]


def run(node: Node, state: dict[str, Any], **given: Any) -> dict[str, Any]:
    return dict(asyncio.run(Graph({"it": node}, [], "it").run(state, **given)))


@pytest.mark.parametrize(
    ("given", "state", "expected"),
    [
        ({"action": "uppercase"}, {"input": "straße"}, "STRASSE"),
        ({"action": "lowercase"}, {"input": "ÄB"}, "äb"),
        ({"action": "trim"}, {"input": " \n a b\t"}, "a b"),
        ({"action": "trim"}, {"input": None}, ""),
        ({"action": "uppercase"}, {"input": ["a", True]}, '["A", TRUE]'),
        ({"action": "count_lines"}, {"input": "one\ntwo\r\nthree"}, "3"),
        ({"action": "count_lines"}, {"input": "one\n"}, "1"),
        ({"action": "count_lines"}, {"input": ""}, "0"),
        ({"action": "value", "value": 0}, {}, 0),
        ({"action": "value", "value": ["{input}"]}, {}, ["{input}"]),
        ({"action": "render", "template": "{who|You} owe {sum}"}, {"sum": 5}, "You owe 5"),
        ({"action": "contains", "needle": "b"}, {"input": "abc"}, "true"),
        ({"action": "contains", "needle": "B"}, {"input": "abc"}, "false"),
        ({"action": "contains", "value": "b"}, {"input": "abc"}, "true"),
        ({"action": "contains", "needle": 2}, {"input": "a2"}, "true"),
        ({"action": "contains", "needle": "b"}, {"input": ["abc"]}, "false"),
        ({"action": "contains", "needle": 2}, {"input": [1, 2]}, "true"),
        ({"action": "contains", "needle": "b"}, {"input": {"b": 0}}, "true"),
        ({"action": "contains", "needle": "b"}, {}, "false"),
        ({"action": "compare", "value": "yes"}, {"input": "Yes!"}, "true"),
        ({"action": "compare", "value": "10"}, {"input": 10.0}, "true"),
        ({"action": "compare", "op": "ne", "value": 10}, {"input": "10"}, "false"),
        ({"action": "compare", "op": "gt", "value": 9}, {"input": "10"}, "true"),
        ({"action": "compare", "op": "ge", "value": 10}, {"input": "10.0"}, "true"),
        ({"action": "compare", "op": "lt", "value": "b"}, {"input": "a"}, "true"),
        ({"action": "compare", "op": "le", "value": 1}, {"input": 2}, "false"),
        ({"action": "compare", "value": True}, {"input": True}, "true"),
        ({"action": "compare", "value": 1}, {}, "false"),
        ({"action": "compare", "op": "ne", "value": 1}, {}, "true"),
        ({"action": "compare", "value": "a,b"}, {"input": "a"}, "false"),
        ({"action": "split"}, {"input": "a,b,,c"}, ["a", "b", "", "c"]),
        ({"action": "split", "sep": "\n"}, {"input": "a\nb"}, ["a", "b"]),
        ({"action": "split"}, {"input": ""}, []),
        ({"action": "join"}, {"input": ["a", 1, None, {"b": 2}]}, 'a,1,,{"b": 2}'),
        ({"action": "join", "sep": ""}, {"input": ("a", "b")}, "ab"),
        ({"action": "join"}, {"input": []}, ""),
        ({"action": "replace", "old": "a", "new": "o"}, {"input": "banana"}, "bonono"),
        ({"action": "replace", "old": "an"}, {"input": "banana"}, "ba"),
        ({"action": "coalesce", "value": "none"}, {"input": "x"}, "x"),
        ({"action": "coalesce", "value": "none"}, {"input": 0}, 0),
        ({"action": "coalesce", "value": "none"}, {"input": ""}, "none"),
        ({"action": "coalesce", "value": "none"}, {}, "none"),
        ({"action": "to_int"}, {"input": " 42 "}, "42"),
        ({"action": "to_int"}, {"input": "-3.9"}, "-3"),
        ({"action": "to_int"}, {"input": 7.5}, "7"),
        ({"action": "to_int"}, {"input": "12345678901234567890"}, "12345678901234567890"),
        ({"action": "to_float"}, {"input": "3"}, "3.0"),
        ({"action": "to_float"}, {"input": "1e3"}, "1000.0"),
    ],
)
def test_each_action_gives_its_result(
    given: dict[str, Any], state: dict[str, Any], expected: object
) -> None:
    found = result_of(state, **given)

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("action", ["pick", "json_get"])
@pytest.mark.parametrize(
    ("field", "text", "raw"),
    [
        ("name", "Ann", "Ann"),
        ("ok", "false", False),
        ("tags", '["new", "paid"]', ["new", "paid"]),
        ("tags[-1]", "paid", "paid"),
        ("address.city", "Rīga", "Rīga"),
        ("user.id", "7", 7),
        ("nobody", "", None),
        ("tags[9]", "", None),
    ],
)
def test_a_field_is_taken_out_as_text_or_as_it_is(
    action: str, field: str, text: str, raw: object
) -> None:
    verdict = {
        "name": "Ann",
        "ok": False,
        "tags": ["new", "paid"],
        "address": {"city": "Rīga"},
        "user.id": 7,
    }

    assert result_of({"input": verdict}, action=action, field=field) == text
    assert result_of({"input": verdict}, action=action, field=field, raw=True) == raw


def test_a_field_of_a_list_is_an_index() -> None:
    state = {"input": [{"price": 5}, {"price": 8}]}

    assert result_of(state, action="pick", field="[1].price") == "8"
    assert result_of(state, action="pick", field="0.price", raw=True) == 5


def test_json_get_reads_json_text_and_pick_does_not() -> None:
    state = {"input": '{"verdict": {"ok": true}}'}

    assert result_of(state, action="json_get", field="verdict.ok") == "true"
    assert result_of(state, action="json_get", field="verdict", raw=True) == {"ok": True}
    assert result_of({"input": ""}, action="json_get", field="verdict") == ""
    with pytest.raises(StateError, match="needs a dict or a list under the state key 'input'"):
        result_of(state, action="pick", field="verdict")


@pytest.mark.parametrize(
    ("given", "value", "needed"),
    [
        ({"action": "split"}, ["a"], "needs text"),
        ({"action": "join"}, "abc", "needs a list"),
        ({"action": "json_get", "field": "a"}, "{'a': 1}", "the JSON text of one"),
        ({"action": "json_get", "field": "a"}, "5", "the JSON text of one"),
        ({"action": "pick", "field": "a"}, 5, "found int: 5"),
        ({"action": "to_int"}, "about 5", "needs a number"),
        ({"action": "to_int"}, True, "needs a number"),
        ({"action": "to_int"}, "1_000", "needs a number"),
        ({"action": "to_float"}, "nan", "needs a number"),
        ({"action": "to_float"}, "1e999", "needs a number"),
        ({"action": "to_float"}, 10**400, "needs a number"),
        ({"action": "to_float"}, None, "needs a number"),
    ],
)
def test_an_input_that_the_action_cannot_read_is_refused_with_what_was_found(
    given: dict[str, Any], value: object, needed: str
) -> None:
    node = Transform(**given, input_key="reply")

    with pytest.raises(StateError, match=needed) as caught:
        asyncio.run(node.execute(ExecContext(node_id="read"), {"reply": value}))
    assert str(caught.value).startswith(f"transform 'read' ({given['action']}) needs ")
    assert "'reply'" in str(caught.value)
    assert len(str(caught.value)) < 250


#: What the actions need beside an input.
NEEDED: dict[str, dict[str, Any]] = {
    "json_get": {"field": "a"},
    "pick": {"field": "a"},
    "replace": {"old": "a"},
}
NEED_NO_INPUT = {"value", "render", "contains", "compare", "coalesce", "now"}


@pytest.mark.parametrize("action", sorted(ACTIONS.keys() - NEED_NO_INPUT))
def test_a_missing_input_key_is_an_error_with_the_nearest_one(action: str) -> None:
    node = Transform(action=action, input_key="inptu", **NEEDED.get(action, {}))  # type: ignore[arg-type]  # the names of actions
    with pytest.raises(KeyError) as caught:
        asyncio.run(node.execute(ExecContext(node_id="clean"), {"input": "x"}))
    assert str(caught.value) == (
        f"transform 'clean' ({action}) needs the state key 'inptu', and the state does not hold "
        "it. Did you mean 'input'?"
    )


@pytest.mark.parametrize("action", ["contains", "compare", "coalesce"])
def test_some_actions_take_a_missing_input_for_nothing(action: str) -> None:
    option = "needle" if action == "contains" else "value"
    found = result_of({}, action=action, **{option: "x"})
    assert found == ("x" if action == "coalesce" else "false")


@pytest.mark.parametrize(
    ("given", "text", "expected"),
    [
        ({"action": "uppercase"}, "ǆ ﬁ ß", "Ǆ FI SS"),
        ({"action": "lowercase"}, "ŁÓDŹ İ", "łódź i\u0307"),
        ({"action": "trim"}, "\u00a0\u3000naïve\u2003", "naïve"),
        ({"action": "count_lines"}, "один\nпять\n", "2"),
        ({"action": "render", "template": "«{input}»"}, "日本", "«日本»"),
        ({"action": "contains", "needle": "👩\u200d🚀"}, "👩\u200d🚀!", "true"),
        ({"action": "compare", "value": "STRASSE"}, "straße", "true"),
        ({"action": "split", "sep": "、"}, "東、西", ["東", "西"]),
        ({"action": "join", "sep": " — "}, ["ā", "č"], "ā — č"),
        ({"action": "replace", "old": "é", "new": "e"}, "é e\u0301", "e e\u0301"),
        ({"action": "pick", "field": "имя"}, {"имя": "Аня"}, "Аня"),
        ({"action": "json_get", "field": "имя.é"}, '{"имя": {"é": "\\u00e9"}}', "é"),
        ({"action": "coalesce", "value": "∅"}, "", "∅"),
        ({"action": "to_int"}, "12345678901234567890.9", "12345678901234567890"),
        ({"action": "to_int"}, "-0.9", "0"),
        ({"action": "to_float"}, "1.", "1.0"),
    ],
)
def test_every_character_and_every_digit_counts(
    given: dict[str, Any], text: Any, expected: object
) -> None:
    assert result_of({"input": text}, **given) == expected


@pytest.mark.parametrize("digits", ["٣", "³", "1e999999999", "0x10", "1,5", "- 5", ""])
def test_what_only_looks_like_a_number_is_refused(digits: str) -> None:
    for action in ("to_int", "to_float"):
        with pytest.raises(
            StateError, match=f"{action}. needs a number under the state key 'input'"
        ):
            result_of({"input": digits}, action=action)


def test_each_option_belongs_to_an_action_and_is_used_by_its_name() -> None:
    taken = {option for action in ACTIONS.values() for option in action.options}
    own = {field.name for field in attrs.fields(typing.cast("Any", Transform))}
    assert own - taken == {"id", "action", "output_key"}


def test_a_missing_template_key_names_the_template_and_the_node() -> None:
    node = Transform(action="render", template="Dear {nmae}")
    with pytest.raises(KeyError) as caught:
        run(node, {"name": "Bo"})
    assert "'template' of node 'it' needs the key 'nmae'" in str(caught.value)
    assert "'name'" in str(caught.value)


def test_values_that_are_rendered_are_not_expanded_again() -> None:
    state = {"name": "{token} {{7*7}}", "token": "s-123"}
    assert result_of(state, action="render", template="Hi {name}") == "Hi {token} {{7*7}}"


def test_now_is_the_time_in_utc() -> None:
    before = datetime.now(UTC)
    found = datetime.fromisoformat(result_of({}, action="now"))
    assert before <= found <= datetime.now(UTC)
    assert found.tzinfo is not None


def test_now_is_taken_once_so_that_a_resumed_run_sees_the_same_time() -> None:
    class Recorded(ExecContext):
        async def once(self, key: str, function: Any) -> Any:
            return f"recorded {key}"

    updates = asyncio.run(Transform(action="now").execute(Recorded(), {}))
    assert updates == {"output": "recorded now"}


# Appending


@pytest.mark.parametrize("reducers", [{}, {"log": "append"}, {"log": "keep"}, {"log": "override"}])
def test_append_adds_one_item_with_and_without_a_reducer(reducers: dict[str, str]) -> None:
    node = Transform(action="append", template="{n}", output_key="log")

    assert run(node, {"n": 1, "log": ["0"]}, reducers=reducers)["log"] == ["0", "1"]
    assert run(node, {"n": 1}, reducers=reducers)["log"] == ["1"]


def test_append_takes_a_template_a_value_or_what_is_under_the_input_key() -> None:
    state = {"input": "in", "other": ["a", "b"]}

    assert result_of(state, action="append") == Append(["in"])
    assert result_of(state, action="append", input_key="other") == Append([["a", "b"]])
    assert result_of(state, action="append", value={"a": 1}) == Append([{"a": 1}])
    assert result_of(state, action="append", template="<{input}>") == Append(["<in>"])


def test_append_to_what_is_no_list_is_refused_and_loses_nothing() -> None:
    node = Transform(action="append", value="x", output_key="log")
    with pytest.raises(StateError, match="'log': it holds str, not a list"):
        run(node, {"log": "precious"})


@pytest.mark.parametrize("action", ["uppercase", "value"])
def test_a_key_with_a_callable_reducer_is_reduced_once(action: str) -> None:
    given = {"value": "!"} if action == "value" else {"input_key": "text"}
    node = Transform(action=action, output_key="text", **given)  # type: ignore[arg-type]

    after = run(node, {"text": "a"}, reducers={"text": lambda old, new: old + new})

    assert after["text"] == ("a!" if action == "value" else "aA")


def test_a_kept_key_is_kept() -> None:
    node = Transform(action="value", value="new", output_key="text")
    assert run(node, {"text": "old"}, reducers={"text": "keep"})["text"] == "old"


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_no_action_changes_the_state_it_was_given(action: str) -> None:
    inputs = {"split": "a,b", "join": ["b"], "pick": {"a": [1]}, "json_get": {"a": [1]}}
    needed = {"value": 1, "template": "{input}", "field": "a", "old": "1", "needle": "1"}
    taken = ACTIONS[action]
    given = {name: needed[name] for name in (*taken.needs, *taken.one_of[:1])}
    state = {"input": inputs.get(action, "1"), "output": ["kept"]}
    before = copy.deepcopy(state)

    result_of(state, action=action, **given)

    assert state == before


# Options


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"action": "upercase"}, "'action' must be .* Did you mean 'uppercase'?"),
        ({"action": "trim", "inputkey": "a"}, "unknown option 'inputkey'.* 'input_key'"),
        (
            {"action": "trim", "sep": ";"},
            "'trim' does not use the option 'sep'. It takes input_key",
        ),
        ({"action": "value", "value": 1, "input_key": "a"}, "does not use the option 'input_key'"),
        ({"action": "now", "template": "{a}"}, "'now' does not use .*'template'. It takes output"),
        ({"action": "render"}, "'render' needs the option 'template'. It takes template, output"),
        ({"action": "value"}, "needs the option 'value'"),
        ({"action": "json_get"}, "needs the option 'field'"),
        ({"action": "pick", "raw": True}, "needs the option 'field'"),
        ({"action": "compare", "op": "gt"}, "needs the option 'value'"),
        ({"action": "compare", "op": ">", "value": 1}, "'op' must be"),
        ({"action": "compare", "value": ["a"]}, "compares with text, a number or a truth value"),
        ({"action": "contains"}, "needs the option 'needle'. It takes input_key, needle, value"),
        ({"action": "contains", "needle": "a", "value": "b"}, "only one of 'needle' and 'value'"),
        ({"action": "append", "value": 1, "template": "a"}, "only one of 'template' and 'value'"),
        ({"action": "append", "value": 1, "input_key": "a"}, "only one of 'value' and 'input_key'"),
        ({"action": "replace", "new": "a"}, "needs the option 'old'"),
        ({"action": "coalesce"}, "needs the option 'value'"),
        ({"action": "split", "sep": ""}, "needs a 'sep' that is not empty"),
        ({"action": "pick", "field": "a..b"}, "is not a path"),
        ({"action": "pick", "field": "a", "raw": "maybe"}, "'raw' must be"),
        ({"action": "trim", "input_key": ""}, "needs a state key, and 'input_key' is empty"),
        ({"action": "trim", "output_key": ""}, "needs a state key, and 'output_key' is empty"),
        ({"action": "render", "template": 5}, "'template' must be text"),
    ],
)
def test_options_that_do_not_fit_are_refused_when_the_node_is_made(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Transform(**given, id="clean")
    assert str(caught.value).startswith("transform 'clean': ")


def test_the_registry_makes_it_from_a_mapping() -> None:
    node = NodeRegistry().create("transform", {"action": "trim", "input_key": "a", "id": "t"})
    assert isinstance(node, Transform)
    assert (node.id, node.action, node.input_key, node.output_key) == ("t", "trim", "a", "output")


def test_an_option_that_is_set_later_takes_effect() -> None:
    node: Any = Transform(action="render", template="{a}")
    node.config["template"] = "{a}!"

    assert asyncio.run(node.execute(ExecContext(), {"a": 1})) == {"output": "1!"}
    with pytest.raises(ConfigError):
        node.config["op"] = "eqq"


@pytest.mark.parametrize(
    ("given", "reads"),
    [
        ({"action": "trim", "input_key": "a"}, ["a"]),
        ({"action": "coalesce", "value": 1}, ["input"]),
        ({"action": "contains", "needle": "a", "input_key": "text"}, ["text"]),
        ({"action": "append"}, ["input"]),
        ({"action": "append", "input_key": "a"}, ["a"]),
        ({"action": "append", "value": 1}, []),
        ({"action": "append", "template": "{a.b} {c|d}"}, ["a"]),
        ({"action": "render", "template": "{a} {b[0]} {{c}}"}, ["a", "b"]),
        ({"action": "value", "value": 1}, []),
        ({"action": "now"}, []),
    ],
)
def test_it_says_which_keys_it_reads_and_writes(given: dict[str, Any], reads: list[str]) -> None:
    node = Transform(**given, output_key="out")
    assert sorted(node.reads()) == reads
    assert list(node.writes()) == ["out"]


def test_every_action_is_described_and_in_the_option_s_type() -> None:
    named = typing.get_args(typing.get_type_hints(Transform)["action"])
    assert set(named) == set(ACTIONS)
    described = inspect.getdoc(Transform) or ""
    assert [name for name in named if f"``{name}``" not in described] == []


def test_the_table_of_actions_names_real_options() -> None:
    fields = {field.name for field in attrs.fields(typing.cast("Any", Transform))}
    for action in ACTIONS.values():
        assert set(action.options) <= fields


def test_a_subclass_may_add_options() -> None:
    @options
    class Shout(Transform):
        mark: str = "!"

        async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            updates = await super().execute(ctx, state)
            return {key: f"{value}{self.mark}" for key, value in updates.items()}

    node = Shout(action="uppercase", mark="!!")
    assert asyncio.run(node.execute(ExecContext(), {"input": "a"})) == {"output": "A!!"}


# Properties

scalars = st.integers() | st.booleans() | st.text(max_size=6) | st.sampled_from(["1.0", "Yes!"])
SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}


@given(
    st.none() | scalars,
    st.sampled_from(sorted(SIGNS)),
    st.integers() | st.sampled_from(["yes", "a b"]),
)
def test_compare_agrees_with_the_edge_condition(found: object, op: str, value: object) -> None:
    condition = f"{quote('the input')}{SIGNS[op]}{value}"
    node = {"action": "compare", "op": op, "value": value, "input_key": "the input"}
    state = {} if found is None else {"the input": found}

    assert result_of(state, **node) == ("true" if evaluate(condition, state) else "false")


@given(st.lists(st.text(max_size=5).filter(lambda text: "; " not in text), min_size=1))
def test_split_undoes_join(items: list[str]) -> None:
    joined = result_of({"input": items}, action="join", sep="; ")
    parts = result_of({"input": joined}, action="split", sep="; ")
    assert result_of({"input": parts}, action="join", sep="; ") == joined


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_their_value_as_text(number: float) -> None:
    assert int(result_of({"input": number}, action="to_int")) == int(number)
    assert float(result_of({"input": str(number)}, action="to_float")) == float(number)
