"""Nodes and tools that do their worst: what a run promises holds all the same."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Any

import pytest

import teff.node as nodes
from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphChanged, GraphInterrupt, WorkflowError
from teff.flow import Case, Flow, SubFlow
from teff.graph import Edge, Graph
from teff.messages import ToolCall, message_text
from teff.node import (
    LLM,
    Command,
    Loop,
    Map,
    Node,
    Parallel,
    Retry,
    make_function_node,
)
from teff.provider import ChatReply
from teff.runtime import Limits, StreamEvent
from teff.state import Append
from teff.testing import ScriptedProvider, call_tool


class Stored:
    """A graph with a run of its own, and the tools it may use."""

    def __init__(self, graph: Graph, *tools: Any) -> None:
        self.graph, self.tools = graph, list(tools)
        self.store = MemoryCheckpointer()

    def run(self, state: Any = None, **options: Any) -> Any:
        return asyncio.run(
            self.graph.run(
                state, tools=self.tools, checkpointer=self.store, checkpoint_id="r", **options
            )
        )

    def pause(self, state: Any = None, **options: Any) -> GraphInterrupt:
        with pytest.raises(GraphInterrupt) as caught:
            self.run(state, **options)
        return caught.value


def agent(provider: ScriptedProvider, **config: Any) -> Graph:
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    return flow.harness(**{"use_tools": "all", "id": "a", **config}).compile()


def calls(*wanted: tuple[str, dict[str, Any]]) -> ChatReply:
    return ChatReply(
        tool_calls=[
            ToolCall(id=f"t{number}", name=name, arguments=arguments)
            for number, (name, arguments) in enumerate(wanted, 1)
        ]
    )


def step(function: Any, **options: Any) -> Graph:
    return Flow(**options).step(function).compile()


def nodes_of(**functions: Any) -> dict[str, Node]:
    return {name: make_function_node(function) for name, function in functions.items()}


# Answers belong to one question.


def test_two_calls_of_a_tool_that_asks_get_each_their_own_answer() -> None:
    done: list[str] = []

    async def charge(who: str, __ctx__: Any) -> str:
        """Charge somebody who says yes."""
        if await __ctx__.interrupt("confirm", f"Charge {who}?") == "yes":
            done.append(who)
        return who

    provider = ScriptedProvider(
        [calls(("charge", {"who": "alice"}), ("charge", {"who": "bob"})), "ok"]
    )
    stored = Stored(agent(provider), charge)
    asked = {q.prompt: q.id for q in stored.pause({"input": "go"}).interrupts}
    stored.pause(resume={asked["Charge alice?"]: "yes"})
    stored.run(resume={asked["Charge bob?"]: "no"})
    assert done == ["alice"]


def test_tools_that_ask_a_model_get_each_their_own_reply() -> None:
    async def fast(__ctx__: Any) -> str:
        """Ask the model."""
        return (await __ctx__.llm("", [{"role": "user", "content": "fast?"}])).text

    async def slow(__ctx__: Any) -> str:
        """Ask a person, then the model."""
        await __ctx__.interrupt("go")
        return (await __ctx__.llm("", [{"role": "user", "content": "slow?"}])).text

    provider = ScriptedProvider(
        [calls(("fast", {}), ("slow", {})), "for fast", "for slow", "the end"]
    )
    stored = Stored(agent(provider), fast, slow)
    stored.pause({"input": "go"})
    stored.run(resume="yes")
    texts = [message_text(m) for m in provider.requests[3].messages if m["role"] == "tool"]
    assert texts == ["for fast", "for slow"]


def test_each_call_of_a_tool_has_effects_and_an_idempotency_key_of_its_own() -> None:
    keys: list[str] = []

    async def charge(n: int, __ctx__: Any) -> int:
        """Charge once."""
        keys.append(__ctx__.idempotency_key)
        value: int = await __ctx__.once("charge", lambda: n)
        return value

    provider = ScriptedProvider([calls(("charge", {"n": 1}), ("charge", {"n": 2})), "ok"])
    Stored(agent(provider), charge).run({"input": "go"})
    assert len(set(keys)) == 2
    texts = [message_text(m) for m in provider.requests[1].messages if m["role"] == "tool"]
    assert texts == ["1", "2"]


def test_a_policy_that_changes_its_mind_does_not_overrule_a_persons_no() -> None:
    done: list[str] = []
    answers = iter(["pause", "approve"])

    def pay() -> str:
        """Pay."""
        done.append("paid")
        return "paid"

    provider = ScriptedProvider([call_tool("pay"), "ok"])
    graph = agent(provider, tool_approval=lambda name, arguments: next(answers))
    stored = Stored(graph, pay)
    stored.pause({"input": "go"})
    stored.run(resume=False)
    assert done == []


def test_a_tool_that_raises_the_interrupt_itself_gets_the_answer_as_its_result() -> None:
    async def ask() -> str:
        """Ask."""
        raise GraphInterrupt("name", "Who?")

    provider = ScriptedProvider([calls(("ask", {})), "Thanks."])
    stored = Stored(agent(provider), ask)
    assert stored.pause({"input": "go"}).prompt == "Who?"
    assert stored.run(resume="Ada")["output"] == "Thanks."
    assert message_text(provider.requests[1].messages[-1]) == "Ada"


def test_a_child_that_raises_the_interrupt_itself_pauses_where_it_is() -> None:
    async def child(ctx: Any, state: Any) -> Any:
        raise GraphInterrupt("name", "Who?")

    async def parent(ctx: Any, state: Any) -> Any:
        try:
            updates = await ctx.call("child", make_function_node(child), state)
        except Exception:
            updates = {"name": "nobody"}
        return {**updates, "parent": "done"}

    stored = Stored(step(parent))
    stored.pause()
    assert stored.run(resume="Ada") == {"name": "Ada", "parent": "done"}


def test_one_key_asked_twice_at_once_is_refused_since_answers_could_be_swapped() -> None:
    async def both(ctx: Any, state: Any) -> Any:
        await asyncio.gather(ctx.interrupt("q"), ctx.interrupt("q"), return_exceptions=True)

    with pytest.raises(WorkflowError, match="asks for 'q' twice at once"):
        Stored(step(both)).run()


# Pauses and limits cannot be caught.


def test_a_pause_in_a_task_group_is_a_pause() -> None:
    async def group(ctx: Any, state: Any) -> Any:
        async with asyncio.TaskGroup() as tasks:
            one = tasks.create_task(ctx.interrupt("one"))
        return {"one": one.result()}

    stored = Stored(step(group))
    assert stored.pause().key == "one"
    assert stored.run(resume=1)["one"] == 1


def greedy(**options: Any) -> tuple[Graph, ScriptedProvider]:
    provider = ScriptedProvider(["a"] * 9)

    async def ask_many(ctx: Any, state: Any) -> Any:
        for _ in range(4):
            try:
                await ctx.llm("", [{"role": "user", "content": "x"}])
            except BaseException:
                continue
        return {"said": "all is well"}

    models = {"providers": {"p": provider}, "default_provider": "p", "default_model": "m"}
    return step(ask_many, **models, **options), provider


def test_a_limit_that_a_node_swallows_ends_the_run_all_the_same() -> None:
    graph, provider = greedy()
    result = asyncio.run(graph.run(limits=Limits(max_model_calls=2)))
    assert (result.status, result.stop_reason) == ("stopped", "max_model_calls")
    assert len(provider.requests) == 2
    assert "said" not in result


def test_a_limit_in_a_task_group_is_a_limit() -> None:
    async def group(ctx: Any, state: Any) -> Any:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(3):
                tasks.create_task(ctx.llm("", [{"role": "user", "content": "x"}]))

    provider = ScriptedProvider(["a"] * 3)
    models = {"providers": {"p": provider}, "default_provider": "p", "default_model": "m"}
    result = asyncio.run(step(group, **models).run(limits=Limits(max_model_calls=1)))
    assert (result.status, result.stop_reason) == ("stopped", "max_model_calls")


def test_a_node_that_swallows_the_deadline_does_not_outrun_it() -> None:
    async def stubborn(ctx: Any, state: Any) -> Any:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.2)
        return {"n": state.get("n", 0) + 1}

    graph = Graph(nodes_of(a=stubborn), [Edge("a", "a", "n<500")], "a")
    result = asyncio.run(graph.run(limits=Limits(deadline=0.05)))
    assert (result.status, result.stop_reason) == ("stopped", "deadline")
    assert result["n"] <= 2


def test_nothing_goes_on_after_the_run_has_paused() -> None:
    done: list[str] = []

    async def ask(ctx: Any, state: Any) -> Any:
        return {"go": await ctx.interrupt("go")}

    async def pay(ctx: Any, state: Any) -> Any:
        await asyncio.sleep(0.02)
        await ctx.once("pay", lambda: done.append("paid"))
        return {}

    async def parent(ctx: Any, state: Any) -> Any:
        nodes = nodes_of(ask=ask, pay=pay)
        await asyncio.gather(*(ctx.call(name, node, state) for name, node in nodes.items()))
        return {"ok": True}

    async def scenario() -> None:
        graph, options = step(parent), {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
        heard: list[str] = []
        with pytest.raises(GraphInterrupt):
            await graph.run({}, emit=lambda event: heard.append(event.type), **options)
        assert heard[-1] == "run_end"
        assert len(asyncio.all_tasks()) == 1
        result = await graph.run(resume="yes", **options)
        assert result["ok"] is True

    asyncio.run(scenario())
    assert done == ["paid"], "it was finished before the run paused, and is not done again"


def test_an_effect_after_the_end_of_the_run_is_refused() -> None:
    contexts: list[Any] = []

    async def leak(ctx: Any, state: Any) -> None:
        contexts.append(ctx)

    async def scenario() -> None:
        await step(leak).run()
        with pytest.raises(WorkflowError, match="after the run had ended"):
            await contexts[0].once("late", lambda: 1)

    asyncio.run(scenario())


def test_a_cancellation_that_nobody_asked_for_is_a_failure_of_the_node() -> None:
    async def cancelled(ctx: Any, state: Any) -> None:
        raise asyncio.CancelledError

    async def handle(ctx: Any, state: Any) -> Any:
        return {"told": state["error"]["type"]}

    graph = Graph(nodes_of(a=cancelled, b=handle), [Edge("a", "b", "__error__")], "a")
    assert asyncio.run(graph.run())["told"] == "WorkflowError"


# What was recorded is what happened.


def test_a_reducer_with_a_memory_is_not_asked_again_when_the_run_goes_on() -> None:
    count = iter(range(10))

    async def add(ctx: Any, state: Any) -> Any:
        return {"log": "x"}

    async def ask(ctx: Any, state: Any) -> Any:
        return {"go": await ctx.interrupt("go")}

    flow = Flow(reducers={"log": lambda old, new: [*old, next(count)]})
    stored = Stored(flow.step(add, id="a").step(add, id="b").step(ask).compile())
    assert stored.pause({"log": []}).result["log"] == [0, 1]
    assert stored.run(resume=1)["log"] == [0, 1]


def test_reducers_of_the_first_call_hold_for_its_steps_when_the_run_goes_on() -> None:
    async def add(ctx: Any, state: Any) -> Any:
        return {"log": "b"}

    async def ask(ctx: Any, state: Any) -> Any:
        return {"go": await ctx.interrupt("go")}

    stored = Stored(Flow().step(add).step(ask).compile())
    stored.pause({"log": ["a"]}, reducers={"log": "append"})
    assert stored.run(resume=1)["log"] == ["a", "b"]


def test_a_stop_reason_that_was_taken_back_stays_so() -> None:
    async def bounded(ctx: Any, state: Any) -> None:
        ctx.set_stop_reason("max_rounds")

    async def better(ctx: Any, state: Any) -> None:
        ctx.set_stop_reason(None)

    async def ask(ctx: Any, state: Any) -> Any:
        return {"go": await ctx.interrupt("go")}

    stored = Stored(Flow().step(bounded).step(better).step(ask).compile())
    stored.pause()
    result = stored.run(resume=1)
    assert (result.status, result.stop_reason) == ("finished", "end")


def test_a_graph_that_changed_inside_is_refused_too() -> None:
    async def ask(ctx: Any, state: Any) -> Any:
        return {"go": await ctx.interrupt("go")}

    def outer(inner_id: str) -> Graph:
        return Flow().step(SubFlow(Flow().step(ask, id=inner_id).compile(), id="inner")).compile()

    stored = Stored(outer("ask"))
    stored.pause()
    stored.graph = outer("renamed")
    with pytest.raises(GraphChanged, match="changed inner"):
        stored.run(resume=1)


@pytest.mark.parametrize("at", ["node_end", "edge"])
def test_a_run_that_was_cancelled_in_its_last_breath_finishes_later(at: str) -> None:
    async def scenario() -> None:
        async def last(ctx: Any, state: Any) -> Any:
            return {"n": 1}

        async def hold(event: StreamEvent) -> None:
            if event.type == at:
                await asyncio.sleep(60)

        graph = step(last)
        options: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
        task = asyncio.create_task(graph.run({}, emit=hold, **options))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        result = await graph.run(**options)
        assert (dict(result), result.status, result.stop_reason) == ({"n": 1}, "finished", "end")

    asyncio.run(scenario())


def test_cancelling_a_run_anywhere_leaves_it_whole() -> None:
    async def scenario(after: int) -> None:
        async def work(ctx: Any, state: Any) -> Any:
            await asyncio.sleep(0)
            return {"log": Append([ctx.node_id])}

        inner = Flow().step(work, id="i1").step(work, id="i2").compile()
        graph = Flow().step(work, id="a").step(SubFlow(inner, id="s")).step(work, id="b").compile()
        ends: list[str] = []

        def hear(event: StreamEvent) -> None:
            if event.type == "run_end":
                ends.append(event.data["status"])

        options: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
        task = asyncio.create_task(graph.run({}, emit=hear, **options))
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(ends) <= 1
        assert len(asyncio.all_tasks()) == 1
        result = await graph.run(**options)
        assert result["log"] == ["a", "i1", "i2", "b"]

    for after in range(25):
        asyncio.run(scenario(after))


def test_the_questions_of_a_paused_run_are_told_by_its_stream_again() -> None:
    async def ask(ctx: Any, state: Any) -> Any:
        return {"go": await ctx.interrupt("go")}

    stored = Stored(step(ask))
    stored.pause()
    heard: list[StreamEvent] = []
    stored.pause(emit=heard.append)
    assert [(event.type, event.data["status"]) for event in heard] == [("run_end", "paused")]
    heard.clear()
    stored.run(resume=1, emit=heard.append)
    assert [event.type for event in heard][:2] == ["run_start", "interrupt_resume"]
    assert heard[1].data == {"keys": ["go"]}
    assert heard[-1].type == "run_end"


# Updates.


def test_a_copy_of_the_state_with_a_change_adds_nothing_twice() -> None:
    async def spread(ctx: Any, state: Any) -> Any:
        return {**state, "n": 1}

    graph = step(spread, reducers={"log": "append", "total": lambda old, new: old + new})
    result = asyncio.run(graph.run({"log": ["a"], "total": [1]}))
    assert result == {"log": ["a"], "total": [1], "n": 1}


def test_an_effect_that_failed_may_be_tried_again() -> None:
    tries: list[int] = []

    def fragile() -> str:
        tries.append(1)
        if len(tries) < 2:
            raise OSError
        return "done"

    async def retry(ctx: Any, state: Any) -> Any:
        try:
            return {"got": await ctx.once("effect", fragile)}
        except OSError:
            return {"got": await ctx.once("effect", fragile)}

    assert Stored(step(retry)).run()["got"] == "done"


def test_a_state_that_grows_deeper_with_each_step_is_not_lost() -> None:
    async def wrap(ctx: Any, state: Any) -> Any:
        return {"deep": [state.get("deep")], "n": state.get("n", 0) + 1}

    graph = Graph(nodes_of(a=wrap), [Edge("a", "a", "n<3000")], "a")
    result = asyncio.run(graph.run({}))
    assert (result["n"], result.status) == (3000, "finished")


def test_a_value_that_contains_itself_is_refused_by_its_key() -> None:
    async def cyclic(ctx: Any, state: Any) -> Any:
        items: list[Any] = []
        items.append(items)
        return {"knot": items}

    with pytest.raises(ValueError, match="'knot' contains itself"):
        asyncio.run(step(cyclic).run())


# Error edges take every failure of their node.


def test_an_error_edge_takes_an_unknown_target_and_a_broken_condition() -> None:
    async def jump(ctx: Any, state: Any) -> Command:
        return Command({"kept": 1}, goto="nowhere")

    async def plain(ctx: Any, state: Any) -> Any:
        return {"kept": 1}

    async def handle(ctx: Any, state: Any) -> Any:
        return {"told": state["error"]["type"]}

    def broken(state: Any) -> bool:
        raise ZeroDivisionError

    for function, edges in [
        (jump, [Edge("a", "b", "__error__")]),
        (plain, [Edge("a", "b", "__error__"), Edge("a", "a", broken)]),
    ]:
        result = asyncio.run(Graph(nodes_of(a=function, b=handle), edges, "a").run())
        assert result["told"] in ("WorkflowError", "ZeroDivisionError")
        assert result["kept"] == 1


def test_a_node_that_takes_too_long_fails_with_words_and_a_sub_flow_is_not_one() -> None:
    async def slow(ctx: Any, state: Any) -> None:
        await asyncio.sleep(0.03)

    inner = Flow().step(slow).step(slow).step(slow).compile()
    graph = Flow().step(SubFlow(inner, id="inner")).compile()
    assert asyncio.run(graph.run(node_timeout=0.05)).status == "finished"
    with pytest.raises(TimeoutError, match=r"'slow_1' took longer than 0\.01 seconds"):
        asyncio.run(graph.run(node_timeout=0.01))
    for wrong in (0, -1, "3", float("nan")):
        with pytest.raises(ConfigError, match="node_timeout"):
            asyncio.run(graph.run(node_timeout=wrong))  # type: ignore[arg-type]


# Building.


def test_the_finish_of_a_route_is_kept_by_a_branch_after_it() -> None:
    async def decide(ctx: Any, state: Any) -> Any:
        return {"next": state["plan"][0], "plan": state["plan"][1:]}

    async def nothing(ctx: Any, state: Any) -> None:
        return None

    async def mark(ctx: Any, state: Any) -> Any:
        return {"branched": True}

    flow = Flow().step(decide).route("next", agents={"x": nothing})
    graph = flow.branch("kind", Case("k").add(mark)).compile()
    assert "branched" not in asyncio.run(graph.run({"plan": ["y"], "kind": "k"}))
    assert asyncio.run(graph.run({"plan": ["x", "finish"], "kind": "k"}))["branched"] is True


def test_made_up_ids_make_way_for_given_ones() -> None:
    async def nothing(ctx: Any, state: Any) -> None:
        return None

    flow = Flow().step(nothing, id="nothing_2").step(nothing)
    assert list(flow.compile().nodes) == ["nothing_2", "nothing_3"]


def test_a_node_whose_init_forgets_ours_still_works() -> None:
    class Forgetful(Node):
        type = "forgetful"

        def __init__(self, word: str) -> None:
            self.word = word

        async def execute(self, ctx: Any, state: Any) -> Any:
            return {"word": self.word}

    assert asyncio.run(Flow().step(Forgetful("hi")).compile().run())["word"] == "hi"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Graph({"a": print}, [], "a"), "'a' is a builtin_function"),  # type: ignore[dict-item]
        (lambda: Graph(nodes_of(a=print), [("a", "a")], "a"), "no edge"),  # type: ignore[list-item]
        (lambda: Graph(nodes_of(a=print), None, "a"), "edges must be a list"),  # type: ignore[arg-type]
        (lambda: Graph([], [], "a"), "nodes must be a dict"),  # type: ignore[arg-type]
        (lambda: SubFlow(3), "Graph or a Flow"),  # type: ignore[arg-type]
    ],
)
def test_a_graph_made_of_other_things_is_refused_in_words(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_shared_sub_graphs_are_looked_at_once() -> None:
    async def nothing(ctx: Any, state: Any) -> None:
        return None

    graph = step(nothing)
    for _ in range(18):
        graph = Flow().step(SubFlow(graph)).step(SubFlow(graph)).compile()
    assert graph.check() == []


# Found by reading.


def test_a_finished_call_is_not_done_again_because_its_sibling_hit_a_limit() -> None:
    done: list[int] = []

    async def pay(n: int) -> int:
        """Pay."""
        done.append(n)
        return n

    both = calls(("pay", {"n": 1}), ("pay", {"n": 2}))
    stored = Stored(agent(ScriptedProvider([both, "ok"])), pay)
    first = stored.run({"input": "go"}, limits=Limits(max_tool_calls=1))
    assert (first.stop_reason, done) == ("max_tool_calls", [1])
    texts = [message_text(m) for m in first["messages"] if m["role"] == "tool"]
    assert texts[0] == "1"
    assert "reached a limit" in texts[1]
    stored.run(limits=Limits(max_tool_calls=5))
    assert done == [1, 2]


def test_replies_are_found_again_by_their_question_and_not_by_their_order() -> None:
    crashes = [True]

    async def both(ctx: Any, state: Any) -> Any:
        async def ask(text: str, late: bool) -> str:
            if late:
                await asyncio.sleep(0.01)
            reply = await ctx.llm("", [{"role": "user", "content": text}])
            return str(reply.text)

        answers = await asyncio.gather(ask("A", not crashes), ask("B", bool(crashes)))
        if crashes:
            crashes.clear()
            raise OSError("lost")
        return {"answers": answers}

    provider = ScriptedProvider([lambda request: f"re:{request.messages[-1]['content']}"] * 2)
    models = {"providers": {"p": provider}, "default_provider": "p", "default_model": "m"}
    stored = Stored(step(both, **models))
    with pytest.raises(OSError, match="lost"):
        stored.run()
    assert stored.run()["answers"] == ["re:A", "re:B"]
    assert len(provider.requests) == 2


def test_the_same_answer_twice_is_one_answer_and_another_one_is_refused() -> None:
    broken = [True]

    async def ask(ctx: Any, state: Any) -> Any:
        return {"ok": await ctx.interrupt("ok")}

    async def fragile(ctx: Any, state: Any) -> None:
        if broken:
            raise OSError("lost")

    stored = Stored(Flow().step(ask).step(fragile).compile())
    stored.pause()
    with pytest.raises(OSError, match="lost"):
        stored.run(resume={"ok": 1})
    with pytest.raises(ConfigError, match="answered already"):
        stored.run(resume={"ok": 2})
    with pytest.raises(OSError, match="lost"):
        stored.run(resume=1)
    broken.clear()
    assert stored.run(resume={"ok": 1})["ok"] == 1


def test_a_sub_flow_may_bring_its_own_provider_and_model() -> None:
    provider = ScriptedProvider(["hello"])
    inner = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = Flow().add_flow(inner.llm(prompt="hi"), id="inner").compile()
    assert asyncio.run(graph.run())["output"] == "hello"


def test_what_an_output_map_brings_back_goes_through_the_reducer_outside() -> None:
    async def give(ctx: Any, state: Any) -> Any:
        return {"found": ["new"], "sum": 5}

    flow = Flow(reducers={"log": "append", "total": lambda old, new: old + new})
    flow.add_flow(Flow().step(give), output_map={"log": "found", "total": "sum"})
    assert asyncio.run(flow.compile().run({"log": ["old"], "total": 10})) == {
        "log": ["old", "new"],
        "total": 15,
    }


def test_a_graph_that_declares_no_provider_keeps_the_one_it_finds() -> None:
    made: list[object] = []

    async def look(ctx: Any, state: Any) -> None:
        made.append(ctx.providers)

    graph = Flow().step(look, id="a").step(look, id="b").compile()
    asyncio.run(graph.run())
    asyncio.run(graph.run())
    assert len({id(registry) for registry in made}) == 1


@pytest.mark.parametrize("build", ["agent", "llm"])
def test_ask_human_is_offered_where_it_is_named_and_asks_a_person(build: str) -> None:
    provider = ScriptedProvider([call_tool("ask_human", {"question": "Sure?"}), "Thanks."])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    if build == "agent":
        graph = flow.harness(use_tools=["ask_human"], id="a").compile()
    else:
        graph = flow.llm(input_key="input", use_tools=["ask_human"]).compile()
    stored = Stored(graph)
    assert stored.pause({"input": "go"}).prompt == "Sure?"
    assert [tool.name for tool in provider.requests[0].tools] == ["ask_human"]
    assert stored.run(resume="yes")["output"] == "Thanks."


def test_a_node_that_failed_does_not_end_well_in_the_events() -> None:
    async def fail(ctx: Any, state: Any) -> None:
        raise ValueError("no luck")

    async def handle(ctx: Any, state: Any) -> None:
        return None

    heard: list[StreamEvent] = []
    graph = Graph(nodes_of(a=fail, b=handle), [Edge("a", "b", "__error__")], "a")
    asyncio.run(graph.run(emit=heard.append))
    about = [(event.type, event.data.get("condition")) for event in heard if event.node_id == "a"]
    assert about == [("node_start", None), ("node_error", None), ("edge", "__error__")]


@pytest.mark.parametrize("messages", ["text", ["text"], [{"content": "x"}], 5])
def test_a_conversation_that_is_none_is_refused_by_its_key(messages: Any) -> None:
    graph = agent(ScriptedProvider())
    with pytest.raises(ValueError, match="'messages'"):
        asyncio.run(graph.run({"messages": messages, "input": "hi"}))


def test_a_missing_input_key_is_named_with_the_nearest_one() -> None:
    models = {"providers": {"p": ScriptedProvider()}, "default_provider": "p"}
    graph = Flow(**models, default_model="m").llm(input_key="question", id="ask").compile()
    with pytest.raises(ValueError, match="'ask' reads state key 'question'.*'questions'"):
        asyncio.run(graph.run({"questions": "?"}))


def test_a_listener_that_fails_at_the_end_does_not_hide_what_the_node_raised() -> None:
    def listen(event: StreamEvent) -> None:
        if event.type == "run_end":
            raise RuntimeError("the listener")

    async def fail(ctx: Any, state: Any) -> None:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck") as caught:
        asyncio.run(step(fail).run(emit=listen))
    assert any("the listener" in note for note in caught.value.__notes__)


def test_a_context_made_by_hand_takes_answers_reducers_and_a_tracer() -> None:
    from teff.node import ExecContext

    heard: list[str] = []
    ctx = ExecContext(
        {"n": 1},
        node_id="x",
        tracer=lambda event: heard.append(event.type),
        reducers={"log": "append"},
        resume={"name": "Ada"},
    )
    assert asyncio.run(ctx.interrupt("name")) == "Ada"
    asyncio.run(ctx.emit_custom("hi"))
    assert heard == ["custom"]
    with pytest.raises(GraphInterrupt):
        asyncio.run(ctx.interrupt("other"))


def test_a_copy_of_the_state_is_recorded_as_what_changed_in_it() -> None:
    async def spread(ctx: Any, state: Any) -> Any:
        return {**state, "n": state["n"] + 1}

    heard: list[StreamEvent] = []
    stored = Stored(Flow(reducers={"log": "append"}).step(spread).step(spread).compile())
    result = stored.run({"n": 0, "log": ["a"], "text": "long " * 99}, emit=heard.append)
    assert (result["n"], result["log"]) == (2, ["a"])
    records = asyncio.run(stored.store.load("r"))
    steps = [record.data["effects"]["values"] for record in records if record.kind == "step"]
    assert steps == [{"n": 1}, {"n": 2}]
    assert [event.data["keys"] for event in heard if event.type == "node_end"] == [("n",), ("n",)]


def test_an_equal_number_is_still_added_by_a_reducer() -> None:
    async def one(ctx: Any, state: Any) -> Any:
        return {"n": 1}

    graph = step(one, reducers={"n": lambda old, new: old + new})
    assert asyncio.run(graph.run({"n": 1}))["n"] == 2


def test_a_model_call_after_the_end_of_the_run_is_refused() -> None:
    contexts: list[Any] = []

    async def leak(ctx: Any, state: Any) -> None:
        contexts.append(ctx)

    async def scenario() -> None:
        provider = ScriptedProvider(["never asked"])
        models = {"providers": {"p": provider}, "default_provider": "p", "default_model": "m"}
        await step(leak, **models).run()
        with pytest.raises(WorkflowError, match="after the run had ended"):
            await contexts[0].llm("", [{"role": "user", "content": "x"}])
        assert provider.requests == []

    asyncio.run(scenario())


def test_a_model_call_that_is_left_behind_does_not_outlive_its_step() -> None:
    ended: list[str] = []

    class Slow(ScriptedProvider):
        async def chat(self, request: Any) -> Any:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("closed")

    async def forget(ctx: Any, state: Any) -> None:
        left = asyncio.create_task(ctx.llm("", [{"role": "user", "content": "x"}]))
        await asyncio.sleep(0.01)
        assert not left.done()
        raise ValueError("no luck")

    async def scenario() -> int:
        models = {"providers": {"p": Slow()}, "default_provider": "p", "default_model": "m"}
        with pytest.raises(ValueError, match="no luck"):
            await step(forget, **models).run()
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1
    assert ended == ["closed"]


def test_a_cancellation_does_not_wait_for_what_goes_on_beside_a_pause() -> None:
    async def ask(ctx: Any, state: Any) -> Any:
        return {"go": await ctx.interrupt("go")}

    async def slow(ctx: Any, state: Any) -> None:
        await asyncio.sleep(60)

    async def parent(ctx: Any, state: Any) -> Any:
        nodes = nodes_of(ask=ask, slow=slow)
        await asyncio.gather(
            *(ctx.call(name, node, state) for name, node in nodes.items()), return_exceptions=True
        )

    async def scenario() -> int:
        task = asyncio.create_task(step(parent).run())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1


class Wordless(Exception):
    """An exception that cannot say what it is about."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


