"""What the end-to-end tests talk to: a real model, and servers that fail on demand.

The model answers in this process, and behind a llama.cpp HTTP server. Servers that are no Python
packages of this environment run as processes of their own; who needs one starts it with
`start_server`.

What is missing is skipped, with the tests that need it; they fail instead where the environment
holds ``TEFF_E2E_REQUIRED=1``. Everything listens on the loopback address alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

#: Requests that the server answers at once, and the tokens of context that each of them has.
SLOTS = 2
CONTEXT_TOKENS = 4096

#: The model's own template leaves tools out of the prompt.
TEMPLATE_WITH_TOOLS = Path(__file__).with_name("hermes.jinja")

SECONDS_TO_START = 60.0
SECONDS_TO_STOP = 10.0


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The model file that the provider of type ``local`` finds."""
    try:
        from teff.errors import ConfigError
        from teff_providers_local.model import find_model
    except ImportError as error:
        _cannot_run(f"there is no model to test with: {error}")
    try:
        return find_model().path
    except ConfigError as error:
        _cannot_run(f"there is no model to test with: {error}")


@pytest.fixture(scope="session")
def llama_server(model_path: Path) -> Iterator[str]:
    """The base URL, with ``/v1``, of a llama.cpp server with that model on a free loopback port."""
    yield from _llama_server(model_path)


@pytest.fixture(scope="session")
def llama_server_with_tools(model_path: Path) -> Iterator[str]:
    """The same with a chat template that has tools in it, in the format of the Hermes models."""
    yield from _llama_server(model_path, TEMPLATE_WITH_TOOLS.read_text(encoding="utf-8"))


def _llama_server(model_path: Path, template: str = "") -> Iterator[str]:
    try:
        import xllamacpp
    except ImportError as error:
        _cannot_run(f"there is no server to test with: {error}")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model_path)
    parameters.hostnames = ["127.0.0.1"]
    # The system chooses a free port.
    parameters.port = 0
    parameters.n_parallel = SLOTS
    parameters.n_ctx = SLOTS * CONTEXT_TOKENS
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.verbosity = -1
    parameters.warmup = False
    parameters.fit_params = False
    parameters.ui = False
    # It tells which requests it is still busy with.
    parameters.endpoint_slots = True
    if template:
        parameters.chat_template = template
        parameters.use_jinja = True
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    # The server stops when nothing refers to it any more.
    del server


@pytest.fixture(scope="session")
def cannot_run() -> Callable[[str], NoReturn]:
    """Skips the tests that need what is missing, or fails them where it is required."""
    return _cannot_run


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Starts a server as a process, and returns its URL once it listens.

    The server is told to take a free port, and says in its output which one it took. All of them
    are stopped at the end.
    """
    with ExitStack() as servers:

        def start(*command: str) -> str:
            folder = tmp_path_factory.mktemp("server")
            return servers.enter_context(_running(command, folder))

        yield start


@contextmanager
def _running(command: tuple[str, ...], folder: Path) -> Iterator[str]:
    output = folder / "output.txt"
    with (
        output.open("wb") as file,
        subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield _address(process, output)
        finally:
            process.terminate()
            try:
                process.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: subprocess.Popen[bytes], output: Path) -> str:
    """Wait for the line in which the server says where it listens."""
    until = time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < until:
        said = output.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"http://127\.0\.0\.1:[1-9]\d*", said):
            return found[0]
        time.sleep(0.05)
    pytest.fail(f"{process.args!r} did not start:\n{output.read_text(errors='replace')}")


def _cannot_run(reason: str) -> NoReturn:
    if os.environ.get("TEFF_E2E_REQUIRED") == "1":
        pytest.fail(f"TEFF_E2E_REQUIRED is set, but {reason}")
    pytest.skip(reason)
