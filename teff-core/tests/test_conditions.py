from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import PurePosixPath

import pytest

from teff.conditions import (
    And,
    Compare,
    Contains,
    In,
    Key,
    Not,
    Or,
    Truthy,
    Value,
    compile_condition,
    evaluate,
    keys_of,
    parse,
    quote,
)
from teff.errors import ConfigError

# What a user writes first.


def test_a_supervised_flow_reads_its_route() -> None:
    is_billing = compile_condition("route=billing")

    assert is_billing({"route": "billing"})
    assert is_billing({"route": " Billing. "})
    assert not is_billing({"route": "technical"})
    assert not is_billing({})


@pytest.mark.parametrize(
    ("condition", "state", "holds"),
    [
        ("a=yes", {"a": "Yes."}, True),
        ("a=yes", {"a": " YES!!! "}, True),
        ("a=yes", {"a": "Oui !"}, False),
        ("a=oui", {"a": "Oui !"}, True),
        ("a = yes", {"a": "yes"}, True),
        ("a==yes", {"a": "yes"}, True),
        ("a=", {}, True),
        ("a=", {"a": ""}, True),
        ("a=", {"a": 0}, False),
        ("a=", {"a": []}, True),
        ("a!=", {}, False),
        ("a!=", {"a": ""}, False),
        ("a!=", {"a": 0}, True),
        ("a!=", {"a": False}, True),
        ("a!=", {"a": []}, False),
        ("_tool_call_name!=", {}, False),
        ("a!=x", {}, True),
        ("a!=x", {"a": "X"}, False),
        ("a=x,y", {"a": "Y"}, True),
        ("a!=x,y", {"a": "y"}, False),
        ("a!=x,y", {"a": "z"}, True),
        ("a>5", {"a": "10"}, True),
        ("a>5", {"a": "abc"}, False),
        ("a>5", {}, False),
        ("a>0", {"a": True}, True),
        ("a>0", {"a": False}, False),
        ("a>=5", {"a": 5}, True),
        ("a<=1e3", {"a": "1_000"}, True),
        ("a<5", {"a": -1.5}, True),
        ("a=b>c", {"a": "b>c"}, True),
        ("a=x=y", {"a": "x=y"}, True),
        ("a=1,", {"a": ""}, True),
        ("a=1,", {}, True),
        ("a=1,", {"a": 2}, False),
        ("a!=1,", {"a": ""}, False),
        ("a=,", {"a": ""}, True),
        ("a=?", {"a": ""}, True),
        ("a=c.", {"a": "c"}, True),
        ("a=['yes']", {"a": ["yes"]}, False),
        ("a=STRASSE", {"a": "straße"}, True),
        ("a == 'x'", {"a": "x"}, True),
        ("a=f(x)", {"a": "F(x)"}, True),
        ("a=don't know", {"a": "Don't know!"}, True),
    ],
)
def test_comparisons(condition: str, state: dict[str, object], holds: bool) -> None:
    assert evaluate(condition, state) is holds


@pytest.mark.parametrize(
    ("condition", "state", "holds"),
    [
        ("a=1 and b=2", {"a": 1, "b": 2}, True),
        ("a=1 and b=2", {"a": 1, "b": 3}, False),
        ("a=1 or b=2", {"a": 0, "b": 2}, True),
        ("not a=1", {"a": 2}, True),
        ("not not a=1", {"a": 1}, True),
        ("not a=1 and b=2", {"a": 2, "b": 2}, True),
        ("not (a=1 and b=2)", {"a": 1, "b": 3}, True),
        ("a=1 or b=1 and c=1", {"a": 1}, True),
        ("(a=1 or b=1) and c=1", {"a": 1}, False),
        ("a=1 AND b=2 Or c=3", {"c": 3}, True),
        ("a= and b=", {}, True),
        ("a= or b=2", {"a": "x", "b": 2}, True),
        ("(a=)and(b=x)", {"b": "x"}, True),
        ("status=in progress and retries<3", {"status": "In progress", "retries": 2}, True),
        ("status=in progress\n  and retries<3", {"status": "In progress", "retries": 2}, True),
        ("handover=android or oracle and x", {"handover": "Android"}, True),
        ("a=x,y and b=z", {"a": "y", "b": "z"}, True),
    ],
)
def test_tests_combine(condition: str, state: dict[str, object], holds: bool) -> None:
    assert evaluate(condition, state) is holds