async def speechless(ctx: Any, state: dict[str, Any]) -> None:
    raise Wordless


@pytest.mark.parametrize(
    "wrap",
    [
        make_function_node,
        lambda node: SubFlow(Graph({"in": make_function_node(node)}, [], "in")),
        lambda node: Retry(node, max_retries=2),
        lambda node: Loop(node, key="done", until="yes"),
        lambda node: Parallel([node, [node]]),
        lambda node: Map(node, input_keys="xs", output_key="ys"),
    ],
)
def test_an_exception_without_a_text_is_a_failure_like_any_other(wrap: Any) -> None:
    events: list[StreamEvent] = []
    after = make_function_node(lambda ctx, state: {"taken": state["error"]["type"]})
    graph = Graph({"a": wrap(speechless), "b": after}, [Edge("a", "b", "__error__")], "a")
    result = Stored(graph).run({"xs": [1]}, emit=events.append)
    assert result["taken"] == "Wordless"
    assert "__str__" in result["error"]["message"]
    alone = Graph({"a": wrap(speechless)}, [], "a")
    with pytest.raises(Wordless):
        asyncio.run(alone.run({"xs": [1]}, emit=events.append))
    assert events[-1].data["status"] == "failed"


@pytest.mark.parametrize("container", ["parallel", "map"])
def test_failures_without_a_text_can_be_collected(container: str) -> None:
    node: Node
    if container == "parallel":
        node = Parallel([speechless], on_error="collect", errors_key="errors")
    else:
        node = Map(speechless, input_keys="xs", on_error="collect", errors_key="errors")
    result = asyncio.run(Graph({"a": node}, [], "a").run({"xs": [1]}))
    assert [failure["type"] for failure in result["errors"]] == ["Wordless"]


