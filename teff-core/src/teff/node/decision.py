"""What `Gate` and `Validate` share: reading a verdict, and a decision within a budget of rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from teff.errors import ConfigError
from teff.node.base import Node, options
from teff.prompt import to_text
from teff.runtime import ExecContext

__all__ = ["Decision", "read_truth", "text_of"]

_TRUTHS: Final[Mapping[str, bool]] = {
    "true": True,
    "yes": True,
    "1": True,
    "false": False,
    "no": False,
    "0": False,
}
#: What may close a word without changing it, with the space that some languages put before it.
_CLOSING: Final = ".,!?;: \t\r\n\u00a0\u202f"


def read_truth(value: object) -> bool | None:
    """Read a truth value; None where it is none.

    Booleans, the numbers 1 and 0, and the texts true, false, yes, no, 1 and 0, whatever their case
    and with space around and punctuation after them. Everything else is no truth value: a text does
    not say yes by being there.

    >>> [read_truth(value) for value in (True, "Yes.", 0, "no", "maybe", "", None, ["yes"])]
    [True, True, False, False, None, None, None, None]
    """
    if isinstance(value, str):
        return _TRUTHS.get(value.strip().casefold().rstrip(_CLOSING))
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    return None


def text_of(value: object) -> str:
    """Return a value as a template shows it, without space around it; "" where it has no text."""
    try:
        return to_text(value).strip()
    except (ValueError, RecursionError):  # a whole number of thousands of digits has no text
        return ""


def _count_in(state: Mapping[str, Any], key: str) -> int:
    stored = state.get(key)
    if isinstance(stored, int) and not isinstance(stored, bool) and stored >= 0:
        return stored
    return 0


@options
class Decision(Node):
    """A node that decides from a verdict; the base of `Gate` and `Validate`.

    Args:
        ok_field: the field of the verdict that says whether it passes.
        output_key: where the decision goes; whether it was forced goes under
            ``<output_key>_forced``.
        pass_value, fail_value: the decisions, as edges and routes compare them.
        rounds_key: counts the rounds of a turn.
        max_rounds: the round that is the last, at least 1.
        missing_is_ok: whether a missing verdict passes.
    """

    ok_field: str = "ok"
    output_key: str = "decision"
    pass_value: str = "yes"  # noqa: S105  # a decision, no password
    fail_value: str = "fix"
    rounds_key: str = "rounds"
    max_rounds: int = attrs.field(
        default=3, validator=lambda self, _, rounds: self._check_rounds(rounds)
    )
    missing_is_ok: bool = False

    @property
    def forced_key(self) -> str:
        """The state key that says whether the decision was forced by the budget."""
        return f"{self.output_key}_forced"

    def outcomes(self) -> Mapping[str, Iterable[str]]:
        """Return the decisions, under the key of the decision."""
        return {self.output_key: (self.pass_value, self.fail_value)}

    def bounds_rounds(self) -> bool:
        """Say yes: in the round ``max_rounds`` everything passes."""
        return True

    def turn_keys(self) -> Iterable[str]:
        """Return the keys of the counter and of the mark of a forced decision."""
        return [self.rounds_key, self.forced_key]

    def _set_options(self, given: Mapping[str, Any]) -> None:
        if isinstance(given.get("max_rounds"), str):
            raise self._wrong_rounds(given["max_rounds"], given.get("id"))
        super()._set_options(given)

    def _check_rounds(self, rounds: int) -> None:
        if rounds < 1:
            raise self._wrong_rounds(rounds, self.id)

    def _wrong_rounds(self, rounds: object, id: object) -> ConfigError:
        return ConfigError(
            f"{self._described(id)}: option 'max_rounds' must be a whole number of at least 1, "
            f"not {rounds!r}.",
            path="max_rounds",
        )

    def _check_names(self, *, read: Iterable[str], written: Iterable[str]) -> None:
        """Refuse an empty name, two results under one key, and a counter over what is read.

        Args:
            read: the options that name a key which is read.
            written: the options that name a key which is written, beside those of this class.
        """
        for option in ("input_key", "output_key", "rounds_key", "ok_field"):
            if not getattr(self, option):
                raise self._wrong(f"{option} is empty; it needs a name", option)
        counter = {self.rounds_key: "rounds_key", self.forced_key: "the mark of a forced decision"}
        for option in read:
            if (key := getattr(self, option)) in counter:
                raise self._wrong(
                    f"{option} and {counter[key]} are both {key!r}; give them different keys",
                    option,
                )
        taken = {self.forced_key: "the mark of a forced decision"}
        for option in ("output_key", "rounds_key", *written):
            key = getattr(self, option)
            if key in taken:
                raise self._wrong(
                    f"{option} and {taken[key]} are both {key!r}; give them different keys", option
                )
            if key:
                taken[key] = option

    def _check_values(self, *values: str) -> None:
        """Refuse decisions that an edge could not tell apart.

        Args:
            values: the options that hold the decisions.
        """
        taken: dict[str, str] = {}
        for option in values:
            value = getattr(self, option)
            word = value.strip().casefold().rstrip(_CLOSING)
            if not word:
                raise self._wrong(f"{option} is blank; edges compare with it", option)
            if word in taken:
                raise self._wrong(
                    f"{taken[word]} and {option} are both {value!r}, so no edge could tell them "
                    "apart",
                    option,
                )
            taken[word] = option

    def _wrong(self, problem: str, option: str) -> ConfigError:
        return ConfigError(f"{self._described(self.id)}: {problem}.", path=option)

    async def _decide(
        self, ctx: ExecContext, state: Mapping[str, Any], *, ok: bool, otherwise: str, at_last: str
    ) -> dict[str, Any]:
        """Return the counter, the decision, and whether it was forced.

        Args:
            ctx: hears of a forced decision.
            state: holds the counter.
            ok: whether the verdict passes.
            otherwise: the decision where it does not.
            at_last: the decision where it does not and this round is the last.
        """
        rounds = _count_in(state, self.rounds_key) + 1
        forced = not ok and rounds >= self.max_rounds
        if forced:
            await ctx.emit(
                "limit",
                {
                    "reason": "max_rounds",
                    "node": ctx.node_id or self.id or "",
                    "rounds": rounds,
                    "forced": True,
                },
            )
        decision = self.pass_value if ok else at_last if forced else otherwise
        return {self.rounds_key: rounds, self.output_key: decision, self.forced_key: forced}
