"""Recorded runs on the command line: `teff run --checkpoint-id` and `teff resume`."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from teff.checkpoint import FileCheckpointer, SQLiteCheckpointer
from teff.plugins import catalogue
from teff.testing import call_tool

ASK = """
steps:
  - transform: {action: now, output_key: at}
  - interrupt: {key: approved, prompt: "Refund {amount}?", choices: [yes, no]}
  - transform: {action: render, template: "refund: {approved}", output_key: output}
state: {initial: {amount: 5}}
"""
TWO = """
steps:
  - parallel:
      branches:
        - interrupt: {key: colour, prompt: "Which colour?"}
        - interrupt: {key: size, prompt: "How large?"}
  - transform: {action: render, template: "{colour} {size}", output_key: output}
"""
MODEL = """
default_provider: scripted
default_model: small
steps:
  - llm: {prompt: "Say {input}", output_key: draft}
  - interrupt: {key: ok}
  - llm: {prompt: "Print {draft}", output_key: output}
"""


@pytest.fixture
def asked(teff, flow) -> Callable[[], None]:
    """Begin the run ``r1``, which asks."""
    done = teff("run", flow(ASK), "--checkpoint-id", "r1")
    assert done.code == 3
    return done


def stored(path: str = ".teff/runs.db", run_id: str = "r1"):
    with SQLiteCheckpointer(path) as store:
        return [(record.kind, dict(record.data)) for record in asyncio.run(store.load(run_id))]


# Pauses.


def test_a_pause_shows_the_question_and_the_line_to_go_on_with(asked):
    question, paused, go_on = asked.err.splitlines()
    assert question == "? approved: Refund 5? (yes, no)  [interrupt_2/1:approved]"
    assert paused.startswith("paused: waiting for approved · 1 step · ")
    assert go_on == "go on with: teff resume r1 --answer 'approved=…'"


def test_runs_are_recorded_in_a_folder_that_is_private_and_that_git_ignores(asked):
    assert Path(".teff/runs.db").is_file()
    assert Path(".teff").stat().st_mode & 0o077 == 0
    assert Path(".teff/.gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    "answer", ["yes", "YES", "approved=yes", "approved=Yes", "interrupt_2/1:approved=yes"]
)
def test_an_answer_goes_on_where_the_run_paused(teff, asked, answer):
    (step,) = [data for kind, data in stored() if kind == "step"]
    done = teff("resume", "r1", "--answer", answer)
    assert (done.code, done.out) == (0, "refund: yes\n")
    state = json.loads(teff("resume", "r1", "--json").out)["state"]
    assert (state["approved"], state["at"]) == ("yes", step["effects"]["values"]["at"])


def test_without_an_answer_it_asks_again(teff, asked):
    assert teff("resume", "r1").err.splitlines()[0] == asked.err.splitlines()[0]
    assert teff("resume", "r1").code == 3


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["maybe"], "'maybe' is no answer to 'approved'; choose one of: yes, no."),
        (["aproved=yes"], "nobody asked for 'aproved'. Open questions: approved"),
        (["approved=yes", "approved=no"], "--answer approved=… is given twice."),
        (["approved=yes", "no"], "--answer 'no' is not KEY=VALUE."),
        (["approved=yes", "other=no"], "nobody asked for 'other'"),
    ],
)
def test_a_bad_answer_changes_nothing(teff, asked, answers, words):
    before = stored()
    done = teff("resume", "r1", *(part for answer in answers for part in ("--answer", answer)))
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert stored() == before


def test_a_different_answer_later_is_refused(teff, flow):
    teff("run", flow(TWO), "--checkpoint-id", "r1")
    assert teff("resume", "r1", "--answer", "colour=blue").code == 3
    assert teff("resume", "r1", "--answer", "colour=blue").code == 3
    done = teff("resume", "r1", "--answer", "colour=red")
    assert done.code == 2
    assert "'colour' was answered already, with something else" in done.err


def test_several_questions_are_answered_some_or_all(teff, flow):
    done = teff("run", flow(TWO), "--checkpoint-id", "r1")
    assert done.code == 3
    assert done.err.splitlines()[-1].endswith("--answer 'colour=…' --answer 'size=…'")
    done = teff("resume", "r1", "--answer", "blue")
    assert done.code == 2
    assert "is not KEY=VALUE. Open questions: " in done.err
    done = teff("resume", "r1", "--answer", "colour=blue")
    assert (done.code, done.err.splitlines()[0][:7]) == (3, "? size:")
    assert teff("resume", "r1", "--answer", "size=12").out == "blue 12\n"
    done = teff("run", "flow.yaml", "--checkpoint-id", "r2")
    assert teff("resume", "r2", "--answer", "size=L", "--answer", "colour=x=1").out == "x=1 L\n"


@pytest.mark.parametrize(
    ("asks", "answer", "expected"),
    [
        ("", "42", 42),
        ("", "forty two", "forty two"),
        ("", '{"n": [1, null]}', {"n": [1, None]}),
        ("", "", ""),
        ("", "false", False),
        (", choices: [1, 2]", "2", 2),
        (", choices: ['1', '2']", "2", "2"),
    ],
)
def test_an_answer_is_json_or_else_text(teff, flow, asks, answer, expected):
    teff("run", flow(f"steps: [interrupt: {{key: x{asks}}}]"), "--checkpoint-id", "r1")
    done = teff("resume", "r1", "--answer", f"x={answer}", "--json")
    assert json.loads(done.out)["state"]["x"] == expected
    assert type(json.loads(done.out)["state"]["x"]) is type(expected)


def test_an_answer_that_the_schema_refuses_changes_nothing(teff, flow, monkeypatch):
    from teff.node.registry import make_function_node

    async def ask(ctx, state):
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        name = await ctx.interrupt("name", "Whose?", schema={"type": "string", "minLength": 2})
        return {"name": name, "order": await ctx.interrupt("order", schema=schema)}

    monkeypatch.setitem(
        catalogue()._objects, ("teff.nodes", "ask"), lambda **options: make_function_node(ask)
    )
    done = teff("run", flow("steps: [type: {type: ask}]"), "--checkpoint-id", "r1")
    assert done.code == 3
    assert '    an answer must fit: {"type": "string", "minLength": 2}' in done.err
    before = stored()
    assert teff("resume", "r1", "--answer", "x").code == 2
    assert stored() == before
    # The text of a number is a name, too.
    assert teff("resume", "r1", "--answer", "42").code == 3
    assert teff("resume", "r1", "--answer", 'order={"name": 1}').code == 2
    done = teff("resume", "r1", "--answer", 'order={"name": "tea"}', "--json")
    assert json.loads(done.out)["state"] == {"name": "42", "order": {"name": "tea"}}


# What has ended, and what broke off.


def test_a_run_that_has_ended_returns_what_is_recorded(teff, asked):
    teff("resume", "r1", "--answer", "yes")
    before = stored()
    for again in (
        ("resume", "r1"),
        ("run", "flow.yaml", "--checkpoint-id", "r1"),
        ("run", "flow.yaml", "--checkpoint-id", "r1", "--input", "amount=5"),
    ):
        done = teff(*again)
        assert (done.code, done.out) == (0, "refund: yes\n")
        assert "go on with" not in done.err
    assert stored() == before


def test_another_input_for_the_same_id_is_refused(teff, asked):
    done = teff("run", "flow.yaml", "--checkpoint-id", "r1", "--input", "amount=6")
    assert done.code == 2
    assert "is under way with another input" in done.err
    teff("resume", "r1", "--answer", "yes")
    done = teff("run", "flow.yaml", "--checkpoint-id", "r1", "--input", "amount=6")
    assert done.code == 2
    assert "has ended with another input" in done.err


def test_an_ended_run_takes_no_answer(teff, asked):
    teff("resume", "r1", "--answer", "yes")
    done = teff("resume", "r1", "--answer", "approved=no")
    assert done.code == 2
    assert "has ended; there is nothing to resume" in done.err


def test_a_model_that_was_asked_is_not_asked_again(teff, flow, models):
    provider = models("hello", "HELLO")
    file = flow(MODEL)
    assert teff("run", file, "-m", "hi", "--checkpoint-id", "r1").code == 3
    # The same command goes on; it needs no message.
    assert teff("run", file, "--checkpoint-id", "r1").code == 3
    done = teff("resume", "r1", "--answer", "ok=1")
    assert (done.code, done.out) == (0, "HELLO\n")
    assert [request.messages[-1]["content"] for request in provider.requests] == [
        "Say hi",
        "Print hello",
    ]


def test_a_failed_run_goes_on_with_the_step_that_failed(teff, flow, models):
    from teff.errors import ProviderError

    provider = models("hello", ProviderError("scripted (small) is down", permanent=True), "HELLO")
    file = flow(MODEL.replace("  - interrupt: {key: ok}\n", ""))
    done = teff("run", file, "-m", "hi", "--checkpoint-id", "r1")
    assert done.code == 1
    assert done.err.splitlines()[-1] == "go on with: teff resume r1"
    assert teff("resume", "r1").out == "HELLO\n"
    assert len(provider.requests) == 3


def test_a_run_that_a_bound_stopped_goes_on_with_a_wider_one(teff, flow):
    file = flow("steps: [transform: {action: now}, transform: {action: now, output_key: output}]")
    done = teff("run", file, "--checkpoint-id", "r1", "--max-steps", "1")
    assert done.code == 4
    assert done.err.splitlines()[-1] == "go on with: teff resume r1 --max-steps '…'"
    assert teff("resume", "r1").code == 4  # its bounds are recorded
    assert teff("resume", "r1", "--max-steps", "2").code == 0


def test_the_answer_of_an_agent_is_found_after_a_pause(teff, flow, models):
    models("Done.")
    text = """
