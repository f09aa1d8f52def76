r"""Reading a condition: text to tree, or an error with a caret under the place.

The grammar::

    condition  = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" condition ")" | test
    test       = key
               | key ( "=" | "==" | "!=" ) values
               | key ( ">" | ">=" | "<" | "<=" ) value
               | key [ "not" ] "in" "(" values ")"
               | key [ "not" ] "contains" values
    key        = quoted | path                      a path holds no space and none of =!<>(),'"&|
    values     = value { "," value }                empty ones only after =, == and !=
    value      = quoted | bare
    bare       = text up to ",", ")", a standing "and" or "or", or the end
    quoted     = "'" … "'" with '' for a quote  |  '"' … '"' with \" for a quote

The words of the language are read in any case. Parentheses inside bare text must be closed in it.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn, cast

from teff.conditions.tree import (
    And,
    Compare,
    Condition,
    Contains,
    In,
    Key,
    Not,
    Operator,
    Or,
    Truthy,
    Value,
)
from teff.errors import ConfigError
from teff.paths import parse_path

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "parse"]

#: The longest condition, in characters.
MAX_LENGTH: Final = 10_000
#: How deep parentheses and ``not`` may nest.
MAX_DEPTH: Final = 100

_SPACE = re.compile(r"\s*")
_OPERATOR = re.compile(r"==|!=|>=|<=|=|>|<")
_PATH = re.compile(r"""[^\s=!<>(),'"&|]+""")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_WORD = re.compile(r"""(and|or|not|in|contains)(?=[\s()'"]|$)""", re.IGNORECASE)
_BARE_STOP = re.compile(r"[(),]|&&|\|\||(?<!\S)(?:and|or)(?=[\s()'\"]|$)", re.IGNORECASE)
_QUOTED = {"'": re.compile(r"'((?:[^']|'')*+)'"), '"': re.compile(r'"((?:\\"|[^"])*+)"')}
_ESCAPED = {"'": "''", '"': '\\"'}

_SYMBOLS = {"&&": "and", "||": "or", "&": "and", "|": "or", "!": "not"}
_SHOWN_WIDTH = 72


