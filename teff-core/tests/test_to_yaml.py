"""`Graph.to_yaml`: what a file holds, loads again as the same; what it cannot hold is refused."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import pytest
import yaml

from teff.errors import ConfigError
from teff.flow import SubFlow, agent_step
from teff.graph import Graph
from teff.node import Fallback, Interrupt, Node, Retry, Transform
from teff.workflow import from_yaml


class Mood(str, enum.Enum):  # noqa: UP042  # as many programs have it
    GOOD = "good"
    BAD = "bad"


class Passing(Exception):
    __module__ = "shop.errors"


def shout() -> Transform:
    return Transform(action="uppercase")


def written(node: Node) -> str:
    return Graph({"a": node}, [], "a").to_yaml()


def loaded(node: Node, tmp_path: Path) -> Any:
    """Return the node as it comes back from its file."""
    file = tmp_path / "graph.yaml"
    file.write_text(written(node), encoding="utf-8")
    graph = from_yaml(file)
    assert graph.to_yaml() == written(node)
    return graph.nodes["a"]


def test_exception_classes_are_written_by_their_names(tmp_path: Path) -> None:
    node = loaded(Retry(shout(), retry_on=[ConnectionError, Passing, 429]), tmp_path)
    assert node.retry_on == ["ConnectionError", "shop.errors.Passing", 429]
    assert loaded(Retry(shout(), retry_on=TimeoutError), tmp_path).retry_on == ["TimeoutError"]


def test_the_keys_of_a_turn_are_written(tmp_path: Path) -> None:
    inside = Graph({"a": shout()}, [], "a")
    node = loaded(SubFlow(inside, turn_keys=["draft"]), tmp_path)
    assert list(node.turn_keys()) == ["draft"]
    agent = agent_step("You help.", output_key="answer", id="a")
    assert list(loaded(agent, tmp_path).turn_keys()) == list(agent.turn_keys())


def test_members_of_an_enum_are_written_as_their_values(tmp_path: Path) -> None:
    node = loaded(Interrupt(key="mood", choices=list(Mood)), tmp_path)
    assert list(node.choices) == ["good", "bad"]


def test_a_set_of_anything_is_written_as_a_list() -> None:
    (step,) = yaml.safe_load(written(Fallback(field="x", value={1, "a"})))["steps"]
    assert sorted(step["config"]["value"], key=str) == [1, "a"]


@pytest.mark.parametrize(
    "value", [{1: "one"}, {"deep": [{None: 1}]}, {1: 1, "1": 2}, float("nan"), [float("inf")]]
)
def test_what_would_come_back_as_something_else_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="node 'a': option 'value'"):
        written(Fallback(field="x", value=value))
