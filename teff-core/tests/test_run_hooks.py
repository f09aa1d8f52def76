"""What a run tells its caller: hooks around every node, and the payload of every model call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt
from teff.flow import AgentRole, Flow, SubFlow
from teff.graph import Edge, Graph
from teff.messages import user
from teff.node import Interrupt, Loop, Map, Node, Parallel, Retry, make_function_node
from teff.runtime import ExecContext
from teff.state import Append
from teff.testing import ScriptedProvider


class Double(Node):
    """Doubles ``n``."""

    type = "double"

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        """Return the double."""
        return {"n": 2 * state["n"]}


class Fail(Node):
    """Fails."""

    type = "fail"

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> None:
        """Raise."""
        raise LookupError("no such order")


class Both(Node):
    """Runs its children one after the other."""

    type = "both"

    def __init__(self, *inner: Node) -> None:
        super().__init__()
        self.inner = inner

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Call each child with the state so far."""
        for number, node in enumerate(self.inner):
            state |= await ctx.call(f"child-{number}", node, state)
        return state


class Heard:
    """Hooks that remember what they were told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    @property
    def hooks(self) -> dict[str, Any]:
        return {
            "on_node_start": lambda name, node, state: self.told.append(("start", name, state)),
            "on_node_end": lambda name, node, state, result: self.told.append(
                ("end", name, state, result)
            ),
            "on_node_error": lambda name, node, state, error: self.told.append(
                ("error", name, state, type(error))
            ),
        }

    @property
    def names(self) -> list[tuple[str, str]]:
        return [(told[0], told[1]) for told in self.told]


def run(graph: Graph, state: Any = None, **options: Any) -> Any:
    return asyncio.run(graph.run({"n": 1} if state is None else state, **options))


def one(node: Node) -> Graph:
    return Graph({"a": node}, [], "a")


def test_hooks_hear_the_state_before_a_node_and_the_state_and_its_update_after_the_merge() -> None:
    heard = Heard()
    graph = Graph({"a": Double(), "b": Double()}, [Edge("a", "b")], "a")
    assert run(graph, hooks=heard.hooks)["n"] == 4
    assert heard.told == [
        ("start", "a", {"n": 1}),
        ("end", "a", {"n": 2}, {"n": 2}),
        ("start", "b", {"n": 2}),
        ("end", "b", {"n": 4}, {"n": 4}),
    ]


def test_a_hook_is_given_the_node_itself() -> None:
    given: list[Node] = []
    node = Double()
    run(one(node), hooks={"on_node_start": lambda name, node, state: given.append(node)})
    assert given == [node]


def test_async_hooks_are_awaited_before_the_run_goes_on() -> None:
    order: list[str] = []

    async def slowly(id: str, node: Node, state: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        order.append("hook")

    graph = one(make_function_node(lambda ctx, state: order.append("node")))
    run(graph, hooks={"on_node_start": slowly})
    assert order == ["hook", "node"]


def test_hooks_cannot_change_the_run_by_changing_what_they_are_given() -> None:
    def meddle(id: str, node: Node, state: dict[str, Any], *result: dict[str, Any]) -> None:
        state["log"].append("meddled")
        state["n"] = 100
        for update in result:
            update.setdefault("log", []).append("meddled")

    add = make_function_node(lambda ctx, state: {"n": state["n"] + 1, "log": Append([["added"]])})
    hooks = {"on_node_start": meddle, "on_node_end": meddle}
    assert run(one(add), {"n": 1, "log": [["kept"]]}, hooks=hooks) == {
        "n": 2,
        "log": [["kept"], ["added"]],
    }


@pytest.mark.parametrize("with_journal", [False, True])
def test_hooks_go_into_sub_flows_and_containers(with_journal: bool) -> None:
    heard = Heard()
    inner = Graph({"deep": Double()}, [], "deep")
    graph = Graph(
        {"flow": SubFlow(inner), "both": Both(Double(), SubFlow(inner))},
        [Edge("flow", "both")],
        "flow",
    )
    stored = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"} if with_journal else {}
    assert run(graph, hooks=heard.hooks, **stored)["n"] == 8
    assert heard.names == [
        ("start", "flow"),
        ("start", "deep"),
        ("end", "deep"),
        ("end", "flow"),
        ("start", "both"),
        ("start", "child-0"),
        ("end", "child-0"),
        ("start", "child-1"),
        ("start", "deep"),
        ("end", "deep"),
        ("end", "child-1"),
        ("end", "both"),
    ]
    assert heard.told[6] == ("end", "child-0", {"n": 4}, {"n": 4})


def test_a_failure_is_told_also_where_an_error_edge_takes_it() -> None:
    heard = Heard()
    graph = Graph({"a": Fail(), "b": Double()}, [Edge("a", "b", "__error__")], "a")
    run(graph, hooks=heard.hooks)
    assert heard.names == [("start", "a"), ("error", "a"), ("start", "b"), ("end", "b")]
    assert heard.told[1] == ("error", "a", {"n": 1}, LookupError)


def test_a_failure_inside_is_told_of_the_child_and_of_the_node_around_it() -> None:
    heard = Heard()
    with pytest.raises(LookupError):
        run(one(Both(Fail())), hooks=heard.hooks)
    assert heard.names == [
        ("start", "a"),
        ("start", "child-0"),
        ("error", "child-0"),
        ("error", "a"),
    ]


def test_a_pause_is_neither_an_end_nor_an_error() -> None:
    heard = Heard()
    store = MemoryCheckpointer()
    stored: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r", "hooks": heard.hooks}
    with pytest.raises(GraphInterrupt):
        run(one(Interrupt(key="ok", prompt="ok?")), **stored)
    assert heard.names == [("start", "a")]
    asyncio.run(one(Interrupt(key="ok", prompt="ok?")).run(resume="yes", **stored))
    assert heard.names == [("start", "a"), ("start", "a"), ("end", "a")]


@pytest.mark.parametrize("name", ["on_node_start", "on_node_end", "on_node_error"])
def test_a_hook_that_raises_ends_the_run_past_every_error_edge(name: str) -> None:
    def refuse(*arguments: Any) -> None:
        raise PermissionError("not here")

    inner = Graph({"deep": Fail() if name == "on_node_error" else Double()}, [], "deep")
    graph = Graph({"a": Both(SubFlow(inner)), "b": Double()}, [Edge("a", "b", "__error__")], "a")
    events: list[Any] = []
    with pytest.raises(PermissionError, match="not here") as raised:
        run(graph, hooks={name: refuse}, emit=events.append)
    assert name in raised.value.__notes__[0]
    ends = [event.data for event in events if event.type == "run_end"]
    assert [(end["status"], end["error"]) for end in ends] == [("failed", "not here")]
    assert "b" not in {event.node_id for event in events}


def test_a_node_that_catches_everything_does_not_keep_a_run_from_its_hooks() -> None:
    class Stubborn(Both):
        async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
            try:
                return await super().execute(ctx, state)
            except BaseException:  # what the test is about
                return {"n": -1}

    def refuse(id: str, node: Node, state: dict[str, Any]) -> None:
        if id == "child-0":
            raise PermissionError("not here")

    with pytest.raises(PermissionError):
        run(one(Stubborn(Double())), hooks={"on_node_start": refuse})


def containers() -> list[Node]:
    return [
        Parallel([Double(), Double()], on_error="skip"),
        Map(Double(), input_keys="items", output_key="out", on_error="skip"),
        Retry(Double(), max_retries=3),
        Loop(Double(), key="n", until="2"),
    ]


@pytest.mark.parametrize("node", containers(), ids=lambda node: str(node.type))
def test_hooks_go_into_every_container(node: Node) -> None:
    heard = Heard()
    state = {"n": 1, "items": [{"n": 1}, {"n": 2}]}
    run(one(node), state, hooks=heard.hooks)
    kinds = [told[0] for told in heard.told]
    inside = 1 if isinstance(node, Retry | Loop) else 2
    assert kinds.count("start") == kinds.count("end") == 1 + inside


@pytest.mark.parametrize("node", containers(), ids=lambda node: str(node.type))
def test_no_container_takes_what_a_hook_raised(node: Node) -> None:
    def refuse(id: str, inner: Node, state: dict[str, Any]) -> None:
        if inner.type == "double":
            raise PermissionError("not here")

    graph = Graph({"a": node, "b": Double()}, [Edge("a", "b", "__error__")], "a")
    state = {"n": 1, "items": [{"n": 1}, {"n": 2}]}
    with pytest.raises(PermissionError):
        run(graph, state, hooks={"on_node_start": refuse})


def test_a_hook_that_raises_wins_over_a_pause_beside_it() -> None:
    def refuse(id: str, inner: Node, state: dict[str, Any], result: dict[str, Any]) -> None:
        if inner.type == "double":
            raise PermissionError("not here")

    node = Parallel([Interrupt(key="ok"), Double()])
    stored = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(PermissionError):
        run(one(node), hooks={"on_node_end": refuse}, **stored)


def test_a_run_that_a_hook_ended_goes_on_where_it_stopped() -> None:
    def refuse(id: str, node: Node, state: dict[str, Any]) -> None:
        if id == "b":
            raise PermissionError("not yet")

    graph = Graph({"a": Double(), "b": Double()}, [Edge("a", "b")], "a")
    stored = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(PermissionError):
        run(graph, hooks={"on_node_start": refuse}, **stored)
    heard = Heard()
    assert run(graph, hooks=heard.hooks, **stored)["n"] == 4
    assert heard.names == [("start", "b"), ("end", "b")]


def test_unknown_hooks_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="on_node_start") as raised:
        run(one(Double()), hooks={"on_node_strat": print})
    assert raised.value.path == "hooks.on_node_strat"


@pytest.mark.parametrize("hooks", [{"on_node_start": "print"}, ["on_node_start"]])
def test_what_is_no_function_is_no_hook(hooks: Any) -> None:
    with pytest.raises(ConfigError, match="hook"):
        run(one(Double()), hooks=hooks)


def test_hooks_alone_do_not_make_answers_stream() -> None:
    seen: list[bool] = []
    node = make_function_node(lambda ctx, state: seen.append(ctx.listening))
    run(one(node), hooks=Heard().hooks)
    assert seen == [False]


def test_a_context_made_by_hand_takes_hooks_and_raises_what_they_raise() -> None:
    heard = Heard()
    ctx = ExecContext({"n": 1}, node_id="me", hooks=heard.hooks)
    asyncio.run(ctx.call("child", Double(), {"n": 1}))
    assert heard.told == [("start", "child", {"n": 1}), ("end", "child", {"n": 2}, {"n": 2})]

    def refuse(id: str, node: Node, state: dict[str, Any]) -> None:
        raise PermissionError("no")

    with pytest.raises(PermissionError):
        asyncio.run(ExecContext(hooks={"on_node_start": refuse}).call("child", Double(), {"n": 1}))


# on_llm_payload


def desk(provider: ScriptedProvider) -> Graph:
    return (
        Flow("desk", providers={"p": provider}, default_provider="p", default_model="m")
        .team(
            "Route.",
            roles={"billing": AgentRole("You do bills.", output_key="answer")},
            done_keys=["answer"],
            id="lead",
        )
        .compile()
    )


def test_the_payload_of_every_model_call_is_told_those_of_sub_flows_too() -> None:
    calls: list[tuple[Any, ...]] = []
    provider = ScriptedProvider(["billing", "Your refund is on its way."])
    state = {"messages": [user("help")]}
    run(desk(provider), state, on_llm_payload=lambda *call: calls.append(call))
    assert [(call[0], call[1], call[3], call[6]) for call in calls] == [
        ("p", "m", "billing", False),
        ("p", "m", "Your refund is on its way.", False),
    ]
    provider_messages = [dict(message) for message in provider.requests[1].messages]
    assert calls[1][2] == provider_messages
    assert calls[0][4] == {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": None}
    assert all(call[5] >= 0.0 for call in calls)


def test_an_async_payload_callback_is_awaited_and_may_change_what_it_is_given() -> None:
    said: list[str] = []

    async def keep(
        provider: str, model: str, messages: list[Any], content: str, *rest: Any
    ) -> None:
        await asyncio.sleep(0)
        messages.clear()
        said.append(content)

    provider = ScriptedProvider(["billing", "Done."])
    result = run(desk(provider), {"messages": [user("help")]}, on_llm_payload=keep)
    assert said == ["billing", "Done."]
    assert len(result["messages"]) == 2


def test_a_payload_callback_that_raises_ends_the_run() -> None:
    def refuse(*call: Any) -> None:
        raise PermissionError("not allowed")

    with pytest.raises(PermissionError) as raised:
        run(
            desk(ScriptedProvider(["billing"])),
            {"messages": [user("help")]},
            on_llm_payload=refuse,
        )
    assert "on_llm_payload" in raised.value.__notes__[0]


def test_calls_that_are_answered_from_the_journal_are_not_told_again() -> None:
    calls: list[Any] = []

    class AskThenWait(Node):
        type = "ask_then_wait"

        async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            reply = await ctx.llm("", [user("q")])
            return {"text": reply.text, "ok": await ctx.interrupt("ok")}

    graph = Graph(
        {"a": AskThenWait()},
        [],
        "a",
        providers={"p": ScriptedProvider(["hello"])},
        default_provider="p",
        default_model="m",
    )
    options: dict[str, Any] = {
        "checkpointer": MemoryCheckpointer(),
        "checkpoint_id": "r",
        "on_llm_payload": lambda *call: calls.append(call),
    }
    with pytest.raises(GraphInterrupt):
        run(graph, **options)
    assert asyncio.run(graph.run(resume="y", **options))["text"] == "hello"
    assert len(calls) == 1


def test_a_context_made_by_hand_takes_a_payload_callback() -> None:
    from teff.provider import ProviderRegistry

    calls: list[Any] = []
    ctx = ExecContext(
        node_id="me",
        providers=ProviderRegistry.of({"p": ScriptedProvider(["hi"])}),
        default_provider="p",
        default_model="m",
        on_llm_payload=lambda *call: calls.append(call[3]),
    )
    asyncio.run(ctx.llm("", [user("q")]))
    assert calls == ["hi"]


def test_what_is_no_function_is_no_payload_callback() -> None:
    with pytest.raises(ConfigError, match="on_llm_payload"):
        run(one(Double()), on_llm_payload="print")


def test_the_edge_event_of_a_function_carries_its_name() -> None:
    def is_small(state: Mapping[str, Any]) -> bool:
        return bool(state["n"] < 10)

    events: list[Any] = []
    graph = Graph({"a": Double(), "b": Double()}, [Edge("a", "b", is_small)], "a")
    run(graph, emit=events.append)
    labels = [event.data["condition"] for event in events if event.type == "edge"]
    assert "is_small" in labels[0]
    assert labels[1] is None
