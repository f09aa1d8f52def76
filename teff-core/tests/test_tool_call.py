"""Calling one tool with arguments from the state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Literal

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, ToolError
from teff.flow import Flow
from teff.graph import Graph
from teff.node import ExecContext, Node, Retry, ToolCall, ToolExec, default_registry
from teff.plugins.catalogue import Catalogue
from teff.runtime import Limits, StreamEvent
from teff.testing import ScriptedProvider, call_tool
from teff.tool import FunctionTool, Tool, default_tool_registry, tool


def graph_of(node: Node) -> Graph:
    return Graph({"it": node}, [], "it")


def run(node: Node, state: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return dict(asyncio.run(graph_of(node).run(state or {}, **options)))


def result_of(
    function: Callable[..., Any] | Tool,
    args: dict[str, Any],
    state: dict[str, Any] | None = None,
    **given: Any,
) -> str:
    found = run(ToolCall(function, args=args, **given), state)["output"]
    assert isinstance(found, str)
    return found


def show(
    text: str = "",
    number: int = 0,
    size: float = 0.0,
    on: bool = False,
    tags: list[str] | None = None,
) -> dict[str, Any]:
    return {"text": text, "number": number, "size": size, "on": on, "tags": tags}


def shown(args: dict[str, Any], state: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result_of(show, args, state))
    return found


@pytest.fixture
def registered() -> Iterator[Callable[..., Any]]:
    """Register tools for a test, and forget them afterwards."""
    before = dict(default_tool_registry._registered), dict(default_tool_registry._made)
    yield default_tool_registry.register
    default_tool_registry._registered, default_tool_registry._made = before


# What a user notices first


def test_a_tool_of_the_run_is_called_by_name_with_arguments_from_the_state() -> None:
    def forecast(city: str, days: int) -> str:
        return f"rain in {city} for {days} days"

    node = ToolCall("forecast", args={"city": "{city}", "days": "{days}"}, output_key="weather")
    found = run(node, {"city": "Rīga", "days": "3"}, tools=[forecast])
    assert found["weather"] == "rain in Rīga for 3 days"


def test_a_registered_tool_needs_no_tools_in_the_run(registered: Callable[..., Any]) -> None:
    def double(n: int) -> int:
        return 2 * n

    registered(double)
    assert run(ToolCall(tool="double", args={"n": 4}))["output"] == "8"


def test_a_tool_of_the_run_comes_before_a_registered_one(registered: Callable[..., Any]) -> None:
    registered(FunctionTool(lambda: "registered", name="which"))
    found = run(ToolCall("which"), tools=[FunctionTool(lambda: "of the run", name="which")])
    assert found["output"] == "of the run"


@pytest.mark.parametrize(
    "made",
    [
        lambda: ToolCall(show, args={"number": 1}),
        lambda: ToolCall(FunctionTool(show), args={"number": 1}),
        lambda: ToolCall({"tool": show, "args": {"number": 1}}),
        lambda: ToolCall({"tool": show}, args={"number": 1}),
        lambda: default_registry.create("tool_call", {"tool": show, "args": {"number": 1}}),
    ],
)
def test_the_tool_is_given_in_any_of_the_usual_ways(made: Callable[[], Node]) -> None:
    assert json.loads(run(made())["output"])["number"] == 1


def test_a_tool_class_and_an_async_tool_are_called_too() -> None:
    class Weather(Tool):
        async def arun(self, city: str, __state__: Any, __ctx__: Any) -> str:
            return f"{city} {__state__['n']} {__ctx__.node_id}"

    args = {"city": "Riga"}
    for node in (ToolCall("weather", args=args), ToolCall(Weather, args=args)):
        assert run(node, {"n": 1}, tools=[Weather()])["output"] == "Riga 1 it"


def test_the_result_is_text_or_the_json_of_anything_else() -> None:
    results: list[Any] = ["text", {"a": [1, None]}, [1, "ū"], 3, None, True]

    def next_result() -> Any:
        return results.pop(0)

    texts = [result_of(next_result, {}) for _ in range(6)]
    assert texts == ["text", '{"a": [1, null]}', '[1, "ū"]', "3", "null", "true"]


# Arguments


@pytest.mark.parametrize(
    ("args", "state", "expected"),
    [
        ({"text": "to {name}"}, {"name": "Bo"}, {"text": "to Bo"}),
        ({"text": "{name}"}, {"name": 5}, {"text": "5"}),
        ({"text": "{name}"}, {"name": ["a", 1]}, {"text": '["a", 1]'}),
        ({"text": "{name|nobody}"}, {}, {"text": "nobody"}),
        ({"text": "{name|}"}, {"name": None}, {"text": ""}),
        ({"text": "{{name}} {a: 1}"}, {}, {"text": "{name} {a: 1}"}),
        ({"text": "{name}"}, {"name": "{token}", "token": "s"}, {"text": "{token}"}),
        ({"number": "3"}, {}, {"number": 3}),
        ({"number": "{n}"}, {"n": 3}, {"number": 3}),
        ({"number": "{n}"}, {"n": "3"}, {"number": 3}),
        ({"number": "{n}{n}"}, {"n": 3}, {"number": 33}),
        ({"number": "{n|7}"}, {}, {"number": 7}),
        ({"number": "{n|7}"}, {"n": 0}, {"number": 0}),
        ({"number": "{order.items[0]}"}, {"order": {"items": [4]}}, {"number": 4}),
        ({"size": "{n}"}, {"n": 2}, {"size": 2.0}),
        ({"size": "1.5"}, {}, {"size": 1.5}),
        ({"on": "{flag}"}, {"flag": True}, {"on": True}),
        ({"on": "{flag}"}, {"flag": "true"}, {"on": True}),
        ({"tags": "{tags}"}, {"tags": ["a", "b"]}, {"tags": ["a", "b"]}),
        ({"tags": "{tags}"}, {"tags": '["a"]'}, {"tags": ["a"]}),
        ({"tags": "{tags}"}, {"tags": None}, {"tags": None}),
        ({"tags": ["{a}", "x {a}", "c"]}, {"a": 1}, {"tags": ["1", "x 1", "c"]}),
    ],
)
def test_arguments_are_filled_from_the_state_and_read_by_the_types_of_the_tool(
    args: dict[str, Any], state: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert shown(args, state).items() >= expected.items()


def test_templates_are_filled_at_any_depth() -> None:
    def send(body: dict[str, Any]) -> dict[str, Any]:
        body["seen"] = True  # what a tool is given is its own
        return body

    args = {"body": {"to": [{"name": "{user.name}"}], "cart": "{cart}", "n": 1}}
    state = {"user": {"name": "Bo"}, "cart": [{"id": 7}]}
    found = json.loads(result_of(send, args, state))
    assert found == {"to": [{"name": "Bo"}], "cart": [{"id": 7}], "n": 1, "seen": True}


@pytest.mark.parametrize(
    ("args", "state", "problem"),
    [
        ({"number": "{n}"}, {"n": "1.9"}, "'number' must be a whole number"),
        ({"number": "{n}"}, {"n": 1.9}, "'number' must be a whole number"),
        ({"number": "{n}"}, {"n": "many"}, "'number' must be"),
        ({"number": "{n}"}, {"n": True}, "'number' must be"),
        ({"on": "{n}"}, {"n": "yes"}, "'on' must be"),
        ({"tags": "{n}"}, {"n": "a, b"}, "'tags' must be"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_and_the_tool_is_not_run(
    args: dict[str, Any], state: dict[str, Any], problem: str
) -> None:
    node = ToolCall(show, args=args)
    with pytest.raises(ToolError, match=problem) as caught:
        run(node, state)
    assert str(caught.value).startswith("tool_call 'it': wrong arguments for 'show': ")
    text = result_of(show, args, state, on_error="message")
    assert text.startswith("error: wrong arguments for 'show': ")


def test_a_missing_key_names_the_argument_the_node_and_the_nearest_key() -> None:
    for written in ("{naem}", "to {naem}", ["{naem}"]):
        with pytest.raises(
            ConfigError, match=r"'args\.text.*' of node 'it' needs the key 'naem'.*'name'"
        ):
            run(ToolCall(show, args={"text": written}, on_error="message"), {"name": 1})


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"txet": "a"}, "the tool 'mail' has no argument 'txet'. Did you mean 'text'?"),
        ({}, "the tool 'mail' needs the argument 'text'"),
        ({"text": "a", "kind": "fax"}, "wrong arguments for the tool 'mail'. 'kind' must be"),
        ({"text": "a", "copies": "1.9"}, "wrong arguments for the tool 'mail'. 'copies' must be"),
    ],
)
def test_arguments_that_a_known_tool_does_not_take_are_refused_when_the_node_is_made(
    registered: Callable[..., Any], args: dict[str, Any], message: str
) -> None:
    def mail(text: str, kind: Literal["post", "mail"] = "mail", copies: int = 1) -> str:
        return text

    registered(mail)
    for made in (mail, "mail"):
        with pytest.raises(ConfigError) as caught:
            ToolCall(made, args=args, id="send")
        assert message in str(caught.value)
        assert str(caught.value).startswith("tool_call 'send': ")
        assert caught.value.path.startswith("args")


def test_making_the_node_imports_no_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*args: Any, **options: Any) -> None:
        raise AssertionError("a plugin was asked for")

    monkeypatch.setattr(Catalogue, "load", load)
    assert ToolCall("fetch_url", args={"any": "thing"}).tool == "fetch_url"


def test_arguments_that_a_tool_of_the_run_does_not_take_are_refused_in_the_run() -> None:
    with pytest.raises(ToolError, match="'txet' is no parameter"):
        run(
            ToolCall("mail", args={"txet": "a"}),
            tools=[FunctionTool(lambda text: text, name="mail")],
        )


def test_a_tool_with_a_schema_of_its_own_takes_what_the_schema_leaves_open() -> None:
    class Anything(Tool):
        name = "anything"
        schema = MappingProxyType(
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
        )

        def run(self, **given: Any) -> dict[str, Any]:
            return given

    assert json.loads(result_of(Anything(), {"a": "{n}", "b": "{n}"}, {"n": 1})) == {
        "a": "1",
        "b": 1,
    }
    with pytest.raises(ConfigError, match="needs the argument 'a'"):
        ToolCall(Anything(), args={"b": 1})


# Failures


def failing() -> str:
    raise ValueError("no luck")


def test_a_failure_is_raised_or_kept_as_a_message() -> None:
    with pytest.raises(ToolError, match="the tool 'failing' failed: ValueError: no luck") as caught:
        run(ToolCall(failing))
    assert isinstance(caught.value.__cause__, ValueError)
    assert run(ToolCall(failing, on_error="message"))["output"] == "error: ValueError: no luck"


def test_an_unknown_tool_is_found_before_the_first_step() -> None:
    steps: list[int] = []
    flow = Flow().step(lambda ctx, state: steps.append(1)).step(ToolCall("no_such_tool"))
    with pytest.raises(ConfigError, match="no_such_tool"):
        asyncio.run(flow.compile().run({}))
    assert not steps


@pytest.mark.parametrize("on_error", ["raise", "message"])
def test_rty_05_a_tool_that_never_returns_ends_at_its_timeout(on_error: Any) -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    node = ToolCall(stuck, timeout=0.02, on_error=on_error)
    if on_error == "raise":
        with pytest.raises(ToolError, match=r"timed out after 0\.02 s"):
            run(node)
    else:
        assert run(node)["output"] == "error: timed out after 0.02 s"


def test_a_long_result_is_cut_and_says_how_long_it_was() -> None:
    def read() -> str:
        return "a" * 50_000 + "z"

    assert len(result_of(read, {})) == 50_001
    text = result_of(read, {}, max_chars=200)
    assert len(text) <= 200
    assert text.startswith("aaa")
    assert text.endswith("z")
    assert "the whole result has 50001 characters" in text
    assert len(result_of(read, {}, max_chars=10)) == 10


# As any other tool call


def test_a_call_is_told_counted_and_bound_by_the_limits() -> None:
    heard: list[StreamEvent] = []
    graph = graph_of(ToolCall(show, args={"number": "{n}"}))
    result = asyncio.run(graph.run({"n": 3}, emit=heard.append))
    told = [event for event in heard if event.type.startswith("tool_")]
    assert [event.type for event in told] == ["tool_call", "tool_result"]
    assert told[0].data == {"id": "show", "name": "show", "arguments": {"number": 3}}
    assert told[1].data["text"] == result["output"]
    assert result.usage.tool_calls == 1

    stopped = asyncio.run(graph.run({"n": 3}, limits=Limits(max_tool_calls=0)))
    assert stopped.stop_reason == "max_tool_calls"


def test_a_tool_that_pauses_the_run_is_called_once() -> None:
    calls: list[str] = []

    async def pay(amount: int, __ctx__: ExecContext) -> str:
        calls.append("pay")
        return f"paid {amount}: {await __ctx__.interrupt('ok', 'Pay?')}"

    store = MemoryCheckpointer()
    flow = Flow().step(ToolCall(pay, args={"amount": 5})).interrupt("next", "Go on?")
    graph = flow.compile()
    options: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt, match="Pay"):
        asyncio.run(graph.run({}, **options))
    with pytest.raises(GraphInterrupt, match="Go on"):
        asyncio.run(graph.run(**options, resume={"ok": "yes"}))
    result = asyncio.run(graph.run(**options, resume={"next": True}))
    assert result["output"] == "paid 5: yes"
    assert calls == ["pay", "pay"]


def test_a_call_that_was_finished_is_not_made_again_when_the_step_is_repeated() -> None:
    calls: list[str] = []
    store = MemoryCheckpointer()

    def pay() -> str:
        calls.append("pay")
        return "paid"

    class PayThenAsk(ToolCall):
        async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Any:
            paid = await super().execute(ctx, state)
            return {**paid, "sure": await ctx.interrupt("sure")}

    graph = graph_of(PayThenAsk(pay))
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run({}, checkpointer=store, checkpoint_id="r"))
    result = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume={"sure": 1}))
    assert dict(result) == {"output": "paid", "sure": 1}
    assert calls == ["pay"]


def test_it_runs_in_a_context_made_by_hand() -> None:
    ctx = ExecContext({"n": 1}, tools=[FunctionTool(show)])
    updates = asyncio.run(ToolCall("show", args={"number": "{n}"}).execute(ctx, {"n": 1}))
    assert json.loads(updates["output"])["number"] == 1


def test_it_tells_what_it_reads_writes_and_uses() -> None:
    node = ToolCall("mail", args={"a": "{x.y}", "b": ["{z}", "{w|1}"], "c": 3}, output_key="sent")
    assert sorted(node.reads()) == ["x", "z"]
    assert list(node.writes()) == ["sent"]
    assert list(node.uses_tools()) == ["mail"]
    assert list(ToolCall(show).uses_tools()) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the option 'tool' is missing"),
        ({"tool": ""}, "the option 'tool' is empty"),
        ({"tool": 5}, "'tool' must be"),
        ({"tool": "a", "output_key": ""}, "the option 'output_key' is empty"),
        ({"tool": "a", "args": ["b"]}, "'args' must be"),
        ({"tool": "a", "on_error": "skip"}, "'on_error' must be"),
        ({"tool": "a", "max_chars": 0}, "'max_chars' must be >= 1"),
        ({"tool": "a", "timeout": 0}, "'timeout' must be > 0"),
        ({"tool": "a", "arguments": {}}, "unknown option 'arguments'"),
        ({"tool": lambda *many: 1}, "tool"),
    ],
)
def test_options_that_do_not_fit_are_refused_when_the_node_is_made(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ToolCall(id="send", **given)


# What agents' tools and retries have in common


def test_rty_05_a_tool_that_never_returns_holds_up_no_other_call() -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    async def fast() -> str:
        return "ok"

    calls = [{"id": "t1", "name": "slow", "args": "{}"}, {"id": "t2", "name": "fast", "args": "{}"}]
    found = run(
        ToolExec(tool_timeout=0.02), {"_tool_calls": calls, "messages": []}, tools=[slow, fast]
    )
    texts = {message["tool_call_id"]: str(message["content"]) for message in found["messages"]}
    assert "timed out" in texts["t1"]
    assert "ok" in texts["t2"]


def test_rty_08_a_cancellation_that_a_tool_raises_is_its_failure() -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError

    assert "cancelled" in run(ToolCall(cancels, on_error="message"))["output"]
    provider = ScriptedProvider([call_tool("cancels"), "It did not work."])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = flow.llm(prompt="Try.", use_tools="all").compile()
    assert asyncio.run(graph.run({}, tools=[cancels]))["output"] == "It did not work."
    provider.assert_done()


def test_rty_08_whoever_cancels_an_agent_stops_it() -> None:
    begun: list[int] = []

    async def waits() -> None:
        begun.append(1)
        await asyncio.Event().wait()

    provider = ScriptedProvider([call_tool("waits")])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = flow.llm(prompt="Try.", use_tools="all").compile()

    async def main() -> None:
        task = asyncio.ensure_future(graph.run({}, tools=[waits]))
        while not begun:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(provider.requests) == 1


def test_a_failed_call_is_made_again_by_a_retry_around_it_under_one_key() -> None:
    sent: list[str] = []

    @tool("unsteady", register=False)
    def unsteady(__ctx__: ExecContext) -> str:
        sent.append(__ctx__.idempotency_key)
        if len(sent) < 3:
            raise OSError("busy")
        return "sent"

    assert run(Retry(ToolCall(unsteady), retry_on=["OSError"]))["output"] == "sent"
    assert len(sent) == 3
    assert len(set(sent)) == 1
