"""A chat, message by message: what stays, what starts clean, what a crash leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypedDict

import pytest

from teff.checkpoint import Lease, MemoryCheckpointer, Record
from teff.errors import ConfigError, GraphChanged, LimitReached, RunLocked
from teff.flow import AgentRole, Flow, SubFlow
from teff.graph import Edge, Graph, TurnResult
from teff.messages import assistant, system, user
from teff.node import Interrupt, Node, ReActAgent, make_function_node
from teff.runtime import ExecContext, Limits, StreamEvent
from teff.state import Append
from teff.testing import ScriptedProvider, call_tool


class Death(BaseException):
    """The process dies."""


class MortalStore(MemoryCheckpointer):
    """A store whose process dies at its ``at``th write, and that another process opens again."""

    def __init__(self, at: int | None = None) -> None:
        super().__init__()
        self.at = at
        self.writes = 0
        self.loads: list[str] = []

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        if self.at is not None and self.writes >= self.at:
            raise Death
        self.writes += 1
        await super().append(lease, records)

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        self.loads.append(run_id)
        return await super().load(run_id, owner=owner)

    def reopen(self) -> None:
        self.at = None
        for run in self._runs.values():
            run.held = False


def reply(text: str) -> dict[str, Any]:
    return {"messages": Append([assistant(text)])}


def echo() -> Graph:
    def answer(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return reply(f"you said {state['input']}")

    return Graph({"echo": make_function_node(answer)}, [], "echo")


class Chat:
    """A chat with a graph, for short tests."""

    def __init__(self, graph: Graph, store: MemoryCheckpointer | None = None, **options: Any):
        self.graph = graph
        self.store = store or MemoryCheckpointer()
        self.options = options

    def say(self, message: Any, **options: Any) -> TurnResult:
        given = {"checkpointer": self.store, "checkpoint_id": "c", **self.options, **options}
        return asyncio.run(self.graph.turn(message, **given))

    def state(self) -> dict[str, Any]:
        return asyncio.run(self.graph.get_state("c", checkpointer=self.store))


def test_a_message_is_answered_and_the_conversation_grows_by_what_was_said() -> None:
    chat = Chat(echo())
    first = chat.say("hi")
    assert (first.reply, first.waiting, first.prompt, first.key) == (
        "you said hi",
        False,
        None,
        None,
    )
    assert (first.session_id, first.stop_reason) == ("c", "end")
    second = chat.say("bye")
    assert second.reply == "you said bye"
    assert second.state["messages"] == [
        user("hi"),
        assistant("you said hi"),
        user("bye"),
        assistant("you said bye"),
    ]
    assert second.state["input"] == "bye"
    assert type(second.state["messages"]) is list


def test_a_new_chat_starts_from_the_given_state_and_keeps_its_messages() -> None:
    given = {"name": "Ada", "messages": [system("Be brief.")]}
    chat = Chat(echo(), state=given)
    assert chat.say("hi").state["messages"][:2] == [system("Be brief."), user("hi")]
    assert given == {"name": "Ada", "messages": [system("Be brief.")]}


def test_the_state_that_a_chat_starts_from_is_not_looked_at_later() -> None:
    chat = Chat(echo())
    chat.say("hi", state={"name": "Ada"})
    later = chat.say("hi again", state={"name": "Bob", "messages": []})
    assert later.state["name"] == "Ada"
    assert len(later.state["messages"]) == 4


def test_the_same_message_twice_is_two_turns() -> None:
    chat = Chat(echo())
    chat.say("hi")
    assert len(chat.say("hi").state["messages"]) == 4


def test_chats_and_owners_never_meet() -> None:
    chat = Chat(echo())
    chat.say("hi", checkpoint_id="c")
    assert len(chat.say("hi", checkpoint_id="c#turn-1").state["messages"]) == 2
    assert len(chat.say("hi", owner="somebody else").state["messages"]) == 2
    assert len(chat.say("hi").state["messages"]) == 4


def test_the_messages_may_be_under_another_key() -> None:
    def answer(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return {"talk": Append([assistant("yes")])}

    chat = Chat(Graph({"a": make_function_node(answer)}, [], "a"), messages_key="talk")
    assert chat.say("hi").reply == "yes"
    assert len(chat.say("hi").state["talk"]) == 4


def test_a_turn_that_says_nothing_has_no_reply() -> None:
    turns = iter([reply("first"), {}])
    chat = Chat(Graph({"a": make_function_node(lambda ctx, state: next(turns))}, [], "a"))
    assert chat.say("hi").reply == "first"
    assert chat.say("hi").reply == ""


def test_a_node_may_shorten_the_conversation() -> None:
    def forget(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [state["messages"][-1], assistant("short")]}

    chat = Chat(Graph({"a": make_function_node(forget)}, [], "a"))
    chat.say("one")
    later = chat.say("two")
    assert later.reply == "short"
    assert later.state["messages"] == [user("two"), assistant("short")]


def test_the_usage_and_the_limits_are_those_of_one_turn() -> None:
    provider = ScriptedProvider(["one", "two", "three"])
    graph = Flow("f", providers={"p": provider}, default_provider="p", default_model="m")
    chat = Chat(graph.llm(messages_key="messages", append_reply=True).compile())
    for said in ("one", "two", "three"):
        result = chat.say("hi", limits=Limits(max_model_calls=1, max_steps=1))
        assert (result.reply, result.usage.model_calls) == (said, 1)


# What belongs to a turn


def team(provider: ScriptedProvider, **options: Any) -> Graph:
    roles = {
        "billing": AgentRole("You do bills.", output_key="answer"),
        "technical": AgentRole("You do machines.", output_key="answer"),
    }
    return (
        Flow("desk", providers={"p": provider}, default_provider="p", default_model="m")
        .team("Route.", roles=roles, done_keys=["answer"], max_rounds=4, id="lead", **options)
        .compile()
    )


def test_every_turn_of_a_team_is_answered_anew() -> None:
    script = ["billing", "It is paid.", "technical", "Restart it.", "billing", "Tomorrow."]
    chat = Chat(team(ScriptedProvider(script)))
    assert chat.say("my bill?").reply == "It is paid."
    assert chat.say("my router?").reply == "Restart it."
    last = chat.say("when?")
    assert (last.reply, last.stop_reason) == ("Tomorrow.", "done_keys")
    assert last.state["supervisor_rounds"] == 2
    assert len(last.state["messages"]) == 6


def test_a_team_inside_a_sub_flow_starts_clean_too() -> None:
    script = ["billing", "It is paid.", "technical", "Restart it."]
    for output_map in (None, {"messages": "messages", "said": "answer"}):
        inner = SubFlow(team(ScriptedProvider(script)), output_map=output_map)
        chat = Chat(Graph({"team": inner}, [], "team"))
        assert chat.say("my bill?").reply == "It is paid."
        assert chat.say("my router?").reply == "Restart it."


def test_the_keys_of_a_turn_are_told_by_nodes_at_any_depth() -> None:
    inner = team(ScriptedProvider())
    assert {"supervisor_rounds", "next_agent", "answer"} <= set(SubFlow(inner).turn_keys())
    mapped = SubFlow(inner, output_map={"said": "answer", "messages": "messages"})
    assert list(mapped.turn_keys()) == ["said"]
    assert set(SubFlow(inner, turn_keys=["draft"]).turn_keys()) >= {"draft", "answer"}
    assert list(AgentRole("", output_key="text").build().turn_keys()) == ["text"]

    class Around(Node):
        def children(self) -> list[Node]:
            return [mapped]

    assert list(Around().turn_keys()) == ["said"]


def test_a_star_stands_for_every_key_that_begins_so() -> None:
    class Scratch(Node):
        type = "scratch"

        def turn_keys(self) -> list[str]:
            return ["_scratch_*"]

        async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            seen = [key for key in state if key.startswith("_scratch")]
            return {f"_scratch_{state['input']}": 1, **reply(" ".join(seen) or "clean")}

    chat = Chat(Graph({"a": Scratch()}, [], "a"))
    assert [chat.say(text).reply for text in ("one", "two")] == ["clean", "clean"]
    assert "_scratch_two" in chat.state()
    assert "_scratch_one" not in chat.state()


def test_transient_keys_are_gone_when_the_next_turn_starts() -> None:
    def look(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return {"note": state["input"], "kept": 1, **reply(state.get("note", "nothing"))}

    chat = Chat(Graph({"a": make_function_node(look)}, [], "a"), transient_keys=["note"])
    assert [chat.say(text).reply for text in ("one", "two")] == ["nothing", "nothing"]
    assert chat.state()["kept"] == 1


def test_the_conversation_stays_whatever_a_node_says_of_its_key() -> None:
    chat = Chat(echo(), transient_keys=["messages", "*"])
    chat.say("one")
    assert len(chat.say("two").state["messages"]) == 4


def test_what_an_error_edge_brought_is_gone_in_the_next_turn() -> None:
    def work(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        if state["input"] == "break":
            raise ValueError("broken")
        return reply("fine" if "error" not in state else "stale")

    def sorry(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return reply(f"sorry: {state['error']['message']}")

    nodes = {"work": make_function_node(work), "sorry": make_function_node(sorry)}
    chat = Chat(Graph(nodes, [Edge("work", "sorry", "__error__")], "work"))
    assert [chat.say(text).reply for text in ("break", "go on")] == ["sorry: broken", "fine"]


def test_the_rounds_of_an_agent_are_those_of_one_turn() -> None:
    def clock() -> str:
        """Tell the time."""
        return "noon"

    script: list[Any] = []
    for turn in range(4):
        script += [call_tool("clock"), f"answer {turn}"]
    flow = Flow("f", providers={"p": ScriptedProvider(script)}, default_provider="p")
    graph = flow.harness(
        "m", "You tell the time.", max_tool_rounds=1, use_tools="all", id="a"
    ).compile()
    chat = Chat(graph, tools=[clock])
    for turn in range(4):
        assert chat.say(f"question {turn}").reply == f"answer {turn}"
    assert len(chat.state()["messages"]) == 16


# Questions


def approval(**options: Any) -> Graph:
    def say(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return reply(f"{state['input']}: {state['ok']}")

    ask = Interrupt(key="ok", prompt="Sure?", **options)
    return Graph({"ask": ask, "say": make_function_node(say)}, [Edge("ask", "say")], "ask")


def test_a_question_is_a_result_and_the_next_message_is_the_answer() -> None:
    chat = Chat(approval())
    asked = chat.say("refund")
    assert (asked.waiting, asked.prompt, asked.key, asked.reply) == (True, "Sure?", "ok", "")
    assert asked.stop_reason == "interrupt"
    assert asked.state["messages"] == [user("refund")]
    answered = chat.say("yes")
    assert (answered.waiting, answered.reply, answered.prompt) == (False, "refund: yes", None)
    assert answered.state["messages"] == [user("refund"), assistant("refund: yes")]
    assert chat.say("another").waiting


def test_an_empty_answer_is_an_answer() -> None:
    chat = Chat(approval())
    chat.say("refund")
    assert chat.say("").reply == "refund: "


def test_a_text_chooses_the_choice_that_it_names() -> None:
    chat = Chat(approval(choices=["Yes", True, 7]))
    for said, chosen in ((" yes ", "Yes"), ("TRUE", True), ("7", 7)):
        chat.say("refund")
        assert chat.say(said).state["ok"] is chosen


def test_an_answer_that_is_no_choice_is_refused_and_the_question_stays_open() -> None:
    chat = Chat(approval(choices=["yes", "no"]))
    chat.say("refund")
    with pytest.raises(ConfigError, match="choose one of: yes, no"):
        chat.say("perhaps")
    assert chat.say("no").reply == "refund: no"


def test_an_answer_need_not_be_text_but_a_message_must_be() -> None:
    chat = Chat(approval())
    chat.say("refund")
    assert chat.say({"amount": 5}).state["ok"] == {"amount": 5}
    with pytest.raises(ConfigError, match="must be text, not int"):
        chat.say(5)


def test_questions_are_asked_one_after_the_other() -> None:
    async def ask_two(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        name = await ctx.interrupt("name", "Your name?")
        town = await ctx.interrupt("town", "Your town?")
        return reply(f"{name} of {town}")

    chat = Chat(Graph({"a": make_function_node(ask_two)}, [], "a"))
    assert chat.say("hi").prompt == "Your name?"
    second = chat.say("Ada")
    assert (second.waiting, second.key) == (True, "town")
    assert chat.say("London").reply == "Ada of London"


def test_the_open_question_and_the_last_reply_can_be_asked_for() -> None:
    graph, store = approval(), MemoryCheckpointer()
    chat = Chat(graph, store)
    where: dict[str, Any] = {"checkpointer": store}
    assert asyncio.run(graph.pending("c", **where)) is None
    assert asyncio.run(graph.get_state("c", **where)) == {}
    chat.say("refund")
    asked = asyncio.run(graph.pending("c", **where))
    assert asked is not None
    assert (asked.key, asked.prompt, asked.node_id) == ("ok", "Sure?", "ask")
    assert asyncio.run(graph.last_reply("c", **where)) == ""
    chat.say("yes")
    assert asyncio.run(graph.pending("c", **where)) is None
    assert asyncio.run(graph.last_reply("c", **where)) == "refund: yes"
    assert asyncio.run(graph.get_state("c", **where))["ok"] == "yes"


def test_a_run_outside_a_chat_can_be_asked_for_as_well() -> None:
    graph, store = echo(), MemoryCheckpointer()
    asyncio.run(graph.run({"input": "x"}, checkpointer=store, checkpoint_id="r"))
    assert asyncio.run(graph.last_reply("r", checkpointer=store)) == "you said x"


# Limits and failures


def test_a_limit_is_a_result_and_the_next_message_goes_on_from_there() -> None:
    graph = Graph(
        {
            "a": make_function_node(lambda ctx, state: {"seen": state.get("seen", 0) + 1}),
            "b": make_function_node(lambda ctx, state: reply("done")),
        },
        [Edge("a", "b")],
        "a",
    )
    chat = Chat(graph)
    stopped = chat.say("hi", limits=Limits(max_steps=1))
    assert (stopped.stop_reason, stopped.reply, stopped.waiting) == ("max_steps", "", False)
    later = chat.say("hi")
    assert (later.reply, later.state["seen"]) == ("done", 2)
    assert later.state["messages"] == [user("hi"), user("hi"), assistant("done")]


def test_calls_that_a_limit_left_open_are_told_to_the_model_as_interrupted() -> None:
    def clock() -> str:
        """Tell the time."""
        return "noon"

    script: list[Any] = [call_tool("clock"), "It is noon."]
    provider = ScriptedProvider(script)
    flow = Flow("f", providers={"p": provider}, default_provider="p")
    chat = Chat(flow.harness("m", use_tools="all", id="a").compile(), tools=[clock])
    assert chat.say("the time?", limits=Limits(max_steps=1)).stop_reason == "max_steps"
    later = chat.say("well?")
    assert later.reply == "It is noon."
    roles = [message["role"] for message in provider.requests[1].messages]
    assert roles == ["user", "assistant", "tool", "user"]
    assert "interrupted" in str(provider.requests[1].messages[2]["content"])
    assert [message["role"] for message in later.state["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]


def test_a_limit_may_raise_and_the_turn_is_over_all_the_same() -> None:
    graph = Graph({"a": make_function_node(lambda ctx, state: {})}, [Edge("a", "a")], "a")
    chat = Chat(graph, limits=Limits(max_steps=2), on_limit="raise")
    for _ in range(2):
        with pytest.raises(LimitReached):
            chat.say("hi")
    assert chat.state()["messages"] == [user("hi"), user("hi")]


class Flaky(Node):
    """Fails as often as it is told, then says that it is done."""

    type = "flaky"

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        """Fail, or reply."""
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the line is dead")
        return reply(f"done: {state['input']}")


def order_then(node: Node) -> tuple[Graph, list[str]]:
    """Return a graph that places an order and then runs a node; and the orders."""
    orders: list[str] = []

    def order(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        orders.append(state["input"])
        return {"order": len(orders)}

    nodes = {"order": make_function_node(order), "then": node}
    return Graph(nodes, [Edge("order", "then")], "order"), orders


def test_the_same_message_goes_on_with_a_turn_that_failed() -> None:
    graph, orders = order_then(Flaky(2))
    chat = Chat(graph)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            chat.say("tea")
    result = chat.say("tea")
    assert result.reply == "done: tea"
    assert orders == ["tea"]
    assert result.state["messages"] == [user("tea"), assistant("done: tea")]


def test_another_message_leaves_a_failed_turn_as_it_stands() -> None:
    graph, orders = order_then(Flaky(1))
    chat = Chat(graph)
    with pytest.raises(ConnectionError):
        chat.say("tea")
    result = chat.say("coffee")
    assert result.state["messages"] == [
        user("tea"),
        user("coffee"),
        assistant("done: coffee"),
    ]
    assert (orders, result.state["order"]) == (["tea", "coffee"], 2)


def test_what_is_refused_leaves_an_unfinished_turn_alone() -> None:
    graph, orders = order_then(Flaky(1))
    chat = Chat(graph)
    with pytest.raises(ConnectionError):
        chat.say("tea")
    with pytest.raises(ConfigError):
        chat.say(7)
    with pytest.raises(TypeError):
        chat.say("coffee", nonsense=1)
    with pytest.raises(ConfigError):
        chat.say("coffee", hooks={"on_nothing": print})
    assert chat.say("tea").reply == "done: tea"
    assert orders == ["tea"]


def test_a_cancelled_turn_goes_on_with_the_same_message() -> None:
    async def wait(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        if not hurry:
            started.set()
            await asyncio.Event().wait()
        return reply("at last")

    hurry: list[bool] = []
    started = asyncio.Event()
    graph, orders = order_then(make_function_node(wait))
    store = MemoryCheckpointer()

    async def main() -> TurnResult:
        where: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "c"}
        task = asyncio.create_task(graph.turn("tea", **where))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hurry.append(True)
        return await graph.turn("tea", **where)

    assert asyncio.run(main()).reply == "at last"
    assert orders == ["tea"]


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("again", ["tea", "coffee"])
def test_wherever_the_process_dies_no_message_is_lost_or_doubled(at: int, again: str) -> None:
    graph, orders = order_then(make_function_node(lambda ctx, state: reply(state["input"])))
    store = MortalStore(at + 5)  # a turn of two steps is five writes
    chat = Chat(graph, store)
    chat.say("water")
    with pytest.raises(Death):
        chat.say("tea")
    store.reopen()
    result = chat.say(again)
    said = [message["content"] for message in result.state["messages"]]
    users = [
        message["content"] for message in result.state["messages"] if message["role"] == "user"
    ]
    assert result.reply == again
    if again == "tea":
        assert said == ["water", "water", "tea", "tea"]
        # An effect may be done twice where the process died before it was recorded, as in any run.
        assert orders.count("tea") == (2 if at == 1 else 1)
    else:  # the first write is the message
        assert users == ["water", *(["tea"] if at > 0 else []), "coffee"]


def test_a_reply_that_was_not_delivered_is_returned_for_the_same_message() -> None:
    calls: list[str] = []

    def answer(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        calls.append(state["input"])
        return reply("once")

    store = MortalStore(3)  # the start, the step and the end are recorded, but not that it is over
    chat = Chat(Graph({"a": make_function_node(answer)}, [], "a"), store)
    with pytest.raises(Death):
        chat.say("hi")
    store.reopen()
    result = chat.say("hi")
    assert (result.reply, calls) == ("once", ["hi"])
    assert result.usage.model_calls == 0
    chat.say("hi")
    assert calls == ["hi", "hi"]


def test_a_question_that_nobody_was_told_of_is_not_answered_by_the_same_message() -> None:
    store = MortalStore(2)  # the start and the pause are recorded, but not that it was told
    chat = Chat(approval(), store)
    with pytest.raises(Death):
        chat.say("refund")
    store.reopen()
    assert chat.say("refund").waiting
    assert chat.say("yes").reply == "refund: yes"


def test_a_question_that_nobody_was_told_of_is_not_answered_by_another_message() -> None:
    store = MortalStore(2)
    chat = Chat(approval(), store)
    with pytest.raises(Death):
        chat.say("refund")
    store.reopen()
    asked = chat.say("yes")
    assert (asked.waiting, asked.state["messages"]) == (True, [user("refund"), user("yes")])


def test_an_answer_goes_on_where_the_process_died_after_it() -> None:
    graph, orders = order_then(Flaky(1))
    nodes = {"ask": Interrupt(key="ok", prompt="Sure?"), **graph.nodes}
    chat = Chat(Graph(nodes, [Edge("ask", "order"), *graph.edges], "ask"))
    assert chat.say("tea").waiting
    with pytest.raises(ConnectionError):
        chat.say("yes")
    assert chat.say("yes").reply == "done: tea"
    assert orders == ["tea"]


# One turn at a time, and what a turn costs


def test_a_session_takes_one_turn_at_a_time() -> None:
    inside = asyncio.Event()
    leave = asyncio.Event()

    async def wait(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        inside.set()
        await leave.wait()
        return reply("one")

    graph = Graph({"a": make_function_node(wait)}, [], "a")
    where: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "c"}

    async def main() -> TurnResult:
        first = asyncio.create_task(graph.turn("hi", **where))
        await inside.wait()
        with pytest.raises(RunLocked, match="session 'c' is in the middle of another turn"):
            await graph.turn("ho", **where)
        leave.set()
        return await first

    assert asyncio.run(main()).state["messages"] == [user("hi"), assistant("one")]


def test_a_turn_reads_no_turn_but_the_one_before() -> None:
    store = MortalStore()
    chat = Chat(echo(), store)
    for number in range(8):
        store.loads.clear()
        chat.say(str(number))
        assert set(store.loads) <= {"c#session", f"c#turn-{number}", f"c#turn-{number + 1}"}
        assert len(store.loads) <= 4
    listed = asyncio.run(store.load("c#session"))
    assert len(listed) == 8
    assert all(len(str(record.data)) < 60 for record in listed)


def test_a_chat_goes_on_with_a_changed_graph() -> None:
    store = MemoryCheckpointer()
    Chat(echo(), store).say("hi")
    changed = Graph({"b": make_function_node(lambda ctx, state: reply("new"))}, [], "b")
    assert len(Chat(changed, store).say("ho").state["messages"]) == 4


def test_a_turn_that_is_under_way_does_not_go_on_with_a_changed_graph() -> None:
    store = MemoryCheckpointer()
    Chat(approval(), store).say("refund")
    with pytest.raises(GraphChanged):
        Chat(echo(), store).say("yes")


# Options


class Talk(TypedDict, total=False):
    """A state that declares no ``input``."""

    messages: list[Any]


def test_a_state_that_declares_no_input_is_given_none() -> None:
    graph = Graph(
        {"a": make_function_node(lambda ctx, state: reply(str("input" in state)))},
        [],
        "a",
        state=Talk,
    )
    assert Chat(graph).say("hi").reply == "False"


def test_a_turn_takes_the_options_of_a_run() -> None:
    told: list[str] = []
    events: list[StreamEvent] = []
    chat = Chat(
        echo(),
        hooks={"on_node_end": lambda name, node, state, result: told.append(name)},
        emit=events.append,
        node_timeout=5.0,
    )
    chat.say("hi")
    assert told == ["echo"]
    started = [event.data["run_id"] for event in events if event.type == "run_start"]
    assert started == ["c#turn-1"]


def test_what_makes_no_sense_is_refused() -> None:
    chat = Chat(echo())
    with pytest.raises(TypeError, match="takes no resume"):
        chat.say("hi", resume="yes")
    with pytest.raises(TypeError, match="takes no nonsense"):
        chat.say("hi", nonsense=1)
    with pytest.raises(ConfigError, match="checkpoint_id"):
        chat.say("hi", checkpoint_id="")
    with pytest.raises(ConfigError, match="no checkpointer"):
        chat.say("hi", checkpointer={})
    with pytest.raises(ConfigError, match="messages_key"):
        chat.say("hi", messages_key="")
    assert chat.say("hi").reply == "you said hi"


def test_an_agent_made_by_hand_keeps_its_conversation() -> None:
    provider = ScriptedProvider(["one", "two"])
    graph = Graph({"a": ReActAgent(model="m", provider="p")}, [], "a", providers={"p": provider})
    chat = Chat(graph)
    assert [chat.say(text).reply for text in ("first", "second")] == ["one", "two"]
    assert [message["content"] for message in provider.requests[1].messages] == [
        "first",
        "one",
        "second",
    ]