@pytest.mark.parametrize(
    ("condition", "state", "holds"),
    [
        ('a in (b, c, "d e")', {"a": "C"}, True),
        ('a in (b, c, "d e")', {"a": "d e"}, True),
        ('a in (b, c, "d e")', {"a": "D e"}, False),
        ("a in (b)", {}, False),
        ("a in (1, 2)", {"a": "2.0"}, True),
        ("a not in (b, c)", {"a": "d"}, True),
        ("a not in (b, c)", {}, True),
        ("a IN(b,c)", {"a": "b"}, True),
        ("a contains refund", {"a": "A REFUND, please"}, True),
        ("a contains 'refund'", {"a": "A REFUND, please"}, False),
        ("a contains ?", {"a": "why?"}, True),
        ("a contains x, y", {"a": ["y"]}, True),
        ("a contains 1", {"a": [1.0]}, True),
        ("a contains 1", {"a": ["11"]}, False),
        ("a contains 1", {"a": 11}, False),
        ("a contains b", {"a": {"b": 0}}, True),
        ("a contains b", {}, False),
        ("a not contains b", {"a": ["c"]}, True),
        ("a contains true", {"a": [True]}, True),
    ],
)
def test_in_and_contains(condition: str, state: dict[str, object], holds: bool) -> None:
    assert evaluate(condition, state) is holds


@pytest.mark.parametrize(
    ("condition", "state", "holds"),
    [
        ("verdict.ok", {"verdict": {"ok": True}}, True),
        ("verdict.ok=true", {"verdict": {"ok": True}}, True),
        ("a.b=1", {"a": {"b": 1}}, True),
        ("a.b=1", {"a.b": 1}, True),
        ("a.b=1", {"a.b": 2, "a": {"b": 1}}, False),
        ("items[0].price>3", {"items": [{"price": "4"}]}, True),
        ("items[0].price>3", {"items": []}, False),
        ("items[-1]=x", {"items": ["y", "x"]}, True),
        ("xs.0=5", {"xs": [5]}, True),
        ("my-key=1", {"my-key": 1}, True),
        ("'my key'=1", {"my key": 1}, True),
        ('"a>b"=1', {"a>b": 1}, True),
        ("'a.b'=1", {"a": {"b": 1}}, False),
        ("'a..b'", {"a..b": "x"}, True),
        ("a.b!=", {"a": None}, False),
        ("a.upper!=", {"a": "text"}, False),
    ],
)
def test_keys_are_paths_and_quoted_keys_are_literal(
    condition: str, state: dict[str, object], holds: bool
) -> None:
    assert evaluate(condition, state) is holds


@pytest.mark.parametrize("value", [True, 1, 0, "yes", "x", "0", " ", [0], {"a": 0}])
def test_a_lone_key_is_true_of_what_is_filled(value: object) -> None:
    assert evaluate("approved", {"approved": value})


