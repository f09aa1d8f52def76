"""Workflow files of nodes with ids, and edges between them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.graph import Edge
from teff.node import LLM, Retry
from teff.testing.scripted import ScriptedProvider
from teff.workflow import Workflow, loads


def run(text: str, state: Any = None, **given: Any) -> Any:
    return asyncio.run(loads(text).run(None, state, **given))


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loads(text)
    return str(caught.value)


BRANCHED = """
steps:
  - {id: begin, type: transform, config: {action: trim, input_key: word, output_key: word}}
  - id: loud
    type: transform
    config: {action: uppercase, input_key: word, output_key: out}
  - id: quiet
    type: transform
    config: {action: lowercase, input_key: word, output_key: out}
edges:
  - {from: begin, to: loud, condition: "mood = loud"}
  - {from: begin, to: quiet}
"""


@pytest.mark.parametrize(("mood", "out"), [("loud", "AB"), ("calm", "ab")])
def test_the_first_edge_that_matches_is_taken(mood, out):
    assert run(BRANCHED, {"word": " Ab ", "mood": mood})["out"] == out


def test_the_first_step_is_the_entry():
    graph = loads(BRANCHED).graph
    assert (graph.entry_point, list(graph.nodes)) == ("begin", ["begin", "loud", "quiet"])
    assert graph.edges[0] == Edge("begin", "loud", "mood = loud")


def test_d58_without_edges_the_steps_follow_each_other():
    text = """
steps:
  - {id: one, type: transform, config: {action: value, value: 1, output_key: one}}
  - {id: two, type: transform, config: {action: value, value: 2, output_key: two}}
"""
    assert run(text) == {"one": 1, "two": 2}
    alone = run(text + "edges: []\n")
    assert alone == {"one": 1}


def test_d58_a_step_that_no_edge_leads_to_is_a_finding_with_its_place():
    text = """
steps:
  - {id: one, type: transform, config: {action: now}}
  - {id: two, type: transform, config: {action: now}}
edges: []
"""
    places = [(f.code, f.line) for f in loads(text).check() if f.code == "unreachable"]
    assert places == [("unreachable", 4)]


def test_an_error_edge_leads_to_a_handler():
    text = """
steps:
  - {id: call, type: llm_chat, config: {prompt: hi, model: m, provider: p}}
  - {id: sorry, type: transform, config: {action: render, template: "{error.type}", output_key: out}}
edges:
  - {from: call, to: sorry, condition: __error__}
"""
    assert run(text, providers={"p": ScriptedProvider([ValueError("no")])})["out"] == "ValueError"


def test_options_are_those_of_the_type_and_keep_the_source_of_numbers():
    text = (
        "steps:\n"
        "  - {id: ask, type: llm_chat, config: {prompt: 0123, model: 1.10, provider: ollama}}\n"
    )
    node = loads(text).graph.nodes["ask"]
    assert isinstance(node, LLM)
    assert (node.id, node.prompt, node.model) == ("ask", "0123", "1.10")


def test_a_step_may_be_tried_again():
    text = """
steps:
  - id: ask
    type: transform
    config: {action: now}
    retry: {enabled: true, max_retries: 4, delay: 0.5, backoff: 2, jitter: 0.1, max_delay: 9,
            timeout: 3, retry_on: [TimeoutError, 503]}
  - id: off
    type: transform
    config: {action: now}
    retry: {enabled: false, max_retries: 4}
"""
    nodes = loads(text).graph.nodes
    again = nodes["ask"]
    assert isinstance(again, Retry)
    assert (again.max_retries, again.backoff, again.max_delay, again.timeout) == (4, 2, 9, 3)
    assert not isinstance(nodes["off"], Retry)


def test_containers_hold_steps_written_either_way():
    text = """
steps:
  - id: fan
    type: parallel
    config:
      branches:
        - {id: a, type: transform, config: {action: value, value: 1, output_key: a}}
        - - {type: transform, config: {action: value, value: 2, output_key: b}}
          - {transform: {action: value, value: 3, output_key: c}}
  - id: again
    type: loop
    config: {key: a, until: 1, body: {type: transform, config: {action: now}}, max_rounds: 2}
  - id: each
    type: map
    config:
      input_keys: names
      output_key: loud
      processor: {type: transform, config: {action: uppercase, input_key: names, output_key: loud}}
  - id: inner
    type: subflow
    config:
      graph:
        state: {initial: {mark: x}}
        steps:
          - {id: one, type: transform, config: {action: render, template: "{mark}{a}", output_key: d}}
        edges: []
  - id: once
    type: retry
    config: {node: {type: transform, config: {action: value, value: 5, output_key: e}}}
