"""`ExecContext`: what a node sees while it runs."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from teff.errors import ConfigError, GraphInterrupt, WorkflowError, suggest
from teff.plugins.builtin import part
from teff.runtime.events import EventType, Listener
from teff.runtime.frame import Frame, ModelDefaults
from teff.runtime.limits import Limits
from teff.runtime.place import Executable, Place
from teff.runtime.question import Question, checked_choices
from teff.runtime.run import Run
from teff.runtime.signals import LimitSignal, PauseSignal
from teff.runtime.steps import as_failure, read_result, uninterrupted
from teff.state import freeze, freeze_update, plain_update, read_update

if TYPE_CHECKING:
    from teff.checkpoint import Checkpointer
    from teff.messages import Usage
    from teff.provider import ChatReply, ProviderRegistry
    from teff.tool import Tool

__all__ = ["ExecContext", "StepContext"]

_T = TypeVar("_T")
_MISSING: Any = object()


class ExecContext:
    """What a node sees while it runs: tools, providers, limits, events, and what must not run twice.

    The engine makes one for each step. One made by hand, for a test, runs everything directly: calls
    are not recorded, and a pause raises `GraphInterrupt`.

    Args:
        state: the state that the node is given.
        tools: the tools it may use.
        node_id, node_type: who it is.
        emit: hears the events.
        providers, default_provider, default_model: for model calls.
        limits: bounds for what is done through this context.
        owner, checkpoint_id: of the run.

    >>> import asyncio
    >>> ctx = ExecContext({"n": 1}, node_id="count")
    >>> asyncio.run(ctx.once("twice", lambda: 2 * ctx.state["n"]))
    2
    """

    # Defaults of what few steps use, so that making a context sets five names and no more.
    _path: str | None = None
    _parent: ExecContext | None = None
    _used_keys: set[str] | None = None
    _open_keys: frozenset[str] = frozenset()
    _tasks: set[asyncio.Task[Any]] | None = None
    _numbers: dict[str, int] | None = None
    _paused: bool = False
    _failure: Exception | None = None
    #: What to keep of an unfinished step when a limit ends the run.
    partial: Mapping[str, Any] | None = None
    #: Why a graph that ends after this step ended, where the step knows better than the edges.
    stop_reason: str | None = None

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        tools: Iterable[Tool] = (),
        *,
        node_id: str = "",
        node_type: str = "",
        emit: Listener | None = None,
        providers: ProviderRegistry | None = None,
        default_provider: str | None = None,
        default_model: str | None = None,
        node_timeout: float | None = None,
        limits: Limits | None = None,
        checkpointer: Checkpointer | None = None,
        checkpoint_id: str | None = None,
        owner: str = "default",
    ) -> None:
        if checkpointer is not None:
            raise ConfigError(
                "a context made by hand records nothing; run a graph to use a checkpointer."
            )
        self.run = Run(
            checkpoint_id=checkpoint_id,
            owner=owner,
            limits=limits,
            tools={tool.name: tool for tool in tools},
            emit=emit,
            node_timeout=node_timeout,
            detached=True,
        )
        defaults = ModelDefaults(
            providers=providers, provider=default_provider, model=default_model
        )
        self.frame = Frame(self.run, "", state or {}, entry=node_id, defaults=defaults)
        self.place = Place(node_id, node_type)
        self.visit = 1
        self.state: dict[str, Any] = dict(self.frame.state)

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
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.id

    @property
    def idempotency_key(self) -> str:
        """A key for outside effects: the same when this step is tried again or resumed."""
        return f"{self.run.id}:{self.path}"

    @property
    def owner(self) -> str:
        """Whose run it is."""
        return self.run.owner

    @property
    def checkpoint_id(self) -> str | None:
        """The id to resume the run with, or None without a checkpointer."""
        return self.run.checkpoint_id

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools of the run, by name."""
        return self.run.tools

    @property
    def providers(self) -> ProviderRegistry | None:
        """The providers of the run."""
        return self.frame.defaults.providers

    @property
    def default_provider(self) -> str | None:
        """The provider of model calls that name none."""
        return self.frame.defaults.provider

    @property
    def default_model(self) -> str | None:
        """The model of model calls that name none."""
        return self.frame.defaults.model

    @property
    def limits(self) -> Limits:
        """The bounds of the run."""
        return self.run.limits

    @property
    def usage(self) -> Usage:
        """What the run used so far."""
        return self.run.usage

    @property
    def listening(self) -> bool:
        """Whether anybody hears events; without a listener, none need be made."""
        return self.run.emit is not None

    def tool(self, name: str) -> Tool:
        """Return a tool of the run.

        Raises:
            ConfigError: (a KeyError) there is none of that name.
        """
        try:
            return self.run.tools[name]
        except KeyError:
            raise ConfigError(
                f"the run has no tool {name!r}.", hint=suggest(name, self.run.tools).strip()
            ) from None

    async def llm(self, model: str, messages: Sequence[Mapping[str, Any]]) -> ChatReply:
        """Ask a model of the default provider, without tools: counted, recorded, told as events.

        Args:
            model: its name, or "" for the default.
            messages: the conversation.

        Raises:
            ConfigError: no provider or model is named.
            ProviderError: the call failed.
        """
        reply: ChatReply = await part("harness").for_step(self, model=model).call(messages)
        return reply

    async def emit(self, type: EventType, data: Mapping[str, Any]) -> None:
        """Tell whoever listens, and wait until they have taken the event."""
        if self.run.emit is not None:
            await self.run.tell(
                type, data, node_id=self.place.id, node_type=self.place.type, path=self.path
            )

    async def emit_custom(self, name: str, data: Any = None) -> None:
        """Emit an event of the node's own: type ``custom`` with ``name`` and ``data``."""
        await self.emit("custom", {"name": name, "data": data})

    def number(self, name: str) -> int:
        """Return 1, 2, 3, … for each time it is asked within this step: to make keys of calls."""
        if self._numbers is None:
            self._numbers = {}
        count = self._numbers[name] = self._numbers.get(name, 0) + 1
        return count

    @overload
    async def once(self, key: str, function: Callable[[], Awaitable[_T]]) -> _T: ...

    @overload
    async def once(self, key: str, function: Callable[[], _T]) -> _T: ...

    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Run ``function`` once, whatever happens: after a crash the recorded result comes back.

        Args:
            key: names the effect within this step; each key may be used once a step, and again
                where the function failed.
            function: takes no arguments; plain or async; its result must be JSON-like.

        Returns:
            The result, its lists and dicts frozen like those of the state.

        Raises:
            WorkflowError: the key was used already in this step, or the run has ended.
        """
        path = self._claim(key)
        journal = self.run.journal
        if journal is not None and path in journal.values:
            return journal.values[path]
        try:
            result = function()
            value = freeze(await result if inspect.isawaitable(result) else result)
        except BaseException:
            self._release(key)
            raise
        if journal is not None:
            await uninterrupted(journal.record_value(path, value))
        return value

    async def call(
        self, key: str, node: Executable, state: Mapping[str, Any], *, node_id: str = ""
    ) -> Mapping[str, Any]:
        """Run ``node`` as a child of this step and return its updates; recorded like a step.

        The child gets a state of its own; of a `Command` only the update counts. Updates may hold
        operators: return them, or merge them with `teff.state.merge`.

        Args:
            key: names the call within this step; each key may be used once a step.
            node: what to run.
            state: what it is given.
            node_id: the child's id in events; the key where it is not given.

        Raises:
            WorkflowError: the key was used already in this step, or the run has ended.
            LimitSignal: the run may execute no further node.
        """
        path = self._claim(key)
        journal = self.run.journal
        if journal is not None and path in journal.values:
            return read_update(journal.values[path])
        self.run.count_step()
        frozen = {name: freeze(value) for name, value in state.items()}
        child = StepContext(self.run, self.frame, Place(node_id or key, str(node.type)), 1, frozen)
        child._path, child._parent = path, self
        try:
            updates = await _run_child(child, node)
        except BaseException:
            self._release(key)
            raise
        if journal is not None:
            await uninterrupted(journal.record_value(path, plain_update(updates)))
        return updates

    def part(self, key: str) -> ExecContext:
        """Return a context for a part of this step, with keys and questions of its own.

        Raises:
            WorkflowError: the key was used already in this step, or the run has ended.
        """
        part = StepContext(self.run, self.frame, self.place, self.visit, self.state)
        part._path, part._parent = self._claim(key), self
        return part

    async def interrupt(
        self,
        key: str,
        prompt: str = "",
        *,
        choices: Iterable[Any] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Any:
        """Ask a person: return the answer where there is one, else pause the run.

        The run is resumed with ``resume={key: answer}``; this step then runs again from its start,
        and what it did through `once` and `call` is not done again. Falsy answers are answers.

        Args:
            key: what is asked for; asked twice in a step, the second time is a second question.
            prompt: the text for the person.
            choices: the only answers it takes, or None for any.
            schema: a JSON Schema of the answer, for whoever shows the question.

        Raises:
            GraphInterrupt: in a context made by hand.
        """
        if key in self._open_keys:
            self._failure = WorkflowError(
                f"node {self.node_id!r} asks for {key!r} twice at once: give each question a key "
                "of its own, or ask within ctx.call"
            )
            raise self._failure
        number = self.number(f"interrupt:{key}")
        name = key.replace("#", "%23")
        question = Question(
            id=f"{self.path}:{name}" if number == 1 else f"{self.path}:{name}#{number}",
            key=key,
            prompt=prompt,
            path=self.path,
            node_id=self.node_id,
            choices=checked_choices(choices),
            schema=schema,
        )
        return await self.ask(question)

    async def ask(self, question: Question) -> Any:
        """Return the recorded answer to ``question``, or leave it open and pause."""
        run = self.run
        if run.detached:
            raise GraphInterrupt(question.key, question.prompt, self.node_id, interrupts=[question])
        if run.journal is not None and question.id in run.journal.answers:
            return run.journal.answers[question.id]
        run.questions[question.id] = question
        run.interrupted = True
        self._open_keys |= {question.key}
        # A pause travels up even where the code around it catches every exception.
        paused: ExecContext | None = self
        while paused is not None:
            paused._paused = True
            paused = paused._parent or paused.frame.around
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
        if self._failure is not None:
            return self._failure
        if self._paused:
            return PauseSignal()
        if self.run.ended_by is not None:
            return LimitSignal(self.run.ended_by)
        return None

    async def settle(self, *, cancel: bool) -> None:
        """Wait until nothing runs any more that this step began in other tasks.

        Args:
            cancel: whether those tasks are cancelled first.
        """
        current = asyncio.current_task()
        tasks = [task for task in self._tasks or () if task is not current and not task.done()]
        if cancel:
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

    def _claim(self, key: str) -> str:
        if self.run.closed:
            raise WorkflowError(
                f"node {self.node_id!r} began {key!r} after the run had ended: "
                "wait for what it starts before it returns"
            )
        if self._used_keys is None or self._tasks is None:
            self._used_keys, self._tasks = set(), set()
        if key in self._used_keys:
            raise WorkflowError(
                f"node {self.node_id!r} used the key {key!r} twice in one step: "
                "a key names one effect, so give each its own"
            )
        self._used_keys.add(key)
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
        return f"{self.path}/{_escaped(key)}"

    def _release(self, key: str) -> None:
        if self._used_keys is not None:
            self._used_keys.discard(key)


class StepContext(ExecContext):
    """The context that the engine makes for a step."""

    def __init__(
        self, run: Run, frame: Frame, place: Place, visit: int, state: dict[str, Any]
    ) -> None:
        self.run = run
        self.frame = frame
        self.place = place
        self.visit = visit
        self.state = state


def _escaped(key: str) -> str:
    """Return a key as one part of a path."""
    return key.replace("%", "%25").replace("/", "%2F") if "%" in key or "/" in key else key


async def _run_child(child: StepContext, node: Executable) -> Mapping[str, Any]:
    """Run a node that another one calls; return its updates, frozen."""
    given = dict(child.state)
    started = time.monotonic()
    await child.emit("node_start", {})
    try:
        result = await node.execute(child, child.state)
        if (pending := child.pending()) is not None:
            raise pending
        updates, _ = read_result(result, child, given, {})
        frozen = freeze_update(updates)
    except GraphInterrupt as asked:
        frozen = {asked.key: await child.answer_to(asked)}
    except BaseException as raised:
        await child.settle(cancel=not child._paused)
        error = as_failure(child, raised)
        await child.emit(
            "node_error",
            {
                "error": str(error),
                "type": type(error).__name__,
                "duration_ms": (time.monotonic() - started) * 1000.0,
                "caught": False,
            },
        )
        raise error  # noqa: B904  # its cause is set where it is not `raised` itself
    await child.emit(
        "node_end",
        {"duration_ms": (time.monotonic() - started) * 1000.0, "keys": tuple(frozen)},
    )
    return frozen
