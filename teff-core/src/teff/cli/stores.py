"""Where the commands find stored runs: the file that is given, the workflow's, or ``.teff/runs.db``."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from teff.checkpoint import Checkpointer, MemoryCheckpointer, RunStore
from teff.errors import ConfigError
from teff.workflow.default_store import DEFAULT_PATH, make_default_folder

if TYPE_CHECKING:
    from teff.workflow import Workflow

__all__ = ["OpenStore", "open_runs", "open_store", "takes_store"]


@attrs.frozen(kw_only=True)
class OpenStore:
    """A store that a command has opened.

    Attributes:
        store: the store.
        place: what messages call it.
        options: what tells another command to open the same.
    """

    store: Checkpointer
    place: str
    options: tuple[str, ...] = ()

    def command(self, name: str, *arguments: str) -> str:
        """Return the line that calls another command about this store."""
        return shlex.join(["teff", name, *arguments, *self.options])


def takes_store(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command say where the runs are."""
    return click.option(
        "--checkpoint",
        metavar="PATH",
        help="Where runs are recorded: an SQLite file, or a folder of run files; a new folder ends "
        f"with /. By default where the workflow says, else {DEFAULT_PATH} in the current folder.",
    )(function)


@contextmanager
def open_store(
    workflow: Workflow | None, path: str | None, *, create: bool, runner: asyncio.Runner
) -> Iterator[OpenStore]:
    """Open the store that ``path`` names, else that of the workflow, else the default one.

    Args:
        workflow: the workflow that was named on the command line, if any.
        path: what ``--checkpoint`` says.
        create: whether a file that is not there is made.
        runner: where the store is closed.

    Raises:
        ConfigError: it is not there, or keeps nothing when the command ends.
    """
    opened = _open(workflow, path, create=create)
    try:
        yield opened
    finally:
        _close(opened.store, runner)


@contextmanager
def open_runs(
    file: str | None, path: str | None, *, runner: asyncio.Runner
) -> Iterator[tuple[OpenStore, RunStore]]:
    """Open a store to look into it, which must be there.

    Args:
        file: a workflow file that says where its runs are, if one was given.
        path: what ``--checkpoint`` says.
        runner: where it is used.

    Raises:
        ConfigError: it is not there, or cannot be looked into.
    """
    workflow = None
    if file is not None and path is None:
        from teff.workflow import load  # loads much that looking into a store does not need

        workflow = load(file)
    with open_store(workflow, path, create=False, runner=runner) as opened:
        if not isinstance(opened.store, RunStore):
            kind = type(opened.store).__name__
            raise ConfigError(f"a {kind} cannot show its runs: it has no list() and history().")
        yield opened, opened.store


def _open(workflow: Workflow | None, path: str | None, *, create: bool) -> OpenStore:
    if path is None and workflow is not None and workflow.checkpointer is not None:
        if isinstance(workflow.checkpointer, MemoryCheckpointer):
            raise ConfigError(
                f"{workflow.path} keeps runs in memory, so they end with this command: "
                "give --checkpoint PATH, or another `checkpoint` in the file."
            )
        return OpenStore(
            store=workflow.checkpointer,
            place=f"the checkpoint of {workflow.path}",
            options=("-f", str(workflow.path)),
        )
    options = () if path is None else ("--checkpoint", path)
    file = DEFAULT_PATH if path is None else Path(path)
    if not create and not file.exists():
        raise ConfigError(
            f"there are no runs in {file}: there is no such file.",
            hint="Say with --checkpoint or -f where they are." if path is None else "",
        )
    return OpenStore(store=_store(path), place=str(file), options=options)


def _store(path: str | None) -> Checkpointer:
    file = DEFAULT_PATH if path is None else Path(path)
    if file.is_dir() or (path is not None and path.endswith(("/", os.sep))):
        from teff.checkpoint import FileCheckpointer

        return FileCheckpointer(file)
    from teff.checkpoint import SQLiteCheckpointer

    if path is None:
        try:
            make_default_folder(Path())
        except OSError as error:
            raise ConfigError(f"{file.parent} cannot be made: {error.strerror}.") from error
    return SQLiteCheckpointer(file)


def _close(store: Checkpointer, runner: asyncio.Runner) -> None:
    """Close a store in whatever way it can be closed."""
    if callable(close := getattr(store, "close", None)):
        close()
    elif callable(aclose := getattr(store, "aclose", None)):
        runner.run(aclose())
