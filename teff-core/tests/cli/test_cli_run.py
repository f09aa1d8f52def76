"""``teff run``: what goes where, and how it ends."""

from __future__ import annotations

import json

import pytest

from teff.cli.duration import read_duration
from teff.errors import ProviderError
from teff.testing.scripted import call_tool

ECHO = "steps: [transform: {action: render, template: 'You said {input}', output_key: output}]"
ASK = (
    "default_provider: scripted\ndefault_model: m\nsteps: [llm: {prompt: '{input}', stream: true}]"
)
TEAM = """
default_provider: scripted
default_model: m
steps:
  - team:
      id: desk
      leader: {system: Who answers, done_keys: [answer], fallback: technical, max_rounds: 3}
      roles:
        billing: {system: You know invoices., output_key: answer}
        technical: {system: You know machines., output_key: answer}
"""


def test_the_answer_goes_to_standard_output_and_the_rest_to_standard_error(teff, flow):
    done = teff("run", flow(ECHO), "--message", "hi")
    assert done.code == 0
    assert done.out == "You said hi\n"
    assert done.err.startswith("finished: end · 1 step · ")


@pytest.mark.parametrize(
    "arguments", [["run", "-f", "flow.yaml"], ["run", "--file", "flow.yaml"], ["-f", "flow.yaml"], ["--file=flow.yaml"]]
)  # fmt: skip
def test_the_file_may_be_an_option(teff, flow, arguments):
    flow(ECHO)
    assert teff(*arguments, "-m", "hi").out == "You said hi\n"


def test_inputs_are_json_or_else_text(teff, flow):
    file = flow("state: {initial: {a: 1, b: 2}}\nsteps: [transform: {action: now}]")
    done = teff(
        "run", file, "--json", "--input", "b=3", "--input", "code=0123", "--input", "x=a=b",
        "--input", 'list=["y"]', "--input", "bad=NaN", "--input", 'text="5"', "--input", "none=",
    )  # fmt: skip
    state = json.loads(done.out)["state"]
    del state["output"]
    assert state == {
        "a": 1,
        "b": 3,
        "code": "0123",
        "x": "a=b",
        "list": ["y"],
        "bad": "NaN",
        "text": "5",
        "none": "",
    }


def test_a_state_comes_from_a_file_and_inputs_win_over_it(teff, flow, tmp_path):
    (tmp_path / "state.json").write_text('{"input": "file", "b": 1}', encoding="utf-8-sig")
    assert teff("run", flow(ECHO), "--state", "state.json").out == "You said file\n"
    assert (
        teff("run", flow(ECHO), "--state", "state.json", "--input", "input=x").out == "You said x\n"
    )


def test_json_prints_one_object_and_nothing_else(teff, flow, models):
    models("Hello there.")
    done = teff("run", flow(ASK), "-m", "hi", "--json")
    report = json.loads(done.out)
    assert list(report) == [
        "run_id",
        "status",
        "stop_reason",
        "state",
        "usage",
        "interrupts",
        "error",
    ]
    assert (report["status"], report["stop_reason"], report["error"]) == ("finished", "end", None)
    assert report["state"]["output"] == "Hello there."
    assert report["usage"]["model_calls"] == 1
    assert report["run_id"]


def test_json_writes_what_json_has_no_form_for_as_text(teff, flow):
    done = teff("run", flow(ECHO), "-m", "\ud800é", "--json")
    assert json.loads(done.out)["state"]["input"] == "\ud800é"


def test_tokens_are_shown_as_they_come_and_the_answer_once(teff, flow, models):
    models("Hello there.")
    done = teff("run", flow(ASK), "-m", "hi")
    assert done.out == "Hello there.\n"
    first, last = done.err.splitlines()
    assert first == "llm_chat_1:"
    assert last.startswith("finished: end · 1 step · 1 model call · 12 tokens · ")


def test_routes_are_shown_with_who_decided_them(teff, flow, models):
    models("billing", "You get your money back.")
    done = teff("run", flow(TEAM), "-m", "charged twice")
    assert done.out == "You get your money back.\n"
    lines = done.err.splitlines()
    assert lines[:3] == [
        "→ billing   (model, round 1 of 3)",
        "billing:",
        "→ finish   (guard: done_keys are filled, round 2 of 3)",
    ]
    assert lines[3].startswith("finished: done_keys · 2 rounds · 2 model calls · 26 tokens · ")


