"""Workflow files that are made of several."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.workflow import Workflow, load

SET = "transform: {action: value, value: %s, output_key: %s}"


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / "main.yaml"


def loaded(folder: Path, **files: str) -> Workflow:
    return load(written(folder, **files), environment={})


def refused(folder: Path, **files: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, **files)
    return caught.value


def run(workflow: Workflow, state: Any = None) -> Any:
    return asyncio.run(workflow.run(None, state))


CLASSIC = "{id: %s, type: transform, config: {action: value, value: %s, output_key: %s}}"


def test_d58_the_first_step_of_the_including_file_stays_the_entry(tmp_path):
    workflow = loaded(
        tmp_path,
        main=f"include: lib.yaml\nsteps:\n  - {CLASSIC % ('a', 1, 'a')}\n"
        "edges:\n  - {from: a, to: b}\n",
        lib=f"steps:\n  - {CLASSIC % ('b', 2, 'b')}\n  - {CLASSIC % ('c', 3, 'c')}\n"
        "edges:\n  - {from: b, to: c}\n",
    )
    assert workflow.graph.entry_point == "a"
    assert run(workflow) == {"a": 1, "b": 2, "c": 3}


def test_included_steps_follow_the_own_ones(tmp_path):
    workflow = loaded(
        tmp_path,
        main=f"include: [one.yaml, {{path: two.yaml}}]\nsteps:\n  - {SET % (1, 'a')}\n",
        one=f"steps:\n  - {SET % (2, 'b')}\n",
        two=f"steps:\n  - {SET % (3, 'c')}\n",
    )
    assert list(run(workflow)) == ["a", "b", "c"]
    assert workflow.graph.entry_point == "transform_1"


def test_a_file_may_be_nothing_but_what_it_includes(tmp_path):
    workflow = loaded(tmp_path, main="include: one.yaml\n", one=f"steps:\n  - {SET % (2, 'b')}\n")
    assert run(workflow) == {"b": 2}


def test_d58_both_ways_of_writing_resolve_includes(tmp_path):
    for steps in (f"  - {SET % (1, 'a')}\n", f"  - {CLASSIC % ('a', 1, 'a')}\n"):
        workflow = loaded(
            tmp_path,
            main="include: shared.yaml\nsteps:\n" + steps,
            shared="state: {initial: {seen: 1}}\n",
        )
        assert run(workflow) == {"seen": 1, "a": 1}


def test_the_including_file_wins(tmp_path):
    workflow = loaded(
        tmp_path,
        main="""
name: main
include: lib.yaml
default_model: own
limits: {max_steps: 5}
state: {initial: {a: own}, reducers: {log: append}}
providers: {fast: {type: ollama, base_url: "http://own:1"}}
tools: [{name: fetch_url, config: {timeout: 5}}]
hooks: {on_node_start: "own:f"}
steps:
  - transform: {action: now}
""",
        lib="""
name: lib
description: of the library
default_model: theirs
default_provider: fast
limits: {max_steps: 9, max_tokens: 7}
state: {initial: {a: theirs, b: theirs}, reducers: {log: keep, seen: append}}
providers:
  - {name: fast, type: ollama, base_url: "http://theirs:1"}
  - {name: slow, type: ollama}
tools: [fetch_url]
hooks: {on_node_start: "their:f", on_node_end: ["their:g", "their:h"]}
checkpoint: {type: memory}
""",
    )
    assert (workflow.name, workflow.description) == ("main", "")
    assert (workflow.graph.defaults.model, workflow.graph.defaults.provider) == ("own", "fast")
    assert workflow.limits is not None
    assert (workflow.limits.max_steps, workflow.limits.max_tokens) == (5, 7)
    assert workflow.initial == {"a": "own", "b": "theirs"}
    assert workflow.graph.reducers == {"log": "append", "seen": "append"}
    assert workflow.providers["fast"]["base_url"] == "http://own:1"
    assert list(workflow.providers) == ["fast", "slow"]
    assert [tool.name for tool in workflow.tools] == ["fetch_url"]
    assert dict(workflow.hooks.references) == {
        "on_node_start": ["own:f"],
        "on_node_end": ["their:g", "their:h"],
    }
    assert workflow.checkpointer is not None


def test_a_prefix_stands_before_ids_edge_ends_and_targets(tmp_path):
    workflow = loaded(
        tmp_path,
        main="""
include:
  - {path: lib.yaml, prefix: "x."}
  - {path: lib.yaml, prefix: "y."}
steps:
  - {id: begin, type: transform, config: {action: now}}
edges:
  - {from: begin, to: x.choose}
  - {from: x.end, to: y.end}
""",
        lib="""
steps:
  - {id: choose, type: command, config: {routes: [{when: stop=1, goto: STOP}], goto: end}}
  - {id: end, type: transform, config: {action: now, output_key: ended}}
edges: [{from: choose, to: end}]
""",
    )
    assert list(workflow.graph.nodes) == ["begin", "x.choose", "x.end", "y.choose", "y.end"]
    assert list(workflow.graph.nodes["x.choose"].targets()) == ["x.end"]
    assert run(workflow, {"stop": 1}).stop_reason == "command_stop"


def test_a_prefix_stands_before_the_names_of_nodes_that_idioms_make(tmp_path):
    workflow = loaded(
        tmp_path,
        main="include: {path: lib.yaml, prefix: lib-}\n",
        lib="""
