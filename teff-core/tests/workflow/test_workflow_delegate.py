"""The step `delegate` of workflow files: agents as tools."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.flow import AgentRole, Flow
from teff.graph import Graph
from teff.messages import message_text
from teff.node import Delegate, Transform
from teff.node.delegation import SubAgent, block
from teff.runtime import RunResult
from teff.testing import ScriptedProvider, call_tool
from teff.workflow import load, loads
from teff.workflow.workflow import Workflow

MODEL = "default_provider: scripted\ndefault_model: m\n"


def ask(agent: str, message: str = "look") -> Any:
    return call_tool(f"delegate_to_{agent}", {"message": message})


class Run:
    """One run of a workflow over a script."""

    def __init__(self, workflow: Workflow | str, *script: Any, **state: Any) -> None:
        made = loads(workflow) if isinstance(workflow, str) else workflow
        self.model = ScriptedProvider(script)
        providers = {"scripted": self.model}
        result: RunResult = asyncio.run(made.run("Hi", state, providers=providers))
        self.model.assert_done()
        self.result = result

    @property
    def record(self) -> dict[str, Any]:
        return dict(self.result["output_steps"])

    @property
    def observations(self) -> list[tuple[str, str]]:
        return [(step["status"], step["observation"]) for step in self.record["steps"][:-1]]

    def told(self, request: int) -> str:
        return "\n".join(map(message_text, self.model.requests[request].messages))


def delegate(text: str) -> Delegate:
    (node,) = loads(text).graph.nodes.values()
    assert isinstance(node, Delegate)
    return node


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loads(text, environment={})
    return str(caught.value)


def test_a_role_is_given_a_task_and_the_model_answers() -> None:
    text = MODEL + (
        "steps:\n"
        "  - delegate:\n"
        "      system: You keep a library.\n"
        "      agents:\n"
        "        search: {description: Finds books., system: 'You search in {hall}.', context: [hall]}\n"
    )
    run = Run(text, ask("search", "books on tea"), "Two books.", "We have two.", hall="hall 3")
    assert run.result["output"] == "We have two."
    assert run.record["agents_used"] == ["search"]
    assert "You keep a library." in run.told(0)
    assert "You search in hall 3." in run.told(1)
    assert "books on tea" in run.told(1)
    assert "Two books." in run.told(2)


def test_an_agent_may_be_steps_or_one_node() -> None:
    text = MODEL + (
        "steps:\n"
        "  - delegate:\n"
        "      agents:\n"
        "        loud:\n"
        "          description: Shouts.\n"
        "          steps:\n"
        "            - transform: {action: trim, input_key: input, output_key: short}\n"
        "            - transform: {action: uppercase, input_key: short, output_key: big}\n"
        "          output_key: big\n"
        "        quiet:\n"
        "          description: Whispers.\n"
        "          node: {transform: {action: lowercase, input_key: input, output_key: small}}\n"
    )
    run = Run(text, ask("loud", " ab "), ask("quiet", "AB"), "Done.")
    assert run.observations == [
        ("ok", '{"agent": "loud", "status": "ok", "output": "AB"}'),
        ("ok", '{"agent": "quiet", "status": "ok", "output": "ab"}'),
    ]


def test_an_agent_may_be_another_file(tmp_path: Path) -> None:
    inner = MODEL + "steps:\n  - llm: {system: 'Be {mood}.', output_key: poem}\n"
    (tmp_path / "poet.yaml").write_text(inner)
    outer = MODEL + (
        "steps:\n"
        "  - delegate:\n"
        "      agents:\n"
        "        poet:\n"
        "          description: Writes.\n"
        "          file: poet.yaml\n"
        "          output_key: poem\n"
        "          context: {weather: mood}\n"
    )
    (tmp_path / "flow.yaml").write_text(outer)
    run = Run(load(tmp_path / "flow.yaml"), ask("poet"), "Roses.", "Here.", weather="sunny")
    assert run.observations == [("ok", '{"agent": "poet", "status": "ok", "output": "Roses."}')]
    assert "Be sunny." in run.told(1)


def test_a_file_does_not_run_inside_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text("steps: [delegate: {agents: {a: {description: x, file: flow.yaml}}}]\n")
    with pytest.raises(ConfigError, match=r"flow\.yaml:1:\d+: .*inside of itself"):
        load(path)


def test_an_agent_may_delegate_itself() -> None:
    text = MODEL + (
        "steps:\n"
        "  - delegate:\n"
        "      id: top\n"
        "      agents:\n"
        "        lead:\n"
        "          description: Leads.\n"
        "          steps:\n"
        "            - delegate: {agents: {hand: {description: Works., system: Work.}}}\n"
    )
    run = Run(text, ask("lead"), ask("hand"), "Worked.", "Led.", "Done.")
    assert run.result["output"] == "Done."
    assert run.record["tokens"]["model_calls"] == 5


def test_the_bounds_are_those_of_the_file() -> None:
    text = MODEL + (
        "steps:\n"
        "  - delegate:\n"
        "      max_delegations: 2\n"
        "      per_agent: {a: 1}\n"
        "      agents: {a: {description: A., system: Be a.}, b: {description: B., system: Be b.}}\n"
    )
    run = Run(text, ask("a"), "One.", ask("b"), "Two.", "Best answer.")
    assert (run.result.stop_reason, run.result["output"]) == ("max_delegations", "Best answer.")
    assert run.result["output_forced"] is True


def test_a_review_is_asked_for() -> None:
    text = MODEL + (
        "steps:\n  - delegate: {review: true, agents: {a: {description: A., system: Be a.}}}\n"
    )
    run = Run(text, ask("a"), "One.", '{"verdict": "reject", "feedback": "No."}', "Sorry.")
    assert run.record["steps"][0]["status"] == "rejected"
    assert run.result["output"] == "Sorry."


def test_the_limits_of_an_agent_bound_each_of_its_tasks() -> None:
    text = MODEL + (
        "steps:\n"
        "  - delegate:\n"
        "      agents:\n"
        "        a:\n"
        "          description: A.\n"
        "          steps: [{llm: {output_key: x}}, {llm: {output_key: output}}]\n"
        "          limits: {max_model_calls: 1}\n"
    )
    run = Run(text, ask("a"), "One.", "Nothing came of it.")
    assert run.result["output"] == "Nothing came of it."
    assert run.result.status == "finished"


def test_agents_may_stand_in_a_list() -> None:
    text = "steps: [delegate: {agents: [{name: b, description: B., system: x}, {name: a, description: A., system: x}]}]"
    assert list(delegate(text).sub_agents) == ["b", "a"]


def test_a_role_may_stand_under_role() -> None:
    text = "steps: [delegate: {agents: {a: {description: A., role: {system: x, output_key: y}}}}]"
    assert delegate(text).sub_agents["a"].output_key == "y"


def test_a_delegate_may_be_a_node_with_edges() -> None:
    text = MODEL + (
        "steps:\n"
        "  - id: desk\n"
        "    type: delegate\n"
        "    config: {agents: {a: {description: A., system: Be a.}}}\n"
        "  - {id: loud, type: transform, config: {action: uppercase, input_key: output}}\n"
        "edges: [{from: desk, to: loud}]\n"
    )
    run = Run(text, ask("a"), "One.", "done")
    assert run.result["output"] == "DONE"


def test_it_may_stand_inside_of_another_step_with_a_condition() -> None:
    text = MODEL + (
        "steps:\n"
        "  - transform: {action: value, value: yes, output_key: go}\n"
        "  - delegate: {agents: {a: {description: A., system: Be a.}}, output_key: said}\n"
        "    when: go=yes\n"
    )
    assert Run(text, "Hello.").result["said"] == "Hello."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{agents: {a: {description: A., system: x}}}", "delegate asks a model, but no provider"),
        (
            "{provider: ollama, model: m, agents: {a: {description: A., system: x, provider: olama}}}",
            "1:89: unknown provider 'olama'",
        ),
        (
            "{provider: ollama, model: m, agents: {a: {description: A., system: x, tools: [nix]}}}",
            "nix",
        ),
        (
            "{provider: ollama, model: m, agents: {a: {description: A., steps: [{llm: {}}]}}}",
            "llm asks a model, but no provider",
        ),
    ],
)
def test_what_agents_ask_and_use_must_be_there(text: str, said: str) -> None:
    findings = loads(f"steps: [delegate: {text}]", environment={}).check()
    assert said in str(findings[0])


def test_a_role_asks_the_model_of_its_delegate() -> None:
    text = (
        "steps: [delegate: {provider: ollama, model: m, agents: {a: {description: A., system: x}}}]"
    )
    assert loads(text).check() == []


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("{}", "1:9", "delegate: the key 'agents' is missing."),
        ("{agents: {}}", "1:20", "option 'agents' names no agent."),
        ("{agents: [a]}", "1:29", "must be a mapping"),
        ("{agents: a}", "1:20", "'agents' must be a mapping"),
        ("{agents: {a: null}}", "1:29", "'a' must be a mapping"),
        ("{agents: [{system: x}]}", "1:29", "an agent: the key 'name' is missing."),
        (
            "{agents: {a: {description: A., system: x}}, guards: {}}",
            "1:63",
            "delegate: 'guards' are functions, which a file cannot hold. Give them in Python",
        ),
        (
            "{agents: {a: {system: x}}}",
            "1:29",
            "agent 'a': the key 'description' is missing; the model chooses by it.",
        ),
        ("{agents: {a: {description: '', system: x}}}", "1:33", "agent 'a' needs a description"),
        ("{agents: {a: {description: A.}}}", "1:29", "agent 'a': there is nothing to run."),
        (
            "{agents: {a: {description: A., sytem: x}}}",
            "1:50",
            "agent 'a': unknown option 'sytem'. Did you mean 'system'?",
        ),
        (
            "{agents: {a: {description: A., flow: x}}}",
            "1:50",
            "agent 'a': 'flow' is given in Python only. Write 'steps', 'graph' or 'file'",
        ),
        (
            "{agents: {a: {description: A., node: {llm: {}}, file: x}}}",
            "1:67",
            "agent 'a': give 'node' or 'file', not both.",
        ),
        (
            "{agents: {a: {description: A., file: x, system: x}}}",
            "1:59",
            "agent 'a': 'system' does not stand beside 'file'.",
        ),
        ("{agents: {a b: {description: A., system: x}}}", "1:29", "'a b' is no name for an agent."),
        (
            "{agents: {a: {description: A., system: x, context: [input]}}}",
            "1:61",
            "context cannot fill 'input'",
        ),
        ("{agents: {a: {description: A., steps: [lml: {}]}}}", "1:58", "unknown step 'lml'."),
        (
            "{agents: {abc: {description: A., system: x}}, per_agent: {abd: 1}}",
            "1:65",
            "names 'abd', which is no agent. Did you mean 'abc'?",
        ),
        ("{id: d, agents: {a: {description: A., system: x}}, depth: 0}", "1:70", "depth"),
        (
            "{agents: {a: {description: A., system: x, max_tokens: x}}}",
            "1:61",
            "agent 'a': option 'max_tokens' must be a whole number",
        ),
        (
            "{agents: {a: {description: A., system: x, tools: a, use_tools: b}}}",
            "1:29",
            "give use_tools or tools, not both",
        ),
    ],
)
def test_what_is_wrong_has_its_place(text: str, place: str, said: str) -> None:
    message = refused(f"steps: [delegate: {text}]")
    assert message.startswith(f"<text>:{place}: ")
    assert said in message


# Written out.


def flow() -> Flow:
    return Flow(default_provider="ollama", default_model="m")


def inner() -> Flow:
    return Flow("inner").transform(action="uppercase", input_key="input", output_key="big")


@pytest.mark.parametrize(
    "agents",
    [
        {"a": {"description": "A.", "system": "x", "limits": {"max_model_calls": 2}}},
        {"a": {"description": "A.", "role": AgentRole("x", output_key="y", temperature=0.5)}},
        {"a": {"description": "A.", "flow": inner(), "output_key": "big"}},
        {"a": {"description": "A.", "node": Transform(action="now"), "context": {"b": "c"}}},
        [SubAgent(name="a", description="A.", node=inner(), context=["b"])],
    ],
    ids=["options", "role", "flow", "node", "agent"],
)
def test_one_that_is_written_out_loads_to_the_same(agents: Any) -> None:
    graph = flow().delegate("Lead.", agents=agents, per_agent={"a": 2}, review=True).compile()
    text = graph.to_yaml()
    loaded = loads(text).graph
    assert loaded.to_yaml() == text
    assert loaded.plan.signature == graph.plan.signature
    written, read = (next(iter(made.nodes.values())) for made in (graph, loaded))
    assert isinstance(written, Delegate)
    assert isinstance(read, Delegate)
    assert read.per_agent == {"a": 2}
    for name, agent in written.sub_agents.items():
        same = read.sub_agents[name]
        assert (same.description, same.output_key) == (agent.description, agent.output_key)
        assert same.context == agent.context


def test_its_options_make_another_one() -> None:
    node = Delegate(agents={"a": {"description": "A.", "flow": inner()}}, depth=2)
    again = Delegate(**node.to_config())
    assert again.signature() == node.signature()
    assert again.depth == 2


def test_guards_are_not_written_out() -> None:
    agents = {"a": {"description": "A.", "system": "x"}}
    graph: Graph = flow().delegate(agents=agents, guards={"output": lambda t: block("")}).compile()
    with pytest.raises(ConfigError, match="option 'guards' holds a function"):
        graph.to_yaml()
