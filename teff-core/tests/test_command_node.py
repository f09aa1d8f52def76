from __future__ import annotations

import asyncio
from typing import Any

import pytest

import teff.runtime
from teff.errors import ConfigError
from teff.graph import Edge, Graph
from teff.node.base import Node
from teff.node.command import Command, CommandNode, Route
from teff.node.transform import Transform
from teff.runtime import ExecContext, RunResult

ROUTES: list[Route] = [
    {"when": "score >= 0.8", "goto": "publish"},
    {"when": "score < 0.3", "goto": "STOP"},
    {"when": "score > 0.7", "goto": "never"},
]


def note(text: str) -> Transform:
    return Transform(action="append", value=text, output_key="seen")


def run(node: CommandNode, state: dict[str, Any], *edges: Edge) -> RunResult:
    nodes: dict[str, Node] = {"route": node}
    nodes |= {name: note(name) for name in ("publish", "review", "never")}
    return asyncio.run(Graph(nodes, edges, "route").run(state))


@pytest.mark.parametrize(
    ("score", "seen", "reason"),
    [(0.9, ["publish"], "end"), (0.5, ["review"], "end"), (0.1, [], "command_stop")],
)
def test_the_first_route_that_fits_is_taken_and_else_goto(
    score: float, seen: list[str], reason: str
) -> None:
    result = run(CommandNode(routes=ROUTES, goto="review"), {"score": score, "seen": []})
    assert (result["seen"], result.stop_reason) == (seen, reason)


def test_where_nothing_fits_and_no_goto_is_set_the_edges_decide() -> None:
    node = CommandNode(routes=ROUTES)
    assert run(node, {"score": 0.5}, Edge("route", "review"))["seen"] == ["review"]
    assert run(node, {"score": 0.9}, Edge("route", "review"))["seen"] == ["publish"]
    assert run(node, {"score": 0.5}).stop_reason == "end"


@pytest.mark.parametrize("stop", ["STOP", Command.STOP])
def test_stop_ends_the_run_as_a_word_and_as_the_value(stop: Any) -> None:
    edge = Edge("route", "review")
    for node in (CommandNode(goto=stop), CommandNode(routes=[{"when": "a!=", "goto": stop}])):
        result = run(node, {"a": 1, "seen": []}, edge)
        assert (result["seen"], result.status, result.stop_reason) == (
            [],
            "stopped",
            "command_stop",
        )


def test_the_update_is_made_wherever_the_run_goes_and_after_the_conditions() -> None:
    node = CommandNode(routes=ROUTES, update={"score": 1.0, "routed": True})
    for score, seen in ((0.9, ["publish"]), (0.5, ["review"])):
        result = run(node, {"score": score}, Edge("route", "review"))
        assert (result["score"], result["routed"], result["seen"]) == (1.0, True, seen)


def test_an_update_is_the_same_in_every_run() -> None:
    node = CommandNode(update={"log": ["start"]}, goto="review")
    for _ in range(2):
        assert run(node, {})["log"] == ["start"]


def test_a_target_that_the_graph_does_not_have_is_refused_before_the_first_step() -> None:
    with pytest.raises(ConfigError, match=r"'publsh'.*Did you mean 'publish'\?"):
        run(CommandNode(routes=[{"when": "a", "goto": "publsh"}]), {})


def test_it_names_its_targets_and_keys() -> None:
    node = CommandNode(
        routes=[*ROUTES, {"when": "verdict.ok and not tries>3", "goto": "publish"}],
        goto="review",
        update={"routed": True},
    )
    assert list(node.targets()) == ["publish", "never", "review"]
    assert sorted(node.reads()) == ["score", "tries", "verdict"]
    assert list(node.writes()) == ["routed"]
    assert list(CommandNode(goto="STOP").targets()) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"routes": [{"goto": "a"}]}, r"'routes\[0\].when' is missing"),
        ({"routes": [{"when": "a"}]}, r"'routes\[0\].goto' is missing"),
        ({"routes": [{"when": "a", "goto": "b", "got": "c"}]}, r"routes\[0\].got'.*'goto'"),
        ({"routes": [{"if": "a", "goto": "b"}]}, r"routes\[0\]"),
        ({"routes": [{"when": "a", "goto": ""}]}, r"routes\[0\].goto is empty"),
        ({"routes": [{"when": "a", "goto": None}]}, r"'routes\[0\].goto' must be"),
        ({"routes": [{"when": True, "goto": "b"}]}, r"'routes\[0\].when' must be text"),
        ({"routes": {"when": "a", "goto": "b"}}, "'routes' must be"),
        ({"goto": ""}, "goto is empty; it names a node, or is 'STOP'"),
        ({"goto": 5}, "'goto' must be"),
        ({"update": ["a"]}, "'update' must be"),
        ({"gotto": "a"}, "unknown option 'gotto'.*'goto'"),
    ],
)
def test_options_that_do_not_fit_are_refused_when_the_node_is_made(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        CommandNode(given, id="route")
    assert str(caught.value).startswith("command 'route': ")


def test_a_condition_that_does_not_parse_is_refused_with_its_place() -> None:
    routes: list[Route] = [{"when": "a=b", "goto": "b"}, {"when": "a=b and", "goto": "b"}]
    with pytest.raises(ConfigError, match=r"routes\[1\].when: ") as caught:
        CommandNode(routes=routes, id="route")
    assert caught.value.path == "routes[1].when"
    assert "a=b and" in str(caught.value)


def test_routes_that_are_set_later_take_effect() -> None:
    node: Any = CommandNode(goto="review")
    node.config["routes"] = [{"when": "a=1", "goto": "publish"}]

    assert asyncio.run(node.execute(ExecContext(), {"a": 1})).goto == "publish"
    assert list(node.targets()) == ["publish", "review"]


def test_the_command_is_found_here_too() -> None:
    assert Command is teff.runtime.Command
