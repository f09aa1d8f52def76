"""``teff check``, ``graph``, ``plugins``, ``version`` and the help."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import teff as package

FLOW = "steps: [transform: {action: now, id: first}, transform: {action: now, id: second}]"


def test_check_says_that_nothing_is_wrong(teff, flow):
    done = teff("check", flow(FLOW))
    assert done == (0, "flow.yaml: no problems\n", "")


def test_check_runs_nothing(teff, flow, models):
    models()
    text = "default_provider: scripted\ndefault_model: m\nsteps: [llm: {prompt: hi}]"
    assert teff("check", flow(text)).code == 0


def test_graph_draws_a_flowchart(teff, flow):
    done = teff("graph", "-f", flow(FLOW))
    assert done.code == 0
    assert done.out.startswith("flowchart TD\n")
    assert "n0 --> n1" in done.out
    assert done.out.endswith("\n")
    assert not done.out.endswith("\n\n")


def test_plugins_are_listed(teff):
    done = teff("plugins")
    assert done.code == 0
    assert any(line.split()[:2] == ["provider", "ollama"] for line in done.out.splitlines())
    rows = json.loads(teff("plugins", "--json").out)
    assert {"distribution", "version", "group", "name", "target", "state", "error"} == set(rows[0])
    assert "ollama" in {row["name"] for row in rows}


def test_version(teff):
    assert teff("version").out.startswith(f"teff {package.__version__} (Python 3.")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_help_lists_every_command(teff, arguments):
    done = teff(*arguments)
    assert done.code == 0
    for command in ("run", "check", "graph", "plugins", "version"):
        assert f"  {command} " in done.out


def test_each_command_has_help(teff):
    for command in ("run", "check", "graph", "plugins", "version"):
        done = teff(command, "--help")
        assert done.code == 0
        assert done.out.startswith(f"Usage: teff {command}")


def test_it_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "teff", "version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("teff ")
