"""A place in a reply: what decoders read from, and what they give back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import attrs

from teff.harness.decode.offered import MOST_CALLS, Offered
from teff.harness.decode.values import Broken, Unfinished, read_value
from teff.harness.turn_marks import END_OF_TURN, LONGEST_TURN, OTHER_TURNS, is_turn_over
from teff.messages import ToolCall

__all__ = [
    "CLOSINGS",
    "LEAD_IN",
    "NAME",
    "RESULTS",
    "Place",
    "Reading",
    "any_of",
    "beginning_of",
    "prefixes",
]

#: How tools may be called; whether one was offered is asked when all of a call has been read.
NAME: Final = r"[^\s<>()\[\]{}\"'`,;=|\uff5c]{1,128}+"

#: What may stand behind calls: closing marks of every family, and tokens that end a turn.
CLOSINGS: Final = (
    "</tool_call>",
    "</tool_calls>",
    "<|/tool_call|>",
    "<|/tool_calls|>",
    "</function_call>",
    "</function_calls>",
    "</steptml:tool_calls>",
    "</xai:function_call>",
    "<|python_end|>",
    "</function>",
    "</functions>",
    "</invoke>",
    "</TOOLCALL>",
    "</toolcall>",
    "</tools>",
    "</tool_use>",
    "</longcat_tool_call>",
    "</seed:tool_call>",
    "</minimax:tool_call>",
    "</\uff5cDSML\uff5cfunction_calls>",
    "</|DSML|function_calls>",
    "</\uff5cDSML\uff5ctool_calls>",
    "<\uff5ctool\u2581call\u2581end\uff5c>",
    "<\uff5ctool\u2581calls\u2581end\uff5c>",
    "<|tool\u2581call\u2581end|>",
    "<|tool\u2581calls\u2581end|>",
    "<\uff5ctool_call_end\uff5c>",
    "<\uff5ctool_calls_end\uff5c>",
    "<|tool_call_end|>",
    "<|tool_calls_end|>",
    "<|tool_calls_section_end|>",
    "<|tool_call:end|>",
    "<|tool_calls:end|>",
    "<tool_call|>",
    "<end_function_call>",
    "<|END_ACTION|>",
    "<|action_end|>",
    "<|stop|>",
    "<|call|>",
    "<|end|>",
    "<|return|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<bot_end>",
    "<eos>",
    "</s>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "[/TOOL_CALLS]",
    "[e~[",
)

#: What a tool says: a model that goes on with it has made it up, or repeats it.
RESULTS: Final = {
    "<tool_response>": "</tool_response>",
    "<|tool_response|>": "<|/tool_response|>",
    "<tool_result>": "</tool_result>",
    "<tool_results>": "</tool_results>",
    "<function_results>": "</function_results>",
    "<function_result>": "</function_result>",
    "<function_response>": "</function_response>",
    "<start_function_response>": "<end_function_response>",
    "<observation>": "</observation>",
    "<|observation|>": "<|assistant|>",
    "[TOOL_RESULTS]": "[/TOOL_RESULTS]",
    "\u273fRESULT\u273f": "\u273fRETURN\u273f",
    "<|START_TOOL_RESULT|>": "<|END_TOOL_RESULT|>",
    "<\uff5ctool\u2581outputs\u2581begin\uff5c>": "<\uff5ctool\u2581outputs\u2581end\uff5c>",
    "<|start_header_id|>ipython<|end_header_id|>": "<|eot_id|>",
}


#: More characters of prose before a call are more than a lead-in.
LEAD_IN: Final = 400


def any_of(literals: Iterable[str]) -> str:
    """Return a pattern that matches the longest of ``literals``, each sign looked at once."""
    branches: dict[str, list[str]] = {}
    ends = False
    for literal in literals:
        if literal:
            branches.setdefault(literal[0], []).append(literal[1:])
        else:
            ends = True
    if not branches:
        return ""
    parts = [re.escape(sign) + any_of(rest) for sign, rest in branches.items()]
    joined = parts[0] if len(parts) == 1 and not ends else f"(?:{'|'.join(parts)})"
    return f"{joined}?" if ends else joined


def beginning_of(word: str) -> str:
    """Return a pattern that matches every beginning of a word but the empty one."""
    rest = f"(?:{beginning_of(word[1:])})?" if len(word) > 1 else ""
    return re.escape(word[0]) + rest


def prefixes(literals: Iterable[str]) -> frozenset[str]:
    """Return every beginning of ``literals`` that is not the whole of one, in lower case."""
    return frozenset(
        literal[:length].lower() for literal in literals for length in range(1, len(literal))
    )


_SPACE = re.compile(r"\s*+")
_FENCE = re.compile(r"`{3,}+[ \t]*+(?P<label>[\w+-]{0,32}+)[ \t]*+")
_FENCE_END = re.compile(r"\s*+`{3,}+")
_MAY_BE_FENCE = re.compile(r"(?:`{1,2}+|`{3,}+[ \t]*+[\w+-]{0,32}+[ \t]*+)?\Z")
_MAY_BE_FENCE_END = re.compile(r"\s*+`*+\Z")
_MAY_BE_OBJECTS = re.compile(r"(?:\[\s{0,20}+)?\Z")
_OBJECTS = re.compile(r"\{|\[\s{0,20}+[\[{\]]")
_BETWEEN = re.compile(r"[\s,;]*+")
_BEHIND = re.compile(rf"(?:[\s;]++|{any_of(CLOSINGS)}|`{{3,}}+)*+")
_CLOSINGS = re.compile(rf"(?:\s++|{any_of(CLOSINGS)})*+")
_MAY_CLOSE = prefixes(CLOSINGS) | {""}
_RESULT = re.compile(
    rf"{any_of(RESULTS)}|(?-i:{any_of(OTHER_TURNS)})|[>#*_ \t-]{{0,8}}Observation[ \t*_]{{0,4}}:",
    re.IGNORECASE,
)
_AFTER = prefixes((*CLOSINGS, *RESULTS, *OTHER_TURNS, "observation:"))
_LONGEST_AFTER = max(map(len, (*CLOSINGS, *RESULTS, *OTHER_TURNS)))


@attrs.frozen
class Reading:
    """What a decoder has read.

    Attributes:
        end: up to where.
        calls: what is called there; where there is none, what was read is text.
        is_markup: whether it is no text even so.
    """

    end: int
    calls: tuple[ToolCall, ...] = ()
    is_markup: bool = False


class Place:
    """A position in a reply that decoders move on.

    Args:
        text: of the reply, or what has come of it.
        position: where the decoder begins.
        offered: what the model may call.
        final: whether the text is whole. Where it is not, whatever cannot be told yet raises
            `Unfinished`.
        before: the end of the prose before; at most `LEAD_IN` characters are a lead-in.

    Attributes:
        is_fenced: whether the opening of a fence has been passed, and not its end.
    """

    def __init__(
        self, text: str, position: int, *, offered: Offered, final: bool, before: str = ""
    ) -> None:
        self.text = text
        self.position = position
        self.offered = offered
        self.final = final
        self.before = before
        self.is_fenced = False

    def at(self, position: int) -> Place:
        """Return another place in the same reply."""
        return Place(
            self.text, position, offered=self.offered, final=self.final, before=self.before
        )

    @property
    def is_at_end(self) -> bool:
        """Whether nothing follows."""
        if self.position < len(self.text):
            return False
        if not self.final:
            raise Unfinished
        return True

    def take(self, *literals: str) -> str:
        """Pass the first of ``literals`` that stands here, and return it; "" for none."""
        for literal in literals:
            if self.text.startswith(literal, self.position):
                self.position += len(literal)
                return literal
        left = len(self.text) - self.position
        if not self.final and any(
            left < len(literal) and self.text.endswith(literal[:left]) for literal in literals
        ):
            raise Unfinished
        return ""

    def skip(self, pattern: re.Pattern[str] = _SPACE) -> None:
        """Pass what a pattern matches that matches nothing too; by default white space."""
        if (found := pattern.match(self.text, self.position)) is not None:
            self.position = found.end()

    def match(self, pattern: re.Pattern[str], *, longest: int = 160) -> re.Match[str] | None:
        """Pass what a pattern matches, and return it.

        Args:
            pattern: looks at no more than ``longest`` characters.
            longest: where fewer have come, no match may be one yet.
        """
        found = pattern.match(self.text, self.position)
        may_go_on = found is None or found.end() == len(self.text)
        if not self.final and may_go_on and len(self.text) - self.position < longest:
            raise Unfinished
        if found is not None:
            self.position = found.end()
        return found

    def looks_at(self, pattern: re.Pattern[str], *, longest: int = 160) -> bool:
        """Say whether a pattern matches here, and pass nothing."""
        position = self.position
        found = self.match(pattern, longest=longest) is not None
        self.position = position
        return found

    def find(self, literal: str) -> int:
        """Return where a literal stands from here on.

        Raises:
            Unfinished: nowhere.
        """
        if (found := self.text.find(literal, self.position)) < 0:
            raise Unfinished
        return found

    def value(self) -> Any:
        """Pass a JSON value and return it; white space before it is passed.

        Raises:
            Unfinished, Broken: as `read_value` does.
        """
        self.skip()
        value, self.position = read_value(self.text, self.position)
        return value

    def missing(self) -> Exception:
        """Return what is to be raised where something that must follow does not."""
        return Unfinished() if self.position >= len(self.text) else Broken(self.position)

    def skip_fence(self) -> None:
        """Pass white space, and the opening of a fence where it stands here."""
        self.skip()
        if not self.final and _MAY_BE_FENCE.match(self.text, self.position):
            raise Unfinished
        if (fence := _FENCE.match(self.text, self.position)) is not None:
            self.position = fence.end()
            self.is_fenced = True
            self.skip()

    def end_fence(self) -> None:
        """Pass the end of the fence that was passed, where it stands here."""
        if not self.is_fenced:
            return
        if not self.final and _MAY_BE_FENCE_END.match(self.text, self.position):
            raise Unfinished
        if (end := _FENCE_END.match(self.text, self.position)) is not None:
            self.position = end.end()
            self.is_fenced = False

    def is_at_object(self) -> bool:
        """Say whether an object begins here; white space and the opening of a fence are passed."""
        self.skip_fence()
        return not self.is_at_end and self.text[self.position] == "{"

    def objects(self) -> list[Any] | None:
        """Pass JSON objects and lists, one after the other, and return them; None for none."""
        self.skip_fence()
        values: list[Any] = []
        while self._is_at_objects():
            values.append(self.value())
            if len(values) > MOST_CALLS:
                raise Broken(len(self.text))
            behind = self.position
            self.skip(_BETWEEN)
            if not self._is_at_objects():
                self.position = behind
                break
        if values:
            self.end_fence()
        return values or None

    def skip_closings(self) -> None:
        """Pass closing marks and white space."""
        self.skip(_CLOSINGS)
        rest = self.text[self.position : self.position + _LONGEST_AFTER]
        if not self.final and rest.lower() in _MAY_CLOSE:
            raise Unfinished

    def _is_at_objects(self) -> bool:
        if not self.final and _MAY_BE_OBJECTS.match(self.text, self.position):
            raise Unfinished
        return _OBJECTS.match(self.text, self.position) is not None

    def ends_reply(self) -> bool:
        """Say whether nothing follows but closing marks, or what a tool or the user would say."""
        start = self.position
        self.skip(_BEHIND)
        if self.is_at_end:
            return True
        if END_OF_TURN.search(self.text, start, self.position) is not None:
            if is_turn_over(self.text, self.position):
                return True
            if not self.final and len(self.text) - self.position < LONGEST_TURN:
                raise Unfinished
        if not self.final:
            rest = self.text[self.position : self.position + _LONGEST_AFTER + 16].lower()
            if rest.lstrip("`~>#*_ \t-") in _AFTER or not rest.strip("`~>#*_ \t-"):
                raise Unfinished
        return _RESULT.match(self.text, self.position) is not None

    def reading(self, *calls: Iterable[ToolCall]) -> Reading:
        """Return the reading that ends here."""
        return Reading(self.position, tuple(call for some in calls for call in some)[:MOST_CALLS])
