"""`ExecContext`: what a node sees while it runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from teff.errors import ConfigError, StateError, WorkflowError, suggest
from teff.plugins.builtin import part
from teff.runtime.bounded import within_deadline
from teff.runtime.command import Command
from teff.runtime.events import Listener, tell_all
from teff.runtime.frame import Frame, ModelDefaults
from teff.runtime.limits import Limits
from teff.runtime.node_hooks import NodeHook, NodeHooks, PayloadCallback
from teff.runtime.place import Executable, Place
from teff.runtime.question import Question, checked_choices, checked_schema
from teff.runtime.run import Run
from teff.runtime.scope import Scope
from teff.runtime.signals import LimitSignal, PauseSignal
from teff.runtime.steps import run_child, uninterrupted
from teff.state import (
    Reducer,
    compile_reducers,
    freeze,
    freeze_update,
    plain_update,
    read_update,
)

if TYPE_CHECKING:
    from teff.checkpoint import Checkpointer
    from teff.messages import Usage
    from teff.provider import ChatReply, ProviderRegistry
    from teff.tool import Tool

__all__ = ["ExecContext", "StepContext"]

_T = TypeVar("_T")
_MISSING: Any = object()


class ExecContext(Scope):
    """What a node sees while it runs: tools, providers, limits, events, and what must not run twice.

    The engine makes one for each step. One made by hand, for a test, runs everything directly: calls
    are not recorded, and a pause raises `GraphInterrupt`.

    Args:
        state: the state that the node is given.
        tools: the tools it may use.
        node_id, node_type: who it is.
        tracer, emit: hear the events.
        reducers: by key, for graphs that are run inside.
        node_timeout: seconds for a node of such a graph.
        resume: answers to questions, by key.
        checkpointer: refused; only a run of a graph is recorded.
        providers, default_provider, default_model: for model calls.
        limits: bounds for what is done through this context.
        owner, checkpoint_id: of the run.
        hooks, on_llm_payload: told of the nodes that are called, and of the model calls; as for
            `Graph.run`.

    >>> import asyncio
    >>> ctx = ExecContext({"n": 1}, node_id="count")
    >>> asyncio.run(ctx.once("twice", lambda: 2 * ctx.state["n"]))
    2
    """

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        tools: Iterable[Tool] = (),
        *,
        node_id: str = "",
        node_type: str = "",
        tracer: Listener | None = None,
        reducers: Mapping[str, Reducer] | None = None,
        emit: Listener | None = None,
        providers: ProviderRegistry | None = None,
        default_provider: str | None = None,
        default_model: str | None = None,
        node_timeout: float | None = None,
        limits: Limits | None = None,
        checkpointer: Checkpointer | None = None,
        checkpoint_id: str | None = None,
        owner: str = "default",
        resume: Mapping[str, Any] | None = None,
        hooks: Mapping[str, NodeHook] | None = None,
        on_llm_payload: PayloadCallback | None = None,
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
            emit=tell_all([heard for heard in (tracer, emit) if heard is not None]),
            node_timeout=node_timeout,
            node_hooks=NodeHooks.of(hooks),
            on_llm_payload=on_llm_payload,
            detached=True,
        )
        self._answers = resume or {}
        defaults = ModelDefaults(
            providers=providers, provider=default_provider, model=default_model
        )
        self.frame = Frame(
            self.run,
            "",
            state or {},
            entry=node_id,
            reducers=compile_reducers(reducers),
            defaults=defaults,
        )
        self.place = Place(node_id, node_type)
        self.visit = 1
        self.state: dict[str, Any] = dict(self.frame.state)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.id

    @property
    def idempotency_key(self) -> str:
        """A key for outside effects: the same when this step is tried again or resumed."""
        path = self.path
        for ctx in self._here_and_around():
            if ctx._idempotent_path is not None:
                path = ctx._idempotent_path + path.removeprefix(ctx.path)
        return f"{self.run.id}:{path}"

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
        return self.frame.defaults.providers or self.run.providers

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

    async def emit_custom(self, name: str, data: Any = None) -> None:
        """Emit an event of the node's own: type ``custom`` with ``name`` and ``data``."""
        await self.emit("custom", {"name": name, "data": data})

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
        path = self.claim(key)
        journal = self.run.journal
        if journal is not None and path in journal.values:
            return journal.values[path]
        try:
            result = function()
            value = freeze(await result if inspect.isawaitable(result) else result)
        except BaseException:
            self.release(key)
            raise
        if journal is not None:
            try:
                await uninterrupted(journal.record_value(path, value))
            except StateError:  # it cannot be stored, and another result may be
                self.release(key)
                raise
        return value

    async def call(
        self,
        key: str,
        node: Executable,
        state: Mapping[str, Any],
        *,
        node_id: str = "",
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """Run ``node`` as a child of this step and return its updates; recorded like a step.

        The child gets a state of its own; of a `Command` only the update counts. Updates may hold
        operators: return them, or merge them with `teff.state.merge`.

        Args:
            key: names the call within this step; each key may be used once a step.
            node: what to run.
            state: what it is given.
            node_id: the child's id in events; the key where it is not given.
            limits: bounds of what is done inside, beside those around it; a mapping will do.
                Reaching one ends the child alone, which gives what it said with `keep`, and is told
                by a ``limit`` event with ``reason`` and ``scope``, the path of the child.

        Raises:
            WorkflowError: the key was used already in this step, or the run has ended.
            ConfigError: the limits make no sense.
            LimitSignal: the run may execute no further node.
        """
        bounds = None if limits is None else Limits.of(limits)
        path = self.claim(key)
        journal = self.run.journal
        if journal is not None and path in journal.values:
            done = journal.values[path]
            if "reason" in done:
                self.set_stop_reason(done["reason"])
            return read_update(done)
        child = self._child(path, node, state, node_id or key)
        if bounds is not None:
            child._budget = self.run.open_budget(bounds, self, path, is_visit=False)
        try:
            updates, _ = await self._run_child(key, child, node)
        except LimitSignal as signal:
            if signal.budget is None or signal.budget is not child._budget:
                raise
            self.claim(key)
            updates = freeze_update(child.partial or {})
            await self.emit("limit", {"reason": signal.reason, "scope": path})
        if journal is not None:
            value = plain_update(updates)
            if child.stop_reason is not None:
                value["reason"] = child.stop_reason
            await uninterrupted(journal.record_value(path, value))
        self.run.forget_parts(path)
        return updates

    async def attempt(
        self, number: int, node: Executable, state: Mapping[str, Any], *, node_id: str = ""
    ) -> Command:
        """Run ``node`` in the place of this step, for the ``number``th time; recorded like a step.

        Unlike with `call`, it is this step's decision where the node goes, why it ends the run, and
        what it keeps where a limit ends the run. No attempt sees the effects of another, but all
        have one `idempotency_key`.

        Args:
            number: from 1; each number may be used once a step, and again where the attempt failed.
            node: what to run.
            state: what it is given.
            node_id: the child's id in events; that of this step where it is not given.

        Raises:
            WorkflowError: the number was used already in this step, or the run has ended.
            LimitSignal: the run may execute no further node.
        """
        self.stop_reason = None
        key = f"attempt-{number}"
        path = self.claim(key)
        journal = self.run.journal
        if journal is not None and path in journal.values:
            done = journal.values[path]
            if done["reason"] is not None:
                self.set_stop_reason(done["reason"])
            goto = Command.STOP if done["stop"] else done["goto"]
            return Command(read_update(done["update"]), goto=goto)
        child = self._child(path, node, state, node_id or self.node_id)
        child._idempotent_path = f"{self.path}/attempt"
        try:
            updates, goto = await self._run_child(key, child, node)
        except (LimitSignal, asyncio.CancelledError):
            if child.partial:
                self.keep(child.partial)
            raise
        if journal is not None:
            value = {
                "update": plain_update(updates),
                "goto": goto if isinstance(goto, str) else None,
                "stop": goto is Command.STOP,
                "reason": child.stop_reason,
            }
            await uninterrupted(journal.record_value(path, value))
        self.run.forget_parts(path)
        return Command(updates, goto=goto)

    def _child(
        self, path: str, node: Executable, state: Mapping[str, Any], node_id: str
    ) -> StepContext:
        self.count_step()
        frozen = {name: freeze(value) for name, value in state.items()}
        child = StepContext(self.run, self.frame, Place(node_id, str(node.type)), 1, frozen)
        child._path, child._parent = path, self
        return child

    async def _run_child(
        self, key: str, child: StepContext, node: Executable
    ) -> tuple[Mapping[str, Any], Any]:
        try:
            return await within_deadline(child._budget, run_child(child, node))
        except BaseException as raised:
            self.release(key)
            if isinstance(raised, PauseSignal):
                self.uncount_step()  # it will be executed again, and counted then
            raise

    def part(self, key: str) -> ExecContext:
        """Return a context for a part of this step, with keys and questions of its own.

        Raises:
            WorkflowError: the key was used already in this step, or the run has ended.
        """
        part = StepContext(self.run, self.frame, self.place, self.visit, self.state)
        part._path, part._parent = self.claim(key), self
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
            schema: a JSON Schema that the answer must fit.

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
            schema=checked_schema(schema, key),
        )
        return await self.ask(question)


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
