"""`Scope`: what the engine keeps of one step while it runs, and how the step may be left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from teff.errors import GraphInterrupt, WorkflowError
from teff.messages import ModelUsage
from teff.runtime.budget import Budget
from teff.runtime.events import EventType
from teff.runtime.frame import Frame
from teff.runtime.place import Place
from teff.runtime.question import Question
from teff.runtime.run import Run
from teff.runtime.signals import AbortSignal, LimitSignal, PauseSignal
from teff.state import FrozenDict

__all__ = ["Scope"]


class Scope:
    """One step, or a part of one: its path, the keys it used, its questions.

    The engine's side of `ExecContext`, which nodes see.

    Attributes:
        run: the run that it belongs to.
        frame: the running graph.
        place: where the node stands in it.
        visit: how often the node was executed, this time included.
        state: the dict that the node was given.
    """

    run: Run
    frame: Frame
    place: Place
    visit: int
    state: dict[str, Any]

    # Defaults of what few steps use, so that making a context sets five names and no more.
    _path: str | None = None
    #: The path for effects outside, where it differs: without the number of an attempt.
    _idempotent_path: str | None = None
    _parent: Scope | None = None
    #: The bounds of what is called here, where the call has some of its own.
    _budget: Budget | None = None
    _used_keys: set[str] | None = None
    _open_keys: frozenset[str] = frozenset()
    _tasks: set[asyncio.Task[Any]] | None = None
    _numbers: dict[str, int] | None = None
    _paused: bool = False
    #: The limit that was reached within; the widest counts.
    _limited: LimitSignal | None = None
    #: Answers by key, of a context made by hand.
    _answers: Mapping[str, Any] = FrozenDict()
    _failure: Exception | None = None
    #: What to keep of an unfinished step when a limit ends the run.
    partial: Mapping[str, Any] | None = None
    #: Why a graph that ends after this step ended, where the step knows better than the edges.
    stop_reason: str | None = None

    @property
    def node_id(self) -> str:
        """The id of the node in its graph."""
        return self.place.id

    @property
    def node_type(self) -> str:
        """The node's type name."""
        return self.place.type

    @property
    def path(self) -> str:
        """Where this runs, unique within the run: ``"plan/3"`` is the third visit of ``plan``."""
        if self._path is None:
            self._path = f"{self.frame.prefix}{self.place.segment}/{self.visit}"
        return self._path

    @property
    def is_step(self) -> bool:
        """Whether this is a step of a graph, not something called or done within one."""
        return self._parent is None

    @property
    def budget(self) -> Budget | None:
        """The innermost bounds that this is under beside those of the run, or None."""
        scope: Scope | None = self
        while scope is not None:
            if scope._budget is not None:
                return scope._budget
            scope = scope._parent
        return self.frame.budget

    async def emit(self, type: EventType, data: Mapping[str, Any]) -> None:
        """Tell whoever listens, and wait until they have taken the event."""
        if self.run.emit is not None:
            await self.run.tell(
                type, data, node_id=self.place.id, node_type=self.place.type, path=self.path
            )

    def number(self, name: str) -> int:
        """Return 1, 2, 3, … for each time it is asked within this step: to make keys of calls."""
        if self._numbers is None:
            self._numbers = {}
        count = self._numbers[name] = self._numbers.get(name, 0) + 1
        return count

    async def ask(self, question: Question) -> Any:
        """Return the recorded answer to ``question``, or leave it open and pause.

        Raises:
            StateError: the run is stored, and the question cannot be.
        """
        run = self.run
        if run.detached:
            if question.key in self._answers:
                return self._answers[question.key]
            raise GraphInterrupt(question.key, question.prompt, self.node_id, interrupts=[question])
        if run.journal is not None:
            if question.id in run.journal.answers:
                return run.journal.answers[question.id]
            run.journal.check_question(question)
        run.questions[question.id] = question
        run.interrupted = True
        self._open_keys |= {question.key}
        # A pause travels up even where the code around it catches every exception.
        for ctx in self._here_and_around():
            ctx._paused = True
        await self.emit(
            "interrupt",
            {
                "id": question.id,
                "key": question.key,
                "prompt": question.prompt,
                "choices": question.choices,
            },
        )
        raise PauseSignal

    async def answer_to(self, asked: GraphInterrupt) -> Any:
        """Return the answer to a question that was asked by raising `GraphInterrupt`, or pause."""
        return await self.ask(
            Question(
                id=f"{self.path}:{asked.key}",
                key=asked.key,
                prompt=asked.prompt,
                path=self.path,
                node_id=self.node_id,
            )
        )

    def pending(self) -> BaseException | None:
        """Return what must be raised in this step although the code in it caught it, or None."""
        if self.run.aborted_by is not None:
            return AbortSignal(self.run.aborted_by)
        if self._failure is not None:
            return self._failure
        if self._paused:
            return PauseSignal()
        if self._limited is not None:
            return LimitSignal(self._limited.reason, self._limited.budget)
        return None

    def bounded(self, count: Callable[[], None]) -> None:
        """Count something against the limits of the run; what reaches one cannot go on here.

        Raises:
            LimitSignal: a bound was reached.
            WorkflowError: the run has ended.
        """
        self._begin("a call that is counted")
        try:
            count()
        except LimitSignal as signal:
            self.mark_limited(signal)
            raise

    def mark_limited(self, signal: LimitSignal) -> None:
        """Remember, here and in what is around within the part, that its limit was reached."""
        self.run.interrupted = True
        for ctx in self._here_and_around():
            if signal.budget is not None and ctx is signal.budget.owner:
                break
            before = ctx._limited
            if before is None or _is_wider(signal.budget, before.budget):
                ctx._limited = signal

    def count_step(self) -> None:
        """Count the execution of a node here, before it is made; see `bounded`."""

        def count() -> None:
            if (budget := self.budget) is not None:
                budget.check("max_steps")
            self.run.count_step()
            for part in () if budget is None else budget.and_around():
                part.steps += 1

        self.bounded(count)

    def uncount_step(self) -> None:
        """Take back what `count_step` counted: the node has paused, and will be executed again."""
        self.run.steps -= 1
        for part in () if (budget := self.budget) is None else budget.and_around():
            part.steps -= 1

    def count_model_call(self, model: str) -> None:
        """Count a request to ``model`` (``provider/model``) here, before it is made; see `bounded`.

        Raises:
            ConfigError: the cost is bounded, and the model has no price.
        """

        def count() -> None:
            if (budget := self.budget) is not None:
                budget.check("max_model_calls", "max_tokens", "max_cost")
                if any(part.limits.max_cost is not None for part in budget.and_around()):
                    self.run.need_price(model)
            self.run.count_model_call(model)
            for part in () if budget is None else budget.and_around():
                part.usage.model_calls += 1

        self.bounded(count)

    def count_tokens(self, model: str, used: ModelUsage) -> None:
        """Add what an answered request used here; ``model`` is ``provider/model``."""
        self.run.count_tokens(model, used)
        for part in () if (budget := self.budget) is None else budget.and_around():
            part.usage.add_model_tokens(model, used, self.run.cost(model, used))

    def count_tool_call(self) -> None:
        """Count the call of a tool here, before it is made; see `bounded`."""

        def count() -> None:
            if (budget := self.budget) is not None:
                budget.check("max_tool_calls")
            self.run.count_tool_call()
            for part in () if budget is None else budget.and_around():
                part.usage.tool_calls += 1

        self.bounded(count)

    def _here_and_around(self) -> Iterator[Scope]:
        ctx: Scope | None = self
        while ctx is not None:
            yield ctx
            ctx = ctx._parent or ctx.frame.around

    async def settle(self, raised: BaseException) -> None:
        """Wait until nothing runs any more that this step began in other tasks.

        What goes on beside a pause is finished, so that it is not done again; after anything else
        it is cancelled.

        Args:
            raised: what the step is left by.
        """
        current = asyncio.current_task()
        tasks = [task for task in self._tasks or () if task is not current and not task.done()]
        if not self._paused or isinstance(raised, asyncio.CancelledError):
            for task in tasks:
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def set_stop_reason(self, reason: str | None) -> None:
        """Say why the run ends, in case it ends from here on without another decision."""
        self.stop_reason = reason or ""
        if self._parent is not None:
            self._parent.set_stop_reason(reason)

    def keep(self, updates: Mapping[str, Any]) -> None:
        """Say what is to be kept of this step if a limit ends the run before it is finished."""
        self.partial = updates

    def claim(self, key: str) -> str:
        """Return the path of an effect; each key may be used once.

        Raises:
            WorkflowError: the key was used already, or the run has ended.
        """
        self._begin(repr(key))
        if self._used_keys is None:
            self._used_keys = set()
        if key in self._used_keys:
            raise WorkflowError(
                f"node {self.node_id!r} used the key {key!r} twice in one step: "
                "a key names one effect, so give each its own"
            )
        self._used_keys.add(key)
        return f"{self.path}/{_escaped(key)}"

    def _begin(self, what: str) -> None:
        """Refuse what begins after the run, and remember the task, for `settle` to wait for."""
        if self.run.closed:
            raise WorkflowError(
                f"node {self.node_id!r} began {what} after the run had ended: "
                "wait for what it starts before it returns"
            )
        if self._tasks is None:
            self._tasks = set()
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)

    def release(self, key: str) -> None:
        """Let a key be used again: its effect did not come about."""
        if self._used_keys is not None:
            self._used_keys.discard(key)


def _is_wider(one: Budget | None, other: Budget | None) -> bool:
    """Return whether the part of ``one`` holds that of ``other``; None is the whole run."""
    if one is None or other is None:
        return one is None
    return one in other.and_around()


def _escaped(key: str) -> str:
    """Return a key as one part of a path."""
    return key.replace("%", "%25").replace("/", "%2F") if "%" in key or "/" in key else key
