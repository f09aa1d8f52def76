"""Recorded runs as processes: told to end, interrupted, and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

PROGRAM = """
import asyncio, pathlib, sys, time
import teff.cli.draining
from teff.cli import main
from teff.node.registry import node

def note(word):
    with open("log.txt", "a") as log:
        log.write(word + "\\n")
    print(word, file=sys.stderr, flush=True)

@node("note")
async def write(ctx, state):
    note(f"{ctx.node_id} done")

@node("work")
async def work(ctx, state):
    name = ctx.node_id
    note(f"{name} begun")
    while not pathlib.Path(f"go-{name}").exists():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)  # a signal that came before is taken by now
    note(f"{name} done")
    return {name: True}

@node("stuck")
def stuck(ctx, state):
    note("stuck begun")
    while not pathlib.Path("go-stuck").exists():
        time.sleep(0.01)

if "--short" in sys.argv:
    sys.argv.remove("--short")
    teff.cli.draining.PATIENCE = 0.1
sys.exit(main())
"""

FLOW = """
steps:
  - type: {type: note, id: first}
  - type: {type: %s, id: middle}
  - type: {type: note, id: last}
checkpoint: {path: runs.db, lease_ttl: 0.5}
"""
BRANCHES = """
steps:
  - parallel:
      id: fan
      branches:
        - [{type: {type: work, id: one}}, {type: {type: note, id: after_one}}]
        - type: {type: work, id: two}
  - type: {type: note, id: last}
"""


class Runs:
    """Commands in a folder, as processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, text: str = FLOW % "work") -> subprocess.Popen[str]:
        (self.folder / "flow.yaml").write_text(text)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str, list[str]]:
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err.splitlines()

    def run(self, *arguments: str, text: str = FLOW % "work") -> tuple[int, str, list[str]]:
        return self.end(self.start(*arguments, text=text))

    def go(self, name: str) -> None:
        (self.folder / f"go-{name}").touch()

    @property
    def log(self) -> list[str]:
        return (self.folder / "log.txt").read_text().splitlines()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path)
    yield runs
    for process in runs.started:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], *words: str) -> None:
    """Read standard error until each of the lines has come."""
    assert process.stderr is not None
    missing = set(words)
    while missing:
        line = process.stderr.readline()
        assert line, f"it ended without {missing}"
        missing.discard(line.rstrip("\n"))


def resume(runs: Runs, *arguments: str, text: str = FLOW % "work") -> tuple[int, str, list[str]]:
    """Resume a run whose process may hold it until its lease is over."""
    until = time.monotonic() + 60
    while True:
        code, out, err = runs.run("resume", "r1", *arguments, text=text)
        if code != 1 or time.monotonic() > until:
            return code, out, err
        assert any(line.startswith("error: run 'r1' is ") for line in err), err


RUN = ("run", "flow.yaml", "--checkpoint-id", "r1")


def test_told_to_end_the_current_step_finishes_and_no_other_begins(runs):
    process = runs.start(*RUN)
    read_until(process, "middle begun")
    process.send_signal(signal.SIGTERM)
    runs.go("middle")
    code, out, err = runs.end(process)
    assert (code, out) == (3, "")
    assert runs.log == ["first done", "middle begun", "middle done"]
    assert err[-2].startswith("told to end after 2 steps · ")
    assert err[-1] == "go on with: teff resume r1 -f flow.yaml"
    assert runs.run("resume", "r1", "-f", "flow.yaml")[0] == 0
    assert runs.log[3:] == ["last done"]


def test_told_to_end_every_branch_finishes_its_step(runs):
    process = runs.start(*RUN, text=BRANCHES)
    read_until(process, "one begun", "two begun")
    process.send_signal(signal.SIGTERM)
    runs.go("one")
    read_until(process, "one done")
    runs.go("two")
    assert runs.end(process)[0] == 3
    assert sorted(runs.log) == ["one begun", "one done", "two begun", "two done"]
    assert runs.run("resume", "r1", text=BRANCHES)[0] == 0
    assert runs.log[4:] == ["after_one done", "last done"]


