"""What ``import teff`` and the command line load, by module set, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "asyncio",
    "attr",
    "attrs",
    "cattrs",
    "httpx",
    "importlib.metadata",
    "jsonschema",
    "pluggy",
    "referencing",
    "structlog",
    "yaml",
}


def modules_after(code: str) -> set[str]:
    """Return the modules that ``code`` loads, without those that every interpreter has."""
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        f"{code}\n"
        "import json\n"
        "print('\\n' + json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_teff_loads_nothing_heavy():
    loaded = modules_after("import teff")
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("teff")} == {"teff"}


def test_the_version_is_there_without_loading_anything():
    assert not modules_after("import teff; teff.__version__; dir(teff)") & HEAVY


@pytest.mark.parametrize("room", ["teff.errors", "teff.plugins", "teff.provider"])
def test_the_lower_rooms_load_no_transport_logs_or_metadata(room):
    loaded = modules_after(f"import {room}")
    assert not loaded & (HEAVY - {"attr", "attrs"})


def test_a_built_in_name_reads_no_metadata():
    loaded = modules_after(
        "from teff.plugins import catalogue; catalogue().load('teff.checkpointers', 'memory')"
    )
    assert "importlib.metadata" not in loaded


@pytest.mark.parametrize("arguments", [["version"], ["--help"]])
def test_the_cheap_commands_load_no_plugin_and_nothing_heavy(arguments):
    loaded = modules_after(
        "from teff.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
    )
    assert not loaded & (HEAVY - {"attr", "attrs"})
    assert not {name for name in loaded if name.startswith("teff_")}


def test_a_flow_loads_the_node_types_that_it_uses_and_no_others():
    loaded = modules_after("from teff.flow import Flow; Flow().transform(action='now').compile()")
    assert "teff.node.transform" in loaded
    assert not loaded & {
        "teff.harness",
        "teff.node.llm",
        "teff.node.supervisor",
        "teff.state.check",
    }
