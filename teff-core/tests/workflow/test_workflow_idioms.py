"""The steps of workflow files that contain, repeat, ask and judge."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, ToolError
from teff.node import LLM, Fallback, Gate, Loop, Map, Parallel, Retry, Validate
from teff.runtime import RunResult
from teff.testing.scripted import ScriptedProvider
from teff.tool import tool
from teff.workflow import load, loads

MODEL = "default_provider: scripted\ndefault_model: m\n"


def run(text: str, *answers: Any, state: Any = None, **given: Any) -> RunResult:
    provider = ScriptedProvider(answers)
    result = asyncio.run(loads(text).run(None, state, providers={"scripted": provider}, **given))
    provider.assert_done()
    return result


def answer(text: str, *answers: Any, state: Any = None, replies: Any = ()) -> RunResult:
    """Run a workflow that asks a person, and give the answers one after the other."""
    workflow = loads(text)
    how: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    how["providers"] = {"scripted": ScriptedProvider(replies)}
    with pytest.raises(GraphInterrupt):
        asyncio.run(workflow.run(None, state, **how))
    for reply in answers[:-1]:
        with pytest.raises(GraphInterrupt):
            asyncio.run(workflow.run(resume=reply, **how))
    return asyncio.run(workflow.run(resume=answers[-1], **how))


# Parallel, map, loop.


def test_branches_run_beside_each_other_and_converge():
    text = """
steps:
  - parallel:
      id: fan
      max_concurrency: 2
      branches:
        - {transform: {action: uppercase, input_key: word, output_key: loud}}
        - - {transform: {action: trim, input_key: word, output_key: short}}
          - {transform: {action: lowercase, input_key: short, output_key: short}}
      converge: {transform: {action: render, template: "{loud}/{short}", output_key: both}}
"""
    assert run(text, state={"word": " Ab "})["both"] == " AB /ab"
    node = loads(text).graph.nodes["fan"]
    assert isinstance(node, Parallel)
    assert node.max_concurrency == 2


def test_branches_may_have_names_and_may_be_pieces_of_several_nodes():
    text = MODEL + (
        "steps:\n"
        "  - parallel:\n"
        "      branches:\n"
        "        poet: {agent: {system: Write., output_key: poem}}\n"
        "        stamp: [transform: {action: value, value: 1, output_key: stamped}]\n"
        "      on_error: collect\n"
        "      errors_key: failures\n"
    )
    result = run(text, "Roses.", state={"input": "hi"})
    assert (result["poem"], result["stamped"], result["failures"]) == ("Roses.", 1, [])


def test_a_map_runs_its_steps_for_each_item():
    text = """
steps:
  - map:
      input_keys: names
      output_key: greetings
      result_key: greeting
      max_concurrency: 3
      processor:
        - {transform: {action: uppercase, input_key: names, output_key: name}}
        - {transform: {action: render, template: "Hi {name}", output_key: greeting}}
"""
    assert run(text, state={"names": ["a", "b"]})["greetings"] == ["Hi A", "Hi B"]
    node = loads(text).graph.nodes["map_1"]
    assert isinstance(node, Map)
    assert node.max_concurrency == 3


def test_a_map_over_several_keys_takes_them_together():
    text = """
steps:
  - map:
      input_keys: [first, last]
      output_key: full
      processor: {transform: {action: render, template: "{first} {last}", output_key: full}}
"""
    assert run(text, state={"first": ["A", "B"], "last": ["x", "y"]})["full"] == ["A x", "B y"]


def test_a_loop_with_a_bound_is_one_node_and_the_steps_go_on():
    text = """
state: {initial: {text: ""}}
steps:
  - loop:
      id: again
      key: text
      until: xxx
      max_rounds: 5
      body: {transform: {action: render, template: "{text}x", output_key: text}}
  - transform: {action: render, template: "<{text}>", output_key: text}
"""
    assert run(text)["text"] == "<xxx>"
    node = loads(text).graph.nodes["again"]
    assert isinstance(node, Loop)
    assert node.max_rounds == 5


def test_a_loop_without_a_bound_asks_the_step_before_it_again():
    text = """
state: {initial: {drafts: x}}
steps:
  - transform: {action: contains, input_key: drafts, needle: xxx, output_key: enough, id: judge}
  - loop:
      key: enough
      until: yes_or_true
      done: [transform: {action: value, value: done, output_key: end}]
      body: {transform: {action: render, template: "{drafts}x", output_key: drafts}}
