"""The command ``teff``: its sub-commands are imported when they are called."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, cast

import click

from teff.cli.exit_codes import FAILED, FINISHED, INTERRUPTED, PAUSED, WRONG_USE
from teff.cli.messages import show_error
from teff.cli.threads import threads_to_wait_for
from teff.errors import CheckpointError, TeffError, suggest

__all__ = ["app", "run_app"]


class _Entry(NamedTuple):
    module: str
    help: str


#: Every command, with what the help says of it, so that showing the help imports none of them.
_COMMANDS = {
    "run": _Entry("teff.cli.run", "Run a workflow."),
    "resume": _Entry("teff.cli.resume", "Go on with a recorded run."),
    "chat": _Entry("teff.cli.chat", "Talk with a workflow."),
    "runs": _Entry("teff.cli.runs", "List recorded runs."),
    "show": _Entry("teff.cli.show", "Show what a recorded run did, step by step."),
    "fork": _Entry("teff.cli.fork", "Begin a run with what another one had come to."),
    "check": _Entry("teff.cli.check", "Say what is wrong with a workflow, without running it."),
    "graph": _Entry("teff.cli.graph", "Draw a workflow as a Mermaid flowchart."),
    "schema": _Entry("teff.cli.schema", "Print the JSON Schema of workflow files, for editors."),
    "plugins": _Entry("teff.cli.plugins", "List what is installed, without loading it."),
    "providers": _Entry("teff.cli.providers", "List provider types, or the models of one."),
    "version": _Entry("teff.cli.version", "Print the version."),
}


class _Commands(click.Group):
    """A group whose commands live in modules of their own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return cast("click.Command", import_module(_COMMANDS[cmd_name].module).command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in _COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # `teff -f flow.yaml` is `teff run -f flow.yaml`.
        if args and args[0].split("=")[0] in ("-f", "--file"):
            args = ["run", *args]
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0].endswith((".yaml", ".yml")):
            ctx.fail(f"there is no command {args[0]!r} (to run the file: teff run {args[0]})")
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}.{suggest(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from teff.cli.version import command

        ctx.invoke(command)
        ctx.exit()


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Print the version.",
)
def app() -> None:
    """Run workflows and agents that are written in YAML.

    `teff -f FILE` is short for `teff run -f FILE`.
    """


def run_app(argv: Sequence[str] | None) -> int:
    """Run a command, and turn everything that can go wrong into one message and an exit code."""
    if argv is None and isinstance(sys.stdout, io.TextIOWrapper):
        # Models write what a terminal may have no sign for; that must not end a run.
        sys.stdout.reconfigure(errors="backslashreplace")
    code = _run(argv)
    if argv is None and (code == INTERRUPTED or (code == PAUSED and threads_to_wait_for())):
        _end_at_once(code)
    return code


def _end_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads and models that are still at work.

    What was recorded and shown is complete by now, and a second Ctrl-C finds nothing to disturb.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:
        show_error("standard output cannot be written: it is closed.")
        return FAILED
    try:
        code: Any = app.main(
            args=arguments, prog_name="teff", standalone_mode=False, obj=argv is None
        )
        sys.stdout.flush()
    except click.ClickException as error:
        show_error(_usage(error))
        if _wants_report(arguments):
            from teff.cli.report import wrong_use_report

            click.echo(wrong_use_report(_usage(error)))
        return WRONG_USE
    except (KeyboardInterrupt, click.Abort):
        show_error("interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        _leave_pipe()
        return FAILED
    except OSError as error:
        if error.filename is not None:  # only what is open already has no name here
            raise
        show_error(f"standard output cannot be written: {error.strerror}.")
        _leave_pipe()
        return FAILED
    except TeffError as error:
        show_error(str(error))
        return FAILED if isinstance(error, CheckpointError) else WRONG_USE
    return code if isinstance(code, int) else FINISHED


def _wants_report(arguments: Sequence[str]) -> bool:
    """Whether arguments that could not be read ask for the JSON object of ``teff run``."""
    command = arguments[0].split("=")[0] if arguments else ""
    return command in ("run", "resume", "-f", "--file") and "--json" in arguments


def _leave_pipe() -> None:
    """Let what is still buffered go nowhere: it cannot be written."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)


def _usage(error: click.ClickException) -> str:
    message = error.format_message()
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message = f"{error.ctx.command_path}: {message[:1].lower()}{message[1:]}"
        if not message.endswith(("?", ")")):
            message = f"{message.rstrip('.')}. See: {error.ctx.command_path} --help"
    return message
