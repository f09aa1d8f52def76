"""`Graph`: nodes, ordered edges, one entry; run it, stream it, draw it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType, TracebackType
from typing import Any, Self, Unpack

import teff.state as states
from teff.checkpoint import Checkpointer
from teff.graph.check import (
    Problem,
    check_models_and_tools,
    find_errors,
    find_needs,
)
from teff.graph.draw import draw_mermaid
from teff.graph.edge import Edge
from teff.graph.options import (
    RunOptions,
    TurnOptions,
    Validation,
    check_mapping,
    check_text,
    check_validation,
)
from teff.graph.parts import check_parts
from teff.graph.pending import record_answer
from teff.graph.plan import Plan, make_plan
from teff.graph.running import run_graph
from teff.graph.session import state_of, stored_run
from teff.graph.stored_types import stored_types
from teff.graph.synchronous import wait_for
from teff.graph.turn import Chat, TurnResult, take_turn
from teff.graph.turn_keys import is_turn_key, turn_keys
from teff.messages import last_assistant_message
from teff.node import Node
from teff.plugins.log import warn
from teff.provider import ProviderRegistry
from teff.runtime import (
    EventChannel,
    Limits,
    Listener,
    ModelDefaults,
    Price,
    Question,
    Run,
    RunResult,
    StreamEvent,
    read_prices,
    tell_all,
)
from teff.state import (
    Reducer,
    Reducers,
    compile_reducers,
    freeze,
    thaw,
)

__all__ = ["Graph"]


class Graph:
    """A workflow: nodes change the state, edges choose the next node.

    A graph does not change once it is made. It is checked as far as it can be when it is made, and
    may be run any number of times, also at the same time.

    Args:
        nodes: the nodes by id.
        edges: looked at in their order; the first one that matches is taken.
        entry_point: the id of the first node.
        name: for people.
        state: a schema of the state: a TypedDict, an attrs class, a dataclass, or a mapping; see
            `StateSchema.of`. Its defaults are filled in where an input leaves them out.
        validate: what happens where the input or a node's update does not fit the schema: with
            ``"error"`` the run does not begin, or the node fails; with ``"warn"`` it is logged;
            ``"off"`` does not look. No declaration is needed for keys that begin with ``_``, for
            ``input``, ``messages`` and ``error``, and for what nodes keep for one turn.
        reducers: by key: ``override`` (the default), ``append``, ``keep``, or a function
            ``(old, new) -> value``; they win over those of the schema.
        providers: a `ProviderRegistry`, or a mapping from name to options or provider objects.
        default_provider, default_model: for nodes that name none.
        limits: bounds of every run that is given none.
        prices: what models cost; see `RunOptions`.

    Raises:
        ConfigError: an entry or an edge that leads nowhere, a condition that does not parse, an
            unknown reducer, provider or command target.

    >>> import asyncio
    >>> from teff.node import make_function_node
    >>> graph = Graph({"double": make_function_node(lambda ctx, state: {"n": 2 * state["n"]})},
    ...               edges=[], entry_point="double")
    >>> result = asyncio.run(graph.run({"n": 21}))
    >>> result["n"], result.status, result.stop_reason
    (42, 'finished', 'end')
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        edges: Sequence[Edge],
        entry_point: str,
        *,
        name: str = "",
        state: object = None,
        validate: Validation = "error",
        reducers: Mapping[str, Reducer] | None = None,
        providers: ProviderRegistry | Mapping[str, Any] | None = None,
        default_provider: str | None = None,
        default_model: str | None = None,
        limits: Limits | None = None,
        prices: Mapping[str, Price | Mapping[str, float]] | None = None,
    ) -> None:
        check_parts(nodes, edges)
        check_text("name", name, optional=False)
        check_text("default_provider", default_provider)
        check_text("default_model", default_model)
        check_mapping("reducers", reducers, "from state key to reducer")
        self.name = name
        self.nodes: Mapping[str, Node] = MappingProxyType(dict(nodes))
        self.edges: tuple[Edge, ...] = tuple(edges)
        self.entry_point = entry_point
        #: The schema of the state, or None.
        self.schema = None if state is None else states.StateSchema.of(state)
        self.validate = check_validation(validate)
        self.reducers: Mapping[str, Reducer] = {
            **(self.schema.reducers if self.schema is not None else {}),
            **(reducers or {}),
        }
        self.limits = None if limits is None else Limits.of(limits)
        self.prices: Mapping[str, Price] = read_prices(prices or {})
        self.defaults = ModelDefaults(
            providers=None if providers is None else ProviderRegistry.of(providers),
            provider=default_provider,
            model=default_model,
        )
        self.compiled_reducers = compile_reducers(self.reducers)
        #: Finds the providers of nodes while none are declared; its clients live as long as this.
        self.undeclared_providers = ProviderRegistry()
        self._turn_keys = frozenset[str]() if state is None else turn_keys(self.nodes.values())
        #: What a run must have a provider, a model or a tool for.
        self.needs = find_needs(self.nodes)
        self.plan: Plan = make_plan(self.nodes, self.edges, entry_point)
        for problem in find_errors(self):
            raise problem.as_error()

    @cached_property
    def stored_types(self) -> Mapping[str, type]:
        """The types that values of a stored run may have beside the registered ones, by name."""
        return stored_types(self)

    def compile(self) -> Graph:
        """Return this graph; it was compiled when it was made."""
        return self

    def check(self, *, known_keys: Iterable[str] = ()) -> list[Problem]:
        """Return everything that looks wrong without running anything.

        Args:
            known_keys: state keys that the input brings.
        """
        from teff.graph.check.findings import check_graph  # not needed to run

        return check_graph(self, known_keys=known_keys)

    def state_check(self, reducers: Reducers) -> states.StateCheck | None:
        """Return what holds the state of a run against the schema; None where nothing does."""
        if self.schema is None or self.validate == "off":
            return None
        complain = warn if self.validate == "warn" else None
        is_own = partial(is_turn_key, turn_keys=self._turn_keys)
        return states.StateCheck(self.schema, reducers, is_own=is_own, complain=complain)

    def nested_input(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what this graph starts from inside another one, with the defaults of its schema.

        None under a key whose type does not take it means that the key was not there outside.
        """
        if self.schema is None:
            return state
        filled = self.schema.filled(self.schema.present(state))
        return {key: freeze(value) for key, value in filled.items()}

    def check_run(self, run: Run, defaults: ModelDefaults) -> None:
        """Refuse a run whose nodes name a provider, model or tool that it does not have."""
        undeclared = self.undeclared_providers
        check_models_and_tools(self, run.tools, defaults, undeclared=undeclared)

    async def run(
        self, state: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """Run to the end and return the final state.

        The dict that is passed in is never changed. With a ``checkpointer`` and a ``checkpoint_id``
        a run that was killed or paused goes on where it stopped; a run that has ended returns its
        recorded result.

        Args:
            state: what to start from; may be left out when a stored run goes on. A `State` brings
                its reducers.
            **options: see `RunOptions`.

        Raises:
            GraphInterrupt: a question is open; answer it with ``resume=``.
            LimitReached: a limit was reached and ``on_limit="raise"``.
            ConfigError: an unknown tool, provider or model, an input that does not fit the schema of
                the state, or an answer that nobody asked for.
            RunLocked, GraphChanged, RunFinished: see `teff.errors`.
            Exception: what a node raised that no error edge caught, with a note naming the node.
        """
        return await run_graph(self, state, options)

    def run_sync(
        self, state: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """Run to the end and return the final state: `run` for scripts, without ``await``.

        Args:
            state, **options: as for `run`.

        Raises:
            WorkflowError: an event loop is running in this thread; nothing was begun.
            GraphInterrupt, LimitReached, Exception: as `run`.

        >>> from teff.node import make_function_node
        >>> double = make_function_node(lambda ctx, state: {"n": 2 * state["n"]})
        >>> Graph({"double": double}, [], "double").run_sync({"n": 21})["n"]
        42
        """
        run = partial(run_graph, self, state, options)
        return wait_for(run, name="run_sync()", instead="await graph.run(…)")

    async def stream(
        self, state: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> AsyncIterator[StreamEvent]:
        """Run, and give each event as it happens; the last one is ``run_end``.

        A slow reader slows the run down. Closing the stream cancels the run. After the last event
        it raises what `run` would raise.
        """
        channel = EventChannel()
        listeners: list[Listener] = [channel.offer]
        if (given := options.get("emit")) is not None:
            listeners.append(given)
        options["emit"] = tell_all(listeners)
        task = asyncio.create_task(run_graph(self, state, options))
        task.add_done_callback(lambda _: channel.close())
        try:
            async for event in channel:
                yield event
            await task
        finally:
            if not task.done():
                channel.close()
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def turn(
        self,
        message: Any,
        *,
        checkpointer: Checkpointer,
        checkpoint_id: str,
        state: Mapping[str, Any] | None = None,
        messages_key: str = "messages",
        transient_keys: Iterable[str] = (),
        **options: Unpack[TurnOptions],
    ) -> TurnResult:
        """Take one message of a chat: run the graph on it, from what the chat has come to.

        The message is added to the conversation and stands under ``input``. Whatever belongs to one
        turn starts clean: counters, scratch, the slots of a team (`Node.turn_keys`), and
        ``transient_keys``. Everything else of the state stays. Limits count for one turn.

        Where a question is open, the message is its answer; a text that names one of its choices is
        that choice. Where the process died in a turn, or the turn failed or was cancelled, the same
        message goes on with it and does nothing twice. Another message leaves that turn as it
        stands: the conversation keeps its message, the state what its finished steps wrote, and
        calls of tools that were not carried out are taken out of the conversation.

        Each turn is a run of its own, ``<checkpoint_id>#turn-<number>``. The next one may be of a
        changed graph.

        Args:
            message: what the user said, a text; or an answer of the kind that the question takes.
            checkpointer: where the chat is.
            checkpoint_id: which chat.
            state: what a new chat starts from, a conversation included; not looked at later.
            messages_key: where the conversation is.
            transient_keys: further keys that belong to one turn.
            **options: see `TurnOptions`.

        Returns:
            What came of it; a question that is open is a result, too: ``waiting``.

        Raises:
            RunLocked: another turn of the chat is under way.
            ConfigError: an answer that its question does not take, or whatever `run` refuses.
            GraphChanged: the turn that would go on was begun by another graph.
            LimitReached: a limit was reached and ``on_limit="raise"``.
            Exception: what a node raised that no error edge caught.

        >>> import asyncio
        >>> from teff.checkpoint import MemoryCheckpointer
        >>> from teff.node import make_function_node
        >>> from teff.state import Append
        >>> def count(ctx, state):
        ...     reply = f"{len(state['messages'])} so far"
        ...     return {"messages": Append([{"role": "assistant", "content": reply}])}
        >>> graph = Graph({"count": make_function_node(count)}, [], "count")
        >>> chat = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "ada"}
        >>> asyncio.run(graph.turn("hi", **chat)).reply
        '1 so far'
        >>> asyncio.run(graph.turn("and now?", **chat)).reply
        '3 so far'
        """
        chat = Chat(
            checkpointer=checkpointer,
            id=checkpoint_id,
            state={} if state is None else state,
            messages_key=messages_key,
            transient_keys=transient_keys,
        )
        return await take_turn(self, message, chat, options)

    async def pending(
        self, session_id: str, *, checkpointer: Checkpointer, owner: str = "default"
    ) -> Question | None:
        """Return the question that a chat, or a run, waits for, or None."""
        stored = await stored_run(checkpointer, session_id, owner=owner, types=self.stored_types)
        return stored.questions[0] if stored.questions else None

    async def answer(
        self,
        run_id: str,
        key_or_id: str,
        value: Any,
        *,
        checkpointer: Checkpointer,
        owner: str = "default",
    ) -> Sequence[Question]:
        """Record the answer to one open question of a stored run, without running anything.

        The next `run` with that id goes on with it. The same answer again changes nothing.

        Args:
            run_id: which run.
            key_or_id: which question.
            value: the answer; falsy ones count.
            checkpointer, owner: where the run is recorded, and whose it is.

        Returns:
            The questions that are still open.

        Raises:
            ConfigError: nobody asks for that, the question does not take the answer, it was answered
                with something else, or ``run_id`` is a chat. Nothing is changed then.
            CheckpointError: there is no such run.
            RunLocked: somebody works on it.
            GraphChanged: it was made by another graph.
            RunFinished: it has ended.

        >>> import asyncio
        >>> from teff.checkpoint import MemoryCheckpointer
        >>> from teff.errors import GraphInterrupt
        >>> from teff.node import Interrupt
        >>> graph = Graph({"ask": Interrupt(key="ok", prompt="Go on?")}, [], "ask")
        >>> store = MemoryCheckpointer()
        >>> async def example():
        ...     try:
        ...         await graph.run({}, checkpointer=store, checkpoint_id="r1")
        ...     except GraphInterrupt:
        ...         await graph.answer("r1", "ok", True, checkpointer=store)
        ...     return await graph.run(checkpointer=store, checkpoint_id="r1")
        >>> asyncio.run(example())["ok"]
        True
        """
        return await record_answer(
            self, run_id, key_or_id, value, checkpointer=checkpointer, owner=owner
        )

    async def last_reply(
        self,
        session_id: str,
        *,
        checkpointer: Checkpointer,
        owner: str = "default",
        messages_key: str = "messages",
    ) -> str:
        """Return what the assistant said last in a chat, or ""."""
        stored = await stored_run(checkpointer, session_id, owner=owner, types=self.stored_types)
        return last_assistant_message(state_of(stored).get(messages_key))

    async def get_state(
        self, session_id: str, *, checkpointer: Checkpointer, owner: str = "default"
    ) -> dict[str, Any]:
        """Return the state that a chat, or a run, has come to; empty where there is none."""
        stored = await stored_run(checkpointer, session_id, owner=owner, types=self.stored_types)
        return {key: thaw(value) for key, value in state_of(stored).items()}

    def to_mermaid(self, *, show_conditions: bool = True) -> str:
        """Return the graph as a Mermaid flowchart."""
        return draw_mermaid(self, show_conditions=show_conditions)

    def to_yaml(
        self, *, tools: Sequence[str] = (), initial: Mapping[str, Any] | None = None
    ) -> str:
        """Return the graph as a workflow file that loads to the same graph.

        Args:
            tools: the names of the tools that the file is to name.
            initial: the initial state of the file.

        Raises:
            ConfigError: it holds a plain function, as a node, a condition, a reducer or an option.
        """
        from teff.graph.dump import write_yaml  # needed by few

        return write_yaml(self, tools=tools, initial=initial)

    async def aclose(self) -> None:
        """Free the connections of the graph's providers. The graph may be run again."""
        for registry in (self.defaults.providers, self.undeclared_providers):
            if registry is not None:
                await registry.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Graph {self.name!r} of {len(self.nodes)} nodes>"
