"""Whatever a model replies and whatever agents do: `Delegate` ends, and its record is what happened."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teff.checkpoint import Lease, MemoryCheckpointer, Record
from teff.errors import GraphInterrupt
from teff.graph import Graph
from teff.messages import ModelUsage, ToolCall
from teff.node import LLM, Delegate, ExecContext
from teff.node.delegation import steps_record
from teff.node.delegation.replies import read_final, read_text
from teff.provider import Capabilities, ChatReply, ChatRequest, ToolSpec
from teff.runtime import RunResult, StreamEvent
from teff.testing import ScriptedProvider
from teff.tool import FunctionTool

AGENTS = ("a", "b", "broken", "mute", "human", "writer")
MESSAGES = st.sampled_from(["one", "two", " ", "", "three {x}"])
NAMES = st.sampled_from([*(f"delegate_to_{name}" for name in AGENTS), "b", "add", "nobody", ""])
ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"message": MESSAGES}),
    st.just({}),
    st.just({"a": 1, "b": 2}),
    st.fixed_dictionaries({"message": st.none() | st.integers()}),
)


@st.composite
def native_calls(draw: st.DrawFn) -> ChatReply:
    calls = [
        ToolCall(
            id=draw(st.sampled_from(["", "x", "y/z"])),
            name=draw(NAMES),
            arguments=draw(ARGUMENTS),
            error=draw(st.sampled_from(["", "", "", "no JSON"])),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    text = draw(st.sampled_from(["", "because"]))
    usage = ModelUsage(prompt_tokens=draw(st.integers(0, 9)), completion_tokens=1)
    return ChatReply(text=text, tool_calls=calls, usage=usage)


@st.composite
def written_actions(draw: st.DrawFn) -> ChatReply:
    lines = [f"THOUGHT: {draw(st.sampled_from(['', 'why']))}"]
    for _ in range(draw(st.integers(1, 2))):
        lines += [f"ACTION: {draw(NAMES)}", f"ACTION_INPUT: {json.dumps(draw(ARGUMENTS))}"]
    return ChatReply(text="\n".join(lines))


REPLIES = st.one_of(
    native_calls(),
    native_calls(),
    written_actions(),
    written_actions(),
    st.builds(
        ChatReply, text=st.sampled_from(["", "<think>x", "FINAL_ANSWER: 42", "plain", "ACTION:"])
    ),
    st.builds(ChatReply, text=st.text(max_size=20)),
    st.sampled_from(["accept", "revise", "reject"]).map(
        lambda word: ChatReply(text=json.dumps({"verdict": word, "feedback": "more"}))
    ),
)


class Model(ScriptedProvider):
    """Says one reply after another, and to the same request always the same."""

    def __init__(self, replies: Sequence[ChatReply], *, native: bool) -> None:
        super().__init__(capabilities=Capabilities(tools=native, streaming=False))
        self.replies = replies
        self.said: dict[str, ChatReply] = {}

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        asked = json.dumps([request.messages, [tool.name for tool in request.tools]], default=str)
        if asked not in self.said:
            self.said[asked] = self.replies[len(self.said) % len(self.replies)]
        return self.said[asked]


class World:
    """A delegate over agents of every kind, and what was really called."""

    def __init__(
        self, replies: Sequence[ChatReply], *, native: bool = True, **options: Any
    ) -> None:
        self.model = Model(replies, native=native)
        self.called: list[tuple[str, str]] = []
        self.events: list[StreamEvent] = []
        agents: dict[str, Callable[..., Any]] = {
            "a": self.agent("a", lambda text: f"a did {text}"),
            "b": self.agent("b", lambda text: {"n": len(text)}),
            "broken": self.agent("broken", self.fail),
            "mute": self.agent("mute", lambda text: ""),
        }

        async def human(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            answer = await ctx.interrupt("may_i", state["input"])
            self.called.append(("human", state["messages"][-1]["content"]))
            return {"output": f"{answer}!"}

        self.node = Delegate(
            agents={
                name: {"description": f"Does {name}.", "node": function}
                for name, function in {
                    **agents,
                    "human": human,
                    "writer": LLM(input_key="input", stream=False),
                }.items()
            },
            use_tools="all",
            max_tool_rounds=2,
            **options,
        )
        self.graph = Graph(
            {"lead": self.node},
            [],
            "lead",
            providers={"p": self.model},
            default_provider="p",
            default_model="m",
        )
        self.tools = [FunctionTool(add)]

    @staticmethod
    def fail(text: str) -> Any:
        raise ValueError(text)

    def agent(self, name: str, answer: Callable[[str], Any]) -> Callable[..., Any]:
        async def work(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            self.called.append((name, state["messages"][-1]["content"]))
            return {"output": answer(state["input"])}

        return work

    def run(self, store: MemoryCheckpointer | None = None) -> RunResult:
        """Run to the end; every question is answered."""
        return asyncio.run(self._run(store or MemoryCheckpointer()))

    async def _run(self, store: MemoryCheckpointer) -> RunResult:
        given: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r"}
        given |= {"tools": self.tools, "emit": self.events.append}
        start: Mapping[str, Any] | None = {"input": "What?"}
        while True:
            try:
                return await self.graph.run(start, **given)
            except GraphInterrupt as paused:
                given["resume"] = {question.id: "yes" for question in paused.interrupts}
                start = None


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


OPTIONS = st.fixed_dictionaries(
    {
        "max_delegations": st.integers(1, 4),
        "per_agent": st.none() | st.integers(1, 2),
        "review": st.booleans(),
        "native": st.booleans(),
    }
)
SCRIPTS = st.lists(REPLIES, min_size=1, max_size=8)


def timeless(value: Any) -> Any:
    """Return a value without durations."""
    if isinstance(value, Mapping):
        return {key: timeless(inner) for key, inner in value.items() if key != "duration_ms"}
    if isinstance(value, list | tuple):
        return [timeless(inner) for inner in value]
    return value


@settings(deadline=None)
@given(script=SCRIPTS, options=OPTIONS)
def test_any_replies_come_to_an_end_within_the_bounds(
    script: list[ChatReply], options: dict[str, Any]
) -> None:
    world = World(script, **options)
    result = world.run()
    most = options["max_delegations"]
    record = result["output_steps"]
    assert record["delegations"] <= most
    assert len([name for name, _ in world.called if name != "writer"]) <= most
    writers = sum(call["tool_name"] == "delegate_to_writer" for call in record["tool_calls"])
    reviews = 2 * most if options["review"] else 0
    assert result.usage.model_calls <= most + 2 + 1 + writers + reviews
    assert (result.stop_reason == "max_delegations") == record["max_delegations_reached"]
    assert result["output_forced"] == record["max_delegations_reached"]
    assert isinstance(result["output"], str)
    if result["output"].strip():
        assert result["messages"][-1] == {"role": "assistant", "content": result["output"]}
    else:  # nothing was said
        assert result["messages"][-1]["role"] == "user"
    for name in AGENTS:
        given_to = sum(c["tool_name"] == f"delegate_to_{name}" for c in record["tool_calls"])
        assert options["per_agent"] is None or given_to <= options["per_agent"]


@settings(deadline=None)
@given(script=SCRIPTS, options=OPTIONS)
def test_the_record_is_what_was_called(script: list[ChatReply], options: dict[str, Any]) -> None:
    world = World(script, **options)
    result = world.run()
    record = result["output_steps"]
    recorded = [
        (call["tool_name"].removeprefix("delegate_to_"), call["arguments"].get("message"))
        for call in record["tool_calls"]
        if call["tool_name"] not in ("add", "delegate_to_writer")
    ]
    texts = [(name, str(text).strip()) for name, text in recorded]
    assert sorted(texts) == sorted((name, text.strip()) for name, text in world.called)
    assert record["tokens"]["by_model"] == result.usage.by_model
    statuses = {step["status"] for step in record["steps"]}
    assert statuses <= {
        "ok",
        "error",
        "blocked",
        "rejected",
        "refused",
        "invalid",
        "finished",
        "stopped",
    }
    carried_out = [c for c in record["tool_calls"] if c["tool_name"].startswith("delegate_to_")]
    assert len(carried_out) == record["delegations"]
    assert json.loads(json.dumps(record)) == record


@settings(deadline=None)
@given(script=SCRIPTS, options=OPTIONS)
def test_the_record_is_the_fold_of_what_is_told(
    script: list[ChatReply], options: dict[str, Any]
) -> None:
    world = World(script, **options)
    result = world.run()
    if any(event.type == "interrupt" for event in world.events):
        return  # what was told before the pause is told again, for the step runs again
    folded = steps_record(world.events, "lead/1")
    record = result["output_steps"]
    assert folded["steps"] == record["steps"]
    assert folded["tokens"] == record["tokens"]
    assert sorted(map(str, folded["tool_calls"])) == sorted(map(str, record["tool_calls"]))


class Killed(BaseException):
    pass


class Store(MemoryCheckpointer):
    """A store whose process is killed when it writes for the ``kill_at``th time."""

    def __init__(self, kill_at: int | None = None) -> None:
        super().__init__()
        self.kill_at = kill_at
        self.writes = 0

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        self.writes += 1
        if self.writes == self.kill_at:
            self.kill_at = None
            raise Killed
        await super().append(lease, records)


@settings(deadline=None, max_examples=60)
@given(script=SCRIPTS, options=OPTIONS, where=st.floats(0, 1))
def test_a_run_that_was_killed_anywhere_ends_as_one_that_was_not(
    script: list[ChatReply], options: dict[str, Any], where: float
) -> None:
    whole = Store()
    expected = World(script, **options).run(whole)
    world = World(script, **options)
    store = Store(kill_at=1 + int(where * (whole.writes - 1)))
    with contextlib.suppress(Killed):
        world.run(store)
    result = world.run(store)
    assert timeless(dict(result)) == timeless(dict(expected))
    assert (result.status, result.stop_reason) == (expected.status, expected.stop_reason)


def test_each_place_to_be_killed_at_gives_the_same() -> None:
    calls = [
        ToolCall(id="", name=f"delegate_to_{name}", arguments={"message": name})
        for name in ("writer", "human", "broken", "a")
    ]
    counted = ModelUsage(prompt_tokens=3, completion_tokens=2)
    both = [*calls[:1], ToolCall(id="t", name="add", arguments={"a": 1, "b": 2}), *calls[1:]]
    script = [
        ChatReply(text="all", tool_calls=both, usage=counted),
        ChatReply(text="a line", usage=counted),
        *(
            ChatReply(text=json.dumps({"verdict": word, "feedback": "more"}), usage=counted)
            for word in ("revise", "reject", "accept")
        ),
        ChatReply(text="another line", usage=counted),
        ChatReply(text="FINAL_ANSWER: 42", usage=counted),
    ]
    options: dict[str, Any] = {"review": True, "max_delegations": 6}
    whole = Store()
    expected = World(script, **options).run(whole)
    assert whole.writes > 20
    for place in range(1, whole.writes + 1):
        world, store = World(script, **options), Store(kill_at=place)
        with contextlib.suppress(Killed):
            world.run(store)
        assert store.kill_at is None
        assert timeless(dict(world.run(store))) == timeless(dict(expected))


@given(text=st.text(max_size=200) | st.text('ACTION_INPUT:{}[]"\n `*<>/', max_size=80))
def test_any_text_is_read(text: str) -> None:
    tools = [ToolSpec(name="delegate_to_a", schema={"properties": {"message": {}}})]
    said = read_text(text, tools)
    assert bool(said.calls) + (said.answer is not None) + bool(said.problem) == 1
    assert isinstance(read_final(ChatReply(text=text)), str)
