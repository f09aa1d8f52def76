"""`Validate`: decides whether an answer is accepted, and what of it is kept."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import attrs

from teff.conditions import Predicate, compile_condition
from teff.conditions.tree import Compare, Key, Value
from teff.errors import StateError, TeffError
from teff.node.base import options
from teff.node.decision import Decision, read_truth, text_of
from teff.runtime import ExecContext
from teff.tool.threads import run_in_thread

__all__ = ["Strategy", "Validate", "as_texts"]

Strategy: TypeAlias = Literal["check", "regex", "any_of", "equals", "llm"]

#: The strategies in the order in which they win over one another.
_BY_RANK: Final[tuple[Literal["check", "regex", "any_of", "equals"], ...]] = (
    "check",
    "regex",
    "any_of",
    "equals",
)
#: The time that some patterns take grows fast with the text; a longer answer does not match.
_LONGEST_MATCHED: Final = 10_000


class _Outcome(NamedTuple):
    """Whether an answer passes (None: it says nothing), is clear, and what is captured."""

    passes: bool | None
    value: Any = None
    clear: bool = True


@options
class Validate(Decision):
    r"""Decide whether an answer passes, fails, or has to be asked for again.

    How an answer is judged is the strategy. It is the one that is given; where several are, the
    first of this list, or the one that ``strategy`` names:

    ==========  =====================================================================================
    ``check``   a function of the answer, plain (it runs beside the event loop) or async. It returns
                whether the answer passes, or that and the value to capture; None says nothing. A
                ``ValueError``, as of ``int("x")``, is a fail
    ``regex``   a pattern that is found somewhere in the answer, without space around it; ``^…$``
                for the whole of it. More than 10,000 characters do not match
    ``any_of``  one of several values
    ``equals``  one value; compared like in the condition of an edge: case, space around and
                punctuation after it do not matter, and numbers are compared as numbers
    ``llm``     a verdict that is under ``verdict_key``, where a model before this node left it; also
                the strategy where none is given
    ==========  =====================================================================================

    A verdict is a dict whose ``ok_field`` decides, or the truth value itself, read as by `Gate`. An
    answer that is a dict is such a verdict whatever the strategy, but for ``check``, which is asked
    of every answer. A verdict that is missing fails, and so does an answer that is missing or blank.

    Each visit counts one under ``rounds_key``; a counter that is no whole number counts as 0. In the
    round ``max_rounds``, and later, an answer that does not pass decides by ``on_exhausted``. Such a
    decision is marked: ``<output_key>_forced`` is True, and False otherwise, and a ``limit`` event
    tells of it. Nodes of one flow that count for themselves need a ``rounds_key`` each.

    Args:
        input_key: where the answer is.
        strategy: which of those that are given counts; "" for the first of the list.
        equals, any_of, regex, check: see above.
        verdict_key: for ``llm``, where the verdict is; under ``input_key`` where it is empty.
        ok_field: the field of the verdict that decides.
        output_key: where the decision goes.
        pass_value, fail_value: the decisions; edges must be able to tell them apart.
        clear_field: the field of the verdict that says whether the answer was clear; one that says
            no is never a pass. "" for none, and a verdict without it is clear.
        clarify_value: the decision where the answer was not clear or there is no verdict, for an
            edge back to the question; "" for none: then that is a fail.
        value_key: where the captured value goes when an answer passes; "" for nowhere. It may be
            ``input_key``. A fail and a forced decision leave what is there.
        value_field: the field of the verdict to capture. Without it a verdict captures the answer
            itself, ``regex`` its first group or else the whole match, ``any_of`` and ``equals`` the
            value as it is written here, ``check`` the value that it returned or else the answer.
        rounds_key: where the rounds are counted.
        max_rounds: the last round, at least 1.
        missing_is_ok: whether a missing verdict, or a missing or blank answer, passes.
        on_exhausted: what is decided at last: ``"pass"``, or ``"fail"``.

    Raises:
        ConfigError: an empty name or value, a key that is used twice, decisions that are the same,
            an ``any_of`` without values, a pattern that is none, a ``strategy`` that is not given, a
            ``max_rounds`` that is no whole number of at least 1.
        StateError: in a run, the check returned something else.

    >>> import asyncio
    >>> node = Validate(regex=r"(\d+) EUR", value_key="amount", pass_value="go", fail_value="no")
    >>> asyncio.run(node.execute(ExecContext(), {"answer": "It was 25 EUR."}))
    {'rounds': 1, 'decision': 'go', 'decision_forced': False, 'amount': '25'}
    """

    type = "validate"

    input_key: str = "answer"
    strategy: Literal["", "check", "regex", "any_of", "equals", "llm"] = ""
    equals: str | bool | None = None
    any_of: Sequence[str | bool] | None = None
    regex: str | None = None
    check: Callable[[Any], Any] | None = None
    verdict_key: str = ""
    pass_value: str = "да"  # noqa: S105  # a decision, no password
    fail_value: str = "нет"
    clear_field: str = ""
    clarify_value: str = ""
    value_key: str = ""
    value_field: str = ""
    max_rounds: int = attrs.field(
        default=100, validator=lambda self, _, rounds: self._check_rounds(rounds)
    )
    on_exhausted: Literal["pass", "fail"] = "pass"

    @property
    def chosen_strategy(self) -> Strategy:
        """How the answer is judged: the strategy that is named, or the first that is given."""
        return self._strategy

    def _set_options(self, given: Mapping[str, Any]) -> None:
        super()._set_options(as_texts(given))

    def __attrs_post_init__(self) -> None:
        self._check_names(read=["input_key", "verdict_key"], written=["value_key"])
        decisions = ("pass_value", "fail_value")
        self._check_values(*decisions, *(("clarify_value",) if self.clarify_value else ()))
        self._strategy = self._chosen_strategy()
        self._accepted = self._compile_accepted()
        self._pattern = self._compile_regex()

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Return the counter, the decision, whether it was forced, and the captured value."""
        outcome = await self._judge(ctx, state)
        ok = outcome.clear and (self.missing_is_ok if outcome.passes is None else outcome.passes)
        unclear = outcome.passes is None or not outcome.clear
        updates = await self._decide(
            ctx,
            state,
            ok=ok,
            otherwise=self.clarify_value if unclear and self.clarify_value else self.fail_value,
            at_last=self.pass_value if self.on_exhausted == "pass" else self.fail_value,
        )
        if self.value_key and ok and outcome.passes:
            updates[self.value_key] = outcome.value
        return updates

    def reads(self) -> Iterable[str]:
        """Return the key of the answer or of the verdict, or both."""
        if self._strategy != "llm" or not self.verdict_key:
            return [self.input_key]
        captures_answer = self.value_key and not self.value_field
        return [self.input_key, self.verdict_key] if captures_answer else [self.verdict_key]

    def writes(self) -> Iterable[str]:
        """Return the keys of the counter, the decision, its mark, and the captured value."""
        keys = (self.rounds_key, self.output_key, self.forced_key, self.value_key)
        return [key for key in keys if key]

    def outcomes(self) -> Mapping[str, Iterable[str]]:
        """Return the decisions, that of an unclear answer included."""
        decisions = (self.pass_value, self.fail_value, self.clarify_value)
        return {self.output_key: [decision for decision in decisions if decision]}

    def bounds_rounds(self) -> bool:
        """Say whether everything passes in the round ``max_rounds``."""
        return self.on_exhausted == "pass"

    async def _judge(self, ctx: ExecContext, state: Mapping[str, Any]) -> _Outcome:
        answer = state.get(self.input_key)
        if self._strategy == "llm":
            return self._read_verdict(state.get(self.verdict_key or self.input_key), answer)
        if self._strategy == "check" and self.check is not None:
            return _Outcome(None) if answer is None else await self._ask(self.check, ctx, answer)
        if isinstance(answer, Mapping):
            return self._read_verdict(answer, answer)
        is_blank = answer is None or (isinstance(answer, str) and not answer.strip())
        if self._strategy == "regex":
            outcome = self._match(answer)
        else:
            outcome = _Outcome(None) if is_blank else self._compare(answer)
        return outcome if outcome.passes or not is_blank else _Outcome(None)

    def _read_verdict(self, verdict: Any, answer: Any) -> _Outcome:
        if not isinstance(verdict, Mapping):
            return _Outcome(read_truth(verdict), answer)
        value = verdict.get(self.value_field) if self.value_field else answer
        clear = not self.clear_field or read_truth(verdict.get(self.clear_field)) is not False
        return _Outcome(read_truth(verdict.get(self.ok_field)), value, clear)

    def _match(self, answer: Any) -> _Outcome:
        text = text_of(answer) if isinstance(answer, str | int | float) else ""
        if not isinstance(answer, str | int | float) or len(text) > _LONGEST_MATCHED:
            return _Outcome(False)
        found = self._pattern.search(text) if self._pattern else None
        if found is None:
            return _Outcome(False)
        groups = (group for group in found.groups() if group is not None)
        return _Outcome(True, next(groups, found.group()))

    def _compare(self, answer: Any) -> _Outcome:
        for value, is_equal in self._accepted:
            if is_equal({"answer": answer}):
                return _Outcome(True, value)
        return _Outcome(False)

    async def _ask(self, check: Callable[[Any], Any], ctx: ExecContext, answer: Any) -> _Outcome:
        try:
            result = await _call(check, answer)
        except TeffError:
            raise
        except ValueError:
            return _Outcome(False)
        passes, value = (
            result if isinstance(result, tuple) and len(result) == 2 else (result, answer)
        )
        verdict = read_truth(passes)
        if verdict is None and passes is not None:
            raise StateError(
                f"{self._described(ctx.node_id or self.id)}: the check must return True or False, "
                f"or (True or False, value), not {type(passes).__name__}."
            )
        return _Outcome(verdict, value)

    def _chosen_strategy(self) -> Strategy:
        if self.strategy == "llm":
            return "llm"
        if self.strategy:
            if getattr(self, self.strategy) is None:
                raise self._wrong(
                    f"strategy is {self.strategy!r}, and the option {self.strategy!r} is not given",
                    "strategy",
                )
            return self.strategy
        return next((name for name in _BY_RANK if getattr(self, name) is not None), "llm")

    def _compile_accepted(self) -> list[tuple[str | bool, Predicate]]:
        if self.any_of is not None and not self.any_of:
            raise self._wrong("any_of holds no value, so no answer would pass", "any_of")
        if self._strategy not in ("any_of", "equals"):
            return []
        option = self._strategy
        values = self.any_of if option == "any_of" else (self.equals,)
        accepted = []
        for value in values or ():
            text = text_of(value)
            is_equal = compile_condition(Compare(Key("answer", quoted=True), "=", (Value(text),)))
            if value is None or is_equal({"answer": ""}):
                raise self._wrong(
                    f"{option} holds {value!r}, which every blank answer would equal", option
                )
            accepted.append((value, is_equal))
        return accepted

    def _compile_regex(self) -> re.Pattern[str] | None:
        if self.regex is None:
            return None
        if not self.regex:
            raise self._wrong("regex is empty, so every answer would pass", "regex")
        try:
            return re.compile(self.regex)
        except (re.error, RecursionError, OverflowError) as error:
            raise self._wrong(f"regex {self.regex!r} is no pattern: {error}", "regex") from None


async def _call(function: Callable[[Any], Any], answer: Any) -> Any:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # a callable object with an async __call__
    ):
        return await function(answer)
    result = await run_in_thread(functools.partial(function, answer), {})
    return await result if inspect.isawaitable(result) else result


def as_texts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the numbers to compare with as text: that is equal to the number.

    >>> as_texts({"any_of": [1, "2"], "max_rounds": 3})
    {'any_of': ['1', '2'], 'max_rounds': 3}
    """
    texts = dict(options)
    if "equals" in texts:
        texts["equals"] = _text_of_number(texts["equals"])
    if isinstance(texts.get("any_of"), list | tuple):
        texts["any_of"] = [_text_of_number(value) for value in texts["any_of"]]
    return texts


def _text_of_number(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text_of(value) if is_number else value
