"""`SubAgent`: an agent as something that takes a task and gives a typed result."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import attrs

from teff.errors import CheckpointError, ConfigError, GraphInterrupt, StateError, suggest
from teff.harness.usage import recorded_usage
from teff.messages import Usage, last_assistant_message, user
from teff.node.base import Node
from teff.node.inner import as_inner_node
from teff.plugins.builtin import part
from teff.runtime import ExecContext, Limits, LimitSignal, read_result
from teff.runtime.meter import metered
from teff.state import freeze, is_filled, merge_into, thaw
from teff.tool.text import DEFAULT_MAX_CHARS, result_text, shorten

__all__ = ["PREFIX", "AgentResult", "SubAgent", "sub_agents"]

#: What the tool of an agent is called: this, and the agent's name.
PREFIX = "delegate_to_"

_NAME = re.compile(r"[\w.-]{1,48}")
_STOPPED = "it was stopped by its {}"
#: How much of the words of a failure the model is told.
_LONGEST_ERROR = 2_000

#: What may stand beside a flow or a node.
_OPTIONS = ("description", "output_key", "context", "limits")

Status = Literal["ok", "error", "stopped", "blocked", "rejected", "refused"]


@attrs.frozen(kw_only=True)
class AgentResult:
    """What became of one task.

    Attributes:
        agent: who had it.
        status: ``ok``; ``error`` where the agent failed or gave no answer; ``stopped`` by a limit
            of its own; ``blocked`` by a guard; ``rejected`` by the review; ``refused`` where it was
            not carried out.
        output: the answer; where a limit stopped the agent, what it had by then; else None.
        error: what was wrong, else "".
        usage: the tokens by ``provider/model``.
        duration_ms: how long it took.

    >>> AgentResult(agent="billing", status="ok", output="Paid.").text()
    '{"agent": "billing", "status": "ok", "output": "Paid."}'
    """

    agent: str
    status: Status
    output: Any = None
    error: str = ""
    usage: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    duration_ms: float = 0.0

    def text(self, max_chars: int = DEFAULT_MAX_CHARS) -> str:
        """Return what the model is told: JSON, so that no failure can look like an answer."""
        whole: dict[str, Any] = {"agent": self.agent, "status": self.status}
        if self.status != "ok":
            whole["error"] = self.error
        if self.status != "ok" and not is_filled(self.output):
            return result_text(whole)
        whole["output"] = self.output
        text = result_text(whole)
        if len(text) <= max_chars:
            return text
        shortened = shorten(result_text(self.output), max_chars)
        return json.dumps({**whole, "output": shortened}, ensure_ascii=False)

    def without_output(self, status: Status, error: str) -> Self:
        """Return the result as one that has no output, and why."""
        return attrs.evolve(self, status=status, output=None, error=error)


def _renamed(given: Any) -> Mapping[str, str]:
    if isinstance(given, Mapping):
        return {str(key): str(inside) for key, inside in given.items()}
    keys = [given] if isinstance(given, str) else given
    return {str(key): str(key) for key in keys}


def _as_limits(given: Limits | Mapping[str, Any] | None) -> Limits | None:
    return None if given is None else Limits.of(given)


@attrs.frozen(kw_only=True)
class SubAgent:
    """An agent that others give tasks to.

    It sees the task as the user's message under ``messages`` and as text under ``input``, and of the
    state around it the keys in ``context``; nothing else.

    Args:
        name: letters, digits, ``_``, ``-`` and ``.``, at most 48 of them.
        description: what it is for; whoever delegates chooses by it.
        node: a node, a function ``(ctx, state)``, a flow or a graph.
        output_key: where its answer is. By default the ``output_key`` of the node; then what it said
            last under ``messages``; then ``output``; then whatever it wrote.
        context: keys of the state around it that it sees; a mapping gives them other names inside.
        limits: bounds of each task, beside those around it; a mapping will do. Reaching one ends the
            task alone, whose result is ``stopped`` and has what there is.

    Raises:
        ConfigError: a name that a model could not call, no description, limits that make no sense,
            or nothing that can run.

    >>> async def add(ctx, state):
    ...     return {"output": sum(map(int, state["input"].split("+")))}
    >>> import asyncio
    >>> adder = SubAgent(name="adder", description="Adds.", node=add)
    >>> asyncio.run(adder.run(ExecContext(), "add", adder.state("1+2"))).output
    3
    """

    name: str
    description: str
    node: Node = attrs.field(converter=as_inner_node)
    output_key: str = ""
    context: Mapping[str, str] = attrs.field(factory=dict, converter=_renamed)
    limits: Limits | None = attrs.field(default=None, converter=_as_limits)

    def __attrs_post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r} is no name for an agent.",
                path="agents",
                hint="Use letters, digits, '_', '-' and '.', at most 48 of them.",
            )
        if not self.description.strip():
            raise ConfigError(
                f"agent {self.name!r} needs a description: the model chooses by it.",
                path="description",
            )
        for inside in self.context.values():
            if inside in ("messages", "input"):
                raise ConfigError(
                    f"agent {self.name!r}: context cannot fill {inside!r}, which holds the task.",
                    path="context",
                    hint="Give a mapping that says what the key is called inside.",
                )

    @property
    def tool_name(self) -> str:
        """What a model calls it by."""
        return PREFIX + self.name

    def state(
        self, task: str, around: Mapping[str, Any] | None = None, *, messages: Any = None
    ) -> dict[str, Any]:
        """Return the state for a task.

        Args:
            task: what is to be done.
            around: the state that the keys in ``context`` are taken from.
            messages: the conversation, where it is more than the task.
        """
        outside = around or {}
        seen = {inside: outside[key] for key, inside in self.context.items() if key in outside}
        return {**seen, "input": task, "messages": messages or [user(task)]}

    def to_config(self) -> dict[str, Any]:
        """Return the agent as it stands among ``agents``, its node as one."""
        options = {
            "output_key": self.output_key,
            "context": dict(self.context),
            "limits": {} if self.limits is None else self.limits.to_config(),
        }
        written = {name: value for name, value in options.items() if value}
        return {"description": self.description, "node": self.node, **written}

    async def run(self, ctx: ExecContext, key: str, state: Mapping[str, Any]) -> AgentResult:
        """Run the agent as a child of a step; recorded where it succeeds.

        Args:
            ctx: of the step.
            key: names the call within it.
            state: see `state`.

        Returns:
            The result; a failure of the agent is one too.

        Raises:
            Signal: the run has paused or reached a limit.
            CheckpointError: nothing can be recorded any more.
        """
        worker = _Worker(self)
        try:
            update = await ctx.call(key, worker, state, node_id=self.name, limits=self.limits)
        except (GraphInterrupt, CheckpointError):
            raise
        except Exception as error:
            if (pending := ctx.pending()) is not None:
                raise pending from None
            if not worker.failed:
                raise  # it is the store that failed, not the agent
            words = f"{type(error).__name__}: {error}".removesuffix(": ")
            return AgentResult(
                agent=self.name,
                status="error",
                error=result_text(shorten(words, _LONGEST_ERROR)),
                usage=worker.usage,
                duration_ms=worker.duration_ms,
            )
        if "done" not in update:  # the agent held the signal of the limit back
            return AgentResult(agent=self.name, status="stopped", error=_STOPPED.format("limits"))
        return AgentResult(agent=self.name, **thaw(update["done"]))


class _Worker:
    """An agent as what is executed: it gives the answer, and what it cost."""

    def __init__(self, agent: SubAgent) -> None:
        self.agent = agent
        self.failed = True
        self.usage: dict[str, dict[str, int]] = {}
        self.duration_ms = 0.0

    @property
    def type(self) -> str:
        return self.agent.node.type or type(self.agent.node).__name__

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        given, started, before = dict(state), time.monotonic(), recorded_usage(ctx)
        with metered() as used:
            try:
                result = await self.agent.node.execute(ctx, state)
            except (LimitSignal, asyncio.CancelledError) as leaving:
                self._measure(before, used, started)
                reason = getattr(leaving, "reason", "deadline")
                told = {"status": "stopped", "error": _STOPPED.format(f"limit {reason}")}
                ctx.keep(self._done(self._output(ctx, given, ctx.partial or {}), **told))
                raise
            finally:
                self._measure(before, used, started)
        updates, _ = read_result(result, ctx, given, {})
        output = self._output(ctx, given, updates)
        if not is_filled(output):
            raise StateError("it gave no answer")
        self.failed = False
        return self._done(output)

    def _measure(self, before: Usage, used: Usage, started: float) -> None:
        self.usage = _added(before.by_model, used.by_model)
        self.duration_ms = (time.monotonic() - started) * 1000.0

    def _output(
        self, ctx: ExecContext, given: Mapping[str, Any], updates: Mapping[str, Any]
    ) -> Any:
        after = dict(given)
        merge_into(after, updates, ctx.frame.reducers)
        return freeze(_answer(self.agent, given, after, updates))

    def _done(self, output: Any, **told: str) -> Mapping[str, Any]:
        measured = {"usage": self.usage, "duration_ms": self.duration_ms}
        return {"done": {"status": "ok", "output": output, **told, **measured}}


def _answer(
    agent: SubAgent,
    given: Mapping[str, Any],
    after: Mapping[str, Any],
    updates: Mapping[str, Any],
) -> Any:
    key = agent.output_key or getattr(agent.node, "output_key", "")
    if isinstance(key, str) and key:
        return after.get(key)
    messages = after.get("messages")
    if isinstance(messages, Sequence) and (
        said := last_assistant_message(messages[len(given["messages"]) :])
    ):
        return said
    if is_filled(after.get("output")):
        return after["output"]
    written = {
        name: after[name]
        for name in updates
        if name in after and name not in given and not name.startswith("_")
    }
    return next(iter(written.values())) if len(written) == 1 else written


def _added(
    one: Mapping[str, Mapping[str, int]], other: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for counts in (one, other):
        for model, used in counts.items():
            entry = total.setdefault(model, dict.fromkeys(used, 0))
            for name, count in used.items():
                entry[name] = entry.get(name, 0) + count
    return total


def sub_agents(given: Any, *, model: str = "", provider: str = "") -> dict[str, SubAgent]:
    """Read the agents of a node, by name.

    Args:
        given: a mapping from names, or a list of mappings with ``name``. Each says ``description``,
            and what runs: ``flow``, ``node`` or ``role``, or the options of a role beside it;
            further ``output_key``, ``context`` and ``limits``. A `SubAgent` may stand in its place.
        model, provider: for roles without their own.

    Raises:
        ConfigError: something of that is missing or unknown.
    """
    if isinstance(given, Mapping):
        pairs = [(str(name), spec) for name, spec in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        pairs = [("", spec) for spec in given]
    else:
        raise ConfigError(
            f"agents must be a mapping from names, or a list, not {type(given).__name__}.",
            path="agents",
        )
    agents: dict[str, SubAgent] = {}
    for place, (name, spec) in enumerate(pairs):
        agent = _sub_agent(name, spec, place=place, model=model, provider=provider)
        if agent.name in agents:
            raise ConfigError(f"two agents are called {agent.name!r}.", path="agents")
        agents[agent.name] = agent
    return agents


def _sub_agent(name: str, spec: Any, *, place: int, model: str, provider: str) -> SubAgent:
    if isinstance(spec, SubAgent):
        return attrs.evolve(spec, name=name) if name else spec
    what = f"agent {name!r}" if name else f"agents[{place}]"
    if not isinstance(spec, Mapping):
        raise ConfigError(
            f"{what} must say description, and flow, node or role; not {type(spec).__name__}.",
            path="agents",
        )
    options = dict(spec)
    name = name or str(options.pop("name", ""))
    what = f"agent {name!r}" if name else what
    said: dict[str, Any] = {"description": str(options.pop("description", "") or "")}
    said |= {key: options.pop(key) for key in ("context", "limits") if key in options}
    sources = [source for source in ("flow", "node", "role") if source in options]
    if len(sources) > 1:
        raise ConfigError(f"{what}: give {sources[0]} or {sources[1]}, not both.", path="agents")
    source = options.pop(sources[0]) if sources and sources[0] != "role" else None
    try:
        if source is None:
            source, answer = _role(options, name, model=model, provider=provider)
        else:
            answer = str(options.pop("output_key", "") or "")
            for unknown in options:
                raise ConfigError(
                    f"unknown option {unknown!r}.{suggest(unknown, [*_OPTIONS, *sources])}"
                )
        return SubAgent(name=name, node=source, output_key=answer, **said)
    except ConfigError as error:
        told = error.message if name and repr(name) in error.message else f"{what}: {error.message}"
        raise ConfigError(told, path="agents", hint=error.hint) from error


def _role(options: dict[str, Any], name: str, *, model: str, provider: str) -> tuple[Node, str]:
    """Make the node of a role, given as one, as its mapping, or by its options alone."""
    role = options.pop("role", None)
    if role is not None and not isinstance(role, Mapping):
        if not hasattr(role, "build"):
            raise ConfigError(f"a role is an AgentRole or its options, not {type(role).__name__}.")
        for unknown in options:
            raise ConfigError(f"{unknown!r} belongs into the role.")
    else:
        described = {**(role or {}), **options}
        if not described.get("system"):
            raise ConfigError(
                "there is nothing to run.", hint="Give flow, node or role, or a role's system."
            )
        role = part("agent_role").from_mapping(described, name=name)
    made = role.build(model=model or None, provider=provider or None, id=name)
    return made, str(role.output_key)
