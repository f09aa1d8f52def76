"""Values as models write them: JSON with its usual slips, and the literals of Python."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from teff.harness.strict_json import LONGEST_NUMBER, STRICT_JSON, is_nested_deeper

__all__ = [
    "DEEPEST",
    "Broken",
    "PythonCall",
    "Unfinished",
    "read_python_call",
    "read_value",
    "whole_value",
]

#: A value that is nested more deeply is refused.
DEEPEST: Final = 64
#: So many parts of one value are read where it is no plain JSON.
_MOST_TOKENS = 50_000


class Unfinished(Exception):
    """The text ends within a value."""


class Broken(Exception):
    """There is no value. ``end`` is where whatever stands there instead ends."""

    def __init__(self, end: int) -> None:
        super().__init__(end)
        self.end = end


@attrs.frozen
class PythonCall:
    """A call written in Python: its dotted name, and its arguments, all literals."""

    name: str
    positional: list[Any]
    keywords: dict[str, Any]


def read_value(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value, or Python literal, that begins at ``start``, and its end.

    Line breaks within texts and trailing commas are taken. NaN, Infinity and numbers beyond the
    range of a float are no values.

    Raises:
        Unfinished: the text ends within it.
        Broken: there is none.
    """
    try:
        value, end = STRICT_JSON.raw_decode(text, start)
    except (ValueError, RecursionError):
        return _tolerantly(text, start)
    if is_nested_deeper(value, DEEPEST):
        raise Broken(end)
    return value, end


def whole_value(text: str) -> Any:
    """Return the value that a text is.

    Raises:
        ValueError: it is none, or not only that.
    """
    written = text.strip()
    try:
        value, end = read_value(f"{written} ", 0)  # so that a word or a number is at its end
    except (Unfinished, Broken):
        raise ValueError("no whole value") from None
    if end != len(written):
        raise ValueError("more than one value")
    return value


def read_python_call(text: str, start: int) -> tuple[PythonCall, int]:
    """Return the call that begins at ``start``, and its end.

    Raises:
        Unfinished: the text ends within it.
        Broken: there is none whose arguments are literals.
    """
    literals = _Literals(text, start, python=True)
    try:
        return literals.call(), literals.position
    except _Wrong:
        raise Broken(literals.position) from None


def _tolerantly(text: str, start: int) -> tuple[Any, int]:
    literals = _Literals(text, start, python=False)
    try:
        return literals.value(), literals.position
    except _Wrong:
        pass
    position = literals.position
    # The wrong sign is outside of texts, so a tag there is one: the value was not ended.
    if text.startswith("<", position):
        raise Broken(position)
    raise Broken(max(position, _end_of_brackets(text, start)))


def _end_of_brackets(text: str, start: int) -> int:
    depth = 0
    for part in _TEXT_OR_BRACKET.finditer(text, start):
        if part.group() in "[{":
            depth += 1
        elif part.group() in "]}":
            depth -= 1
            if depth <= 0:
                return part.end()
    raise Unfinished


class _Wrong(Exception):
    """What stands here has no place in a literal."""


