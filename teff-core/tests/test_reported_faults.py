"""Faults that people reported of such programs, as whole runs; most have their test beside the code."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.errors import ConfigError, StateError, ToolError
from teff.flow import Flow
from teff.graph import Edge, Graph
from teff.node import LLM, Node, Parallel, Retry, ToolCall, make_function_node
from teff.runtime import ExecContext
from teff.state import DELETE, Overwrite
from teff.testing import ScriptedProvider


def run(node: Any, given: Any = None, **settings: Any) -> Any:
    made = node if isinstance(node, Node) else make_function_node(node)
    return asyncio.run(Graph({"n": made}, [], "n", **settings).run(given))


def test_red_01_the_last_branch_that_was_declared_wins_whichever_is_ready_first() -> None:
    async def p(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"owner": "kim"}

    for _ in range(50):
        assert run(Parallel([p, lambda ctx, state: {"owner": "lee"}])) == {"owner": "lee"}


def test_red_04_a_value_cannot_be_changed_in_place_and_the_error_says_what_to_do() -> None:
    def mutate(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        state["notes"].append("x")
        return {"notes": state["notes"]}

    given: dict[str, Any] = {"notes": []}
    with pytest.raises(TypeError, match="return an update"):
        run(mutate, given, state={"notes": list})
    assert given == {"notes": []}


def test_red_04_an_undeclared_key_is_refused_by_name() -> None:
    with pytest.raises(StateError, match=r"'note'.*'notes'"):
        run(lambda ctx, state: {"note": "y"}, {"notes": []}, state={"notes": list})


@pytest.mark.parametrize("reset", [Overwrite([]), DELETE])
def test_red_06_nothing_appended_changes_nothing_and_a_reset_is_said(reset: Any) -> None:
    reducers = {"errors": "append"}
    before = {"errors": ["e1"]}
    assert run(lambda ctx, state: {"errors": []}, before, reducers=reducers) == before
    assert not run(lambda ctx, state: {"errors": reset}, before, reducers=reducers).get("errors")


def test_red_07_defaults_are_not_shared_by_runs() -> None:
    def grow(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        state["items"] += ["x"]
        state["n"] = {"c": state["n"]["c"] + 1}
        return state

    schema = {
        "items": {"type": "list", "default": []},
        "n": {"type": "dict", "default": {"c": 0}},
    }
    graph = Graph({"grow": make_function_node(grow)}, [], "grow", state=schema)
    for _ in range(2):
        assert asyncio.run(graph.run()) == {"items": ["x"], "n": {"c": 1}}


def test_tpl_04_what_a_step_rendered_is_inert_in_the_prompt_of_the_next() -> None:
    provider = ScriptedProvider(["Hello."])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    flow.transform(action="render", template="Hi {name}", output_key="text")
    flow.llm(prompt="{text}")
    state = {"name": "{token} {{7*7}}", "token": "s-123"}
    asyncio.run(flow.compile().run(state))
    assert provider.requests[0].messages == [{"role": "user", "content": "Hi {token} {{7*7}}"}]


def test_tpl_06_a_missing_key_names_itself_the_node_and_what_there_is() -> None:
    node = LLM(prompt="Dear {nmae}", provider="p", model="m", id="letter")
    graph = Graph({"letter": node}, [], "letter", providers={"p": ScriptedProvider(["."])})
    with pytest.raises(ConfigError, match=r"nmae.*name") as caught:
        asyncio.run(graph.run({"name": "Bo"}))
    assert "letter" in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


@pytest.mark.parametrize("score", [{}, None, float("nan"), [1], ""])
def test_cnd_09_where_there_is_no_number_the_default_edge_is_taken(score: Any) -> None:
    nodes = {
        "start": make_function_node(lambda ctx, state: {}),
        "good": make_function_node(lambda ctx, state: {"way": "good"}),
        "else": make_function_node(lambda ctx, state: {"way": "else"}),
    }
    edges = [Edge("start", "good", "score >= 0.8"), Edge("start", "else")]
    state = {} if score == {} else {"score": score}
    assert asyncio.run(Graph(nodes, edges, "start").run(state))["way"] == "else"


@pytest.mark.parametrize("plain", [True, False])
def test_map_01_nothing_of_a_sibling_happens_after_the_error(plain: bool) -> None:
    late: list[int] = []

    async def work(ctx: Any, state: dict[str, Any]) -> None:
        await asyncio.sleep(0.02)
        late.append(1)

    def fail(ctx: Any, state: dict[str, Any]) -> None:
        raise ValueError("bad")

    async def fail_later(ctx: Any, state: dict[str, Any]) -> None:
        await asyncio.sleep(0.001)
        raise ValueError("bad")

    async def main() -> None:
        graph = Graph({"p": Parallel([fail if plain else fail_later, work])}, [], "p")
        with pytest.raises(ValueError, match="bad"):
            await graph.run({})
        await asyncio.sleep(0.05)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert late == []


def test_rty_01_a_tool_that_fails_after_it_acted_is_not_called_again_by_itself() -> None:
    sent: list[str] = []

    def mail(to: str) -> None:
        sent.append(to)
        raise ConnectionError("no acknowledgement")

    assert run(ToolCall(mail, args={"to": "ann"}, on_error="message"))["output"].startswith("error")
    assert sent == ["ann"]
    with pytest.raises(ToolError):
        run(ToolCall(mail, args={"to": "bo"}))
    assert sent == ["ann", "bo"]


def test_rty_01_all_attempts_of_a_retry_have_one_key_for_their_effect() -> None:
    keys: list[str] = []

    def pay(__ctx__: ExecContext) -> str:
        keys.append(__ctx__.idempotency_key)
        if len(keys) < 3:
            raise ConnectionError("no acknowledgement")
        return "paid"

    assert run(Retry(ToolCall(pay), max_retries=3))["output"] == "paid"
    assert len(keys) == 3
    assert len(set(keys)) == 1
