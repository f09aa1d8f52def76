"""The word that ends the loop of a team, in code and in files; several loops in one flow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.flow import Flow
from teff.graph import Graph
from teff.messages import user
from teff.node import Supervisor
from teff.testing import ScriptedProvider
from teff.workflow import loads

MODEL = "default_provider: p\ndefault_model: m\n"

ROLE = "a: [{transform: {action: value, value: done, output_key: a}}]"
CLOSING = "[{transform: {action: value, value: true, output_key: closed}}]"


def run(graph: Graph, *lines: str, **state: Any) -> Any:
    providers = {"p": ScriptedProvider(list(lines))}
    return asyncio.run(graph.run({"messages": [user("hi")], **state}, providers=providers))


def loaded(text: str) -> Graph:
    return loads(MODEL + text).graph


def lead_of(graph: Graph) -> Supervisor:
    return next(node for node in graph.nodes.values() if isinstance(node, Supervisor))


@pytest.mark.parametrize(
    "token",
    [
        f"finish_token: <end>, finish: {CLOSING}",
        f"leader: {{finish: <end>}}, finish: {CLOSING}",
        f"leader: {{finish_token: <end>}}, finish: {CLOSING}",
    ],
)
def test_the_token_of_a_team_in_a_file_reaches_the_steps_after_it(token: str) -> None:
    graph = loaded(f"steps:\n  - team: {{{token}, route_keys: {{}}, roles: {{{ROLE}}}}}\n")
    result = run(graph, "a", "<end>")
    assert (result["next_agent"], result["a"], result["closed"]) == ("<end>", "done", True)
    assert (result.stop_reason, result.status) == ("finish", "finished")
    assert lead_of(graph).vocabulary == ("a", "<end>")


@pytest.mark.parametrize("token", ["finish: <end>", "finish_token: <end>"])
def test_a_text_under_finish_is_the_token_and_the_next_step_follows(token: str) -> None:
    closing = "transform: {action: value, value: true, output_key: closed}"
    graph = loaded(f"steps:\n  - team: {{{token}, roles: {{{ROLE}}}}}\n  - {closing}\n")
    assert run(graph, "<end>")["closed"] is True


def test_the_token_of_a_supervisor_in_a_file_may_stand_beside_the_steps_to_finish_with() -> None:
    options = f"finish_token: <end>, agents: {{{ROLE}}}, finish: {CLOSING}"
    graph = loaded(f"steps:\n  - supervisor: {{{options}}}\n")
    assert run(graph, "<end>")["closed"] is True
    apart = loaded(
        "steps:\n  - supervisor: {agents: [a], finish: <end>}\n"
        f"  - supervise: {{agents: {{{ROLE}}}, finish: {CLOSING}}}\n"
    )
    assert run(apart, "<end>")["closed"] is True


@pytest.mark.parametrize(
    ("team", "said"),
    [
        ("finish: x, leader: {finish: y}", "'finish' stands here and under 'leader'"),
        ("finish_token: x, leader: {finish: y}", "'finish_token' stands here and under 'leader'"),
        ("finish: x, finish_token: y", "give 'finish_token' or a text under 'finish', not both"),
        ("finish: ''", "option 'finish' is empty"),
        ("finish_token: ''", "option 'finish_token' is empty"),
        (f"leader: {{finish: ''}}, finish: {CLOSING}", "option 'finish' is empty"),
        ("finish: a", "the word that ends it|is the finish token|read the same"),
        ("finish:", "finish"),
    ],
)
def test_a_token_that_makes_no_sense_is_refused_where_it_stands(team: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        loaded(f"steps:\n  - team: {{{team}, roles: {{{ROLE}}}}}\n")
    assert caught.value.line is not None


def test_both_names_of_the_token_of_a_supervisor_are_refused() -> None:
    with pytest.raises(ConfigError, match="give 'finish_token' or 'finish', not both"):
        loaded("steps:\n  - supervisor: {agents: [a], finish: x, finish_token: y}\n")


# --- Several loops in one flow


def does(key: str) -> Any:
    def act(ctx: Any, state: Mapping[str, Any]) -> dict[str, Any]:
        return {key: state.get(key, 0) + 1}

    return act


def test_a_supervisor_after_a_supervisor_counts_for_itself() -> None:
    flow = Flow(default_provider="p", default_model="m")
    for name in "abc":
        flow.supervisor(agents=[name], id=f"lead-{name}", max_rounds=3)
        flow.route("next_agent", agents={name: does(name)})
    result = run(flow.compile(), *(line for name in "abc" for line in (name, name)))
    assert [result[name] for name in "abc"] == [2, 2, 2]
    assert [result[f"supervisor_rounds{number}"] for number in ("", "_2", "_3")] == [3, 3, 3]


def test_the_second_of_a_file_counts_for_itself_too() -> None:
    one = "supervisor: {max_rounds: 2, agents: {%s: [{transform: {action: now, output_key: %s}}]}}"
    graph = loaded(f"steps:\n  - {one % ('x', 'x')}\n  - {one % ('y', 'y')}\n")
    result = run(graph, "x", "y")
    assert {"x", "y"} <= set(result)
    assert (result["supervisor_rounds"], result["supervisor_rounds_2"]) == (2, 2)


@pytest.mark.parametrize("mapping", [False, True])
def test_the_key_of_the_rounds_can_be_named(mapping: bool) -> None:
    named = {"agents": ["b"], "rounds_key": "n"}
    flow = Flow().supervisor(agents=["a"]).route("next_agent", agents={"a": does("a")})
    flow.supervisor(**({"config": named} if mapping else named))
    assert list(flow.nodes.values())[-1].config["rounds_key"] == "n"


def test_supervisors_that_count_in_one_place_are_told_of() -> None:
    flow = Flow().supervisor(Supervisor(agents=["a"]), id="one")
    flow.route("next_agent", agents={"a": does("a")})
    flow.supervisor(Supervisor(agents=["b"]), id="two").route("next_agent", agents={"b": does("b")})
    found = [problem for problem in flow.compile().check() if problem.code == "shared-rounds"]
    assert [problem.node for problem in found] == ["two"]
    assert "'one' and 'two' count their rounds in the same place" in found[0].message
    assert "rounds_key" in found[0].hint
