"""A real model for the end-to-end tests: in this process, and behind a llama.cpp HTTP server.

Where ``xllamacpp`` or the model is missing, the tests that need them are skipped; they fail instead
where the environment holds ``TEFF_E2E_REQUIRED=1``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

#: Requests that the server answers at once, and the tokens of context that each of them has.
SLOTS = 2
CONTEXT_TOKENS = 4096


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The model file that the provider of type ``local`` finds."""
    try:
        from teff.errors import ConfigError
        from teff_providers_local.model import find_model
    except ImportError as error:
        _cannot_run(str(error))
    try:
        return find_model().path
    except ConfigError as error:
        _cannot_run(str(error))


@pytest.fixture(scope="session")
def llama_server(model_path: Path) -> Iterator[str]:
    """The base URL, with ``/v1``, of a llama.cpp server with that model on a free loopback port."""
    try:
        import xllamacpp
    except ImportError as error:
        _cannot_run(str(error))
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
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    # The server stops when nothing refers to it any more.
    del server


def _cannot_run(reason: str) -> NoReturn:
    if os.environ.get("TEFF_E2E_REQUIRED") == "1":
        pytest.fail(f"TEFF_E2E_REQUIRED is set, but there is no model to test with: {reason}")
    pytest.skip(f"there is no model to test with: {reason}")
