"""What `Graph.check` finds about agents that are given tasks: they start with the task alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.flow import Flow, SubFlow
from teff.graph import Graph, Problem
from teff.node import LLM, Delegate, Node, Parallel, Retry, Transform
from teff.testing import ScriptedProvider

SEES = "An agent sees its task, under 'input' and 'messages', and the keys in its 'context'."


def check(
    agent: Mapping[str, Any], wrap: Any = lambda node: node, before: str = "plan"
) -> list[Problem]:
    """Check a graph that writes ``before``, then delegates to one agent."""
    lead = Delegate(agents={"writer": {"description": "Writes.", **agent}}, id="desk")
    flow = Flow(providers={"p": ScriptedProvider([])}, default_provider="p", default_model="m")
    return (
        flow.transform(action="now", output_key=before).step(wrap(lead), "desk").compile().check()
    )


def says(problems: list[Problem]) -> list[str]:
    return [f"{problem.code} {problem.message}" for problem in problems]


def shows(key: str) -> LLM:
    return LLM(prompt=f"{{{key}}}", output_key="text")


AGENTS: dict[str, tuple[dict[str, Any], str]] = {
    "node": ({"node": shows("plan")}, "in 'desk': node 'writer' reads"),
    "flow": (
        {"flow": Flow().step(shows("plan"), "show")},
        "in 'desk': in 'writer': node 'show' reads",
    ),
    "role": (
        {"system": "Write {plan}."},
        "in 'desk': in 'writer': node 'writer/agent' reads",
    ),
}


@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize(
    "wrap", [lambda node: node, Retry, lambda node: SubFlow(Flow().step(node))]
)
def test_a_key_of_the_state_around_is_not_seen_without_context(kind: str, wrap: Any) -> None:
    agent, message = AGENTS[kind]
    found = check(agent, wrap)
    assert [problem.code for problem in found] == ["unwritten-key"]
    assert found[0].message.endswith(
        f"{message.removeprefix('in ').partition(': ')[2]} state key 'plan', which nothing writes."
    )
    assert (found[0].node, found[0].hint, found[0].severity) == ("desk", SEES, "warning")
    assert check({**agent, "context": ["plan"]}, wrap) == []


def test_the_message_says_which_agent_it_is() -> None:
    for agent, message in AGENTS.values():
        assert check(agent)[0].message.startswith(message)


def test_context_gives_keys_other_names_inside() -> None:
    assert check({"node": shows("brief"), "context": {"plan": "brief"}}) == []
    assert len(check({"node": shows("plan"), "context": {"plan": "brief"}})) == 1


def test_the_task_and_the_conversation_are_there() -> None:
    inner = Flow().llm(prompt="{input}", messages_key="messages", output_key="text")
    assert check({"flow": inner}) == []


def test_a_slip_of_the_pen_is_named() -> None:
    found = check({"flow": Flow().transform(action="now", output_key="time").step(shows("tine"))})
    assert found[0].hint == "Did you mean 'time'?"


def test_what_agents_do_inside_is_looked_at() -> None:
    collide = Parallel([Transform(action="now", output_key="x")] * 2)
    found = says(check({"node": collide}))
    assert found[0].startswith("colliding-writes in 'desk': 2 branches of node 'writer'")
    assert says(check({"node": LLM()}))[0].startswith("whole-state-prompt in 'desk': ")


def test_agents_of_agents_are_looked_at() -> None:
    inner = Delegate(agents={"clerk": {"description": "Looks up.", "node": shows("plan")}})
    found = check({"node": inner})
    assert [problem.message for problem in found] == [
        "in 'desk': in 'writer': node 'clerk' reads state key 'plan', which nothing writes."
    ]


def test_what_agents_write_is_not_in_the_state_around() -> None:
    lead = Delegate(agents={"a": {"description": "A.", "node": shows("input")}}, id="desk")
    flow = Flow().step(lead).llm(prompt="{text}")
    assert [problem.node for problem in flow.compile().check()] == ["llm_chat_2"]


class Nowhere(Node):
    type = "nowhere"

    def targets(self) -> list[str]:
        return ["elsewhere"]


def test_an_agent_that_names_other_nodes_is_no_error() -> None:
    assert check({"node": Nowhere()}) == []


def test_an_unknown_provider_or_tool_of_an_agent_is_found() -> None:
    with pytest.raises(ConfigError, match="unknown provider 'nix'"):
        check({"system": "x", "provider": "nix"})
    flow = Flow(providers={"p": ScriptedProvider(["x"])}, default_provider="p", default_model="m")
    agents = {"a": {"description": "A.", "system": "x", "use_tools": ["no_such_tool"]}}
    graph: Graph = flow.step(Delegate(agents=agents), "desk").compile()
    with pytest.raises(ConfigError, match="node 'desk'.*'no_such_tool'"):
        asyncio.run(graph.run({"input": "hi"}))
