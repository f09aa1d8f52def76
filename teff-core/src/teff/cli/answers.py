"""Answers to questions, as they are written on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from teff.cli.inputs import read_value
from teff.cli.messages import harmless, in_color, say
from teff.errors import ConfigError
from teff.prompt import to_text
from teff.runtime import Question

__all__ = ["answer_options", "read_answer", "read_answers", "show_questions"]


def read_answers(
    given: Sequence[str], questions: Sequence[Question], answered: Iterable[Question] = ()
) -> Any:
    """Return what was given with ``--answer``, as ``resume=`` takes it.

    ``KEY=VALUE`` and ``ID=VALUE`` answer one question; a value alone answers the one that is open.

    Args:
        given: the texts.
        questions: what is open.
        answered: what was answered before; the same answer again does no harm.

    Raises:
        ConfigError: a question is answered twice, or nobody knows which one is meant.
    """
    known = {}
    for asked in (*answered, *questions):  # an open question wins over an earlier one of its key
        known[asked.key] = known[asked.id] = asked
    answers: dict[str, Any] = {}
    for text in given:
        name = _name(text, known)
        if name is None:
            if len(given) == 1 and len(questions) == 1 and "=" not in text:
                return read_answer(questions[0], text)
            name = text.partition("=")[0]
        if "=" not in text:
            raise ConfigError(f"--answer {text!r} is not KEY=VALUE.", hint=_open(questions))
        if name in answers:
            raise ConfigError(f"--answer {name}=… is given twice.")
        value = text[len(name) + 1 :]
        asked_for = known.get(name)
        answers[name] = read_value(value) if asked_for is None else read_answer(asked_for, value)
    return answers


def _name(text: str, known: Iterable[str]) -> str | None:
    """Return the key or the id that a text begins with: those may have an ``=`` in them."""
    return max((name for name in known if text.startswith(f"{name}=")), key=len, default=None)


def _open(questions: Sequence[Question]) -> str:
    if not questions:
        return "No question is open."
    return f"Open questions: {', '.join(asked.id for asked in questions)}."


def read_answer(question: Question, text: str) -> Any:
    """Return what a text means as the answer to a question.

    It is the choice that it names, whatever its capitals; else JSON, or else text. Where the question
    does not take what the JSON says but takes the text, it is the text: ``42`` for a name.
    """
    said = text.strip().casefold()
    for choice in question.choices or ():
        if to_text(choice).strip().casefold() == said:
            return choice
    value = read_value(text)
    if not isinstance(value, str) and not _takes(question, value) and _takes(question, text):
        return text
    return value


def _takes(question: Question, answer: object) -> bool:
    try:
        question.check(answer)
    except ConfigError:
        return False
    return True


def show_questions(questions: Sequence[Question], *, with_ids: bool) -> None:
    """Show what is asked, on standard error: key, prompt, choices, and the ids if asked to."""
    for asked in questions:
        choices = f" ({', '.join(map(to_text, asked.choices))})" if asked.choices else ""
        which = in_color(f"  [{asked.id}]", dim=True) if with_ids else ""
        say(f"{in_color(f'? {asked.key}', bold=True)}: {harmless(asked.prompt + choices)}{which}")
        if asked.schema is not None:
            schema = json.dumps(asked.schema, ensure_ascii=False, default=dict)
            say(f"    an answer must fit: {harmless(schema)}")


def answer_options(questions: Sequence[Question]) -> list[str]:
    """Return the options that answer all open questions, with ``…`` for the answers."""
    keys = [asked.key for asked in questions]
    names = [asked.key if keys.count(asked.key) == 1 else asked.id for asked in questions]
    return [part for name in names for part in ("--answer", f"{name}=…")]
