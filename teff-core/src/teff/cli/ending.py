"""How a run ended, for people: the answer, what is asked, what went wrong, and how far it came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from teff.cli.answers import show_questions
from teff.cli.draining import Terminated
from teff.cli.exit_codes import FAILED, FINISHED, INTERRUPTED, PAUSED, STOPPED, WRONG_USE
from teff.cli.live import Live
from teff.cli.messages import say, show_error
from teff.errors import (
    ConfigError,
    GraphChanged,
    GraphInterrupt,
    PluginError,
    ProviderError,
    RunFinished,
    TeffError,
)
from teff.messages import last_assistant_message
from teff.prompt import to_text

__all__ = ["answer_of", "exit_code", "sentence", "show_end", "summary"]

_NOT_RECORDED = (
    "this run was not recorded, so it cannot go on: run it with --checkpoint-id to answer later."
)


def exit_code(live: Live, error: BaseException | None, *, is_recorded: bool = False) -> int:
    """Return the exit code for a run that was shown by ``live`` and raised ``error``, if anything.

    One that the system ended waits to go on, where it is recorded.
    """
    match error:
        case None if live.end.get("status") == "stopped":
            return FINISHED if live.end["stop_reason"] == "command_stop" else STOPPED
        case None:
            return FINISHED
        case GraphInterrupt():
            return PAUSED
        case Terminated() if is_recorded:
            return PAUSED
        case KeyboardInterrupt():
            return INTERRUPTED
        case ConfigError() | PluginError() | GraphChanged() | RunFinished():
            return WRONG_USE
        case ProviderError(status=404):  # the model, or the address, is not there
            return WRONG_USE
    return FAILED


def sentence(error: BaseException, live: Live, place: str) -> str:
    """Say what went wrong and where, without a traceback.

    Errors of Teff speak for themselves; of others the type says more than the words.

    Args:
        error: what the run raised.
        live: what was heard of the run.
        place: where the step stands that failed, as ``flow.yaml:7:5``, or "".
    """
    if isinstance(error, TeffError):
        words = str(error)
    else:
        name = f"{type(error).__name__}: {error}".rstrip(": ")
        words = f"{name}. To see where, run it with --traceback."
    if live.failed_node and repr(live.failed_node) not in words:
        words = f"in node {live.failed_node!r}: {words}"
    return f"{place}: {words}" if place and getattr(error, "line", None) is None else words


def show_end(
    live: Live,
    error: BaseException | None,
    *,
    place: str,
    hide: Callable[[str], str],
    show_answer: bool,
    go_on: str = "",
) -> None:
    """Say how a run ended.

    Args:
        live: what was shown of it.
        error: what it raised, or None.
        place: where the step stands that failed, or "".
        hide: takes out of a message what nobody may see.
        show_answer: whether an answer that did not come piece by piece goes to standard output.
        go_on: the command that goes on with the run, or "" where there is none.
    """
    live.end_line()
    how_far = summary(live)
    match error:
        case None:
            if show_answer:
                _show_answer(live)
            say(f"{live.end['status']}: {live.end['stop_reason']} · {how_far}")
        case GraphInterrupt():
            show_questions(error.interrupts, with_ids=bool(go_on))
            keys = ", ".join(dict.fromkeys(question.key for question in error.interrupts))
            say(f"paused: waiting for {keys} · {how_far}")
            if not go_on:
                say(_NOT_RECORDED)
        case KeyboardInterrupt():
            node = f" · last node {live.last_node!r}" if live.last_node else ""
            how = "told to end" if isinstance(error, Terminated) else "interrupted"
            say(f"{how} after {summary(live, always_steps=True)}{node}")
        case _:
            show_error(hide(sentence(error, live, place)))
            if live.steps:
                say(f"failed: {how_far}")
    if go_on:
        say(f"go on with: {go_on}")


def summary(live: Live, *, always_steps: bool = False) -> str:
    """Say how far a run came: rounds or else steps, model calls, tokens, seconds.

    What ``run_end`` counted is used where it came; it knows of retried calls too.

    Args:
        live: what was heard of the run.
        always_steps: whether steps are counted beside rounds.
    """
    usage = live.end.get("usage")
    steps = live.end.get("steps", live.steps)
    calls = usage.model_calls if usage is not None else live.model_calls
    parts = [_count(live.rounds, "round")] if live.rounds else []
    if always_steps or not live.rounds:
        parts.append(_count(steps, "step"))
    if calls:
        parts.append(_count(calls, "model call"))
    if usage is not None and usage.total_tokens:
        parts.append(_count(usage.total_tokens, "token"))
    return " · ".join([*parts, f"{live.seconds:.1f} s"])


def answer_of(live: Live) -> str:
    """Return what a finished run has to say beside what it has shown already, or "".

    The reply that ends ``messages``, where the run has added to them; else ``output``; else, where
    nothing was shown piece by piece, the one key that the last node wrote.
    """
    state = live.end["state"]
    messages = state.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    answer = ""
    if "messages" in live.written and isinstance(last, Mapping) and last.get("role") == "assistant":
        answer = last_assistant_message([last])
    answer = answer or to_text(state.get("output"))
    if not answer and not live.streamed:
        keys = _public(live.last_written)
        answer = to_text(state.get(keys[0])) if len(keys) == 1 else ""
    return "" if live.streamed.rstrip().endswith(answer.rstrip()) else answer


def _show_answer(live: Live) -> None:
    answer = answer_of(live)
    if answer:
        live.answer(answer)
    elif not live.streamed:
        wrote = ", ".join(_public(live.written))
        seen = f"{wrote} (see them with --json)" if wrote else "nothing"
        say(f"no answer under 'output'; the run wrote: {seen}")


def _public(keys: Iterable[str]) -> list[str]:
    """Return the keys that may hold an answer."""
    return [key for key in keys if not key.startswith("_") and key != "messages"]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