def test_a_fallback_shows_what_the_model_said(teff, flow, models):
    models("well", "no  idea", "Restart it.")
    done = teff("run", flow(TEAM), "-m", "it smokes")
    assert "→ technical   (guard: fallback, the model said 'no idea', round 1 of 3)" in done.err
    assert done.out == "Restart it.\n"


def test_two_answers_stand_on_lines_of_their_own(teff, flow, models):
    models("one", "two")
    text = (
        "default_provider: scripted\ndefault_model: m\nsteps:\n"
        "  - llm: {id: a, prompt: hi, stream: true}\n  - llm: {id: b, prompt: hi, stream: true}\n"
    )
    done = teff("run", flow(text))
    assert done.out == "one\ntwo\n"
    assert done.err.splitlines()[:2] == ["a:", "b:"]


def test_an_answer_that_is_put_together_at_the_end_is_shown_too(teff, flow, models):
    models("one")
    text = ASK.replace("}]", "}, transform: {action: render, template: 'So: {output}'}]")
    assert teff("run", flow(text), "-m", "hi").out == "one\nSo: one\n"


def test_tool_calls_are_shown(teff, flow, models):
    models(call_tool("fetch_url", {"url": "nowhere"}), "There is nothing.")
    text = "default_provider: scripted\ndefault_model: m\nsteps: [agent: {use_tools: [fetch_url]}]"
    done = teff("run", flow(text), "-m", "look")
    assert done.code == 0
    assert "  tool fetch_url {'url': 'nowhere'}" in done.err


def test_provider_and_model_replace_the_defaults(teff, flow, models):
    models("ok")
    text = ASK.replace("scripted", "ollama")
    done = teff("run", flow(text), "-m", "hi", "--provider", "scripted", "--model", "x", "--json")
    assert list(json.loads(done.out)["usage"]["by_model"]) == ["scripted/x"]


@pytest.mark.parametrize("declared", ["", "providers: {mine: {type: scripted, base_url: old}}\n"])
def test_a_base_url_is_laid_over_the_default_provider(teff, flow, models, declared):
    provider = models("ok")
    name = "mine" if declared else "scripted"
    text = declared + ASK.replace("scripted", name)
    assert teff("run", flow(text), "-m", "hi", "--base-url", "http://h/v1").code == 0
    assert provider.asked_at == f"{name}@http://h/v1"


def test_a_paused_run_shows_what_is_asked(teff, flow):
    file = flow("steps: [interrupt: {key: ok, prompt: 'Publish {input}', choices: [yes, no]}]")
    done = teff("run", file, "-m", "this")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("? ok: Publish this (yes, no)\npaused: waiting for ok · 0 steps · ")
    report = json.loads(teff("run", file, "-m", "this", "--json").out)
    assert (report["status"], report["stop_reason"], report["error"]) == (
        "paused",
        "interrupt",
        None,
    )
    assert report["interrupts"][0]["key"] == "ok"


LOOP = "steps: [transform: {action: now, id: a}, command: {goto: a}]"


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (["--max-steps", "5"], "max_steps"),
        (["--deadline", "0.05"], "deadline"),
        (["--deadline", "50ms"], "deadline"),
    ],
)
def test_a_bound_stops_the_run(teff, flow, option, reason):
    done = teff("run", flow(LOOP), *option)
    assert done.code == 4
    assert f"stopped: {reason} · " in done.err


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *[("60", 60.0), ("60s", 60.0), ("1.5m", 90.0), ("2 min", 120.0)],
        *[("1h", 3600.0), ("500ms", 0.5), (" 3S ", 3.0)],
    ],
)
def test_a_time_may_have_a_unit(written, seconds):
    assert read_duration(None, None, written) == pytest.approx(seconds)


def test_what_is_no_time_is_wrong_use(teff, flow):
    done = teff("run", flow(LOOP), "--deadline", "soon")
    assert (done.code, "'soon' is no time: write 90, 90s, 1.5m or 2h." in done.err) == (2, True)


