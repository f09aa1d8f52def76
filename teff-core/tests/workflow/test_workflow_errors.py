"""Workflow files that are wrong: one sentence with the place and the way out, for each."""

from __future__ import annotations

import asyncio

import pytest

from teff.errors import ConfigError
from teff.testing.scripted import ScriptedProvider
from teff.workflow import load, loads


def refused(text: str) -> str:
    """Return the first thing that is wrong with a file, found when it is read or checked."""
    try:
        findings = loads(text, environment={}).check()
    except ConfigError as error:
        return str(error)
    errors = [finding for finding in findings if finding.severity == "error"]
    assert errors, f"nothing is wrong with {text!r}"
    return str(errors[0])


NOW = "  - transform: {action: now}\n"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        # The file
        ("", "", "the file is empty; a workflow has 'steps'."),
        ("hello", "1:1", "a workflow file must be a mapping, not text."),
        ("- a", "1:1", "a workflow file must be a mapping, not a list."),
        ("name: x\nstepz: []", "2:1", "unknown key 'stepz'. Did you mean 'steps'?"),
        ("name: x", "1:1", "the key 'steps' is missing."),
        ("steps:", "1:1", "the value of 'steps' is empty."),
        ("steps: []", "1:1", "the list of steps is empty."),
        ("steps: {a: b}", "1:1", "'steps' must be a list, not a mapping. Begin each of its elements with `- `."),
        ("name: [x]\nsteps:\n" + NOW, "1:1", "'name' must be text, not a list."),
        # Steps
        ("steps:\n  - lml: {}", "2:5", "unknown step 'lml'. Did you mean 'llm'?"),
        ("steps:\n  - wrokflow: {}", "2:5", "unknown step 'wrokflow'. Known steps: agent, "),
        ("steps:\n  - parallel: {}", "2:5", "parallel: the key 'branches' is missing."),
        ("steps:\n  - tool_exec: {}", "2:5", "write `type: {type: tool_exec, config: {…}}`."),
        ("steps:\n  - tool_exec", "2:5", "write `type: {type: tool_exec, config: {…}}`."),
        ("steps:\n  - type: tool_exec", "2:5", "write `type: {type: tool_exec, config: {…}}`."),
        ("steps:\n  - type: tool_exce\n    id: x", "2:5", "unknown node type 'tool_exce'. Did you mean 'tool_exec'?"),
        ("steps:\n  - type: wordcount", "2:5", "Write `type: {type: wordcount, config: {…}}`."),
        ("steps:\n  - transform: {action: now, zzqq: 1}", "2:30", "unknown option 'zzqq'. The action 'now' takes output_key."),
        ("steps:\n  - transform: {action: uppercase, zzqq: 1}", "2:36", "The action 'uppercase' takes input_key, output_key."),
        ("steps:\n  - llm:\n    prompt: x", "3:5", "'prompt' stands beside 'llm', not below it."),
        ("steps:\n  - append_assistant", "2:5", "Write `append_assistant: {}`."),
        ("steps:\n  - {llm: {}, transform: {}}", "2:5", "one idiom, but here are 'llm', 'transform'"),
        ("steps:\n  - {}", "2:5", "a step is empty."),
        ("steps:\n  - 3", "2:5", "must be a mapping, not a whole number"),
        ("steps:\n  - llm: hello", "2:5", "the options of 'llm' must be a mapping. They stand below it, by name."),
        ("steps:\n  - parallel: [{transform: {action: now}}]", "2:5", "such as `branches: …`."),
        # Options
        ("steps:\n  - llm: {promt: x}", "2:11", "llm: unknown option 'promt'. Did you mean 'prompt'?"),
        ("steps:\n  - llm: {id: a, promt: x}", "2:18", "llm 'a': unknown option 'promt'."),
        ("steps:\n  - llm:\n      temperature: hot", "3:7", "'temperature' must be a number, not text."),
        ("steps:\n  - llm:\n      temperature: -1", "3:7", "option 'temperature' must be >= 0"),
        ("steps:\n  - llm:\n      max_tokens: 1.5", "3:7", "'max_tokens' must be a whole number"),
        ("steps:\n  - llm:\n      prompt: null", "3:7", "option 'prompt' must be text, not nothing"),
        ("steps:\n  - llm:\n      prompt: #1 is", "3:7", "the value of 'prompt' is empty. '#1' begins"),
        ("steps:\n  - llm:\n      prompt:", "3:7", "is empty. Write a value, or remove the key."),
        ("steps:\n  - llm:\n      prompt: {topic}", "3:15", 'As text, write "{topic}".'),
        ("steps:\n  - llm: {stream: yes}", "2:11", "option 'stream' must be true or false, not text"),
        ("steps:\n  - transform: {action: tirm}", "2:17", "Did you mean 'trim'?"),
        ("steps:\n  - agent_step: {system: x}", "2:5", "the option 'output_key' is missing"),
        ("steps:\n  - agent: {sytem: x}", "2:13", "agent: unknown option 'sytem'. Did you mean 'system'"),
        ("steps:\n  - interrupt: {prompt: x}", "2:5", "the option 'key' is missing"),
        # What stands beside a step
        ("steps:\n" + NOW + "  - append_assistant: {}\n    when: 'x >'", "4:5", "the condition does not parse"),
        ("steps:\n  - append_assistant: {}\n    when: x=1", "3:5", "'when' needs a step before it: "),
        ("steps:\n" + NOW + "  - default: {append_assistant: {}}", "3:5", "'default' follows a step that has 'when' beside it"),
        ("steps:\n" + NOW + "  - command: {goto: STOP}\n    when: x", "4:5", "'when' cannot stand beside 'command'."),
        ("steps:\n  - agent: {system: x}\n    retry: {}", "3:5", "'retry' cannot stand beside 'agent', which is more than one node here."),
        ("steps:\n  - append_assistant: {}\n    retry: {max_retrys: 1}", "3:13", "unknown option 'max_retrys'. Did you mean 'max_retries'?"),
        ("steps:\n  - append_assistant: {}\n    retry: {id: x}", "3:13", "unknown option 'id'"),
        ("steps:\n  - append_assistant: {}\n    retry: 3", "3:5", "'retry' must be a mapping, not a whole number. Write `retry: {max_retries: 3}`."),
        ("steps:\n  - append_assistant: {}\n    retyr: {}", "3:5", "unknown key 'retyr' beside 'append_assistant'. Did you mean 'retry'?"),
        ("steps:\n  - {append_assistant: {}, zzqq: {}}", "2:5", "one idiom, but here are 'append_assistant', 'zzqq'"),
        ("steps:\n  - when: x", "2:5", "'when' stands beside no step."),
        # Containers and questions
        ("steps:\n  - map: {input_keys: a}", "2:5", "map: the key 'processor' is missing."),
        ("steps:\n  - map: {input_kyes: a, processor: {llm: {}}}", "2:11", "unknown option 'input_kyes'. Did you mean 'input_keys'?"),
        ("steps:\n  - parallel: {branches: {a: {lml: {}}}}", "2:31", "unknown step 'lml'."),
        ("steps:\n  - parallel: {branches: {a: []}}", "2:27", "the list of steps is empty"),
        ("steps:\n  - parallel: {branches: [], max_concurrency: 1}", "2:16", "'branches' is empty"),
        ("steps:\n  - loop: {key: a, until: {x: 1}, body: {llm: {}}}", "2:20", "'until' must be text, a number, or true or false."),
        ("steps:\n  - loop: {key: a, until: x, body: {llm: {}}, done: {llm: {}}}", "2:5", "needs a step before it"),
        ("steps:\n  - retry: {max_retries: 2}", "2:5", "retry: the key 'step' is missing."),
        ("steps:\n  - subflow: {steps: {llm: {}}, input_map: [a]}", "2:33", "option 'input_map' must be"),
        ("steps:\n  - subflow: {file: nowhere.yaml}", "2:15", "there is no file nowhere.yaml"),
        ("steps:\n  - subflow: {graph: {stepz: []}}", "2:23", "a graph: unknown key 'stepz'"),
        ("steps:\n  - interrupt: {key: a, strategy: {equal: x}}", "2:36", "unknown key 'equal'. Did you mean 'equals'?"),
        ("steps:\n  - interrupt: {key: a, strategy: {any_of: []}}", "2:36", "any_of holds no value"),
        ("steps:\n  - interrupt: {key: a, strategy: {max_rounds: 3}}", "2:25", "no strategy is given"),
        ("steps:\n  - ask: {key: a, accept: {equals: x}, pass_value: y}", "2:40", "'pass_value' stands beside 'accept', not below it."),
        ("steps:\n  - ask: {key: a, llm: {sytem: x}}", "2:25", "unknown option 'sytem'. Did you mean 'system'?"),
        ("steps:\n  - ask: {key: a, llm: {system: x}}", "2:19", "asks a model, but no provider is named."),
        ("steps:\n  - interrupt_loop: {key: a, body: {llm: {}}, done: {llm: {}}}", "2:5", "the key 'strategy' is missing"),
        ("steps:\n  - extract: {output_key: a}", "2:5", "the key 'schema' is missing"),
        ("steps:\n  - extract: {schema: {a: string}, fallbacks: [a]}", "2:36", "'fallbacks' must be a mapping"),
        ("steps:\n  - gate: {max_rounds: 0}", "2:12", "max_rounds"),
        ("steps:\n  - fallback: {field: a}", "2:5", "give one of 'fn' and 'value'"),
        ("steps:\n" + NOW + "  - label: [a]", "3:5", "'label' must be text, not a list."),
        ("steps:\n" + NOW + "  - label: a\n  - label: a", "4:5", "label 'a' is taken already"),
        # Conditions and targets
        ("steps:\n  - route:\n      routes:\n        - {when: 'x >', goto: a}", "4:12", "does not parse"),
        ("steps:\n  - route:\n      routes:\n        - {whn: x, goto: a}", "4:12", "Did you mean 'when'?"),
        ("steps:\n" + NOW + "  - command:\n      goto: b", "4:7", "goes to 'b', which is no node"),
        (
            "steps:\n  - command:\n      routes:\n        - {when: a, goto: frist}\n"
            "  - transform: {action: now, id: first}",
            "4:21",
            "goes to 'frist', which is no node of the graph. Did you mean 'first'?",
        ),
        ("steps:\n  - transform: {action: now, id: a}\n  - transform: {action: now, id: a}", "3:5", "two steps have the id 'a': in line 2 of <text> and in line 3 of <text>."),
        # Names
        ("default_provider: olama\ndefault_model: m\nsteps: [llm: {}]", "1:1", "Did you mean 'ollama'?"),
        ("steps: [llm: {provider: olama, model: m}]", "1:15", "unknown provider 'olama'."),
        ("steps: [llm: {provider: ollama}]", "1:9", "asks a model, but no model is named. Set 'model'"),
        ("steps: [llm: {model: m}]", "1:9", "asks a model, but no provider is named."),
        ("tools: [fetch_ulr]\nsteps:\n" + NOW, "1:9", "unknown tool 'fetch_ulr'. Did you mean 'fetch_url'?"),
        ("steps: [llm: {provider: ollama, model: m, use_tools: [fetch_ulr]}]", "1:55", "unknown tool 'fetch_ulr'"),
        ("tools: [fetch_url, fetch_url]\nsteps:\n" + NOW, "1:20", "two tools have the name 'fetch_url'."),
        ("tools: [{name: fetch_ulr}]\nsteps:\n" + NOW, "1:10", "unknown tool 'fetch_ulr'."),
        ("tools: [{name: fetch_url, config: {time: 3}}]\nsteps:\n" + NOW, "1:36", "unknown option 'time'"),
        ("tools: [{nam: fetch_url}]\nsteps:\n" + NOW, "1:10", "a tool: unknown key 'nam'."),
        ("steps: [type: {type: shuot}]", "1:16", "unknown node type 'shuot'."),
        ("steps: [type: {config: {}}]", "1:9", "the key 'type' is missing"),
        ("steps: [type: {type: transform, config: {acton: trim}}]", "1:42", "unknown option 'acton'"),
        # Providers, state, limits
        ("providers: {fast: {type: opnai}}\nsteps:\n" + NOW, "1:20", "Did you mean 'openai'?"),
        ("providers: {fast: {base_url: x}}\nsteps:\n" + NOW, "1:13", "provider 'fast' has no 'type'"),
        ("providers: {fast: {type: openai, base_ulr: x}}\nsteps:\n" + NOW, "1:34", "Did you mean 'base_url'?"),
        ("providers: {fast: {type: openai, api_key: x}}\nsteps:\n" + NOW, "1:34", "secret"),
        ("providers: [{type: openai}]\nsteps:\n" + NOW, "1:13", "a provider in a list needs a 'name'."),
        ("providers: {fast: {type: openai}}\nsteps: [llm: {provider: fsat, model: m}]", "2:15", "Did you mean 'fast'?"),
        ("state: {initail: {}}\nsteps:\n" + NOW, "1:9", "Did you mean 'initial'?"),
        ("state: {initial: [a]}\nsteps:\n" + NOW, "1:9", "'initial' must be a mapping, not a list."),
        ("state: {reducers: {log: apend}}\nsteps:\n" + NOW, "1:20", "unknown reducer 'apend'"),
        ("state: {schema: {log: {reducr: append}}}\nsteps:\n" + NOW, "1:24", "Did you mean 'reducer'?"),
        ("limits: {max_step: 3}\nsteps:\n" + NOW, "1:10", "Did you mean 'max_steps'?"),
        ("limits: {max_steps: 0}\nsteps:\n" + NOW, "1:10", "limit max_steps must be"),
        # Pieces
        ("steps:\n  - branch: {key: a, cases: [{value: x, steps: [transform: {action: now}]}]}", "2:5", "a branch needs a step before it: "),
        ("steps:\n" + NOW + "  - branch: {key: a, casse: []}", "3:22", "branch: unknown key 'casse'."),
        ("steps:\n" + NOW + "  - branch: {key: a}", "3:5", "the key 'cases' is missing"),
        ("steps:\n" + NOW + "  - branch: {key: a, cases: [{value: x}]}", "3:30", "the key 'steps' is missing"),
        ("steps:\n" + NOW + "  - branch: {key: a, cases: [{value: x, steps: []}]}", "3:41", "the list of steps is empty"),
        ("steps:\n" + NOW + "  - branch: {key: a, cases: [{value: [x], steps: []}]}", "3:31", "'value' must be text, a number, or true or false."),
        ("steps:\n" + NOW + "  - branch: {key: a, cases: [{value: x, steps: [{lml: {}}]}]}", "3:50", "unknown step 'lml'"),
        ("steps:\n  - supervise: {agents: {a: [transform: {action: now}]}}", "2:5", "needs a step before it"),
        ("steps:\n  - team: {leader: {}}", "2:5", "the key 'roles' is missing"),
        ("steps:\n  - team: {roles: {}}", "2:5", "a team needs at least one role."),
        ("steps:\n  - team:\n      leader: {done_key: x}\n      roles: {a: {}}", "3:16", "Did you mean 'done_keys'?"),
        ("steps:\n  - team: {max_rounds: 3, leader: {max_rounds: 4}, roles: {a: {}}}", "2:12", "stands here and under 'leader'"),
        ("steps:\n  - team:\n      fallback: b\n      roles: {a: {}}", "3:7", "team: option 'fallback' names 'b', which is not in 'roles'. Known: a."),
        ("steps:\n  - team:\n      leader:\n        fallback: b\n      roles: {a: {}}", "4:9", "team: option 'fallback' names 'b', which is not in 'roles'."),
        ("steps:\n  - supervisor:\n      agents: [a]\n      fallback: b", "4:7", "supervisor: option 'fallback' names 'b', which is not in agents."),
        ("steps:\n  - team: {rolls: {a: {}}}", "2:12", "team: unknown option 'rolls'. Did you mean 'roles'?"),
        ("steps:\n  - team: {roles: {a: {sytem: x}}}", "2:24", "role 'a': unknown option 'sytem'"),
        ("steps:\n  - team:\n      roles:\n        a: {temperature: -2}", "4:13", "option 'temperature' must be"),
        ("steps:\n  - supervisor: {agents: [a], finish: [transform: {action: now}]}", "2:31", "need 'agents', a mapping"),
        ("steps:\n  - supervisor: {key: a, output_key: b}", "2:18", "give 'key' or 'output_key', not both."),
    ],
)  # fmt: skip
def test_each_mistake_has_its_place_and_its_way_out(text, place, words):
    message = refused(text)
    assert message.startswith(f"<text>:{place}: " if place else "<text>: ")
    assert words in message