""".replace("yes_or_true", '"true"')
    assert run(text)["drafts"] == "xxx"


def test_the_value_that_ends_a_loop_is_the_text_that_stands_there():
    text = (
        "steps:\n  - loop: {key: v, until: 1.10, max_rounds: 3, "
        "body: {transform: {action: value, value: '1.10', output_key: v}}}\n"
    )
    node = loads(text).graph.nodes["loop_1"]
    assert isinstance(node, Loop)
    assert node.until == "1.10"


def test_a_label_is_a_target_for_later_commands():
    text = """
state: {initial: {n: ""}}
steps:
  - transform: {action: render, template: "{n}x", output_key: n}
  - label: again
  - command: {routes: [{when: n!=xxx, goto: again}]}
  - transform: {action: value, value: done, output_key: end}
"""
    result = run(text)
    assert (result["n"], result["end"]) == ("xxx", "done")


# Conditions beside steps.


@pytest.mark.parametrize(("kind", "way"), [("a", "took"), ("b", "default")])
def test_when_guards_a_step_and_default_is_the_other_way(kind, way):
    text = """
steps:
  - transform: {action: trim, input_key: kind, output_key: kind}
  - transform: {action: value, value: took, output_key: way}
    when: kind = a
  - default:
      - transform: {action: value, value: default, output_key: way}
      - transform: {action: value, value: 2, output_key: second}
  - transform: {action: render, template: "<{way}>", output_key: out}
"""
    result = run(text, state={"kind": kind})
    assert result["out"] == f"<{way}>"
    assert ("second" in result) is (kind == "b")


def test_without_a_default_the_run_ends_where_the_condition_does_not_hold():
    text = (
        "steps:\n  - transform: {action: now}\n  - transform: {action: value, value: 1, "
        "output_key: x}\n    when: x=1\n"
    )
    result = run(text)
    assert "x" not in result
    assert result.stop_reason == "no_edge_matched"


def test_a_piece_may_have_a_condition_too():
    text = MODEL + (
        "steps:\n"
        "  - transform: {action: now, output_key: begun}\n"
        "  - agent: {system: Answer., output_key: answer}\n"
        "    when: begun!=\n"
    )
    assert run(text, "So.", state={"input": "?"})["answer"] == "So."


# Retry.


def test_a_retry_stands_beside_a_step_or_around_it():
    calls: list[int] = []

    @tool
    def flaky() -> str:
        """Fail at first."""
        calls.append(1)
        if len(calls) % 2:
            raise ConnectionError("down")
        return "up"

    beside = (
        "steps:\n  - tool_call: {tool: flaky, output_key: line}\n"
        "    retry: {max_retries: 2, retry_on: [ToolError, 503]}\n"
    )
    around = (
        "steps:\n  - retry:\n      max_retries: 2\n      id: again\n"
        "      step: {tool_call: {tool: flaky, output_key: line}}\n"
    )
    for text in (beside, around):
        assert run(text, tools=[flaky])["line"] == "up"
        (node,) = loads(text).graph.nodes.values()
        assert isinstance(node, Retry)
    calls.clear()
    with pytest.raises(ToolError):
        run(beside.replace("max_retries: 2", "enabled: false"), tools=[flaky])


def test_a_node_that_is_tried_again_keeps_its_id():
    text = "steps:\n  - transform: {action: now, id: clock}\n    retry: {delay: 0.5}\n"
    assert list(loads(text).graph.nodes) == ["clock"]


# Deciding.


def test_a_gate_sends_work_back_until_it_passes():
    text = """
steps:
  - gate: {input_key: verdict, pass_value: go, fail_value: back, max_rounds: 2}
"""
    assert run(text, state={"verdict": "no"})["decision"] == "back"
    assert isinstance(loads(text).graph.nodes["gate_1"], Gate)


def test_validate_compares_the_words_that_stand_there():
    text = "steps: [validate: {any_of: [yes, 1.10], pass_value: go, fail_value: no}]"
    assert run(text, state={"answer": "Yes."})["decision"] == "go"
    assert run(text, state={"answer": "1.10"})["decision"] == "go"
    assert run(text, state={"answer": "nope"})["decision"] == "no"
    assert isinstance(loads(text).graph.nodes["validate_1"], Validate)


def test_fallback_fills_a_field():
    text = "steps: [fallback: {input_key: order, field: currency, value: EUR}]"
    assert run(text, state={"order": {"sum": 5}})["order"] == {"sum": 5, "currency": "EUR"}


def test_a_tool_is_called_with_arguments_from_the_state():
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    text = "steps: [tool_call: {tool: add, args: {a: '{n}', b: 2}, output_key: sum}]"
    assert run(text, state={"n": 40}, tools=[add])["sum"] == "42"


def test_an_unknown_tool_of_a_call_is_found_by_the_check():
    (finding,) = loads("steps: [tool_call: {tool: fetch_ulr}]").check()
    assert (finding.code, finding.line, finding.column) == ("unknown-name", 1, 21)


# Asking.


def test_yml_01_d59_an_answer_yes_passes_where_yes_is_written():
    text = """