def parse(text: str) -> Condition:
    """Return the tree of a condition.

    >>> print(parse("a == 1 AND ( b=x , 'y z' )"))
    a=1 and b=x,'y z'

    Raises:
        ConfigError: the text is no condition, is longer than ``MAX_LENGTH`` or nests deeper than
            ``MAX_DEPTH``; the message shows it with a caret under the place and says what was
            expected. ``__error__`` marks an error edge and is no condition.
    """
    if not isinstance(text, str):
        raise ConfigError(f"a condition is text, not {type(text).__name__}: {text!r}")
    if not text.strip():
        raise ConfigError(
            "the condition is empty; leave it out where the edge should always be taken"
        )
    if len(text) > MAX_LENGTH:
        raise ConfigError(
            f"the condition is too long: {len(text):,} characters, and {MAX_LENGTH:,} is the most; "
            f"compute it in a node. It starts: {text[:40]!r}"
        )
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over one text; ``at`` is the place of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def whole(self) -> Condition:
        condition = self.condition()
        if self.next() == ")":
            self.fail("this parenthesis closes nothing")
        if self.next():
            self.fail("expected 'and', 'or' or the end")
        return condition

    def condition(self) -> Condition:
        operands = [self.all()]
        while self.word("or"):
            operands.append(self.all())
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def all(self) -> Condition:
        operands = [self.one()]
        while self.word("and"):
            operands.append(self.one())
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def one(self) -> Condition:
        start = self.skip_space()
        if self.word("not"):
            self.deeper(start)
            operand: Condition = Not(self.one())
        elif self.take("("):
            self.deeper(start)
            operand = self.condition()
            self.close(start)
        else:
            return self.test()
        self.depth -= 1
        return operand

    def test(self) -> Condition:
        key = self.key()
        start = self.skip_space()
        if operator := _OPERATOR.match(self.text, self.at):
            self.at = operator.end()
            return self.compare(key, operator[0], start)
        negated = self.word("not")
        if negated:
            # It prints as a `not` around the test, which must be allowed as deep.
            self.deeper(start)
            self.depth -= 1
        if self.word("in"):
            test: Condition = self.within(key)
        elif self.word("contains"):
            test = Contains(key, self.filled_values("contains"))
        elif negated:
            self.fail("expected 'in' or 'contains' after 'not'")
        elif self.at_end_of_test():
            return Truthy(key)
        else:
            self.expect_operator()
        return Not(test) if negated else test

    def compare(self, key: Key, operator: str, start: int) -> Compare:
        if self.next() in ("=", "<", ">"):
            self.fail(f"expected a value after '{operator}'; one that starts so stands in quotes")
        if operator in ("=", "==", "!="):
            values = self.values()
            return Compare(key, cast("Operator", operator.replace("==", "=")), values)
        values = self.filled_values(operator)
        if len(values) > 1:
            self.fail(f"'{operator}' compares with one value; quote a value with a comma", start)
        return Compare(key, cast("Operator", operator), values)

    def within(self, key: Key) -> In:
        start = self.skip_space()
        if not self.take("("):
            self.fail("expected a list in parentheses after 'in', as in: route in (billing, sales)")
        values = self.filled_values("in")
        self.close(start)
        return In(key, values)

    def key(self) -> Key:
        start = self.skip_space()
        if self.next() in ("'", '"'):
            return Key(self.quoted(), quoted=True)
        found = _PATH.match(self.text, self.at)
        if found is None:
            self.expect_condition()
        name = found[0]
        word = name.casefold()
        if word in ("and", "or", "not"):
            self.fail(f"expected a key; one that is called '{word}' stands in quotes")
        if word in ("true", "false", "null") or _NUMBER.fullmatch(name):
            self.fail(f"'{name}' is a value, and a test starts with a key, as in: count > 0")
        if name == "__error__":
            self.fail(
                "'__error__' marks an error edge and is no condition: let it stand alone on "
                "its edge, without 'and', 'or' or 'not'"
            )
        try:
            parse_path(name)
        except ConfigError as error:
            self.fail(error.message, start)
        self.at = found.end()
        return Key(name)

    def filled_values(self, after: str) -> tuple[Value, ...]:
        """Read values of which none may be left out."""
        start = self.skip_space()
        values = self.values()
        if any(value == Value("") for value in values):
            self.fail(f"expected a value after '{after}'", start)
        return values

    def values(self) -> tuple[Value, ...]:
        values = [self.value()]
        while self.take(","):
            values.append(self.value())
        return tuple(values)

    def value(self) -> Value:
        start = self.skip_space()
        if self.next() in ("'", '"'):
            value = Value(self.quoted(), quoted=True)
            if not self.at_end_of_value():
                self.fail("expected ',', 'and', 'or' or the end after the quoted text")
            return value
        word = _WORD.match(self.text, start)
        if word and word[1].casefold() in ("and", "or"):
            if not self.text[start - 1].isspace():
                self.fail(f"'{word[1]}' joins conditions; as a value it stands in quotes")
            return Value("")
        return Value(self.bare(start))

    def bare(self, start: int) -> str:
        if self.next() == "(":
            self.fail("a value that starts with a parenthesis stands in quotes; a list needs 'in'")
        opened: list[int] = []
        self.at = len(self.text)
        for stop in _BARE_STOP.finditer(self.text, start):
            sign = stop[0]
            if sign in _SYMBOLS:
                self.refuse_symbol(sign, stop.start())
            if sign == "(":
                opened.append(stop.start())
            elif sign == ")" and opened:
                opened.pop()
            else:
                self.at = stop.start()
                break
        if opened:
            self.fail("this parenthesis is not closed inside the value; quote the value", opened[0])
        return self.text[start : self.at].rstrip()

    def quoted(self) -> str:
        mark = self.text[self.at]
        found = _QUOTED[mark].match(self.text, self.at)
        if found is None:
            self.fail(f"this quote is not closed; a quote inside is written {_ESCAPED[mark]}")
        self.at = found.end()
        return found[1].replace(_ESCAPED[mark], mark)

    # Reading signs and words.

    def skip_space(self) -> int:
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        return self.at

    def next(self) -> str:
        """Return the next character that is no space, or "" at the end."""
        start = self.skip_space()
        return self.text[start : start + 1]

    def take(self, sign: str) -> bool:
        if self.next() != sign:
            return False
        self.at += 1
        return True

    def word(self, wanted: str) -> bool:
        found = _WORD.match(self.text, self.skip_space())
        if found is None or found[1].casefold() != wanted:
            return False
        self.at = found.end()
        return True

    def at_end_of_test(self) -> bool:
        if self.next() in ("", ")"):
            return True
        word = _WORD.match(self.text, self.at)
        return word is not None and word[1].casefold() in ("and", "or")

    def at_end_of_value(self) -> bool:
        return self.at_end_of_test() or self.next() == ","

    def deeper(self, start: int) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"the condition nests deeper than {MAX_DEPTH} levels", start)

    def close(self, opened: int) -> None:
        if self.take(")"):
            return
        if self.next():
            self.fail(
                "expected ')', or 'and' or 'or' between two tests; quote text that holds them"
            )
        self.fail("this parenthesis is not closed", opened)

    # Saying what is wrong.

    def expect_condition(self) -> NoReturn:
        sign = self.next()
        if sign in _SYMBOLS:
            self.refuse_symbol(sign, self.at)
        if sign and sign in "=<>":
            self.fail(f"expected a key before '{sign}'")
        before = re.search(r"(and|or|not)\s*$", self.text[: self.at], re.IGNORECASE)
        after = f" after '{before[1]}', or quotes around it where it is text" if before else ""
        self.fail(f"expected a condition{after}")

    def expect_operator(self) -> NoReturn:
        sign = self.next()
        if sign in _SYMBOLS:
            self.refuse_symbol(sign, self.at)
        self.fail(
            "expected =, !=, >, >=, <, <=, 'in' or 'contains' after the key; "
            "a key with spaces stands in quotes"
        )

    def refuse_symbol(self, sign: str, at: int) -> NoReturn:
        self.fail(
            f"'{sign}' is written '{_SYMBOLS[sign]}' here; in a value it stands in quotes", at
        )

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        at = self.at if at is None else at
        line, column = _line_at(self.text, at)
        raise ConfigError(
            f"the condition does not parse: {message}\n    {line}\n    {' ' * column}^"
        )


def _line_at(text: str, at: int) -> tuple[str, int]:
    """Return a window of the text around a place, on one line, and the place inside it."""
    shown = "".join(" " if character.isspace() else character for character in text)
    start = max(0, min(at - _SHOWN_WIDTH // 2, len(shown) - _SHOWN_WIDTH))
    end = start + _SHOWN_WIDTH
    before = "…" if start else ""
    after = "…" if end < len(shown) else ""
    return f"{before}{shown[start:end]}{after}", at - start + len(before)
