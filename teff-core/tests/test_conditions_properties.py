from __future__ import annotations

import operator
import string

from hypothesis import example, given
from hypothesis import strategies as st

from teff.conditions import (
    And,
    Compare,
    Condition,
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
from teff.paths import MISSING, lookup
from teff.state.filled import is_filled

KEYS = ["a", "b", "a.b", "xs[0]", "xs.1", "my-key"]

words = st.sampled_from(
    ["x", "Yes", "yes.", "0", "1", "1.0", "-2", "1e3", "true", "False", "null", "no", "?", "in b"]
) | st.text(string.ascii_letters + string.digits + " -'!:;/é", min_size=1).map(str.strip).filter(
    lambda text: text and text[0] not in "'" and not {"and", "or"} & set(text.casefold().split())
)
bare_values = words.map(Value)
quoted_values = st.text(max_size=8).map(lambda text: Value(text, quoted=True))
values = bare_values | quoted_values
keys = st.sampled_from(KEYS).map(Key) | st.text(max_size=4).map(lambda text: Key(text, quoted=True))
some_values = st.lists(values, min_size=1, max_size=3).map(tuple)
values_or_none = st.lists(values | st.just(Value("")), min_size=1, max_size=3).map(tuple)

tests = st.one_of(
    st.builds(Truthy, keys),
    st.builds(Compare, keys, st.sampled_from(["=", "!="]), values_or_none),
    st.builds(Compare, keys, st.sampled_from([">", ">=", "<", "<="]), st.tuples(values)),
    st.builds(In, keys, some_values),
    st.builds(Contains, keys, some_values),
)


def combined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.builds(Not, inner) | st.builds(And, several) | st.builds(Or, several)


conditions: st.SearchStrategy[Condition] = st.recursive(tests, combined, max_leaves=8)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["", " ", "x", "Yes!", "yes", "1", "1.0", "true", "null", "no", "1e999"])
)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "0"]), inner)
    ),
    max_leaves=6,
)
states = st.dictionaries(st.sampled_from([*KEYS, "xs", "x", ""]), json_values)


@given(conditions)
def test_a_printed_condition_parses_to_the_same_tree(condition: Condition) -> None:
    text = str(condition)

    assert parse(text) == condition
    assert str(parse(text)) == text


fragments = st.sampled_from(
    [
        *["a", "b.c", "xs[0]", "x", "1", "true", "__error__", " ", "  ", "\n"],
        *["=", "==", "!=", ">", "<=", "in", "not", "and", "or", "contains", "OR", "Not"],
        *["(", ")", ",", "'", '"', "''", '\\"', "\\", "!", "&&"],
        *["=1", "a=1", "a=x,", "in (x, 'y')", "'q r'", '"q"'],
    ]
)


@given(
    st.lists(fragments, max_size=12).map("".join) | st.lists(fragments, max_size=9).map(" ".join)
)
@example("a= or b")
@example("a=x or'b'=1")
@example("a=f(x) and b")
@example("a=, and b=")
def test_every_text_parses_to_a_tree_that_prints_and_parses_or_is_refused(text: str) -> None:
    try:
        tree = parse(text)
    except ConfigError:
        return
    assert parse(str(tree)) == tree
    assert keys_of(tree) == keys_of(text)


@given(st.text())
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        tree = parse(text)
    except ConfigError:
        return
    assert parse(str(tree)) == tree


@given(st.text(), st.text())
def test_quoted_text_equals_itself_and_no_other_text(text: str, other: str) -> None:
    condition = f"k={quote(text)}"

    assert parse(condition) == Compare(Key("k"), "=", (Value(text, quoted=True),))
    assert evaluate(condition, {"k": text})
    assert evaluate(condition, {"k": other}) is (text == other)


# A second, plain reading of the language, to hold the closures to.

NEGATIVE = ("false", "no", "n", "off", "none", "null")
ORDERS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def folded(text: str) -> str:
    return text.strip().casefold().rstrip(".,!?;: \t\r\n\u00a0\u202f")


def number(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, (int, float)):
        return value
    if folded(value)[:1] not in tuple("+-.0123456789"):
        return None
    for kind in (int, float):
        try:
            found = kind(folded(value))
        except ValueError:
            continue
        return found if abs(found) != float("inf") else None
    return None


def equals(found: object, value: Value) -> bool:
    if value == Value(""):
        return found is MISSING or not is_filled(found)
    if found is MISSING or isinstance(found, (list, dict)):
        return False
    text = (
        {None: "null", True: "true", False: "false"}.get(found)
        if (found is None or isinstance(found, bool))
        else str(found)
    )
    assert text is not None
    if value.quoted:
        return found is not None and text == value.text
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return number(value.text) is not None and number(value.text) == found
    if folded(text) == folded(value.text):
        return True
    mine, theirs = number(found), number(value.text)
    return mine is not None and theirs is not None and mine == theirs


