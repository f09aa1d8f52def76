"""The command line: ``teff run``, ``check``, ``graph``, ``plugins`` and ``version``."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``teff`` and return its exit code.

    The codes: 0 finished, 1 the run failed, 2 wrong use or a bad workflow, 3 the run waits for an
    answer, 4 the run was stopped by a bound, 130 interrupted.

    Args:
        argv: the arguments after the program's name; by default those of the process, which an
            interrupted run may then end without waiting for threads that cannot be stopped.
    """
    from teff.cli.app import run_app

    return run_app(argv)