def test_the_error_tells_programs_what_it_tells_people(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text("steps:\n  - llm: {promt: x}\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    error = caught.value
    assert (error.file, error.line, error.column) == (str(path), 2, 11)
    assert error.path == "steps[0].llm.promt"
    assert error.hint == "Did you mean 'prompt'?"


def test_a_missing_file_is_named_with_the_nearest(tmp_path):
    (tmp_path / "flow.yaml").write_text("")
    with pytest.raises(
        ConfigError, match=r"there is no file .*flwo.yaml. Did you mean 'flow.yaml'"
    ):
        load(tmp_path / "flwo.yaml")
    with pytest.raises(ConfigError, match=r"there is no file .*nowhere"):
        load(tmp_path / "nowhere" / "flow.yaml")
    with pytest.raises(ConfigError, match=r"is a folder, not a workflow file. .*flow.yaml"):
        load(tmp_path)


def test_a_file_that_is_not_utf_8_or_too_large_is_refused(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_bytes(b"name: x\nsteps: \xff\n")
    with pytest.raises(ConfigError, match=r"flow.yaml:2: the file is not UTF-8"):
        load(path)
    with path.open("wb") as file:
        file.truncate(30_000_000)
    with pytest.raises(ConfigError, match="larger than a workflow file may be"):
        load(path)


def test_a_template_key_that_nothing_writes_is_a_warning_with_its_place():
    workflow = loads(
        "state: {initial: {name: Ann}}\nsteps:\n"
        "  - transform: {action: render, template: 'Dear {nmae}', output_key: letter}\n"
    )
    (finding,) = workflow.check()
    assert (finding.severity, finding.code) == ("warning", "unwritten-key")
    assert str(finding) == (
        "<text>:3:5: node 'transform_1' reads state key 'nmae', which nothing writes. "
        "Did you mean 'name'?"
    )
    assert workflow.check(known_keys=["nmae"]) == []


def test_a_run_may_bring_the_provider_that_the_file_names():
    text = "default_provider: mine\ndefault_model: m\nsteps: [llm: {prompt: hi}]"
    workflow = loads(text)
    assert [finding.code for finding in workflow.check()] == ["unknown-name"]
    result = asyncio.run(workflow.run(providers={"mine": ScriptedProvider(["ho"])}))
    assert result["output"] == "ho"


def test_a_run_names_the_place_of_a_step_that_cannot_run():
    workflow = loads("steps:\n  - llm: {id: ask, prompt: hi}\n")
    with pytest.raises(ConfigError) as caught:
        asyncio.run(workflow.run())
    assert str(caught.value).startswith("<text>:2:5: ")


def test_defaults_that_a_run_brings_count_in_a_check():
    workflow = loads("steps: [llm: {prompt: hi}]")
    assert workflow.check(default_provider="ollama", default_model="m") == []
    (finding,) = workflow.check(default_provider="ollama")
    assert "no model is named" in finding.message