"""
    result = run(text, {"names": ["x"]})
    assert [result[key] for key in "abcde"] == [1, 2, 3, "x1", 5]
    assert result["loud"] == ["X"]


NOW = "config: {action: now}"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (f"steps:\n  - {{id: a, type: transform, {NOW}}}\n  - {{id: a, type: transform, {NOW}}}", "3:6", "two steps have the id 'a': in line 2 of <text> and in line 3 of <text>."),
        (f"steps:\n  - {{id: a, type: transform, {NOW}}}\nedges:\n  - {{from: a, to: b}}", "4:15", "an edge leads to 'b', which is no step."),
        (f"steps:\n  - {{id: first, type: transform, {NOW}}}\nedges:\n  - {{from: frist, to: first}}", "4:6", "leads from 'frist', which is no step. Did you mean 'first'?"),
        (f"steps:\n  - {{id: a, type: transform, {NOW}}}\nedges:\n  - {{from: a}}", "4:5", "an edge: the key 'to' is missing."),
        (f"steps:\n  - {{id: a, type: transform, {NOW}}}\nedges:\n  - {{from: a, to: a, when: x}}", "4:22", "an edge: unknown key 'when'. Did you mean 'condition'?"),
        (f"steps:\n  - {{id: a, type: transform, {NOW}}}\nedges:\n  - {{from: a, to: a, condition: 'x >'}}", "4:22", "does not parse"),
        (f"steps:\n  - {{id: a, type: transform, {NOW}}}\nedges: {{}}", "3:1", "'edges' must be a list, not a mapping."),
        (f"steps:\n  - {{id: a, type: transform, {NOW}}}\n  - llm: {{prompt: x}}", "3:5", "the other steps are nodes with an 'id' and a 'type', and this step is none. Write all steps of a file in one way."),
        ("steps:\n  - llm: {prompt: x}\nedges: []", "2:5", "'edges' connect nodes with an 'id' and a 'type'"),
        (f"steps:\n  - {{type: transform, {NOW}}}\nedges: []", "2:5", "lacks its 'id'"),
        ("steps:\n  - {id: a}\nedges: []", "2:5", "lacks its 'type'"),
        ("steps:\n  - {id: a, type: transform, cnofig: {}}", "2:30", "unknown key 'cnofig'. Did you mean 'config'?"),
        ("steps:\n  - {id: a, type: transfrom}", "2:13", "unknown node type 'transfrom'. Did you mean 'transform'?"),
        ("steps:\n  - {id: a, type: transform, config: {acton: now}}", "2:39", "transform 'a': unknown option 'acton'. Did you mean 'action'?"),
        ("steps:\n  - {id: a, type: transform, config: {action: now, id: b}}", "2:52", "the id stands here and beside 'type'."),
        ("steps:\n  - {id: a, type: llm, config: {prompt: x}}", "2:13", "The idiom 'llm' has the type 'llm_chat'."),
        ("steps:\n  - {id: a, type: transform, action: now}", "2:30", "Options stand under 'config'."),
        ("steps:\n  - {id: a, type: transform, config: [now]}", "2:30", "'config' must be a mapping, not a list."),
        (f"steps:\n  - {{id: a, type: transform, {NOW}, retry: {{max_retrys: 2}}}}", "2:61", "unknown option 'max_retrys'. Did you mean 'max_retries'?"),
        (f"steps:\n  - {{id: a, type: transform, {NOW}, retry: {{max_retries: 0}}}}", "2:61", "option 'max_retries' must be >= 1"),
        (f"steps:\n  - {{id: a, type: transform, {NOW}, retry: {{enabled: yes}}}}", "2:61", "'enabled' must be true or false."),
        ("steps:\n  - {id: a, type: command, config: {goto: b}}", "2:37", "goes to 'b', which is no node of the graph."),
        ("steps:\n  - {id: a, type: parallel, config: {branches: [{lml: {}}]}}", "2:50", "unknown step 'lml'."),
        ("steps:\n  - {id: a, type: subflow}", "2:5", "subflow 'a' needs one of 'file', 'steps' and 'graph'."),
    ],
)  # fmt: skip
def test_each_mistake_has_its_place_and_its_way_out(text, place, words):
    message = refused(text)
    assert words in message
    assert message.startswith(f"<text>:{place}: ")


def test_d57_a_condition_that_does_not_parse_shows_where():
    text = f"steps:\n  - {{id: a, type: transform, {NOW}}}\nedges:\n  - {{from: a, to: a, condition: 'x = 1 and and'}}"
    assert "^" in refused(text)


def test_place_of_a_node_is_its_step():
    workflow: Workflow = loads(BRANCHED)
    assert workflow.place_of("loud") == ("<text>", 4, 5)
