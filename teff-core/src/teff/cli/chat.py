"""``teff chat``: a conversation with a workflow, line by line."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

import click

from teff.checkpoint import Checkpointer, MemoryCheckpointer
from teff.cli.answers import read_answer
from teff.cli.check_run import require_no_errors
from teff.cli.ending import exit_code, sentence
from teff.cli.execute import Executor
from teff.cli.exit_codes import FINISHED, INTERRUPTED, PAUSED
from teff.cli.files import one_file, takes_file
from teff.cli.inputs import read_input, read_state
from teff.cli.live import Live, outermost
from teff.cli.messages import say, show_error
from teff.cli.run_options import read_run_options, takes_run_options, takes_state
from teff.cli.stores import OpenStore, open_store, takes_store
from teff.errors import ConfigError, GraphInterrupt
from teff.graph import RunOptions, TurnResult
from teff.prompt import to_text
from teff.runtime import Listener, Question, new_run_id
from teff.workflow import Workflow, load

__all__ = ["command"]

_PROMPT = "> "


@click.command("chat")
@takes_file
@takes_state
@takes_run_options
@click.option(
    "--checkpoint-id", metavar="ID", help="Record the chat under this id, so that it goes on later."
)
@takes_store
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where a turn failed.")
@click.pass_context
def command(ctx: click.Context, /, argument: str | None, option: str | None, **given: Any) -> int:
    """Talk with the workflow in FILE: each line of standard input is a message.

    Answers and questions go to standard output, everything else to standard error. While a question
    is open, the next line is its answer. The chat ends with the input (Ctrl-D). Limits count for one
    message. Ends with the exit code of the last turn, as `teff run` has them: 3 when a question is
    open.
    """
    file = one_file(argument, option)
    if given["checkpoint"] is not None and given["checkpoint_id"] is None:
        raise click.UsageError("--checkpoint needs --checkpoint-id, the id of the chat.")
    workflow = load(file)
    state = {**read_state(given["state_file"]), **dict(map(read_input, given["inputs"]))}
    options = read_run_options(workflow, given)
    require_no_errors(workflow, state, provider=given["provider"], model=given["model"])
    with Executor(wait_for_threads=not ctx.find_root().obj) as executor, ExitStack() as stack:
        store: Checkpointer = MemoryCheckpointer()
        opened: OpenStore | None = None
        if given["checkpoint_id"] is not None:
            opened = stack.enter_context(
                open_store(workflow, given["checkpoint"], create=True, runner=executor.runner)
            )
            store = opened.store
        chat = _Chat(
            workflow,
            executor,
            store=store,
            chat_id=given["checkpoint_id"] or new_run_id(),
            state=state,
            options=options,
            show_traceback=given["show_traceback"],
        )
        code = chat.talk()
        if opened is not None and code in (INTERRUPTED, PAUSED):
            arguments = ["--checkpoint-id", given["checkpoint_id"]]
            if "-f" not in opened.options:
                arguments.insert(0, str(workflow.path))
            say(f"go on with: {opened.command('chat', *arguments)}")
        return code


class _Chat:
    """A conversation on standard input and output."""

    def __init__(
        self,
        workflow: Workflow,
        executor: Executor,
        *,
        store: Checkpointer,
        chat_id: str,
        state: Mapping[str, Any],
        options: RunOptions,
        show_traceback: bool,
    ) -> None:
        self._workflow = workflow
        self._executor = executor
        self._store = store
        self._id = chat_id
        self._state = state
        self._options = options
        self._show_traceback = show_traceback
        self._question: Question | None = None

    def talk(self) -> int:
        """Take turns until the input ends; return the exit code.

        Raises:
            OSError: standard output cannot be written.
        """
        self._question = self._pending()
        if self._question is not None:
            _show_question(self._question)
        code = FINISHED if self._question is None else PAUSED
        try:
            for line in _lines():
                if line.strip():
                    code = self._turn(line)
                if code == INTERRUPTED or (code == PAUSED and self._question is None):
                    return code  # the process is to end
        except KeyboardInterrupt:
            say()
            return INTERRUPTED
        return code

    def _turn(self, line: str) -> int:
        """Take one turn, and show what comes of it."""
        live = Live()
        results: list[TurnResult] = []
        message = line if self._question is None else read_answer(self._question, line)

        async def turn(hear: Listener) -> None:
            options: Any = {**self._options, "emit": hear}
            results.append(
                await self._workflow.turn(
                    message,
                    checkpoint_id=self._id,
                    checkpointer=self._store,
                    state=self._state,
                    **options,
                )
            )

        def begin(hear: Listener) -> Awaitable[object]:
            return turn(hear)

        is_recorded = not isinstance(self._store, MemoryCheckpointer)
        error = self._executor.execute(begin, live, is_recorded=is_recorded)
        if live.output_error is not None:
            raise live.output_error
        live.end_line()
        if results:
            self._show(results[0], live)
            error = GraphInterrupt("") if results[0].waiting else None
        elif isinstance(error, KeyboardInterrupt):
            self._question = None
            say("interrupted.")
        elif error is not None:
            self._show_failure(error, live)
        return exit_code(live, error, is_recorded=is_recorded)

    def _show(self, result: TurnResult, live: Live) -> None:
        answer = _answer(result, live)
        if answer and not live.streamed.rstrip().endswith(answer.rstrip()):
            live.answer(answer)
        self._question = self._pending() if result.waiting else None
        if self._question is not None:
            _show_question(self._question)
        elif not answer and not live.streamed:
            say(f"no answer ({result.stop_reason})")
        if live.end.get("status") == "stopped" and result.stop_reason != "command_stop":
            say(f"stopped: {result.stop_reason}")

    def _show_failure(self, error: BaseException, live: Live) -> None:
        place = ""
        if live.failed_path:
            found = self._workflow.place_of(outermost(live.failed_path))
            place = ":".join(str(part) for part in found if part)
        show_error(self._workflow.hide(sentence(error, live, place)))
        if self._show_traceback:
            say(self._workflow.hide("".join(traceback.format_exception(error))))
        if not isinstance(error, ConfigError):
            say("the same message again goes on with this turn; another one begins the next.")

    def _pending(self) -> Question | None:
        asked = self._workflow.graph.pending(self._id, checkpointer=self._store)
        return self._executor.runner.run(asked)


def _answer(result: TurnResult, live: Live) -> str:
    """Return what a turn says: its reply, else ``output``, else the one key that was written last."""
    if result.reply:
        return result.reply
    if "output" in live.written:
        return to_text(result.state.get("output"))
    keys = [key for key in live.last_written if not key.startswith("_") and key != "messages"]
    return to_text(result.state.get(keys[0])) if len(keys) == 1 and not result.waiting else ""


def _show_question(question: Question) -> None:
    """Show what is asked; it is a part of the conversation."""
    choices = f" ({', '.join(map(to_text, question.choices))})" if question.choices else ""
    live = Live()
    live.answer(f"{question.prompt or question.key}{choices}")
    if live.output_error is not None:
        raise live.output_error


def _lines() -> Iterator[str]:
    """Give the lines of standard input, without their ends; a terminal is asked for each.

    Raises:
        click.UsageError: standard input is closed.
    """
    if sys.stdin is None:
        raise click.UsageError("standard input is closed; each of its lines is a message.")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        for line in sys.stdin:
            yield line.rstrip("\r\n")
        return
    with suppress(ImportError):
        import readline  # noqa: F401  # lets people edit their lines
    while True:
        try:
            yield input(_PROMPT)
        except EOFError:
            click.echo()
            return