def test_calls_of_tools_are_bounded(teff, flow):
    done = teff("run", flow(LOOP), "--max-tool-calls", "-1")
    assert (done.code, "--max-tool-calls must be a whole number, 0 or more" in done.err) == (
        2,
        True,
    )


def test_bounds_of_the_command_line_are_laid_over_those_of_the_file(teff, flow):
    done = teff("run", flow("limits: {max_steps: 2}\n" + LOOP), "--max-model-calls", "9")
    assert "stopped: max_steps · 2 steps" in done.err


def test_model_calls_and_tokens_are_bounded(teff, flow, models):
    models("one")
    text = ASK.replace("}]", "}, llm: {prompt: again}]")
    assert (
        "stopped: max_model_calls"
        in teff("run", flow(text), "-m", "a", "--max-model-calls", "1").err
    )
    models("one")
    assert "stopped: max_tokens" in teff("run", flow(text), "-m", "a", "--max-tokens", "1").err


def test_max_rounds_is_a_bound_and_stop_is_none(teff, flow, models):
    models("billing", "x")
    text = TEAM.replace("done_keys: [answer]", "done_keys: [never]").replace(
        "rounds: 3", "rounds: 2"
    )
    done = teff("run", flow(text), "-m", "hi")
    assert done.code == 4
    assert "stopped: max_rounds" in done.err
    assert teff("run", flow("steps: [command: {goto: STOP}]")).code == 0


def test_a_node_that_fails_ends_with_one_sentence(teff, flow, models):
    models(ValueError("odd thing"))
    done = teff("run", flow(ASK), "-m", "hi")
    assert done.code == 1
    first, last = done.err.splitlines()
    assert first == (
        "error: flow.yaml:3:9: in node 'llm_chat_1': ValueError: odd thing. "
        "To see where, run it with --traceback."
    )
    assert last.startswith("failed: 1 step · ")


def test_a_failure_names_the_step_and_the_node_inside_it(teff, flow, models):
    models("billing", ProviderError("scripted (m) is down", permanent=True))
    done = teff("run", flow(TEAM), "-m", "hi")
    assert "error: flow.yaml:9:9: in node 'billing/agent': scripted (m) is down\n" in done.err
    models(ProviderError("scripted (m) is down", permanent=True))
    done = teff("run", flow(TEAM), "-m", "hi")
    assert "error: flow.yaml:5:5: in node 'desk': scripted (m) is down\n" in done.err


