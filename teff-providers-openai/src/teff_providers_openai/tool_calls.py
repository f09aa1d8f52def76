"""Tool calls on the wire: put together from the pieces of a stream, and written into the history."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from teff.messages import ToolCall
from teff.provider.reading import (
    MAX_TOOL_CALLS,
    UnreadableReply,
    as_mapping,
    as_text,
    free_call_id,
    parse_json,
    read_whole_arguments,
    unknown_fields,
    whole_text,
)

__all__ = ["ToolCallAssembler", "message_fields", "to_wire"]

_KNOWN_FIELDS = {"function", "id", "index", "type"}
_KNOWN_FUNCTION_FIELDS = {"arguments", "name"}

#: Where a call keeps fields of the message that it came in; no server has a field of this name.
_OF_MESSAGE = "teff:message"


@attrs.define
class _Slot:
    """One call that is being put together."""

    id: str = ""
    name: str = ""
    extra: dict[str, Any] = attrs.field(factory=dict)
    _pieces: list[str] = attrs.field(factory=list)
    _object: object = None

    @property
    def text(self) -> str:
        """The text of the arguments, as far as it has come."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def arguments(self) -> object:
        """The arguments as they came: their text, or an object."""
        return self.text if self._object is None else self._object

    def add_arguments(self, arguments: object) -> None:
        """Take in a piece of their text, or an object that is all of them."""
        if isinstance(arguments, str):
            self._pieces.append(arguments)
        elif arguments is not None:
            self._object = arguments

    def has_arguments(self) -> bool:
        return self._object is not None or bool(self.text.strip())

    def is_whole(self) -> bool:
        if self._object is not None:
            return True
        text = self.text.strip()
        if not (text.startswith("{") and text.endswith("}")):
            return False
        try:
            parse_json(text)
        except ValueError:
            return False
        return True


