"""Workflow files that are right: what each key and each step stands for."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

import teff
from teff.checkpoint import MemoryCheckpointer
from teff.errors import GraphInterrupt
from teff.node import LLM, Node, Supervisor, options
from teff.runtime import Limits, RunResult
from teff.testing.scripted import ScriptedProvider, call_tool
from teff.workflow import load, loads


def run(
    text: str, message: str | None = None, *answers: Any, state: Any = None, **given: Any
) -> RunResult:
    provider = ScriptedProvider(answers)
    result = asyncio.run(loads(text).run(message, state, providers={"scripted": provider}, **given))
    provider.assert_done()
    return result


MODEL = "default_provider: scripted\ndefault_model: m\n"


def test_a_file_becomes_a_workflow(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text(
        "name: shout\n"
        "description: Shouts.\n"
        "state:\n"
        "  initial: {greeting: Hello}\n"
        "  reducers: {log: append}\n"
        "limits: {max_steps: 9, deadline: 1e1}\n"
        "steps:\n"
        "  - transform: {action: uppercase, input_key: input, output_key: output, id: loud}\n",
        encoding="utf-8",
    )
    workflow = load(path)
    assert (workflow.name, workflow.description, workflow.path) == ("shout", "Shouts.", path)
    assert workflow.initial == {"greeting": "Hello"}
    assert workflow.limits == Limits(max_steps=9, deadline=10.0)
    assert workflow.graph.limits == workflow.limits
    assert workflow.graph.reducers == {"log": "append"}
    assert list(workflow.graph.nodes) == ["loud"]
    assert workflow.tools == ()
    assert workflow.check() == []
    result = asyncio.run(workflow.run("hi"))
    assert result == {
        "greeting": "Hello",
        "messages": [{"role": "user", "content": "hi"}],
        "input": "hi",
        "output": "HI",
    }


def test_from_yaml_gives_the_graph(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text("steps: [transform: {action: now, id: at}]", encoding="utf-8-sig")
    assert list(teff.from_yaml(path).nodes) == ["at"]


def test_a_message_is_added_to_the_conversation_and_stands_under_input():
    workflow = loads(
        "state:\n  initial:\n    messages: [{role: system, content: Be brief.}]\n    tone: kind\n"
        "steps: [transform: {action: now}]"
    )
    assert workflow.start("hi", {"tone": "cool"}) == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ],
        "input": "hi",
        "tone": "cool",
    }
    assert workflow.start() == workflow.initial


def test_steps_run_in_their_order():
    result = run(
        "steps:\n"
        "  - transform: {action: value, value: b, output_key: text}\n"
        "  - transform: {action: uppercase, input_key: text, output_key: text}\n"
        "  - transform: {action: render, template: '<{text}>', output_key: text}\n"
    )
    assert result["text"] == "<B>"


def test_a_step_without_options_needs_none_written():
    assert run("steps:\n  - append_assistant:\n", state={"draft": "Done."})["messages"] == [
        {"role": "assistant", "content": "Done."}
    ]


BRANCH = """
steps:
  - transform: {action: trim, input_key: topic, output_key: topic}
  - branch:
      key: topic
      cases:
        - value: yes
          steps:
            - transform: {action: value, value: took yes, output_key: way}
        - value: 1.10
          steps:
            - transform: {action: value, value: took 1.10, output_key: way}
        - value: a, b
          steps:
            - transform: {action: value, value: took both, output_key: way}
      default:
        - transform: {action: value, value: took default, output_key: way}
      converge:
        transform: {action: uppercase, input_key: way, output_key: loud}