default_provider: scripted
default_model: small
steps:
  - agent_step: {system: You help., output_key: said, stream: false}
  - interrupt: {key: ok}
"""
    teff("run", flow(text), "-m", "hi", "--checkpoint-id", "r1")
    done = teff("resume", "r1", "--answer", "yes", "--json")
    assert json.loads(done.out)["state"]["said"] == "Done."


# Where runs are, and what they remember.


def test_a_path_may_be_given(teff, flow):
    done = teff("run", flow(ASK), "--checkpoint-id", "r1", "--checkpoint", "mine.db")
    assert done.err.splitlines()[-1] == (
        "go on with: teff resume r1 --answer 'approved=…' --checkpoint mine.db"
    )
    assert not Path(".teff").exists()
    assert teff("resume", "r1", "--answer", "no", "--checkpoint", "mine.db").out == "refund: no\n"


def test_a_folder_holds_runs_as_files(teff, flow, tmp_path):
    (tmp_path / "kept").mkdir()
    where = ("--checkpoint", "kept")
    teff("run", flow(ASK), "--checkpoint-id", "r1", *where)
    assert asyncio.run(FileCheckpointer(tmp_path / "kept").load("r1"))
    assert teff("resume", "r1", "--answer", "no", *where).out == "refund: no\n"


def test_a_folder_that_is_not_there_yet_ends_with_a_slash(teff, flow, tmp_path):
    done = teff("run", flow(ASK), "--checkpoint-id", "r1", "--checkpoint", f"{tmp_path}/kept/")
    assert done.code == 3
    assert asyncio.run(FileCheckpointer(tmp_path / "kept").load("r1"))


def test_where_the_workflow_says_it_is_recorded_there(teff, flow):
    file = flow("checkpoint: {path: own.db}" + ASK)
    done = teff("run", file, "--checkpoint-id", "r1")
    assert done.err.splitlines()[-1] == (
        "go on with: teff resume r1 --answer 'approved=…' -f flow.yaml"
    )
    assert Path("own.db").is_file()
    assert not Path(".teff").exists()
    assert teff("resume", "r1", "--answer", "no", "-f", file).out == "refund: no\n"
    # What is given wins.
    assert teff("run", file, "--checkpoint-id", "r1", "--checkpoint", "o.db").code == 3


def test_runs_in_memory_would_end_with_the_command(teff, flow):
    file = flow("checkpoint: {type: memory}" + ASK)
    done = teff("run", file, "--checkpoint-id", "r1")
    assert done.code == 2
    assert "flow.yaml keeps runs in memory" in done.err
    assert teff("run", file).code == 3


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_an_unknown_run_is_wrong_use(teff, asked, as_json):
    done = teff("resume", "r2", *as_json)
    assert done.code == 2
    assert "there is no run 'r2' in .teff/runs.db. teff runs lists what is there." in done.err
    if as_json:
        assert json.loads(done.out)["error"]["type"] == "ConfigError"


@pytest.mark.parametrize("where", [[], ["--checkpoint", "nope.db"]])
def test_a_store_that_is_not_there_is_wrong_use_and_is_not_made(teff, where):
    done = teff("resume", "r1", *where)
    assert done.code == 2
    assert "there is no such file" in done.err
    assert list(Path().iterdir()) == []


def test_a_path_needs_an_id(teff, flow):
    done = teff("run", flow(ASK), "--checkpoint", "x.db")
    assert done.code == 2
    assert "--checkpoint needs --checkpoint-id" in done.err


def test_the_run_remembers_its_file_wherever_it_is_resumed(teff, flow, tmp_path, monkeypatch):
    teff("run", flow(ASK), "--checkpoint-id", "r1")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = teff("resume", "r1", "--answer", "yes", "--checkpoint", "../.teff/runs.db")
    assert done.out == "refund: yes\n"


def test_a_file_that_is_gone_is_named_and_another_may_be_given(teff, asked):
    Path("flow.yaml").rename("moved.yaml")
    done = teff("resume", "r1")
    assert done.code == 2
    assert "flow.yaml, which is not there any more: give the file with -f." in done.err
    assert teff("resume", "r1", "-f", "moved.yaml", "--answer", "yes").code == 0


def test_a_changed_workflow_is_refused_with_what_differs(teff, flow, asked):
    before = stored()
    flow(ASK.replace("steps:", "steps:\n  - transform: {action: now, id: new}"))
    done = teff("resume", "r1", "--answer", "yes")
    assert done.code == 2
    assert "was made by another graph: removed " in done.err
    assert "; added interrupt_3, new" in done.err
    assert "warning: flow.yaml is not what it was when run 'r1' began." in done.err
    assert stored() == before


def test_what_changes_no_step_is_said_and_goes_on(teff, flow, asked):
    assert "warning" not in teff("resume", "r1").err
    flow(ASK.replace("refund: {approved}", "other: {approved}"))
    done = teff("resume", "r1", "--answer", "yes")
    assert (done.code, done.out) == (0, "other: yes\n")
    assert done.err.startswith("warning: flow.yaml is not what it was when run 'r1' began.\n")


def test_a_change_of_what_the_file_includes_is_told_apart(teff, flow, tmp_path):
    (tmp_path / "part.yaml").write_text("steps: [interrupt: {key: ok}]")
    file = flow("include: part.yaml\nsteps: [transform: {action: now}]")
    teff("run", file, "--checkpoint-id", "r1")
    (tmp_path / "part.yaml").write_text("steps: [interrupt: {key: ok, id: other}]")
    done = teff("resume", "r1")
    assert done.code == 2
    assert "(flow.yaml is the same: it is a file that it includes" in done.err


def test_a_run_from_python_needs_the_file(teff, flow):
    from teff import Flow, GraphInterrupt
    from teff.workflow import load

    file = flow("steps: [interrupt: {key: ok}]")
    with SQLiteCheckpointer("runs.db") as store:
        stored = {"checkpointer": store, "checkpoint_id": "r1"}
        with pytest.raises(GraphInterrupt):
            load(file).graph.run_sync({}, **stored)
        with pytest.raises(GraphInterrupt):
            Flow().interrupt("ok", id="other").compile().run_sync(
                {}, **{**stored, "checkpoint_id": "r2"}
            )
    done = teff("resume", "r1", "--checkpoint", "runs.db")
    assert done.code == 2
    assert "run 'r1' was not started from a workflow file: give the file with -f." in done.err
    where = ("-f", file, "--checkpoint", "runs.db")
    assert teff("resume", "r1", "--answer", "yes", *where).code == 0
    assert "was made by another graph" in teff("resume", "r2", *where).err


def test_the_run_goes_on_with_the_models_that_it_was_started_with(teff, flow, models):
    provider = models("one", "two", "three", "four")
    file = flow(MODEL)
    options = ("--provider", "scripted", "--model", "large", "--base-url", "http://h/v1")
    teff("run", file, "-m", "hi", "--checkpoint-id", "r1", *options)
    teff("run", file, "-m", "hi", "--checkpoint-id", "r2", *options)
    teff("resume", "r1", "--answer", "yes")
    teff("resume", "r2", "--answer", "yes", "--model", "other")
    models_asked = [request.model for request in provider.requests]
    assert models_asked == ["large", "large", "large", "other"]
    assert provider.asked_at == "scripted@http://h/v1"


def test_an_address_with_a_password_is_not_recorded(teff, flow, models):
    models("one")
    options = ("--base-url", "http://me:secret@h/v1")
    teff("run", flow(MODEL), "-m", "hi", "--checkpoint-id", "r1", *options)
    _, begun = stored()[0]
    assert begun["about"].keys() == {"workflow"}


def test_a_locked_run_is_one_sentence(teff, asked):
    with SQLiteCheckpointer(".teff/runs.db") as store:
        lease = asyncio.run(store.claim("r1"))
        for command in (["resume", "r1"], ["run", "flow.yaml", "--checkpoint-id", "r1"]):
            done = teff(*command)
            assert (done.code, done.out) == (1, "")
            (line,) = done.err.splitlines()
            assert line.startswith("error: run 'r1' is ")
        asyncio.run(store.release(lease, "paused"))
    assert teff("resume", "r1", "--answer", "yes").code == 0


def test_a_damaged_run_is_named(teff, asked):
    with sqlite3.connect(".teff/runs.db") as database:
        (table,) = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
            if "record" in name
        ]
        database.execute(f"UPDATE {table} SET data = replace(data, 'amount', 'amounts')")
    database.close()
    done = teff("resume", "r1", "--answer", "yes")
    assert done.code == 1
    assert "'r1'" in done.err


def test_a_file_that_is_no_store_is_named(teff, flow):
    Path("notes.txt").write_text("no database at all, only a text that is long enough" * 10)
    done = teff("run", flow(ASK), "--checkpoint-id", "r1", "--checkpoint", "notes.txt")
    assert done.code == 1
    assert "notes.txt" in done.err


def test_arguments_that_cannot_be_read_are_in_the_json_object(teff):
    report = json.loads(teff("resume", "r1", "--json", "--colour").out)
    assert report["status"] == "failed"
    assert "--colour" in report["error"]["message"]


def test_a_tool_that_was_called_is_not_called_again(teff, flow, models, monkeypatch):
    from teff.tool import tool

    calls = []

    @tool(register=False)
    def book(seats: int) -> str:
        """Book seats."""
        calls.append(seats)
        return "booked"

    monkeypatch.setitem(catalogue()._objects, ("teff.tools", "book"), book)
    models(call_tool("book", {"seats": 2}), "They are booked.")
    text = """
default_provider: scripted
default_model: small
tools: [book]
steps:
  - harness: {system: You book., use_tools: [book], stream: false}
  - interrupt: {key: ok}
"""
    assert teff("run", flow(text), "-m", "two", "--checkpoint-id", "r1").code == 3
    done = teff("resume", "r1", "--answer", "yes")
    assert (done.code, done.out, calls) == (0, "They are booked.\n", [2])
