"""Wrong use and bad workflows: one clear sentence, exit code 2, no traceback."""

from __future__ import annotations

import json

import pytest

LLM = "steps: [llm: {prompt: hi, provider: ollama, model: m}]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rnu"], "teff: there is no command 'rnu'. Did you mean 'run'?"),
        (["--verison"], "No such option"),
        (["flow.yaml"], "(to run the file: teff run flow.yaml)"),
        (["run"], "teff run: the workflow file is missing"),
        (["run", "a.yaml", "-f", "b.yaml"], "give the file as an argument or with -f, not both"),
        (["run", "flow.yaml", "b.yaml"], "unexpected extra argument"),
        (["run", "flow.yaml", "--mesage", "x"], "'--message'"),
        (["run", "flow.yaml", "--message"], "requires an argument"),
        (["run", "flow.yaml", "--max-steps", "x"], "'x' is not a valid integer"),
        (["run", "flow.yaml", "--max-steps", "0"], "error: --max-steps must be a whole number, more than 0; not 0."),
        (["run", "flow.yaml", "--deadline", "-1"], "error: --deadline must be a number"),
        (["run", "flow.yaml", "--input", "x"], "--input 'x' is not KEY=VALUE"),
        (["run", "flow.yaml", "--input", "=x"], "--input '=x' is not KEY=VALUE"),
        (["run", "flow.yaml", "--base-url", "http://h"], "--base-url needs a provider"),
        (["run", "flow.yaml", "--provider", "olama"], "unknown provider 'olama'. Did you mean 'ollama'?"),
        (["run", "flow.yaml", "--provider", "local", "--base-url", "http://h"], "error: --base-url does not suit provider 'local'."),
        (["run", "flow.yaml", "--state", "none.json"], "--state: none.json cannot be read"),
        (["run", "nowhere.yaml"], "there is no file nowhere.yaml"),
        (["check", "flwo.yaml"], "there is no file flwo.yaml. Did you mean 'flow.yaml'?"),
        (["graph", "."], "is a folder, not a workflow file."),
        (["plugins", "--jsn"], "--json"),
    ],
)  # fmt: skip
def test_wrong_use(teff, flow, arguments, words):
    flow(LLM)
    done = teff(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert words.lower() in done.err.lower()
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps: [", "flow.yaml:1:9: "),
        ("stepz: []", "flow.yaml:1:1: a workflow file: unknown key 'stepz'. Did you mean 'steps'?"),
        ("steps: [lml: {}]", "flow.yaml:1:9: unknown step 'lml'. Did you mean 'llm'?"),
        ("steps: [llm: {promt: x}]", "flow.yaml:1:15: llm: unknown option 'promt'. Did you mean 'prompt'?"),
        ("steps: [llm: {prompt: x, provider: olama, model: m}]", "flow.yaml:1:26: unknown provider 'olama'."),
        ("steps: [llm: {prompt: x, provider: ollama}]", "flow.yaml:1:9: llm asks a model, but no model is named."),
        ("tools: [fetch_ulr]\nsteps: [llm: {}]", "flow.yaml:1:9: unknown tool 'fetch_ulr'. Did you mean 'fetch_url'?"),
        ("steps: [route: {routes: [{when: 'a >', goto: b}]}]", "flow.yaml:1:27: command: routes[0].when: the condition"),
        ("steps: [command: {goto: b}]", "flow.yaml:1:19: node 'command_1' goes to 'b', which is no node of the graph."),
        ("name: ${TEFF_TEST_MISSING}", "flow.yaml:1:7: the environment variable TEFF_TEST_MISSING is not set."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_bad_workflow_is_named_with_file_line_and_column(teff, flow, text, words, command):
    done = teff(command, flow(text))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {words}")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "state.json:1:2: not JSON: "),
        ("[1]", "state.json: the state must be a JSON object."),
        ('{"a": NaN}', "state.json: not JSON: NaN is no JSON value."),
        ("[" * 100_000, "state.json: not JSON: "),
    ],
)
def test_a_bad_state_file_is_named(teff, flow, tmp_path, content, words):
    (tmp_path / "state.json").write_text(content)
    done = teff("run", flow(LLM), "--state", "state.json")
    assert done.code == 2
    assert done.err.startswith(f"error: {words}")


def test_run_shows_the_first_error_and_how_many_there_are(teff, flow):
    text = "steps: [llm: {prompt: hi, provider: a, model: m}, llm: {prompt: hi, provider: b, model: m}]"
    assert "(and 1 more: teff check flow.yaml)" in teff("run", flow(text)).err
    assert len(teff("check", flow(text)).err.splitlines()) == 2


def test_a_bad_workflow_is_in_the_json_object_too(teff, flow):
    done = teff("run", flow("steps: [lml: {}]"), "--json")
    report = json.loads(done.out)
    assert done.code == 2
    assert (report["status"], report["state"], report["run_id"]) == ("failed", None, None)
    assert report["error"]["type"] == "ConfigError"
    assert (report["error"]["file"], report["error"]["line"]) == ("flow.yaml", 1)


def test_a_template_key_that_nothing_produces_is_a_warning(teff, flow):
    done = teff("check", flow("steps: [transform: {action: render, template: '{nmae}'}]"))
    assert (done.code, done.out) == (0, "flow.yaml: no errors, warnings: 1\n")
    assert done.err.startswith("warning: flow.yaml:1:9: node 'transform_1' reads state key 'nmae'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--json"], "the workflow file is missing"),
        (["run", "flow.yaml", "--json", "--mesage", "x"], "--mesage"),
        (["run", "flow.yaml", "--json", "--max-steps", "x"], "not a valid integer"),
        (["run", "flow.yaml", "--json", "--input", "x"], "--input 'x' is not KEY=VALUE"),
        (["run", "flow.yaml", "--json", "--base-url", "http://h"], "--base-url needs a provider"),
        (["-f", "flow.yaml", "--json", "b.yaml", "c.yaml"], "unexpected extra argument"),
    ],
)
def test_wrong_use_is_a_json_object_too(teff, flow, arguments, words):
    flow(LLM)
    done = teff(*arguments)
    assert done.code == 2
    report = json.loads(done.out)
    assert (report["status"], report["stop_reason"]) == ("failed", "error")
    assert words in report["error"]["message"]
    assert words in done.err