def test_a_model_is_told_of_a_tool_that_failed_without_a_text() -> None:
    async def look(place: str) -> str:
        """Look."""
        raise Wordless

    graph = agent(ScriptedProvider([call_tool("look", {"place": "here"}), "done"]))
    result = Stored(graph, look).run({"messages": [{"role": "user", "content": "look"}]})
    assert message_text(result["messages"][-1]) == "done"
    assert "Wordless" in message_text(result["messages"][-2])


def test_a_failure_beside_a_cancellation_is_no_exception_that_nobody_saw() -> None:
    complaints: list[Any] = []

    async def fails_late(ctx: Any, state: dict[str, Any]) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            raise ValueError("too late")

    async def main(node: Node) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: complaints.append(told))
        running = asyncio.create_task(Graph({"a": node}, [], "a").run({"xs": [1, 2]}))
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        del running
        gc.collect()
        await asyncio.sleep(0)

    for node in (
        Parallel([fails_late, Parallel([fails_late, fails_late])]),
        Map(Parallel([fails_late]), input_keys="xs", output_key="ys"),
    ):
        asyncio.run(main(node))
    assert complaints == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_node_of_two_graphs_needs_a_model_in_both_before_the_first_step(
    order: tuple[int, int],
) -> None:
    started: list[str] = []
    asks = LLM(prompt="Hello")
    provider = ScriptedProvider(["hi"])
    graphs = [
        Graph({"in": asks}, [], "in", providers={"p": provider}, default_provider="p"),
        Graph({"in": asks}, [], "in"),
    ]
    nodes = {f"sub-{place}": SubFlow(graphs[place]) for place in order}
    first = make_function_node(lambda ctx, state: started.append("first"))
    path = ["first", *nodes]
    edges = [Edge(one, other) for one, other in zip(path, path[1:], strict=False)]
    graph = Graph({"first": first, **nodes}, edges, "first", default_model="m")
    with pytest.raises(ConfigError, match="node 'sub-1' asks a model, but no provider"):
        asyncio.run(graph.run({}))
    assert started == []


@pytest.mark.parametrize(
    "node",
    [
        nodes.ToolCall("serch"),
        Parallel([nodes.ToolCall("serch")]),
        LLM(prompt="x", provider="serch"),
    ],
)
def test_what_a_node_needs_and_the_run_has_not_is_told_with_the_node(node: Node) -> None:
    with pytest.raises(ConfigError, match="node 'a': unknown (tool|provider) 'serch'"):
        asyncio.run(Graph({"a": node}, [], "a").run({}, default_model="m"))
