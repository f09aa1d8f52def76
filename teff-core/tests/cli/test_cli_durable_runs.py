"""Looking into recorded runs: `teff runs`, `teff show`, `teff fork`."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from teff.checkpoint import SQLiteCheckpointer
from teff.cli.tables import shortened, table

ASK = """
steps:
  - transform: {action: now, output_key: at}
  - interrupt: {key: approved, prompt: "Refund {amount}?", choices: [yes, no]}
  - transform: {action: render, template: "refund: {approved}", output_key: output}
state: {initial: {amount: 5}}
"""
COUNT = """
steps:
  - transform: {action: render, template: "{n}1", output_key: n, id: one}
  - transform: {action: render, template: "{n}2", output_key: n, id: two}
  - transform: {action: render, template: "{n}3", output_key: output, id: three}
state: {initial: {n: ""}}
"""
MODEL = """
default_provider: scripted
default_model: small
steps:
  - llm: {prompt: "Say {input}", output_key: draft, id: draft}
  - parallel:
      id: fan
      branches:
        - [{llm: {prompt: "A {draft}", output_key: a, id: a}}, {transform: {action: now, id: then}}]
        - llm: {prompt: "B {draft}", output_key: b, id: b}
  - interrupt: {key: ok}
"""


def rows(out: str) -> list[list[str]]:
    """Return the words of each line of a table."""
    return [line.split() for line in out.splitlines()]


# List.


def test_runs_are_listed_the_last_one_first(teff, flow):
    teff("run", flow(COUNT), "--checkpoint-id", "done")
    teff("run", flow(ASK), "--checkpoint-id", "asks")
    done = teff("runs")
    assert done.code == 0
    head, *lines = rows(done.out)
    assert head == ["id", "state", "steps", "updated"]
    assert [line[:3] for line in lines] == [["asks", "paused", "1"], ["done", "finished", "3"]]


def test_programs_get_a_list(teff, flow):
    teff("run", flow(ASK), "--checkpoint-id", "r1")
    (row,) = json.loads(teff("runs", "--json").out)
    assert row.pop("updated") >= row.pop("created") > 0
    assert row == {
        "run_id": "r1",
        "state": "paused",
        "held": False,
        "steps": 1,
        "turns": None,
        "error": None,
    }


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_where_nothing_was_recorded_there_are_no_runs(teff, options):
    done = teff("runs", *options)
    assert done.code == 0
    assert (done.out, done.err) == (
        ("[]\n", "") if options else ("", "no runs in .teff/runs.db.\n")
    )
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("command", [["runs"], ["show", "r1"], ["fork", "r1", "--at", "0"]])
def test_a_file_that_is_given_must_be_there(teff, command):
    done = teff(*command, "--checkpoint", "nope.db")
    assert (done.code, done.out) == (2, "")
    assert "there are no runs in nope.db" in done.err
    assert list(Path().iterdir()) == []


def test_the_runs_of_a_workflow_are_where_it_says(teff, flow):
    file = flow("checkpoint: {path: own.db}" + ASK)
    teff("run", file, "--checkpoint-id", "r1")
    assert rows(teff("runs", "-f", file).out)[1][0] == "r1"
    assert "r1: paused" in teff("show", "r1", "-f", file).out
    assert teff("fork", "r1", "--at", "1", "-f", file).out == "r1-at-1\n"
    assert rows(teff("runs", "--checkpoint", "own.db").out)[1][0] == "r1-at-1"


def test_the_last_twenty_are_shown_unless_all_are_asked_for(teff, flow):
    teff("run", flow(COUNT), "--checkpoint-id", "r0")
    with SQLiteCheckpointer(".teff/runs.db") as store:
        for number in range(1, 23):
            asyncio.run(store.copy("r0", f"r{number}"))
    done = teff("runs")
    assert (len(rows(done.out)), done.err) == (21, "3 more: --all shows them.\n")
    assert len(rows(teff("runs", "--all").out)) == 24
    assert len(json.loads(teff("runs", "--all", "--json").out)) == 23


def test_a_chat_is_one_row(teff, flow, monkeypatch):
    file = flow("steps: [transform: {action: render, template: ok, output_key: output}]")
    teff("run", file, "--checkpoint-id", "r1")
    teff("run", file, "--checkpoint-id", "odd#turn-1")
    for message in ("one", "two"):
        said(monkeypatch, message)
        teff("chat", file, "--checkpoint-id", "ada")
    found = {row["run_id"]: row["turns"] for row in json.loads(teff("runs", "--json").out)}
    assert found == {"ada": 2, "r1": None, "odd#turn-1": None}
    assert "ada         finished  chat, 2 turns  " in teff("runs").out


def said(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_a_run_that_is_worked_on_and_one_that_broke_off_are_told_apart(teff, flow):
    teff("run", flow(ASK), "--checkpoint-id", "r1")
    with SQLiteCheckpointer(".teff/runs.db") as store:
        lease = asyncio.run(store.claim("r1"))
        assert rows(teff("runs").out)[1][:2] == ["r1", "running"]
        asyncio.run(store.release(lease, "running"))
    assert rows(teff("runs").out)[1][:2] == ["r1", "unfinished"]


def test_a_damaged_run_does_not_hide_the_others(teff, flow):
    teff("run", flow(COUNT), "--checkpoint-id", "whole")
    teff("run", flow(ASK), "--checkpoint-id", "r1")
    damage("amount")
    found = {row[0]: row[1] for row in rows(teff("runs").out)[1:]}
    assert found == {"r1": "damaged", "whole": "finished"}
    done = teff("show", "r1")
    assert (done.code, done.out) == (1, "")
    assert "'r1'" in done.err


def damage(word: str) -> None:
    with sqlite3.connect(".teff/runs.db") as database:
        (name,) = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
            if "record" in name
        ]
        database.execute(f"UPDATE {name} SET data = replace(data, '{word}', '{word}s')")
    database.close()


# Show.


def test_the_steps_of_a_run_are_shown_with_what_they_wrote(teff, flow):
    teff("run", flow(ASK), "--checkpoint-id", "r1")
    done = teff("show", "r1")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "r1: paused"
    assert lines[2].startswith("workflow /")
    assert lines[2].endswith("/flow.yaml")
    assert lines[5].split()[:2] == ["1", "transform_1/1"]
    assert " at=20" in lines[5]
    assert lines[-3] == "? approved: Refund 5? (yes, no)  [interrupt_2/1:approved]"
    assert lines[-1] == "go on with: teff resume r1"


def test_how_a_run_ended_is_shown_with_its_state(teff, flow):
    teff("run", flow(COUNT), "--checkpoint-id", "r1", "--input", f"story={'word ' * 100}")
    lines = teff("show", "r1").out.splitlines()
    assert lines[0] == "r1: finished: end"
    assert [line.split()[0] for line in lines if line[:1].isdigit()] == ["1", "2", "3"]
    assert lines[-3:-1] == ["n = 12", f"story = {('word ' * 40)[:199]}…"]
    assert lines[-1] == "output = 123"


def test_model_calls_and_what_ran_inside_are_shown(teff, flow, models):
    models(*[lambda request: request.messages[-1]["content"].upper()] * 3)
    teff("run", flow(MODEL), "-m", "hi", "--checkpoint-id", "r1")
    report = json.loads(teff("show", "r1", "--json").out)
    steps = report["steps"]
    assert [(step["node"], step["model_calls"]) for step in steps] == [("draft", 1), ("fan", 2)]
    assert steps[0]["wrote"]["draft"] == "SAY HI"
    assert report["usage"]["model_calls"] == 3
    assert (report["state"], report["result"]) == ("paused", None)
    assert report["interrupts"][0]["key"] == "ok"
    assert report["input"]["input"] == "hi"
    lines = teff("show", "r1").out.splitlines()
    (fan,) = [line.split() for line in lines if " fan/1 " in line]
    assert fan[-1] != "2"
    assert "2" in fan


def test_the_steps_of_sub_flows_stand_below_their_step(teff, flow):
    text = """