@pytest.mark.parametrize(
    "value", [None, False, "", [], {}, "false", "False.", "no", " NO! ", "off", "n", "none", "null"]
)
def test_a_lone_key_is_false_of_nothing_and_of_words_that_say_no(value: object) -> None:
    assert not evaluate("approved", {"approved": value})
    assert not evaluate("approved", {})


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("a=true", True, True),
        ("a=true", "True.", True),
        ("a=TRUE", True, True),
        ("a=true", 1, False),
        ("a=false", False, True),
        ("a=false", 0, False),
        ("a=false", None, False),
        ("a=null", None, True),
        ("a=null", "null", True),
        ("a=null", "", False),
        ("a=none", None, False),
        ("a=none", "None", True),
        ("a=1", True, False),
        ("a=1", 1.0, True),
        ("a=1.0", 1, True),
        ("a=1", "1.0", True),
        ("a=1", "1.", True),
        ("a=1", "one", False),
        ("a=1", Decimal("1.00"), True),
        ("a=1", Decimal("sNaN"), False),
        ("a=nan", math.nan, False),
        ("a=nan", "NaN", True),
        ("a=inf", "Inf", True),
        ("a=2026-01-31", date(2026, 1, 31), True),
        ("a=/tmp/x", PurePosixPath("/tmp/x"), True),
        ("a=9007199254740993", 9007199254740992, False),
        ("a=9007199254740993", 9007199254740993, True),
    ],
)
def test_values_of_other_types(condition: str, value: object, holds: bool) -> None:
    assert evaluate(condition, {"a": value}) is holds


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("a='Yes'", "Yes", True),
        ("a='Yes'", "yes", False),
        ("a='Yes'", "Yes.", False),
        ("a='x,y'", "x,y", True),
        ("a=''", "", True),
        ("a=''", None, False),
        ("a=''", [], False),
        ("a='true'", True, True),
        ("a='null'", None, False),
        ("a='1'", 1, True),
        ("a='1'", "1", True),
        ("a='1'", 1.0, False),
        ("a='1.0'", 1.0, True),
        ("a='1'", "1.0", False),
        (r"a='C:\dir\'", "C:\\dir\\", True),
        (r'a="say \"hi\""', 'say "hi"', True),
        ("a='and',\"or\"", "or", True),
    ],
)
def test_quoted_text_is_taken_literally(condition: str, value: object, holds: bool) -> None:
    assert evaluate(condition, {"a": value}) is holds


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("due<2026-02-01", "2026-01-31", True),
        ("due<2026-02-01", date(2026, 1, 31), True),
        ("due<2026-02-01", 5, False),
        ("due<2026-02-01", "", False),
        ("due>='b'", "B", False),
        ("due>='b'", "c", True),
        ("due>b", None, False),
        ("due>b", ["c"], False),
        ("due>'5'", "10", True),
        ("due>5", Decimal("5.1"), True),
        ("due>5", Decimal("NaN"), False),
        ("due>5", math.inf, True),
    ],
)
def test_orders_are_of_numbers_or_of_text(condition: str, value: object, holds: bool) -> None:
    assert evaluate(condition, {"due": value}) is holds


def test_an_integer_too_long_to_print_is_still_a_number() -> None:
    state = {"a": 10**5000}

    assert evaluate("a>5 and a!=1 and a!='1' and a!=x", state)


# Missing keys.


@pytest.mark.parametrize("value", ["x", "1", "true", "null", "'x'", "''", "x,y", "?"])
def test_with_a_missing_key_equal_is_false_and_unequal_is_true(value: str) -> None:
    assert not evaluate(f"a={value}", {})
    assert evaluate(f"a!={value}", {})


@pytest.mark.parametrize("order", [">", ">=", "<", "<="])
@pytest.mark.parametrize("limit", ["0", "x", "'x'"])
def test_with_a_missing_key_no_order_holds(order: str, limit: str) -> None:
    assert not evaluate(f"a{order}{limit}", {})


# The tree.