class _Literals:
    """One walk over literals, from sign to sign; every character is passed once."""

    def __init__(self, text: str, start: int, *, python: bool) -> None:
        self.text = text
        self.position = start
        self.python = python
        self.tokens = 0

    def peek(self) -> re.Match[str]:
        """Return the next sign, without passing it."""
        self.position = _space_after(self.text, self.position)
        if self.position == len(self.text):
            raise Unfinished
        token = _TOKEN.match(self.text, self.position)
        self.tokens += 1
        if self.tokens > _MOST_TOKENS:
            raise _Wrong
        if token is None:
            raise Unfinished if _MAY_GO_ON.match(self.text, self.position) else _Wrong
        is_open = token["open"] or token["number"] or token["word"]
        if token["open"] or (is_open and token.end() == len(self.text)):
            raise Unfinished
        return token

    def take(self, sign: str) -> bool:
        """Pass a sign where it is the next one."""
        if (token := self.peek()).group() != sign:
            return False
        self.position = token.end()
        return True

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise _Wrong

    def value(self, depth: int = 0) -> Any:
        token = self.peek()
        if depth > DEEPEST:
            raise _Wrong
        if token["text"] is not None:
            return self.strings()
        if token["sign"]:
            return self.container(token["sign"], depth)
        if token["number"]:
            number = _number(token["number"])
            self.position = token.end()
            return number
        if token["word"] not in _WORDS:
            raise _Wrong
        self.position = token.end()
        return _WORDS[token["word"]]

    def strings(self) -> str:
        parts = []
        while (token := _TOKEN.match(self.text, self.position)) and token["text"] is not None:
            self.position = token.end()
            width = 3 if token["text"].startswith(('"""', "'''")) else 1
            inner = token["text"][width:-width]
            if not self.python:
                return _unescaped(inner, python=False)
            parts.append(_unescaped(inner, python=True))
            self.position = _space_after(self.text, self.position)
        return "".join(parts)

    def container(self, sign: str, depth: int) -> Any:
        if sign == "{":
            return self.mapping(depth)
        if sign not in "[(" or (sign == "(" and not self.python):
            raise _Wrong
        self.need(sign)
        closing = "]" if sign == "[" else ")"
        items: list[Any] = []
        while not self.take(closing):
            items.append(self.value(depth + 1))
            if not self.take(","):
                self.need(closing)
                break
        return items

    def mapping(self, depth: int) -> dict[str, Any]:
        self.need("{")
        items: dict[str, Any] = {}
        while not self.take("}"):
            if self.peek()["text"] is None:
                raise _Wrong
            key = self.strings()
            self.need(":")
            items[key] = self.value(depth + 1)
            if not self.take(","):
                self.need("}")
                break
        return items

    def call(self) -> PythonCall:
        token = self.peek()
        if not token["word"]:
            raise _Wrong
        self.position = token.end()
        self.need("(")
        call = PythonCall(token["word"], [], {})
        while not self.take(")"):
            self.argument(call)
            if not self.take(","):
                self.need(")")
                break
        return call

    def argument(self, call: PythonCall) -> None:
        token = self.peek()
        if token["word"] and token["word"] not in _WORDS:
            self.position = token.end()
            self.need("=")
            if token["word"] in call.keywords:
                raise _Wrong
            call.keywords[token["word"]] = self.value(1)
        elif call.keywords:
            raise _Wrong  # a positional argument after a named one
        else:
            call.positional.append(self.value(1))


def _number(text: str) -> int | float:
    if len(text) > LONGEST_NUMBER:
        raise _Wrong
    try:
        return int(text)
    except ValueError:
        number = float(text)
    if math.isinf(number):
        raise _Wrong
    return number


def _space_after(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space is not None else position


def _unescaped(text: str, *, python: bool) -> str:
    if "\\" not in text:
        return text

    def character(escape: re.Match[str]) -> str:
        code = escape["hex"] or escape["short"]
        if code:
            return _joined(code)
        sign: str = escape["sign"]
        if sign == "/" and not python:
            return "/"
        # Python keeps the backslash before a sign that needs none.
        return _ESCAPES.get(sign, f"\\{sign}")

    return _ESCAPE.sub(character, text)


def _joined(code: str) -> str:
    numbers = [int(part, 16) for part in re.findall("[0-9a-fA-F]+", code)]
    if len(numbers) == 2:
        return chr(0x10000 + ((numbers[0] - 0xD800) << 10) + (numbers[1] - 0xDC00))
    return chr(numbers[0])


_WORDS: Mapping[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_SPACE = re.compile(r"\s*+")
# A text that is never closed reaches to the end, so that every character is passed once.
_TOKEN = re.compile(
    r'(?P<text>"""(?:[^"\\]|\\.|"(?!""))*+"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*+\'\'\''
    r'|(?!""")"(?:[^"\\]|\\.)*+"|(?!\'\'\')\'(?:[^\'\\]|\\.)*+\')'
    r"|(?P<open>[\"'])"
    r"|(?P<number>[-+]?(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?\d++)?+)(?![\w.])"
    r"|(?P<word>[^\W\d][\w.-]*+)"
    r"|(?P<sign>[\[\]{}(),:=])",
    re.DOTALL,
)
_MAY_GO_ON = re.compile(r"[-+.\w]{1,64}\Z")
_TEXT_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:(?P<hex>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}"
    r"|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})"
    r"|x(?P<short>[0-9a-fA-F]{2})|(?P<sign>.))",
    re.DOTALL,
)
_ESCAPES: Mapping[str, str] = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "\n": "",
}