"""


@pytest.mark.parametrize(
    ("topic", "way"),
    [("yes", "yes"), ("Yes!", "yes"), ("1.10", "1.10"), ("a, b", "both"), ("no", "default")],
)
def test_a_branch_compares_what_is_written_and_comes_together_again(topic, way):
    result = run(BRANCH, state={"topic": topic})
    assert result["way"] == f"took {way}"
    assert result["loud"] == f"TOOK {way}".upper()


def test_a_branch_may_hold_pieces_of_several_nodes():
    result = run(
        MODEL + "steps:\n"
        "  - transform: {action: value, value: ask, output_key: way}\n"
        "  - branch:\n"
        "      key: way\n"
        "      cases:\n"
        "        - value: ask\n"
        "          steps:\n"
        "            - transform: {action: value, value: How, output_key: input}\n"
        "            - agent: {system: Answer., output_key: answer}\n"
        "      default: [transform: {action: now}]\n",
        None,
        "So.",
    )
    assert result["answer"] == "So."


def test_a_command_goes_to_a_node_or_stops():
    text = (
        "steps:\n"
        "  - {KIND}:\n"
        "      routes: [{{when: n >= 3, goto: STOP}}]\n"
        "      goto: {GOTO}\n"
        "  - transform: {{action: value, value: 1, output_key: passed, id: pass}}\n"
    )
    for kind in ("command", "route"):
        flow = text.format(KIND=kind, GOTO="pass")
        stopped = run(flow, state={"n": 3})
        assert stopped.stop_reason == "command_stop"
        assert "passed" not in stopped
        assert run(flow, state={"n": 2})["passed"] == 1


def test_an_llm_asks_the_default_model():
    result = run(
        MODEL + "steps: [llm: {prompt: 'Say {word}', output_key: said}]",
        None,
        "hi",
        state={"word": "hi"},
    )
    assert result["said"] == "hi"
    assert list(result.usage.by_model) == ["scripted/m"]


def test_defaults_of_a_run_replace_those_of_the_file():
    result = run(MODEL + "steps: [llm: {prompt: hi}]", None, "ho", default_model="larger")
    assert list(result.usage.by_model) == ["scripted/larger"]


def test_an_agent_uses_tools():
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    result = run(
        MODEL + "steps: [agent: {id: calc, system: Calculate., use_tools: [add]}]",
        "1 + 2",
        call_tool("add", {"a": 1, "b": 2}),
        "It is 3.",
        tools=[add],
    )
    assert result["output"] == "It is 3."
    assert result.usage.tool_calls == 1


def test_an_agent_step_answers_in_the_conversation():
    text = MODEL + "steps: [agent_step: {system: Write., output_key: draft, id: writer}]"
    result = run(text, "a poem", "Roses.")
    assert result["draft"] == "Roses."
    assert result["messages"][-1] == {"role": "assistant", "content": "Roses."}


TEAM = (
    MODEL
    + """
steps:
  - team:
      id: desk
      leader:
        system: Who answers?
        done_keys: [answer]
        fallback: technical
        max_rounds: 4
        sections: {order: Order}
      roles:
        billing: {system: You know invoices., output_key: answer, tools: []}
        technical:
          - transform: {action: value, value: Restart it., output_key: answer}
      finish:
        - transform: {action: uppercase, input_key: answer, output_key: loud}
