"""`Gate`: lets work pass, or sends it back a bounded number of times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from teff.node.base import options
from teff.node.decision import Decision, read_truth, text_of
from teff.runtime import ExecContext

__all__ = ["Gate"]


@options
class Gate(Decision):
    """Turn a verdict into a decision, within a budget of rounds. No model is asked.

    The verdict is a dict whose ``ok_field`` decides, or the truth value itself. What counts is a
    boolean, 1 or 0, or one of the texts true, false, yes, no, 1 and 0; everything else is a missing
    verdict, and a missing verdict fails.

    Each visit counts one under ``rounds_key``; a counter that is no whole number counts as 0. A
    verdict that fails in the round ``max_rounds``, or later, passes all the same, so that the loop
    ends: so at most ``max_rounds - 1`` fails come one after the other. Such a pass is marked:
    ``<output_key>_forced`` is True, and False otherwise, and a ``limit`` event tells of it.

    Nodes of one flow that count for themselves need a ``rounds_key`` each.

    Args:
        input_key: where the verdict is.
        ok_field: the field of the verdict that decides.
        output_key: where the decision goes.
        pass_value, fail_value: the decisions; edges must be able to tell them apart.
        rounds_key: where the rounds are counted.
        max_rounds: the round that ends the loop, at least 1.
        message_field: the field of the verdict with a remark on what is wrong.
        message_key: where the remark goes on a fail, and "" on a pass; "" for nowhere.
        missing_is_ok: whether a missing verdict passes.

    Raises:
        ConfigError: an empty name, a key that is used twice, decisions that are the same, a
            ``max_rounds`` that is no whole number of at least 1.

    >>> import asyncio
    >>> gate = Gate(message_key="remark", max_rounds=2)
    >>> state = {"verdict": {"ok": "no", "message": " Too long. "}}
    >>> state |= asyncio.run(gate.execute(ExecContext(), state))
    >>> state["decision"], state["remark"], state["rounds"], state["decision_forced"]
    ('fix', 'Too long.', 1, False)
    >>> state |= asyncio.run(gate.execute(ExecContext(), state))
    >>> state["decision"], state["remark"], state["rounds"], state["decision_forced"]
    ('yes', '', 2, True)
    """

    type = "gate"

    input_key: str = "verdict"
    message_field: str = "message"
    message_key: str = ""

    def __attrs_post_init__(self) -> None:
        self._check_names(read=["input_key"], written=["message_key"])
        self._check_values("pass_value", "fail_value")
        if self.message_key and not self.message_field:
            raise self._wrong("message_key needs a message_field", "message_field")

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Return the counter, the decision, whether it was forced, and the remark."""
        verdict, message = state.get(self.input_key), ""
        if isinstance(verdict, Mapping):
            message = text_of(verdict.get(self.message_field))
            verdict = verdict.get(self.ok_field)
        passes = read_truth(verdict)
        ok = self.missing_is_ok if passes is None else passes
        updates = await self._decide(
            ctx, state, ok=ok, otherwise=self.fail_value, at_last=self.pass_value
        )
        if self.message_key:
            failed = updates[self.output_key] == self.fail_value
            updates[self.message_key] = message if failed else ""
        return updates

    def reads(self) -> Iterable[str]:
        """Return the key of the verdict."""
        return [self.input_key]

    def writes(self) -> Iterable[str]:
        """Return the keys of the counter, the decision, its mark, and the remark."""
        keys = (self.rounds_key, self.output_key, self.forced_key, self.message_key)
        return [key for key in keys if key]
