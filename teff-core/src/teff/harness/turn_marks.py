"""The marks that end a turn of the model, and those that begin the turn of somebody else."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["END_OF_TURN", "LONGEST_TURN", "OTHER_TURNS", "USER_ROLES", "is_turn_over"]

#: Matches what ends a turn, as chat templates write it.
END_OF_TURN: Final = re.compile(
    r"<\|(?:im_end|eot_id|eom_id|end|end_of_turn|endoftext|end_of_text|return|call)\|>|</s>"
    r"|<end_of_turn>|<eos>|<\uff5cend\u2581of\u2581sentence\uff5c>"
)

#: A pattern of the words that people are called by in a transcript, in lower case.
USER_ROLES: Final = (
    r"user|human|\u7528\u6237|\u7528\u6236"
    r"|\u043f\u043e\u043b\u044c\u0437\u043e\u0432\u0430\u0442\u0435\u043b\u044c"
)

#: What begins a turn that is not the model's; where it has come, all that follows is made up.
OTHER_TURNS: Final[tuple[str, ...]] = (
    *(f"<|im_start|>{role}" for role in ("user", "human", "system", "tool")),
    *(f"<|im_start|>\n{role}" for role in ("user", "human")),
    *(f"<|start_header_id|>{role}" for role in ("user", "human", "system")),
    *(f"<|start_of_role|>{role}" for role in ("user", "system")),
    *(f"<|start|>{role}" for role in ("user", "system", "developer")),
    "<start_of_turn>user",
    "<|user|>",
    "<|User|>",
    "<\uff5cUser\uff5c>",
    "<|USER_TOKEN|>",
    "<|im_user|>",
    "]~b]user",
)

#: Behind the end of a turn, so many characters say whether another turn begins.
LONGEST_TURN: Final = 64

_BEGINNING = re.compile(
    rf"\s{{0,24}}+(?:{'|'.join(map(re.escape, OTHER_TURNS))}|(?:<s>)?\s?\[INST\]"
    rf"|[ \t#*>]{{0,8}}+(?:{USER_ROLES})[ \t*]{{0,4}}+[:\uff1a])",
    re.IGNORECASE,
)


def is_turn_over(text: str, position: int) -> bool:
    r"""Say whether somebody else's turn begins at ``position``, which is behind an end of a turn.

    >>> is_turn_over("Done.</s>\nUser: And now?", 9)
    True
    """
    return _BEGINNING.match(text, position) is not None