steps:
  - interrupt:
      id: ship
      key: approval
      prompt: Ship it?
      strategy: {equals: yes, pass_value: go, fail_value: stay}
  - transform: {action: render, template: "{decision}", output_key: out}
"""
    assert list(loads(text).graph.nodes) == ["ship", "ship-validate", "transform_3"]
    assert answer(text, "Yes!")["out"] == "go"
    assert answer(text, "no")["out"] == "stay"


def test_yml_01_choices_of_an_edge_are_words():
    text = """
steps:
  - {id: ask, type: interrupt, config: {key: answer, choices: [yes, no, off]}}
  - {id: took, type: transform, config: {action: value, value: 1, output_key: took}}
edges:
  - {from: ask, to: took, condition: answer=yes}
"""
    assert answer(text, "yes")["took"] == 1
    assert "took" not in answer(text, "no")


@pytest.mark.parametrize(
    "how",
    [
        "any_of: [yes, go], pass_value: ship, fail_value: stay",
        "accept: {any_of: [yes, go], pass_value: ship, fail_value: stay}",
        "strategy: {any_of: [yes, go], pass_value: ship, fail_value: stay}",
    ],
)
def test_ask_takes_how_it_judges_below_or_beside_the_question(how):
    text = f"steps:\n  - ask: {{key: reply, prompt: 'Ship?', id: q, {how}}}\n"
    assert answer(text, "go")["decision"] == "ship"
    assert answer(text, "never")["decision"] == "stay"


def test_a_model_may_judge_an_answer():
    text = MODEL + (
        "steps:\n  - ask:\n      key: reply\n      id: q\n      pass_value: go\n      fail_value: no\n"
        "      llm: {system: Does it agree}\n"
    )
    assert list(loads(text).graph.nodes) == ["q", "q-classifier", "q-validate"]
    assert answer(text, "sure", replies=['{"ok": true}'])["decision"] == "go"


def test_d67_two_questions_with_a_strategy_need_no_ids():
    one = "  - interrupt: {key: %s, strategy: {equals: yes}}\n"
    nodes = loads("steps:\n" + one % "a" + one % "b").graph.nodes
    assert len(nodes) == 4


def test_an_interrupt_loop_asks_until_the_answer_passes():
    text = """
state: {initial: {tries: ""}}
steps:
  - interrupt_loop:
      key: code
      prompt: Which code?
      strategy: {equals: 0123, pass_value: right, fail_value: wrong}
      body: {transform: {action: render, template: "{tries}x", output_key: tries}}
      done: {transform: {action: value, value: open, output_key: door}}