def test_told_to_end_in_the_last_step_it_finishes(runs):
    text = "steps: [type: {type: work, id: only}]"
    process = runs.start(*RUN, text=text)
    read_until(process, "only begun")
    process.send_signal(signal.SIGTERM)
    runs.go("only")
    code, _, err = runs.end(process)
    assert code == 0
    assert err[-1].startswith("finished: end · ")


@pytest.mark.parametrize("how", ["patience", "twice"])
@pytest.mark.parametrize("kind", ["work", "stuck"])
def test_a_step_that_does_not_finish_in_time_is_cancelled(runs, how, kind):
    process = runs.start(*RUN, *["--short"] * (how == "patience"), text=FLOW % kind)
    read_until(process, f"{'middle' if kind == 'work' else 'stuck'} begun")
    process.send_signal(signal.SIGTERM)
    if how == "twice":
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
    code, _, err = runs.end(process)
    assert code == 3
    assert err[-1] == "go on with: teff resume r1 -f flow.yaml"
    runs.go("middle")
    runs.go("stuck")
    assert runs.run("resume", "r1", "-f", "flow.yaml", text=FLOW % kind)[0] == 0
    assert [line for line in runs.log if line.endswith("done") and "middle" not in line] == [
        "first done",
        "last done",
    ]


def test_told_to_end_is_in_the_json_object(runs):
    process = runs.start(*RUN, "--json")
    read_until(process, "middle begun")
    process.send_signal(signal.SIGTERM)
    runs.go("middle")
    code, out, _ = runs.end(process)
    report = json.loads(out)
    assert (code, report["status"], report["error"]) == (3, "cancelled", None)
    assert report["state"]["middle"] is True


def test_told_to_end_without_a_record_it_is_cancelled(runs):
    process = runs.start("run", "flow.yaml")
    read_until(process, "middle begun")
    process.send_signal(signal.SIGTERM)
    code, out, err = runs.end(process)
    assert (code, out) == (130, "")
    assert err[-1].startswith("told to end after 2 steps · ")
    assert runs.log == ["first done", "middle begun"]


def test_an_interrupted_run_goes_on(runs):
    process = runs.start(*RUN)
    read_until(process, "middle begun")
    process.send_signal(signal.SIGINT)
    code, _, err = runs.end(process)
    assert code == 130
    assert err[-1] == "go on with: teff resume r1 -f flow.yaml"
    runs.go("middle")
    assert runs.run("resume", "r1", "-f", "flow.yaml")[0] == 0
    assert runs.log == ["first done", "middle begun", "middle begun", "middle done", "last done"]


def test_a_killed_run_goes_on_and_does_nothing_twice_that_was_finished(runs):
    process = runs.start(*RUN)
    read_until(process, "middle begun")
    process.send_signal(signal.SIGKILL)
    assert runs.end(process)[0] == -signal.SIGKILL
    runs.go("middle")
    code, _, err = resume(runs, "-f", "flow.yaml")
    assert code == 0, err
    assert runs.log == ["first done", "middle begun", "middle begun", "middle done", "last done"]


def test_a_run_cannot_be_resumed_while_another_process_works_on_it(runs):
    process = runs.start(*RUN)
    read_until(process, "middle begun")
    code, out, err = runs.run("resume", "r1", "-f", "flow.yaml")
    assert (code, out, len(err)) == (1, "", 1)
    assert err[0].startswith("error: run 'r1' is ")
    runs.go("middle")
    assert runs.end(process)[0] == 0
    assert runs.log == ["first done", "middle begun", "middle done", "last done"]


def test_a_chat_that_is_told_to_end_goes_on_with_the_same_message(runs):
    process = runs.start("chat", "flow.yaml", "--checkpoint-id", "ada")
    assert process.stdin is not None
    process.stdin.write("hello\n")
    process.stdin.flush()
    read_until(process, "middle begun")
    process.send_signal(signal.SIGTERM)
    runs.go("middle")
    code, _, err = runs.end(process)
    assert code == 3
    assert err[-1] == "go on with: teff chat --checkpoint-id ada -f flow.yaml"
    process = runs.start("chat", "flow.yaml", "--checkpoint-id", "ada")
    process.communicate("hello\n", timeout=60)
    assert process.returncode == 0
    assert runs.log == ["first done", "middle begun", "middle done", "last done"]