def test_a_condition_is_a_tree() -> None:
    assert parse("a=1 and not (b.c or 'd e' in (x, 'y'))") == And(
        (
            Compare(Key("a"), "=", (Value("1"),)),
            Not(
                Or(
                    (
                        Truthy(Key("b.c")),
                        In(Key("d e", quoted=True), (Value("x"), Value("y", quoted=True))),
                    )
                )
            ),
        )
    )
    assert parse("a not contains x") == Not(Contains(Key("a"), (Value("x"),)))
    assert parse("(a)") == parse("a")
    assert parse("a and b and c") != parse("(a and b) and c")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a == 1", "a=1"),
        ("a =", "a="),
        ("a = x , y", "a=x,y"),
        ("a=x,", "a=x,"),
        ("a=, and b=", "a=, and b="),
        ("( a or b ) and not ( c and d )", "(a or b) and not (c and d)"),
        ("a or (b and c)", "a or b and c"),
        ("(a and b) and c", "(a and b) and c"),
        ("a or (b or c)", "a or (b or c)"),
        ("not (not a)", "not not a"),
        ("a not in (x,y)", "not a in (x, y)"),
        ("a contains x,'y z'", "a contains x, 'y z'"),
        ("a='it''s'", 'a="it\'s"'),
        (r"""a='"''"' """, r"""a='"''"'"""),
    ],
)
def test_a_tree_prints_as_its_condition(text: str, printed: str) -> None:
    assert str(parse(text)) == printed
    assert parse(printed) == parse(text)


def test_code_writes_any_text_as_a_literal() -> None:
    for name in ["a and b", "it's", 'say "hi"', "x,y", "ends with \\", "'\"", "", "a>b"]:
        assert evaluate(f"{quote(name)}={quote(name)}", {name: name})


def test_trees_can_be_asked_too() -> None:
    condition = parse("a=1")

    assert evaluate(condition, {"a": 1})
    assert keys_of(condition) == {"a"}


# Callables.


def test_a_callable_is_a_condition_and_counts_by_its_truth() -> None:
    ask = compile_condition(lambda state: state.get("items"))

    assert ask({"items": [1]}) is True
    assert ask({"items": []}) is False
    assert evaluate(lambda state: 1, {}) is True


def test_a_callable_is_called_once_and_its_error_is_its_own() -> None:
    calls: list[Mapping[str, object]] = []
    compile_condition(lambda state: calls.append(state))({"a": 1})

    assert calls == [{"a": 1}]
    with pytest.raises(ZeroDivisionError):
        evaluate(lambda state: 1 / 0, {})


def test_a_coroutine_function_is_refused_because_it_would_always_be_true() -> None:
    async def approved(state: Mapping[str, object]) -> bool:
        return False

    with pytest.raises(ConfigError, match="'approved' is a coroutine function"):
        compile_condition(approved)


@pytest.mark.parametrize("wrong", [None, True, 5, ["a=1"]])
def test_anything_else_is_no_condition(wrong: object) -> None:
    with pytest.raises(ConfigError, match="text or a function"):
        compile_condition(wrong)  # type: ignore[arg-type]


# The keys that a condition reads.


def test_keys_of_a_condition_are_the_roots_that_it_reads() -> None:
    assert keys_of("a=1 and not (b.c or items[0].x>2) and 'd.e' in (f)") == {
        "a",
        "b",
        "items",
        "d.e",
    }
    assert keys_of("x contains y") == {"x"}
    assert keys_of(lambda state: True) == frozenset()


# Errors.


