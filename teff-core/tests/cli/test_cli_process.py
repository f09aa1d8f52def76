"""``teff run`` as a process: interrupted by a person, and read by a program that goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and pipes of POSIX")

PROGRAM = """
import asyncio, sys, time
from teff.cli import main
from teff.node.registry import node

@node("wait")
async def wait(ctx, state):
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.sleep(600)

@node("wait_in_thread")
def wait_in_thread(ctx, state):
    print("waiting", file=sys.stderr, flush=True)
    time.sleep(600)

@node("wait_in_asyncio_thread")
async def wait_in_asyncio_thread(ctx, state):
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.to_thread(time.sleep, 600)

@node("talk")
async def talk(ctx, state):
    for _ in range(100_000):
        await ctx.emit("token", {"token": "word ", "provider": "p", "model": "m"})

sys.exit(main())
"""


class Runs:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(self, node_type: str, *arguments: str) -> subprocess.Popen[str]:
        (self.folder / "flow.yaml").write_text(
            "steps: [transform: {action: now, id: before}, "
            f"type: {{type: {node_type}, id: last}}]"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "run", "flow.yaml", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path)
    yield runs
    for process in runs.started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("node_type", ["wait", "wait_in_thread", "wait_in_asyncio_thread"])
def test_ctrl_c_ends_the_run_and_says_how_far_it_came(runs, node_type):
    process = runs.start(node_type)
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("interrupted after 2 steps · ")
    assert line.endswith(" · last node 'last'")


def test_ctrl_c_is_in_the_json_object(runs):
    process = runs.start("wait", "--json")
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    report = json.loads(out)
    assert process.returncode == 130
    assert (report["status"], report["stop_reason"]) == ("cancelled", "cancelled")
    assert "output" in report["state"]


def test_signs_that_the_terminal_does_not_know_do_not_end_the_run(tmp_path):
    (tmp_path / "flow.yaml").write_text(
        "steps: [transform: {action: render, template: '{input}', output_key: output}]"
    )
    done = subprocess.run(
        [sys.executable, "-m", "teff", "run", "flow.yaml", "--input", 'input="é\\u2192\\ud800"'],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"\xe9\\u2192\\ud800\n"


def test_a_reader_that_goes_away_ends_the_run_quietly(runs):
    process = runs.start("talk")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(5) == "word "
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=30) == 1
    assert err == "last:\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("arguments", [["run", "flow.yaml"], ["run", "flow.yaml", "--json"], ["plugins"], ["--help"]])  # fmt: skip
@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_a_standard_output_that_cannot_be_written_is_one_sentence(tmp_path, arguments, to):
    (tmp_path / "flow.yaml").write_text("steps: [transform: {action: now}]")
    command = f'"{sys.executable}" -m teff {" ".join(arguments)} {to}'
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("finished")]
    assert line.startswith("error: standard output cannot be written: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_ends_an_answer_that_is_streamed(tmp_path):
    (tmp_path / "flow.yaml").write_text("steps: [type: {type: talk, id: last}]")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "run", "flow.yaml"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "last:",
        "error: standard output cannot be written: No space left on device.",
    ]