def test_the_traceback_is_there_for_who_asks(flow, models, tmp_path, monkeypatch, capsys):
    from teff.cli import main

    monkeypatch.chdir(tmp_path)
    models(ValueError("odd thing"))
    assert main(["run", flow(ASK), "-m", "hi", "--traceback"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_failure_is_in_the_json_object(teff, flow, models):
    models(ProviderError("scripted (m) is down", status=500, permanent=True))
    done = teff("run", flow(ASK), "-m", "hi", "--json")
    report = json.loads(done.out)
    assert done.code == 1
    assert (report["status"], report["stop_reason"]) == ("failed", "error")
    assert report["error"] == {
        "type": "ProviderError",
        "message": "scripted (m) is down",
        "file": "flow.yaml",
        "line": 3,
        "column": 9,
        "node": "llm_chat_1",
    }
    assert report["usage"]["model_calls"] == 1


def test_a_model_that_is_not_there_is_wrong_use(teff, flow, models):
    models(
        ProviderError("ollama (x) answered 404: model 'x' not found", status=404, permanent=True)
    )
    done = teff("run", flow(ASK), "-m", "hi")
    assert done.code == 2
    assert done.err.startswith(
        "error: flow.yaml:3:9: in node 'llm_chat_1': ollama (x) answered 404: model 'x' not found\n"
    )


def test_a_server_that_is_not_running_is_named_with_the_command_that_starts_it(teff, flow):
    text = "steps: [llm: {prompt: hi, provider: ollama, model: m, http_max_retries: 0}]"
    done = teff("run", flow(text), "--base-url", "http://127.0.0.1:9", "--provider", "ollama")
    assert done.code == 1
    assert "http://127.0.0.1:9" in done.err
    assert "ollama serve" in done.err


def test_a_retry_is_shown(teff, flow, models, monkeypatch):
    models(ProviderError("scripted (m) is busy", status=503, retry_after=0.0), "ok")
    done = teff("run", flow(ASK), "-m", "hi")
    assert "  scripted (m) is busy (trying again in 0.0 s)" in done.err
    assert done.out == "ok\n"


def test_warnings_are_shown_and_the_run_goes_on(teff, flow):
    text = "steps: [transform: {action: coalesce, input_key: nme, value: x}]"
    done = teff("run", flow(text))
    assert done.code == 0
    assert done.err.startswith("warning: flow.yaml:1:9: node 'transform_1' reads state key 'nme'")
    assert teff("run", flow(text), "--input", "nme=1").err.startswith("finished")


def test_values_of_the_environment_are_not_shown(teff, flow, monkeypatch):
    monkeypatch.setenv("TEFF_TEST_SECRET", "sk-77-secret")
    text = "steps: [transform: {action: pick, input_key: input, field: a, output_key: '${TEFF_TEST_SECRET}'}, transform: {action: to_int, input_key: '${TEFF_TEST_SECRET}'}]"  # fmt: skip
    for arguments in ([], ["--json"]):
        done = teff("run", flow(text), "--input", "input=[]", *arguments)
        assert done.code != 0
        assert "sk-77" not in done.err
        assert "sk-77" not in json.dumps(json.loads(done.out)["error"]) if done.out else True


def test_without_colour_nothing_is_coloured(teff, flow, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in teff("run", "nowhere.yaml").err


def test_the_one_key_of_the_last_step_is_the_answer_where_there_is_no_output(teff, flow, models):
    models("Hello.")
    text = ASK.replace("stream: true", "output_key: reply, stream: false")
    assert teff("run", flow(text), "-m", "hi").out == "Hello.\n"


def test_what_was_streamed_is_the_answer_whatever_was_written(teff, flow, models):
    models("Hello.")
    text = ASK.replace("}]", ", output_key: reply}, transform: {action: now, output_key: at}]")
    assert teff("run", flow(text), "-m", "hi").out == "Hello.\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [("0", "0\n"), ("false", "false\n"), ("[1, é]", '[1, "é"]\n'), ("{a: 1}", '{"a": 1}\n')],
)
@pytest.mark.parametrize("key", ["output", "other"])
def test_an_answer_may_be_of_any_type(teff, flow, value, shown, key):
    text = f"steps: [transform: {{action: value, value: {value}, output_key: {key}}}]"
    assert teff("run", flow(text)).out == shown


def test_a_conversation_that_the_run_did_not_add_to_holds_no_answer(teff, flow):
    old = 'messages=[{"role": "assistant", "content": "old"}]'
    assert teff("run", flow(ECHO), "--input", old, "--input", "input=x").out == "You said x\n"


def test_a_run_without_an_answer_says_what_it_wrote(teff, flow):
    text = (
        "steps: [transform: {action: now, output_key: a}, transform: {action: now, output_key: _b}]"
    )
    done = teff("run", flow(text))
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(
        "no answer under 'output'; the run wrote: a (see them with --json)\nfinished: "
    )
    assert "no answer" not in teff("run", flow(text), "--json").err


def test_a_run_that_wrote_nothing_public_says_so(teff, flow):
    done = teff("run", flow("steps: [transform: {action: now, output_key: _b}]"))
    assert done.err.startswith("no answer under 'output'; the run wrote: nothing\n")


def test_a_paused_run_says_how_it_could_go_on(teff, flow):
    done = teff("run", flow("steps: [interrupt: {key: ok, prompt: Publish}]"))
    last = done.err.splitlines()[-1]
    assert last.startswith("this run was not recorded, so it cannot go on")
    assert "--checkpoint-id" in last


def test_json_says_where_a_workflow_is_wrong_and_which_node_failed(teff, flow, models):
    models("billing", ProviderError("scripted (m) is down", permanent=True))
    error = json.loads(teff("run", flow(TEAM), "-m", "hi", "--json").out)["error"]
    assert (error["file"], error["line"], error["column"]) == ("flow.yaml", 9, 9)
    assert error["node"] == "billing/agent"


def test_a_dumb_terminal_gets_plain_text(monkeypatch):
    from teff.cli.messages import in_color

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert in_color("x", bold=True) != "x"
    monkeypatch.setenv("TERM", "dumb")
    assert in_color("x", bold=True) == "x"