"""
)


def test_a_team_routes_to_the_role_that_the_model_names():
    result = run(TEAM, "charged twice", "billing", "You get it back.", state={"order": "17"})
    assert result["answer"] == "You get it back."
    assert result["loud"] == "YOU GET IT BACK."
    assert (result.status, result.stop_reason) == ("finished", "done_keys")


def test_a_role_may_be_any_steps_and_takes_over_where_the_model_names_nobody():
    result = run(TEAM, "it smokes", "hm", "hm")
    assert result["answer"] == "Restart it."


def test_what_a_leader_is_told_may_stand_beside_it():
    text = (
        MODEL + "steps:\n  - team:\n      system: Who?\n      done_keys: [a]\n      max_rounds: 3\n"
        "      fill_order: {one: a}\n      roles: {one: {system: x, output_key: a}}\n"
    )
    (leader,) = [node for node in loads(text).graph.nodes.values() if isinstance(node, Supervisor)]
    assert (leader.system, leader.max_rounds, list(leader.done_keys)) == ("Who?", 3, ["a"])
    assert dict(leader.fill_order) == {"one": "a"}


def test_a_role_has_its_own_model_or_that_of_the_leader():
    text = (
        "steps:\n  - team:\n      leader: {system: Who, model: small, provider: scripted, done_keys: [x]}\n"
        "      roles:\n"
        "        one: {system: x, output_key: x, model: large}\n"
        "        two: {system: y, output_key: x}\n"
    )
    for role, model in (("one", "large"), ("two", "small")):
        result = run(text, "hi", role, "done")
        assert result.usage.by_model[f"scripted/{model}"]["model_calls"] == (
            1 if role == "one" else 2
        )


def test_a_supervisor_wires_its_agents_and_its_end():
    text = MODEL + (
        "steps:\n"
        "  - supervisor:\n"
        "      system: Who?\n"
        "      key: next\n"
        "      done_keys: [x]\n"
        "      fallback: one\n"
        "      agents:\n"
        "        one: [transform: {action: value, value: 1, output_key: x}]\n"
        "        two: {transform: {action: value, value: 2, output_key: x}}\n"
        "      finish: [transform: {action: value, value: true, output_key: ended}]\n"
    )
    result = run(text, "hi", "two")
    assert (result["x"], result["ended"], result["next"]) == (2, True, "finish")


def test_supervise_sends_the_run_to_what_the_step_before_chose():
    text = (
        "steps:\n"
        "  - transform: {action: coalesce, input_key: x, value: one, output_key: next}\n"
        "  - supervise:\n"
        "      key: next\n"
        "      agents:\n"
        "        one: [transform: {action: value, value: finish, output_key: x}]\n"
        "      finish: [transform: {action: value, value: 1, output_key: ended}]\n"
    )
    assert run(text)["ended"] == 1


def test_an_interrupt_asks_and_the_answer_goes_on():
    workflow = loads(
        "state: {initial: {amount: 5}}\n"
        "steps:\n"
        "  - interrupt: {key: approved, prompt: 'Refund {amount}?', choices: [yes, no]}\n"
        "  - transform: {action: render, template: 'Said {approved}', output_key: output}\n"
    )
    stored: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r1"}
    with pytest.raises(GraphInterrupt, match="Refund 5"):
        asyncio.run(workflow.run(**stored))
    assert asyncio.run(workflow.run(resume="yes", **stored))["output"] == "Said yes"


@options
class Stamp(Node):
    """A node as a plugin brings it."""

    type = "stamp"
    version: str = ""
    provider: str = ""
    times: int = 1

    async def execute(self, ctx: Any, state: Any) -> Any:
        return {"stamp": self.version * self.times}


@pytest.fixture
def stamp_is_installed(monkeypatch):
    monkeypatch.setitem(teff.plugins.catalogue()._objects, ("teff.nodes", "stamp"), Stamp)


@pytest.mark.usefixtures("stamp_is_installed")
def test_a_node_of_any_type_stands_under_type():
    text = "steps: [type: {type: stamp, id: mark, config: {version: 1.10, times: 2}}]"
    workflow = loads(text)
    assert list(workflow.graph.nodes) == ["mark"]
    assert asyncio.run(workflow.run())["stamp"] == "1.101.10"


@pytest.mark.usefixtures("stamp_is_installed")
def test_an_option_named_provider_of_a_plugin_is_its_own():
    assert loads("steps: [type: {type: stamp, config: {provider: acme}}]").check() == []


def test_yml_03_text_options_keep_the_source_of_numbers():
    workflow = loads(
        "name: 1.10\n"
        "default_provider: ollama\n"
        "default_model: 2.0\n"
        "steps:\n"
        "  - llm: {prompt: 0123, system: 10:30, output_key: 1, temperature: 1e-3, use_tools: [7]}\n"
        "  - agent_step: {system: 1.50, output_key: x, sections: {a: 1.0}}\n"
    )
    node = workflow.graph.nodes["llm_chat_1"]
    assert isinstance(node, LLM)
    assert (workflow.name, workflow.graph.defaults.model) == ("1.10", "2.0")
    assert (node.prompt, node.system, node.output_key) == ("0123", "10:30", "1")
    assert node.temperature == 0.001
    assert node.use_tools == ["7"]


def test_yml_01_choices_are_the_words_that_stand_there():
    workflow = loads("steps: [interrupt: {key: ok, choices: [yes, no, NO]}]")
    assert list(workflow.graph.nodes["interrupt_1"].config["choices"]) == ["yes", "no", "NO"]


def test_tpl_01_json_in_a_quoted_template_stays():
    text = 'steps: [transform: {action: render, template: \'Answer {q} as {"n": {"k": 1}}\', output_key: o}]'
    assert run(text, state={"q": "why"})["o"] == 'Answer why as {"n": {"k": 1}}'


def test_providers_are_a_mapping_or_a_list_with_names():
    as_mapping = "providers:\n  fast: {type: openai, base_url: 'http://localhost:1/v1'}\n"
    as_list = "providers:\n  - {name: fast, type: openai, base_url: 'http://localhost:1/v1'}\n"
    for text in (as_mapping, as_list):
        workflow = loads(text + "steps: [llm: {prompt: hi, provider: fast, model: 4}]")
        assert workflow.providers == {
            "fast": {"type": "openai", "base_url": "http://localhost:1/v1"}
        }
        assert workflow.check() == []


def test_tools_are_named_or_made_from_options(monkeypatch):
    @attrs.frozen
    class Greeter(teff.Tool):
        greeting: str = "Hello"
        name = "greet"

        async def run(self, who: str) -> str:
            return f"{self.greeting}, {who}!"

    monkeypatch.setitem(teff.plugins.catalogue()._objects, ("teff.tools", "greet"), Greeter)
    workflow = loads(
        "tools:\n  - fetch_url\n  - {name: greet, config: {greeting: Ahoy}}\n"
        "steps: [llm: {prompt: hi, model: m, provider: ollama, use_tools: [greet]}]"
    )
    assert [tool.name for tool in workflow.tools] == ["fetch_url", "greet"]
    assert workflow.check() == []


def test_a_workflow_of_1000_steps_loads():
    step = "  - transform: {action: value, value: 1, output_key: x}\n"
    assert len(loads("steps:\n" + step * 1_000).graph.nodes) == 1_000


def test_hello_runs_and_has_no_findings():
    path = Path(__file__).resolve().parents[3] / "examples" / "hello" / "flow.yaml"
    workflow = load(path, environment={})
    assert workflow.check() == []
    assert asyncio.run(workflow.run(" hi "))["output"] == "Hello, friend! You said: hi"
    assert asyncio.run(workflow.run("Well?"))["output"] == "Good question, friend: Well?"


def calls_to_load(text: str) -> int:
    """Return how many functions are called to load a file."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        loads(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", ["idioms", "nodes"])
def test_the_work_of_loading_grows_with_the_steps_and_no_faster(kind):
    def file(steps: int) -> str:
        if kind == "idioms":
            return "steps:\n" + "  - transform: {action: now}\n" * steps
        step = "  - {{id: n{}, type: transform, config: {{action: now}}}}\n"
        edge = "  - {{from: n{}, to: n{}, condition: x=1}}\n"
        return (
            "steps:\n"
            + "".join(step.format(number) for number in range(steps))
            + "edges:\n"
            + "".join(edge.format(number, number + 1) for number in range(steps - 1))
        )

    loads(file(2))  # what happens once, happens here
    assert calls_to_load(file(400)) <= 4.4 * calls_to_load(file(100))