def holds(condition: Condition, state: dict[str, object]) -> bool:
    match condition:
        case And(operands):
            return all(holds(operand, state) for operand in operands)
        case Or(operands):
            return any(holds(operand, state) for operand in operands)
        case Not(operand):
            return not holds(operand, state)
    key = condition.key
    found = state.get(key.text, MISSING) if key.quoted else lookup(state, key.text)
    match condition:
        case Truthy():
            no = isinstance(found, str) and folded(found) in NEGATIVE
            return found is not MISSING and found is not False and is_filled(found) and not no
        case In(_, wanted) | Compare(_, "=", wanted):
            return any(equals(found, value) for value in wanted)
        case Compare(_, "!=", wanted):
            return not any(equals(found, value) for value in wanted)
        case Contains(_, wanted):
            return any(contains(found, value) for value in wanted)
        case Compare(_, order, (value,)):
            return in_order(found, order, value)
    raise AssertionError(condition)


def contains(found: object, value: Value) -> bool:
    if isinstance(found, str):
        return value.text in found if value.quoted else value.text.casefold() in found.casefold()
    return isinstance(found, (list, dict)) and any(equals(item, value) for item in found)


def in_order(found: object, order: str, value: Value) -> bool:
    compare = ORDERS[order]
    limit = number(value.text)
    if limit is not None:
        mine = int(found) if isinstance(found, bool) else number(found)
        return mine is not None and compare(mine, limit)
    if not isinstance(found, str) or number(found) is not None or not folded(found):
        return False
    if value.quoted:
        return bool(compare(found, value.text))
    return bool(compare(folded(found), folded(value.text)))


@given(conditions, states)
def test_the_closures_agree_with_a_plain_reading_and_never_raise(
    condition: Condition, state: dict[str, object]
) -> None:
    expected = holds(condition, state)

    assert compile_condition(condition)(state) is expected
    assert compile_condition(str(condition))(state) is expected
    assert evaluate(str(condition), state) is expected


@given(json_values)
def test_empty_and_filled_are_exact_opposites_of_every_value(value: object) -> None:
    assert evaluate("k=", {"k": value}) is not evaluate("k!=", {"k": value})
    assert evaluate("k!=", {"k": value}) is is_filled(value)


@given(keys, values_or_none, states)
def test_unequal_is_the_exact_opposite_of_equal(
    key: Key, wanted: tuple[Value, ...], state: dict[str, object]
) -> None:
    equal = compile_condition(Compare(key, "=", wanted))
    unequal = compile_condition(Compare(key, "!=", wanted))

    assert equal(state) is not unequal(state)


@given(keys, some_values, states)
def test_in_is_equal_to_one_of_the_values(
    key: Key, wanted: tuple[Value, ...], state: dict[str, object]
) -> None:
    within = evaluate(In(key, wanted), state)

    assert within is any(evaluate(Compare(key, "=", (value,)), state) for value in wanted)
    assert evaluate(f"{key} not in ({', '.join(map(str, wanted))})", state) is not within


@given(conditions, conditions, states)
def test_not_and_or_obey_their_laws(
    one: Condition, two: Condition, state: dict[str, object]
) -> None:
    first, second = evaluate(one, state), evaluate(two, state)

    assert evaluate(f"({one}) and ({two})", state) is (first and second)
    assert evaluate(f"({one}) or ({two})", state) is (first or second)
    assert evaluate(f"not ({one})", state) is not first
    assert evaluate(f"not (({one}) and ({two}))", state) is evaluate(
        f"not ({one}) or not ({two})", state
    )


@given(conditions, states)
def test_asking_reads_no_other_key_and_changes_nothing(
    condition: Condition, state: dict[str, object]
) -> None:
    dotted = {key for key in state if "." in key or "[" in key}
    read = keys_of(condition) | dotted

    before = repr(state)
    everything = evaluate(condition, state)
    assert repr(state) == before
    assert evaluate(condition, {key: state[key] for key in state if key in read}) is everything


@given(st.integers(), st.integers())
def test_numbers_are_ordered_as_numbers_on_both_sides(found: int, limit: int) -> None:
    for value in (found, str(found), f" {found}. "):
        assert evaluate(f"n>{limit}", {"n": value}) is (found > limit)
        assert evaluate(f"n<={limit}", {"n": value}) is (found <= limit)
        assert evaluate(f"n={limit}", {"n": value}) is (found == limit)