class ToolCallAssembler:
    """Puts tool calls together from the ``tool_calls`` of the pieces of an answer.

    Servers number the calls, or do not; number them all 0; send a new id with each piece, or none;
    send the arguments as text in pieces, or as an object. The rules:

    - A piece with an index that has no call yet begins one.
    - A piece with an index that has a call belongs to it, unless it has a name and a new id and the
      arguments of that call are whole: then it begins the next.
    - A piece without an index belongs to the call with its id, unless it has a name and the
      arguments of that call are whole; else it begins a call where it has a name; else it belongs
      to the last one.

    Args:
        whole: what is added is whole calls, those of a message that did not come in pieces.

    >>> calls = ToolCallAssembler()
    >>> calls.add([{"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"x"'}}])
    >>> calls.add([{"index": 0, "function": {"arguments": ": 1}"}}])
    >>> calls.finish(used_ids=set())
    [ToolCall(id='a', name='add', arguments={'x': 1}, error='', extra={})]
    """

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}
        self._by_id: dict[str, _Slot] = {}

    def add(self, pieces: object) -> None:
        """Take in the ``tool_calls`` of one delta, or of a whole message; null is none.

        Raises:
            UnreadableReply: it is no list of objects, or there are too many calls.
        """
        if pieces is None:
            return
        if not isinstance(pieces, list):
            raise UnreadableReply(f"its tool_calls are {type(pieces).__name__}, not a list")
        for piece in pieces:
            if not isinstance(piece, Mapping):
                raise UnreadableReply(
                    f"one of its tool_calls is {type(piece).__name__}, not an object"
                )
            self._add(piece)

    def finish(
        self,
        *,
        used_ids: Iterable[str],
        cut_off: bool = False,
        complete: bool = False,
        of_message: Mapping[str, Any] | None = None,
    ) -> list[ToolCall]:
        """Return the calls, each with an id that is unique among them and ``used_ids``.

        Args:
            used_ids: the ids in the conversation so far.
            cut_off: the token limit ended the answer, so a last call without arguments is not one
                that wants none.
            complete: the server said that the answer is whole, so that brackets which are missing
                at the end of arguments were lost on the way, and are put there.
            of_message: fields of the message that go back with the calls; see `message_fields`.

        Raises:
            UnreadableReply: a call has no name.
        """
        used = set(used_ids)
        calls: list[ToolCall] = []
        for slot in self._slots:
            if not slot.name:
                raise UnreadableReply("it calls a tool without saying which")
            arguments, error = read_whole_arguments(slot.arguments)
            if error and complete and slot.text:
                closed = read_whole_arguments(slot.text + _missing_brackets(slot.text))
                arguments, error = (arguments, error) if closed[1] else closed
            if cut_off and slot is self._slots[-1] and not slot.has_arguments():
                error = "the arguments were cut off by the token limit"
            call_id = free_call_id(slot.id, used)
            used.add(call_id)
            if of_message and not calls:
                slot.extra |= unknown_fields({_OF_MESSAGE: dict(of_message)}, ())
            calls.append(
                ToolCall(
                    id=call_id,
                    name=whole_text(slot.name),
                    arguments=arguments,
                    error=error,
                    extra=slot.extra,
                )
            )
        return calls

    def _add(self, piece: Mapping[str, Any]) -> None:
        function = as_mapping(piece.get("function"))
        name, call_id = as_text(function.get("name")), as_text(piece.get("id"))
        slot = self._slot_for(piece.get("index"), call_id, name)
        # Names and ids come whole, and some servers repeat them: they are set, never joined.
        slot.name = slot.name or name
        if call_id and not slot.id:
            slot.id = call_id
            self._by_id[call_id] = slot
        slot.add_arguments(function.get("arguments"))
        slot.extra.update(unknown_fields(piece, _KNOWN_FIELDS))
        if unknown := unknown_fields(function, _KNOWN_FUNCTION_FIELDS):
            slot.extra["function"] = {**slot.extra.get("function", {}), **unknown}

    def _slot_for(self, index: object, call_id: str, name: str) -> _Slot:
        if self._whole:
            return self._new()
        if not isinstance(index, int) or isinstance(index, bool):
            return self._slot_without_index(call_id, name)
        found = self._by_index.get(index)
        is_next = bool(name and call_id) and found is not None and call_id != found.id
        if found is None or (is_next and found.is_whole()):
            found = self._by_index[index] = self._new()
        return found

    def _slot_without_index(self, call_id: str, name: str) -> _Slot:
        same = self._by_id.get(call_id) if call_id else None
        if same is not None and not (name and same.is_whole()):
            return same
        if name or not self._slots:
            return self._new()
        return self._slots[-1]

    def _new(self) -> _Slot:
        if len(self._slots) >= MAX_TOOL_CALLS:
            raise UnreadableReply(f"it makes more than {MAX_TOOL_CALLS:,} tool calls")
        self._slots.append(_Slot())
        return self._slots[-1]


def _missing_brackets(text: str) -> str:
    """Return what closes the brackets that are open at the end of ``text``.

    >>> _missing_brackets('{"a": ["}"')
    ']}'
    """
    closing: list[str] = []
    for mark in re.findall(r'"(?:[^"\\]|\\.)*"|[][{}]', text):
        if mark in "{[":
            closing.append("}" if mark == "{" else "]")
        elif mark in "}]" and closing:
            closing.pop()
    return "".join(reversed(closing))


def message_fields(stored: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields that go back in the message which makes these stored calls."""
    fields: dict[str, Any] = {}
    for call in stored:
        fields |= as_mapping(as_mapping(call.get("extra")).get(_OF_MESSAGE))
    return fields


def to_wire(stored: Mapping[str, Any], *, with_extra: bool = True) -> dict[str, Any]:
    """Write a stored call in the form of the format: arguments as JSON text, unknown fields back.

    Args:
        stored: the call in the stored form of `teff.messages.ToolCall`.
        with_extra: whether the fields go back that the format does not know.

    >>> to_wire({"id": "a", "name": "add", "args": {"x": 1}})["function"]
    {'name': 'add', 'arguments': '{"x": 1}'}
    """
    call = ToolCall.from_json(stored)
    kept = call.extra.items() if with_extra else ()
    extra = {name: value for name, value in kept if name != _OF_MESSAGE}
    function = as_mapping(extra.pop("function", None))
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {
        **extra,
        "id": call.id,
        "type": "function",
        "function": {**function, "name": call.name, "arguments": arguments},
    }