default_provider: ollama
default_model: m
steps:
  - transform: {action: value, value: 1, output_key: next_agent, id: begin}
  - label: again
  - supervise:
      agents:
        one: {transform: {action: now}}
      finish: {transform: {action: now, id: closed}}
  - team: {id: desk, roles: {writer: {system: x}}}
  - agent: {id: helper, system: x}
  - interrupt_loop:
      key: code
      strategy: {equals: yes}
      body: {transform: {action: now, id: body}}
      done: {transform: {action: now, id: done}}
  - extract: {schema: {a: string}}
  - command: {goto: again, id: back}
""",
    )
    assert [name for name in workflow.graph.nodes if not name.startswith("lib-")] == []
    assert list(workflow.graph.nodes["lib-back"].targets()) == ["lib-begin"]


def test_prefixes_of_nested_files_are_put_together(tmp_path):
    workflow = loaded(
        tmp_path,
        main="include: {path: a.yaml, prefix: a/}\n",
        a="include: {path: b.yaml, prefix: b/}\n",
        b="steps: [transform: {action: now, id: x}]\n",
    )
    assert list(workflow.graph.nodes) == ["a/b/x"]


def test_paths_start_from_the_file_in_which_they_stand(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.yaml").write_text("include: ../two.yaml\n")
    workflow = loaded(
        tmp_path, main="include: deep/one.yaml\n", two="steps: [transform: {action: now}]\n"
    )
    assert len(workflow.graph.nodes) == 1


def test_a_file_that_is_reached_in_two_ways_counts_once(tmp_path):
    workflow = loaded(
        tmp_path,
        main="include: [a.yaml, b.yaml]\n",
        a="include: c.yaml\n",
        b="include: c.yaml\n",
        c="steps: [transform: {action: now, id: x}]\n",
    )
    assert list(workflow.graph.nodes) == ["x"]


def test_d58_files_that_include_each_other_are_refused_with_the_chain(tmp_path):
    error = refused(
        tmp_path,
        main="include: a.yaml\n",
        a="name: x\ninclude:\n  - b.yaml\n",
        b="include: a.yaml\n",
    )
    assert "a.yaml includes b.yaml includes a.yaml" in str(error)
    assert (Path(error.file).name, error.line) == ("b.yaml", 1)


def test_a_file_cannot_include_itself(tmp_path):
    assert "main.yaml includes main.yaml" in str(refused(tmp_path, main="include: main.yaml\n"))


def test_too_many_files_are_refused(tmp_path):
    files = {f"f{number}": f"include: f{number + 1}.yaml\n" for number in range(30)}
    error = refused(tmp_path, main="include: f0.yaml\n", **files)
    assert "too many files" in str(error)


def test_errors_have_the_place_in_the_included_file(tmp_path):
    error = refused(
        tmp_path, main="include: lib.yaml\nsteps: []\n", lib="# a\nsteps:\n  - llm: {promt: x}\n"
    )
    assert (error.file, error.line, error.column) == (str(tmp_path / "lib.yaml"), 3, 11)
    error = refused(tmp_path, main="include: lib.yaml\n", lib="stepz: []\n")
    assert (Path(error.file).name, error.line) == ("lib.yaml", 1)
    error = refused(tmp_path, main="include: lib.yaml\n", lib="steps: [\n")
    assert Path(error.file).name == "lib.yaml"


def test_findings_have_the_place_in_the_included_file(tmp_path):
    workflow = loaded(
        tmp_path, main="include: lib.yaml\n", lib="steps:\n  - llm: {prompt: hi, id: ask}\n"
    )
    finding = workflow.check()[0]
    assert (finding.file, finding.line) == (str(tmp_path / "lib.yaml"), 2)
    assert workflow.place_of("ask") == (str(tmp_path / "lib.yaml"), 2, 5)


def test_a_missing_file_is_an_error_where_it_is_included(tmp_path):
    error = refused(tmp_path, main="include:\n  - lbi.yaml\n", lib="name: x\n")
    assert (Path(error.file).name, error.line) == ("main.yaml", 2)
    assert "Did you mean 'lib.yaml'?" in str(error)


@pytest.mark.parametrize(
    ("include", "words"),
    [
        ("{pth: lib.yaml}", "include: unknown key 'pth'"),
        ("{prefix: x}", "include: the key 'path' is missing"),
        ("[[lib.yaml]]", "must be text, not a list"),
    ],
)
def test_what_includes_nothing_is_refused(tmp_path, include, words):
    assert words in str(refused(tmp_path, main=f"include: {include}\n", lib="name: x\n"))


def test_files_of_both_ways_of_writing_cannot_be_mixed(tmp_path):
    error = refused(
        tmp_path,
        main=f"include: lib.yaml\nsteps:\n  - {CLASSIC % ('a', 1, 'a')}\n",
        lib=f"steps:\n  - {SET % (2, 'b')}\n",
    )
    assert "Write all steps of a file in one way." in str(error)
    assert Path(error.file).name == "lib.yaml"


def test_two_files_with_the_same_id_are_refused_with_both_places(tmp_path):
    error = refused(
        tmp_path,
        main=f"include: lib.yaml\nsteps:\n  - {CLASSIC % ('a', 1, 'a')}\n",
        lib=f"name: x\nsteps:\n  - {CLASSIC % ('a', 2, 'a')}\n",
    )
    assert "main.yaml and in line 3 of" in str(error)