steps:
  - subflow:
      id: outer
      steps:
        - transform: {action: now, output_key: a, id: one}
        - subflow: {id: deep, steps: [{transform: {action: now, output_key: b, id: two}}]}
  - subflow:
      id: asks
      steps:
        - transform: {action: now, output_key: c, id: three}
        - interrupt: {key: ok}
"""
    assert teff("run", flow(text), "--checkpoint-id", "r1").code == 3
    report = json.loads(teff("show", "r1", "--json").out)
    (outer,) = report["steps"]
    one, deep = outer["steps"]
    assert [one["path"], deep["path"]] == ["outer/1/one/1", "outer/1/deep/1"]
    assert [step["path"] for step in deep["steps"]] == ["outer/1/deep/1/two/1"]
    assert [step["path"] for step in report["unfinished"]] == ["asks/1/three/1"]
    shown = teff("show", "r1").out
    assert "\n1  outer/1 " in shown
    assert "\n     outer/1/one/1 " in shown
    assert "\n       outer/1/deep/1/two/1 " in shown
    assert "\n   asks/1/three/1 " in shown


def test_an_unknown_run_is_wrong_use(teff, flow):
    teff("run", flow(COUNT), "--checkpoint-id", "r1")
    for command in (["show", "r2"], ["fork", "r2", "--at", "1"]):
        done = teff(*command)
        assert (done.code, done.out) == (2, "")
        assert "there is no run 'r2' in .teff/runs.db. teff runs lists what is there." in done.err


def test_what_a_terminal_would_act_on_is_taken_out(teff, flow):
    teff("run", flow(COUNT), "--checkpoint-id", "r1", "--input", "n=\x1b[31m")
    assert "\x1b" not in teff("show", "r1").out


# Fork.


def test_a_fork_goes_on_from_the_state_after_a_step(teff, flow):
    teff("run", flow(COUNT), "--checkpoint-id", "r1")
    done = teff("fork", "r1", "--at", "2", "--id", "new")
    assert (done.code, done.out) == (0, "new\n")
    assert done.err == "go on with: teff resume new\n"
    assert [step["node"] for step in json.loads(teff("show", "new", "--json").out)["steps"]] == [
        "one",
        "two",
    ]
    flow(COUNT.replace("{n}3", "{n}4"))
    assert teff("resume", "new").out == "124\n"
    assert json.loads(teff("show", "r1", "--json").out)["result"]["output"] == "123"


def test_a_fork_before_a_question_asks_again(teff, flow):
    teff("run", flow(ASK), "--checkpoint-id", "r1")
    teff("resume", "r1", "--answer", "yes")
    assert teff("fork", "r1", "--at", "1").out == "r1-at-1\n"
    assert teff("resume", "r1-at-1").code == 3
    assert teff("resume", "r1-at-1", "--answer", "no").out == "refund: no\n"
    assert teff("resume", "r1").out == "refund: yes\n"
    # After the step that asked, the answer is there.
    teff("fork", "r1", "--at", "2", "--id", "kept")
    assert teff("resume", "kept").out == "refund: yes\n"


def test_a_fork_at_the_beginning_has_the_input(teff, flow):
    teff("run", flow(COUNT), "--checkpoint-id", "r1", "--input", "n=x")
    teff("fork", "r1", "--at", "0", "--id", "again")
    assert teff("resume", "again").out == "x123\n"


def test_ids_are_made_up_and_are_new(teff, flow):
    teff("run", flow(COUNT), "--checkpoint-id", "r1")
    made = [teff("fork", "r1", "--at", "1").out.strip() for _ in range(3)]
    assert made == ["r1-at-1", "r1-at-1-2", "r1-at-1-3"]
    done = teff("fork", "r1", "--at", "1", "--id", "r1-at-1")
    assert done.code == 2
    assert "there is a run 'r1-at-1' already: give another --id." in done.err


@pytest.mark.parametrize("step", ["4", "-1"])
def test_a_step_that_is_not_there_is_wrong_use(teff, flow, step):
    teff("run", flow(COUNT), "--checkpoint-id", "r1")
    done = teff("fork", "r1", "--at", step)
    assert (done.code, done.out) == (2, "")
    assert f"--at takes 0 to 3, the steps of 'r1', not {step}." in done.err


def test_a_long_run_is_shown_and_forked_by_its_steps(teff, flow):
    text = """
steps:
  - transform: {action: render, template: "{n}x", output_key: n, id: a}
  - command: {goto: a}
state: {initial: {n: ""}}
"""
    done = teff("run", flow(text), "--checkpoint-id", "r1", "--max-steps", "500")
    assert done.code == 4
    steps = json.loads(teff("show", "r1", "--json").out)["steps"]
    assert len(steps) == 500
    teff("fork", "r1", "--at", "301", "--id", "new")
    report = json.loads(teff("resume", "new", "--max-steps", "302", "--json").out)
    assert report["state"]["n"] == "x" * 151


# Words.


def test_tables_keep_lines_together():
    assert table([("a", "bcd"), ("ef\ng\x1b", "h")]) == [
        "a      bcd",
        "ef g\N{REPLACEMENT CHARACTER}  h",
    ]


def test_values_are_shortened():
    assert shortened("word " * 20, 10) == "word word…"
    assert shortened([1, {"é": None}]) == '[1, {"é": null}]'
