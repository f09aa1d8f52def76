"""``<invoke name="…">`` with parameter tags: DeepSeek V3.2 (DSML), MiniMax M2, Step 3, Claude, Grok.

Source: the chat templates of the models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from teff.harness.decode.parameters import Tags, read_parameters
from teff.harness.decode.place import Place, Reading

__all__ = ["INVOKE_DECODERS"]

_PREFIXES: Final = ("", "\uff5cDSML\uff5c", "|DSML|", "antml:", "steptml:", "minimax:")
_HEAD = re.compile(r"\s?[\"']?(?P<name>[^<>\"'\s]{1,128}+)[\"']?\s{0,8}+>")


def _decoder(prefix: str, end: str = "") -> Callable[[Place], Reading | None]:
    written = re.escape(prefix)
    tags = Tags(
        opening=re.compile(
            rf"<{written}parameter\sname=[\"'](?P<key>[^<>\"'\n]{{1,128}}+)[\"']"
            r"(?:\sstring=\"(?P<is_text>true|false)\")?(?:\s[\w-]{1,16}+=\"[^\"<>\n]{0,32}+\")?\s?>"
        ),
        closing=f"</{prefix}parameter>",
        next=f"<{prefix}parameter",
        ends=(end or f"</{prefix}invoke>",),
    )

    def read(place: Place) -> Reading | None:
        if (head := place.match(_HEAD, longest=150)) is None:
            return None
        return read_parameters(place, head["name"], tags)

    return read


#: From openings to what reads behind them.
INVOKE_DECODERS: Final[Mapping[str, Callable[[Place], Reading | None]]] = {
    **{f"<{prefix}invoke name=": _decoder(prefix) for prefix in _PREFIXES},
    "<xai:function_call name=": _decoder("", end="</xai:function_call>"),
}
