"""Tool calls that models write as text: by family, behind marks or without, and never half of one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import attrs

from teff.harness.decode.offered import Offered
from teff.harness.decode.react import WrittenAction, read_action
from teff.harness.decode.screen import ToolCallScreen
from teff.harness.decode.table import DECODERS, Decoder
from teff.harness.decode.walk import Walk
from teff.messages import ToolCall

__all__ = [
    "DECODERS",
    "Decoded",
    "Decoder",
    "ToolCallScreen",
    "WrittenAction",
    "decode_reply",
    "decode_tool_calls",
    "read_action",
]


@attrs.frozen(kw_only=True)
class Decoded:
    """What a reply says.

    Attributes:
        calls: in the order of the text.
        text: the prose that remains without the calls, their marks and thinking parts.
    """

    calls: tuple[ToolCall, ...] = ()
    text: str = ""


def decode_tool_calls(
    text: str,
    names: Collection[str],
    schemas: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[ToolCall]:
    r"""Return the tool calls that a model wrote as text.

    >>> text = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
    >>> [(call.name, call.arguments) for call in decode_tool_calls(text, ["add"])]
    [('add', {'a': 1})]

    Only tools that were offered are called, by exactly their names (or behind ``functions.``).
    Thinking does not count, neither do examples and quotations: calls in code fences that text
    follows, in indented code, behind ``>``, in comments, backticks or quotes, in the middle of a
    sentence, or in a turn that is not the model's. Of one list all calls run or none. A call that is cut off or no valid JSON is none; so is everything within it. Without a
    mark of a model family, JSON counts where it ends the reply and has the keys of a call only.

    Args:
        text: the reply; nothing in it makes this raise, and the time grows with its length.
        names: the tools that were offered.
        schemas: from names to the JSON Schemas of their arguments, or to mappings from arguments to
            type names. They give the types of arguments where the syntax has none.

    Returns:
        At most 64 calls with ids of their own. What is wrong about their arguments is for the tool
        to say. Duplicates are kept.
    """
    return list(decode_reply(text, names, schemas).calls)


def decode_reply(
    text: str,
    names: Collection[str],
    schemas: Mapping[str, Mapping[str, Any]] | None = None,
) -> Decoded:
    """Return the tool calls that a model wrote as text, and the prose around them.

    Calls that are none stay in the prose. What a model says after a result that it has made up
    itself is dropped. Where no tools were offered, the text stays as it is.

    Args:
        text: the reply.
        names, schemas: as in `decode_tool_calls`.
    """
    if not names:
        return Decoded(text=text)
    walk = Walk(Offered(names, schemas))
    walk.text = text
    walk.go(final=True)
    prose = "".join(walk.shown)
    return Decoded(calls=tuple(walk.calls), text=prose.strip() if walk.took_out else prose)