"""
    result = answer(text, "9", "0123")
    assert (result["tries"], result["door"]) == ("x", "open")


def test_extract_fills_what_the_model_left_empty():
    text = MODEL + (
        "steps:\n  - extract:\n      id: place\n      output_key: place\n"
        "      schema: {city: string, country: string}\n"
        "      fallbacks: {country: '{home}'}\n"
        "  - extract: {schema: {day: string}, output_key: day}\n"
        "  - extract: {schema: {day: string}, output_key: other}\n"
    )
    assert list(loads(text).graph.nodes) == [
        "place",
        "place-fallback-1",
        "extract",
        "extract_2",
    ]
    result = run(
        text,
        '{"city": "Riga", "country": ""}',
        '{"day": "Monday"}',
        '{"day": "Friday"}',
        state={"input": "Riga", "home": "Latvia"},
    )
    assert result["place"] == {"city": "Riga", "country": "Latvia"}
    assert isinstance(loads(text).graph.nodes["place-fallback-1"], Fallback)


def test_an_llm_answers_with_fields():
    text = MODEL + (
        "steps:\n  - llm: {prompt: Where, output_type: {city: string, days: integer},"
        " max_retries: 1, output_key: trip}\n"
        "  - llm: {prompt: Where, json_schema: {type: object, required: [a]},"
        " response_path: a, output_key: a}\n"
    )
    result = run(text, '{"city": "Riga"}', '{"city": "Riga", "days": 2}', '{"a": [1]}')
    assert result["trip"] == {"city": "Riga", "days": 2}
    assert result["a"] == [1]
    node = loads(text).graph.nodes["llm_chat_1"]
    assert isinstance(node, LLM)
    assert node.max_retries == 1


# D60: what used to be dropped.


def test_d60_options_of_agents_reach_their_nodes():
    text = MODEL + (
        "steps:\n"
        "  - agent_step: {system: x, output_key: y, id: one, temperature: 0.5, max_tool_rounds: 3,"
        " use_tools: [ask_human]}\n"
        "  - team:\n"
        "      leader: {sections: {a: A}, fill_order: {r: r}}\n"
        "      roles: {r: {system: x, temperature: 0.1, tools: [ask_human]}}\n"
    )
    graph = loads(text).graph
    inner = {node.type: node for node in graph.nodes["one"].children()}
    assert inner["react_agent"].config["temperature"] == 0.5
    assert inner["react_agent"].config["max_tool_rounds"] == 3
    assert list(inner["react_agent"].config["use_tools"]) == ["ask_human"]
    role = {node.type: node for node in graph.nodes["r"].children()}
    assert role["react_agent"].config["temperature"] == 0.1
    (lead,) = [node for node in graph.nodes.values() if node.type == "supervisor"]
    assert dict(lead.config["sections"]) == {"a": "A"}
    assert dict(lead.config["fill_order"]) == {"r": "r"}


# Graphs within graphs.


def test_a_subflow_has_steps_of_its_own_and_maps_its_state():
    text = """
steps:
  - subflow:
      id: area
      input_map: {text: title}
      output_map: {loud: loud}
      steps:
        - transform: {action: trim, input_key: text, output_key: text}
        - transform: {action: uppercase, input_key: text, output_key: loud}
"""
    assert run(text, state={"title": " ab "}) == {"title": " ab ", "loud": "AB"}


def test_a_subflow_may_be_another_file(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "greet.yaml").write_text(
        "name: greet\n"
        "tools: [fetch_url]\n"
        "state: {initial: {greeting: Hello}}\n"
        "steps: [transform: {action: render, template: '{greeting}, {name}!', output_key: out}]\n"
    )
    (tmp_path / "flow.yaml").write_text(
        "steps:\n"
        "  - subflow: {file: parts/greet.yaml}\n"
        "  - transform: {action: uppercase, input_key: out, output_key: out}\n"
    )
    workflow = load(tmp_path / "flow.yaml")
    assert [one.name for one in workflow.tools] == ["fetch_url"]
    assert asyncio.run(workflow.run(None, {"name": "Ada"}))["out"] == "HELLO, ADA!"
    assert asyncio.run(workflow.run(None, {"name": "A", "greeting": "Hi"}))["out"] == "HI, A!"


def test_an_error_in_the_file_of_a_subflow_has_its_place(tmp_path):
    (tmp_path / "inner.yaml").write_text("steps:\n  - llm: {promt: x}\n")
    (tmp_path / "flow.yaml").write_text("steps: [subflow: {file: inner.yaml}]\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "flow.yaml")
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "inner.yaml"), 2)


def test_a_file_that_would_run_inside_of_itself_is_refused(tmp_path):
    (tmp_path / "flow.yaml").write_text("steps: [subflow: {file: other.yaml}]\n")
    (tmp_path / "other.yaml").write_text("steps: [subflow: {file: flow.yaml}]\n")
    with pytest.raises(ConfigError, match="flow.yaml would run inside of itself"):
        load(tmp_path / "flow.yaml")


def test_every_idiom_may_stand_inside_of_another():
    text = (
        MODEL
        + """
steps:
  - transform: {action: now, output_key: begun}
  - branch:
      key: begun
      cases:
        - value: never
          steps:
            - parallel: {branches: [{loop: {key: a, until: 1, body: {transform: {action: now}}}}]}
            - gate: {}
            - ask: {key: q, equals: yes}
            - map: {input_keys: a, output_key: b, processor: {retry: {step: {llm: {output_key: b}}}}}
      default:
        - type: transform
          config: {action: value, value: 1, output_key: out}
        - {type: {type: transform, config: {action: value, value: 2, output_key: more}}}
"""
    )
    result = run(text)
    assert (result["out"], result["more"]) == (1, 2)