def caret_of(text: str) -> tuple[str, str]:
    """Return the first line of the error and the text from the caret on."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    message, shown, caret = str(caught.value).split("\n")
    assert caret.strip() == "^"
    return message, shown[caret.index("^") :]


@pytest.mark.parametrize(
    ("text", "expected", "at"),
    [
        ("x>", "expected a value after '>'", ""),
        ("x > and y", "expected a value after '>'", "and y"),
        ("=5", "expected a key before '='", "=5"),
        ("a b", "expected =, !=, >, >=, <, <=, 'in' or 'contains'", "b"),
        ("final answer = yes", "a key with spaces stands in quotes", "answer = yes"),
        ("a=1 and", "expected a condition after 'and'", ""),
        ("a=1 or or b=2", "stands in quotes", "or b=2"),
        ("not", "expected a condition after 'not'", ""),
        ("state = OR", "or quotes around it", ""),
        ("state=OR", "'OR' joins conditions", "OR"),
        ("(a=1", "parenthesis is not closed", "(a=1"),
        ("a=1)", "closes nothing", ")"),
        ("()", "expected a condition", ")"),
        ("(a=1) b", "expected 'and', 'or' or the end", "b"),
        ("(a b) c", "'in' or 'contains'", "b) c"),
        ("a='x", "quote is not closed", "'x"),
        ("a='x' y", "after the quoted text", "y"),
        ("a='it's'", "after the quoted text", "s'"),
        ('a="x""y"', "after the quoted text", '"y"'),
        ("a in b", "expected a list in parentheses", "b"),
        ("a in ()", "expected a value after 'in'", ")"),
        ("a in (x,)", "expected a value after 'in'", "x,)"),
        ("a in (x", "parenthesis is not closed", "(x"),
        ("a in (x and y)", "expected ')'", "and y)"),
        ("a contains", "expected a value after 'contains'", ""),
        ("a not b", "expected 'in' or 'contains' after 'not'", "b"),
        ("a>1,2", "compares with one value", ">1,2"),
        ("a=>5", "expected a value after '='", ">5"),
        ("a<>5", "expected a value after '<'", ">5"),
        ("a===5", "expected a value after '=='", "=5"),
        ("a=(x, y)", "a list needs 'in'", "(x, y)"),
        ("a=f(x", "not closed inside the value", "(x"),
        ("!a", "'!' is written 'not'", "!a"),
        ("a && b", "'&' is written 'and'", "&& b"),
        ("a=1 && b=2", "'&&' is written 'and'", "&& b=2"),
        ("a=1 || b=2", "'||' is written 'or'", "|| b=2"),
        ("true", "'true' is a value", "true"),
        ("5<a", "'5' is a value", "5<a"),
        ("-0.5<a", "'-0.5' is a value", "-0.5<a"),
        ("and=5", "one that is called 'and' stands in quotes", "and=5"),
        ("a..b=1", "a name is expected after the dot", "a..b=1"),
        ("b and a[x]=1", "brackets hold a whole number", "a[x]=1"),
        ("__error__", "marks an error edge and is no condition", "__error__"),
        ("a=1 or __error__", "marks an error edge", "__error__"),
    ],
)
def test_what_does_not_parse_is_shown_with_a_caret(text: str, expected: str, at: str) -> None:
    message, shown = caret_of(text)
    assert expected in message
    assert shown == at


def test_the_whole_message_is_the_text_and_the_place() -> None:
    with pytest.raises(ConfigError) as caught:
        compile_condition("score >")

    assert str(caught.value) == (
        "the condition does not parse: expected a value after '>'\n    score >\n           ^"
    )


def test_a_long_condition_is_shown_around_the_place() -> None:
    message, shown = caret_of("a=1 and " * 50 + "b c" + " or d=1" * 50)

    assert "'contains' after the key" in message
    assert shown.startswith("c or d=1")
    assert shown.endswith("…")


def test_a_condition_of_several_lines_is_shown_on_one() -> None:
    _, shown = caret_of("a=1\n\tand b c\n")

    assert shown == "c "


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_condition_says_what_to_do(text: str) -> None:
    with pytest.raises(ConfigError, match="leave it out"):
        parse(text)


def test_a_condition_has_a_longest_length() -> None:
    longest = "a=" + "x" * 9_998

    assert evaluate(longest, {"a": "x" * 9_998})
    with pytest.raises(ConfigError, match="10,001 characters, and 10,000 is the most"):
        parse(longest + "x")


@pytest.mark.parametrize("opening", ["(", "not "])
def test_a_condition_has_a_deepest_nesting(opening: str) -> None:
    closing = ")" if opening == "(" else ""

    assert evaluate(opening * 100 + "a" + closing * 100, {"a": True})
    with pytest.raises(ConfigError, match="deeper than 100 levels"):
        parse(opening * 101 + "a" + closing * 101)


def test_the_depth_counts_nesting_and_not_length() -> None:
    assert evaluate(" and ".join(["not (a)"] * 500), {})


def test_equal_trees_mean_equal_conditions_however_they_are_written() -> None:
    assert parse("a  =  x  ,y") == parse("a==x,y")
    assert hash(parse("a=x")) == hash(parse("a = x"))


# Faults that people reported of languages of this kind.


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("read and write", "'read and write'"),
        ("a|b", "'a|b'"),
        ("x || y", "'x || y'"),
        ("p >= q", "'p >= q'"),
        ("in progress", "'in progress'"),
        ("it's", "'it''s'"),
        ("it's", '"it\'s"'),
    ],
)
def test_cnd_01_words_and_signs_inside_quotes_are_text(text: str, written: str) -> None:
    assert evaluate(f"mode == {written}", {"mode": text})
    assert evaluate(f"x=1 and mode={written} or y=2", {"x": 1, "mode": text})
    assert not evaluate(f"mode == {written}", {"mode": "other"})


@pytest.mark.parametrize("condition", ["x=ok", "x==ok", "x = 'ok'", 'x="ok"'])
def test_cnd_03_every_way_to_write_equality_means_the_same(condition: str) -> None:
    assert evaluate(condition, {"x": "ok"})
    assert not evaluate(condition, {"x": "no"})


def test_cnd_03_further_signs_belong_to_the_value_and_a_missing_value_is_an_error() -> None:
    assert evaluate("url=a=b", {"url": "a=b"})
    assert evaluate("x=", {"x": ""})
    assert not evaluate("x!=", {"x": ""})
    with pytest.raises(ConfigError, match="expected a value"):
        parse("x>")


@pytest.mark.parametrize(
    ("condition", "score", "holds"),
    [
        ("score >= 0.8", "0.9", True),
        ("score <= 0.95", 0, True),
        ("score > 9", "10", True),
        ("score > 9", "high", False),
        ("score = 123", "123", True),
        ("score = '123'", 123, True),
        ("score != 123", "123.0", False),
    ],
)
def test_cnd_04_numbers_and_text_digits_compare_as_numbers(
    condition: str, score: object, holds: bool
) -> None:
    assert evaluate(condition, {"score": score}) is holds


@pytest.mark.parametrize(
    ("state", "empty"),
    [
        ({}, True),
        ({"k": None}, True),
        ({"k": ""}, True),
        ({"k": []}, True),
        ({"k": {}}, True),
        ({"k": 0}, False),
        ({"k": False}, False),
        ({"k": " "}, False),
        ({"k": "0"}, False),
    ],
)
def test_cnd_06_empty_and_filled_are_exact_opposites(state: dict[str, object], empty: bool) -> None:
    assert evaluate("k=", state) is empty
    assert evaluate("k!=", state) is not empty


def test_cnd_08_lists_dicts_and_absent_keys_are_defined() -> None:
    state = {"tags": ["exotic"], "meta": {}}

    assert evaluate("tags contains exotic", state)
    assert not evaluate("tags contains exotic", {})
    assert not evaluate("meta!=", state)
    assert not evaluate("tags=exotic", state)
    assert evaluate("tags!=exotic", state)
    assert not evaluate("tags=['exotic']", state)
    assert evaluate("tags[0]=exotic", state)


@pytest.mark.parametrize(
    "state",
    [{}, {"score": None}, {"score": math.nan}, {"score": [1]}, {"score": ""}, {"score": {}}],
)
@pytest.mark.parametrize("order", [">=", ">", "<", "<="])
def test_cnd_09_nothing_and_what_is_no_number_has_no_order(
    state: dict[str, object], order: str
) -> None:
    assert not evaluate(f"score {order} 0.8", state)
