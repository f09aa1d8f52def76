"""llama.cpp, as the package ``xllamacpp`` gives it: one loaded model that answers requests."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

__all__ = ["Engine", "EngineError", "EngineSettings", "load_engine"]

#: Tokens of a prompt that are read between two events. An answer can be cancelled only at an event,
#: and on one thread larger batches are no faster.
_PROMPT_BATCH = 64

#: MiB in which prompts that were read are kept, so that a supervisor and its agents, who ask in
#: turn, do not read their system texts again each time.
_PROMPT_CACHE = 256

#: The longest path of a Unix socket that every system takes, in bytes.
_LONGEST_SOCKET_PATH = 100


class EngineError(Exception):
    """The engine cannot be used: it is not installed, or it did not take the model file."""


class Engine(Protocol):
    """A loaded model. All calls come from one thread, one after another."""

    def complete(
        self, request: Mapping[str, Any], on_event: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        """Answer a chat-completions request, and return when the answer is whole.

        Args:
            request: the body, with ``stream`` set.
            on_event: called with each chunk, and with ``{"error": {…}}`` where the request was
                refused. When it returns true, the answer ends there. It never raises.
        """
        ...

    def close(self) -> None:
        """Free the model's memory."""
        ...


@attrs.frozen(kw_only=True)
class EngineSettings:
    """What an engine is loaded with; two equal ones are one engine.

    Attributes:
        path: the model file.
        threads: how many threads compute.
        context_tokens: room for prompt and answer together.
    """

    path: Path
    threads: int
    context_tokens: int


def load_engine(settings: EngineSettings) -> Engine:
    """Load a model. This takes a moment, and the binding lets no other thread of Python run in it.

    Raises:
        EngineError: ``xllamacpp`` is not installed, or does not take the file.
    """
    return _LlamaCpp(settings)


class _LlamaCpp:
    def __init__(self, settings: EngineSettings) -> None:
        try:
            import xllamacpp
        except ImportError as error:
            raise EngineError(
                f"llama.cpp cannot be loaded ({error}). Install it with\n    pip install xllamacpp"
            ) from error
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(settings.path)
        parameters.n_ctx = settings.context_tokens
        parameters.n_batch = _PROMPT_BATCH
        parameters.cache_ram_mib = _PROMPT_CACHE
        parameters.cpuparams.n_threads = settings.threads
        parameters.cpuparams_batch.n_threads = settings.threads
        parameters.verbosity = -1
        # Both only lengthen the loading: a trial run, and a search for what fits on a GPU.
        parameters.warmup = False
        parameters.fit_params = False
        # The binding always listens for HTTP as well. Nobody shall reach that: it gets a socket
        # that is removed at once, and a key that nobody knows.
        parameters.api_keys = [secrets.token_urlsafe()]
        parameters.n_threads_http = 1
        parameters.ui = False
        with _private_address() as address:
            parameters.hostnames = [address]
            try:
                self._server = xllamacpp.Server(parameters)
            except RuntimeError as error:
                raise EngineError(
                    f"llama.cpp cannot load {str(settings.path)!r} with {settings.context_tokens} "
                    f"tokens of context: {error}"
                ) from error

    def complete(
        self, request: Mapping[str, Any], on_event: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        self._server.handle_chat_completions(dict(request), on_event)

    def close(self) -> None:
        # The binding frees the model when nothing refers to its server any more.
        del self._server


@contextlib.contextmanager
def _private_address() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="teff-local-") as folder:
        path = str(Path(folder, "engine.sock"))
        if os.name == "posix" and len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
            yield path
        else:
            yield "127.0.0.1"