AGENT = """
default_provider: ollama
default_model: m
steps:
  - agent_step: {system: Help., output_key: answer}
"""
TEAM = """
default_provider: ollama
default_model: m
steps:
  - team: {roles: {a: {system: Help.}}}
"""
SUPERVISOR = """
default_provider: ollama
default_model: m
steps:
  - supervisor: {agents: {a: [transform: {action: now}]}}
"""


@pytest.mark.parametrize("text", [AGENT, TEAM, SUPERVISOR])
def test_a_workflow_that_waits_for_a_message_says_so(teff, flow, text):
    done = teff("run", flow(text))
    assert (done.code, done.err) == (2, 'error: this workflow needs a message: --message "…"\n')


@pytest.mark.parametrize(
    "text",
    [
        AGENT.replace("Help.", "'Help with {topic}.'"),
        AGENT.replace("Help.,", "Help., sections: {topic: Topic},"),
        AGENT.replace("Help.,", "Help., messages_key: talk,"),
        AGENT.replace(
            "steps:", "state: {initial: {messages: [{role: user, content: hi}]}}\nsteps:"
        ),
        AGENT.replace("steps:", "steps:\n  - transform: {action: now, output_key: messages}"),
        SUPERVISOR.replace("agents:", "fill_order: {a: slot}, agents:"),
        "steps: [llm: {prompt: hi, provider: ollama, model: m}]",
    ],
)
def test_a_workflow_that_can_do_without_a_message_is_not_refused(text):
    from teff.cli.conversation import needs_message
    from teff.workflow import loads

    workflow = loads(text)
    waits = needs_message(workflow.graph.nodes.values())
    assert not waits or "messages" in workflow.initial


def test_the_version_is_an_option_too(teff):
    assert teff("--version") == teff("version")
