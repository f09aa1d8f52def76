"""One walk over a reply, from mark to mark: whole, or as its pieces come."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import attrs

from teff.harness.decode.bare import (
    read_bare_json,
    read_bare_list,
    read_whole_reply,
)
from teff.harness.decode.fenced import read_fence
from teff.harness.decode.marks import (
    AT_LINE,
    FENCE,
    LONGEST_MARK,
    MARK,
    MAY_BE_LINE,
    MOST_MARKS,
    PLAIN,
    REST_OF_LINE,
    SPACE_ONLY,
    certain_end,
    common_end,
)
from teff.harness.decode.offered import MOST_CALLS, Offered
from teff.harness.decode.place import (
    LEAD_IN,
    RESULTS,
    Place,
    Reading,
)
from teff.harness.decode.quoted import (
    HEAD,
    goes_on,
    is_documented,
    is_in_quotes,
    is_indented,
    is_quotation,
    is_within_sentence,
    read_spoken_action,
    without_calls,
)
from teff.harness.decode.react import read_lone_action
from teff.harness.decode.table import read_behind, read_marked
from teff.harness.decode.values import Broken, Unfinished
from teff.harness.thinking import THINKING_MARK, is_certain, is_opening
from teff.harness.turn_marks import END_OF_TURN, LONGEST_TURN, is_turn_over
from teff.messages import ToolCall

__all__ = ["LONGEST", "Walk"]

#: A call that takes more characters is none.
LONGEST: Final = 2_000_000
#: How much of the prose before a mark is kept.
_KEPT: Final = 2 * LEAD_IN


class Walk:
    """What a reply says so far: its calls, and the prose that may be shown.

    Args:
        offered: what the model may call.
    """

    def __init__(self, offered: Offered) -> None:
        self.offered = offered
        self.text = ""
        self.position = 0
        self.final = False
        self.calls: list[ToolCall] = []
        self.shown: list[str] = []
        self.took_out = False
        self._before = ""
        self._is_fresh = True  # nothing but white space and thinking so far
        self._is_behind_call = False
        self._has_answer = False
        self._thinking = 0
        self._spoken_of = 0  # openings of thinking that were a part of a sentence
        self._until = ""  # what ends the quotation that the walk is in
        self._is_within_line = False  # whether that began in this line
        self._head = ""  # the first signs of the line
        self._is_behind_quoted = False  # calls that follow a quoted one are quoted, too
        self._quotes_lines = False  # up to a blank line, actions are quoted
        self._is_behind_turn = False
        self._is_over = False  # what follows a made-up result is made up, too
        self._is_ended = False  # so is what follows the turn of somebody else, to the end
        self._marks = 0

    def go(self, *, final: bool) -> None:
        """Walk on, to the end or to where more of the text is needed."""
        self.final = final
        while self.position < len(self.text) and self._step():
            pass

    def passes(self, piece: str) -> bool:
        """Say whether a piece may be shown at once: nothing is open, and nothing in it may open.

        What `go` would do with it is done then. Most pieces of most streams are such.
        """
        if self._is_fresh or self._until or self._thinking or self._is_over or self.waits_for:
            return False
        if self._is_behind_turn or self._is_ended or PLAIN.match(piece) is None:
            return False
        self._has_shown(piece)
        return True

    @property
    def waits_for(self) -> int:
        """How many characters are held back."""
        return len(self.text) - self.position

    def _step(self) -> bool:
        """Walk to behind the next mark; False where that has to wait."""
        if self._is_behind_turn and not self._is_turn_told():
            return False
        if self._is_ended:
            self._show(len(self.text), hidden=True)
            return False
        if self._thinking or self._is_over:
            return self._skip_unseen()
        if self._until:
            return self._quote()
        if self._is_fresh and (has_passed := self._begin()) is not None:
            return has_passed
        mark = MARK.search(self.text, self.position) if self._marks < MOST_MARKS else None
        if mark is None:
            end = len(self.text) if self.final else certain_end(self.text, self.position)
            self._show(end)
            return False
        self._marks += 1
        self._show(mark.start())
        is_in_code = self._before.endswith("`") and not self._before.endswith("```")
        if not mark["line"] and self._is_in_quoted_line(mark):
            self._show(mark.end())
            return True
        if is_in_code and not mark["fence"] and not mark["line"]:
            return self._speak_of(mark)
        return self._pass(mark)

    def _pass(self, mark: re.Match[str]) -> bool:
        is_of_call = mark["opening"] or mark["bare"] or mark["list"]
        if is_of_call and (self._is_behind_quoted or is_in_quotes(self._before)):
            return self._speak_of(mark)
        if mark["thinking"]:
            self._think(mark.group(), mark.end())
        elif mark["closing"]:
            self._close(mark.end())
        elif mark["result"]:
            self._is_over = bool(self.calls)
            self._until = RESULTS[mark.group()]
            self._show(mark.end(), hidden=self._is_over)
        elif mark["opening"]:
            return self._opening(mark)
        elif mark["turn"]:
            self._is_ended = True
        elif mark["comment"]:
            self._until = "-->"
            self._show(mark.end())
        elif mark["fence"]:
            return self._fence(mark.group(), mark.end())
        elif mark["line"]:
            return self._line(mark.end())
        else:
            read = read_bare_json if mark["bare"] else read_bare_list
            return self._read(read, mark.start(), least=mark.end())
        return True

    def _is_in_quoted_line(self, mark: re.Match[str]) -> bool:
        """Say whether a mark stands in a quotation or in an indented block of code."""
        if is_quotation(self._head):
            return True
        is_alone = self._is_behind_call or not self._before.strip()
        # A fence in a list is indented and may hold lines that are not: it is known by its end.
        return is_indented(self._head) and not is_alone and not mark["fence"]

    def _speak_of(self, mark: re.Match[str]) -> bool:
        """Pass a mark that is spoken of, and the call behind it, as text."""
        if mark["opening"]:
            read: Callable[[Place], Reading | None] = lambda place: read_behind(  # noqa: E731
                place, mark.group()
            )
        elif mark["bare"] or mark["list"]:
            read = read_bare_json if mark["bare"] else read_bare_list
        else:
            self._show(mark.end())
            return True
        start = mark.end() if mark["opening"] else mark.start()
        if not self._read(lambda place: without_calls(read(place)), start, least=mark.end()):
            return False
        self._is_behind_quoted = True
        return True

    def _opening(self, mark: re.Match[str]) -> bool:
        is_quoted = False

        def read(place: Place) -> Reading | None:
            nonlocal is_quoted
            reading = read_behind(place, mark.group())
            if reading is None or not reading.calls:
                return reading
            is_quoted = goes_on(place, reading.end) or self._is_spoken_of(place, reading.end)
            return without_calls(reading) if is_quoted else reading

        has_passed = self._read(read, mark.end())
        self._is_behind_quoted = self._is_behind_quoted or (has_passed and is_quoted)
        return has_passed

    def _is_spoken_of(self, place: Place, end: int) -> bool:
        if self._is_behind_call:
            return False
        return is_documented(self._before) or (
            self._is_in_line() and is_within_sentence(place, end)
        )

    def _begin(self) -> bool | None:
        """Read what only the beginning of a reply can be.

        Returns:
            True where it was that, False where it may be, None where it is something else.
        """
        if not self.final and SPACE_ONLY.match(self.text, self.position) is not None:
            return False
        if AT_LINE.match(self.text, self.position) is not None:
            self._is_fresh = not self._line(self.position, is_first=True)
            return not self._is_fresh
        if not self.final and MAY_BE_LINE.match(self.text, self.position) is not None:
            return False
        try:
            reading = read_whole_reply(self._place(self.position))
        except Unfinished:
            if not self.final:
                return False
            reading = None
        except Broken:
            reading = None
        self._is_fresh = False
        if reading is None:
            return None
        self._take(reading)
        return True

    def _read(
        self,
        read: Callable[[Place], Reading | None],
        start: int,
        *,
        least: int = 0,
    ) -> bool:
        """Read a call; where there is none, what stands there is text.

        Args:
            read: the decoder.
            start: where it begins to read.
            least: how far the walk goes at least; by default to ``start``.
        """
        try:
            reading = read(self._place(start))
        except Unfinished:
            if not self.final and self.waits_for <= LONGEST:
                return False
            reading = Reading(len(self.text))
        except Broken as broken:
            reading = Reading(broken.end)
        if reading is None:
            reading = Reading(start)
        self._take(attrs.evolve(reading, end=max(reading.end, start, least)))
        return True

    def _place(self, start: int) -> Place:
        return Place(self.text, start, offered=self.offered, final=self.final, before=self._before)

    def _take(self, reading: Reading) -> None:
        self._show(reading.end, hidden=reading.is_markup or bool(reading.calls))
        if reading.calls:
            self.calls = [*self.calls, *reading.calls][:MOST_CALLS]
            self._is_fresh = False
            self._is_behind_call = True

    def _fence(self, signs: str, start: int) -> bool:
        is_in_list = is_indented(self._head) and bool(self._before.strip())
        is_quoted = is_in_quotes(self._before)
        if signs[0] == "~" and self._head.strip():
            self._show(start)
            return True
        is_closed = False

        def read(place: Place) -> Reading | None:
            nonlocal is_closed
            if is_quoted or (is_in_list and not self._is_behind_call):
                return None
            try:
                reading = read_fence(place, read_marked, signs=signs)
            except Broken as broken:
                return Reading(broken.end)
            is_closed = reading is not None
            if reading is not None and reading.calls and self._is_spoken_of(place, reading.end):
                return without_calls(reading)
            return reading

        if not self._read(read, start):
            return False
        if not is_closed:
            self._until = signs
            self._is_within_line = "\n" not in self.text[start : self.position]
        return True

    def _line(self, start: int, *, is_first: bool = False) -> bool:
        label = AT_LINE.match(self.text, start)
        if label is None:
            self._show(start)
            return True
        head = label.group()
        if is_quotation(head) and is_first and label["action"]:
            return self._read(read_lone_action, label.end())
        is_quoted = is_quotation(head) or (is_indented(head) and bool(self._before.strip()))
        self._quotes_lines = self._quotes_lines or is_in_quotes(self._before)
        if is_quoted or self._quotes_lines:
            self._show(label.end() if is_first else start)
            return True
        if label["answer"]:
            self._has_answer = True
        elif label["observation"] and self.calls:
            self._is_over = True
        elif label["action"] and not self._has_answer:
            return self._read(read_spoken_action, label.end())
        self._show(label.end(), hidden=self._is_over)
        return True

    def _think(self, mark: str, end: int) -> None:
        opens = is_opening(mark)
        if not is_certain(mark) and (self._is_in_line() if opens else self._spoken_of):
            self._spoken_of += 1 if opens else -1
            self._show(end)
            return
        if opens:
            self._thinking = 1
        else:
            self._forget()
        self._show(end, hidden=True)
        self._is_fresh = True

    def _is_in_line(self) -> bool:
        return not self._is_behind_call and bool(self._before.rpartition("\n")[2].strip())

    def _forget(self) -> None:
        """Drop everything: it was thinking whose opening was in the prompt."""
        self.calls.clear()
        self.shown.clear()
        self._before = self._until = ""
        self._spoken_of = 0
        self._quotes_lines = False
        self._head = ""
        self._is_over = self._is_behind_call = self._has_answer = self._is_behind_quoted = False

    def _close(self, end: int) -> None:
        is_quoted = self._is_behind_quoted
        self._is_behind_turn = END_OF_TURN.fullmatch(self.text, self.position, end) is not None
        self._show(end, hidden=self._is_behind_call)
        self._is_behind_quoted = is_quoted

    def _is_turn_told(self) -> bool:
        """Look at what follows the end of a turn; False where more of it is needed."""
        if is_turn_over(self.text, self.position):
            self._is_ended = True
        elif not self.final and self.waits_for < LONGEST_TURN:
            return False
        self._is_behind_turn = False
        return True

    def _skip_unseen(self) -> bool:
        """Pass thinking, or what is made up, up to the next mark of thinking."""
        mark = THINKING_MARK.search(self.text, self.position)
        if mark is None:
            end = len(self.text) - (0 if self.final else LONGEST_MARK)
            self._show(max(end, self.position), hidden=True)
            return False
        self._show(mark.end(), hidden=True)
        if is_opening(mark.group()):
            self._thinking += 1
        elif self._thinking:
            self._thinking -= 1
            self._is_fresh = not self._before.strip() and not self.calls
        else:
            self._forget()
            self._is_fresh = True
        return True

    def _quote(self) -> bool:
        if FENCE.match(self._until) is not None:
            return self._quote_fence()
        found = self.text.find(self._until, self.position)
        if found < 0:
            kept = 0 if self.final else common_end(self.text, self._until)
            self._show(max(self.position, len(self.text) - kept))
            return False
        end = found + len(self._until)
        self._until = ""
        self._show(end)
        return True

    def _quote_fence(self) -> bool:
        """Pass a fence up to its end: as many signs, at an end of a line, or in the line it began."""
        sign = self._until[0]
        for found in FENCE.finditer(self.text, self.position):
            if found.group()[0] != sign:
                continue
            self._show(found.start())
            behind = REST_OF_LINE.match(self.text, found.end())
            if behind is not None and behind.end() == len(self.text) and not self.final:
                return False
            is_end = behind is not None or self._is_within_line or not self._head.strip()
            if is_end and len(found.group()) >= len(self._until):
                self._until = ""
                self._show(found.end())
                return True
            self._show(found.end())
        end = len(self.text)
        if not self.final:
            end -= next((n for n in (2, 1) if self.text.endswith(sign * n)), 0)
        self._show(max(self.position, end))
        return False

    def _show(self, end: int, *, hidden: bool = False) -> None:
        text = self.text[self.position : end]
        self.position = max(self.position, end)
        if hidden:
            self.took_out = True
            if "\n" in text:
                self._head = ""
            return
        if not text:
            return
        self.shown.append(text)
        self._has_shown(text)

    def _has_shown(self, text: str) -> None:
        if "\n\n" in self._before[-1:] + text:
            self._quotes_lines = False
        self._before = (self._before + text[-_KEPT:])[-_KEPT:]
        _, line_end, line = text.rpartition("\n")
        self._head = line[:HEAD] if line_end else (self._head + line[:HEAD])[:HEAD]
        self._is_within_line = self._is_within_line and not line_end
        if text.strip():
            self._is_fresh = self._is_behind_call = False
            self._is_behind_quoted = self._is_behind_quoted and not text.strip(" \t\r\n,;")
