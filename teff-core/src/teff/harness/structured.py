"""Structured output: an answer that is read as JSON, checked, and asked for again."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self

import attrs

from teff.errors import ConfigError, StructuredOutputError, TruncatedOutput
from teff.harness.json_reply import Candidate, Found, find_json
from teff.messages import Message, assistant, user
from teff.paths import MISSING, compile_path
from teff.provider import ChatReply
from teff.runtime import ExecContext
from teff.schema.problems import Misfit, Problem
from teff.schema.shape import shape_of
from teff.schema.validate import SchemaValidator

__all__ = ["Answer", "StructuredOutput", "settle"]

#: How much of an answer that did not fit is shown to the model again.
_SHOWN_AGAIN = 4_000


@attrs.frozen(kw_only=True)
class Answer:
    """What a reply was read as: ``value``, or the ``problems`` that it has."""

    value: Any = None
    problems: tuple[str, ...] = ()


class StructuredOutput:
    """What an answer has to be: JSON, of a schema or of any kind.

    >>> wanted = StructuredOutput.of(output_type={"city": "string", "days": "integer"})
    >>> wanted.read(ChatReply(text='Sure: {"city": "Riga", "days": 2}')).value
    {'city': 'Riga', 'days': 2}
    >>> wanted.read(ChatReply(text='{"city": "Riga"}')).problems
    ("'days' is a required property",)

    Args:
        validator: the schema; None takes any JSON value.
        read: turns a value that fits the schema into the one that is kept.
        response_path: the part of the value that is kept, as a path of `teff.paths`; "" for all.

    Raises:
        ConfigError: ``response_path`` is no path.
    """

    def __init__(
        self,
        validator: SchemaValidator | None = None,
        *,
        read: Callable[[Any], Any] | None = None,
        response_path: str = "",
    ) -> None:
        self._validator = validator
        self._read = read
        self._path = response_path
        self._follow = compile_path(response_path) if response_path else None

    @classmethod
    def of(
        cls,
        *,
        json_schema: Mapping[str, Any] | None = None,
        output_type: Any = None,
        response_path: str = "",
    ) -> Self:
        """Make one from a JSON Schema, or from what `shape_of` takes; without both, any JSON fits.

        Raises:
            ConfigError: both are given, one of them cannot be read, or the path; ``path`` is the
                name of the argument.
        """
        if json_schema is not None and output_type is not None:
            raise ConfigError(
                "give json_schema or output_type, not both.",
                path="output_type",
            )
        validator, read, at = None, None, "response_path"
        try:
            if json_schema is not None:
                at = "json_schema"
                validator = SchemaValidator(json_schema, what=at)
            elif output_type is not None:
                at = "output_type"
                shape = shape_of(output_type)
                validator, read = SchemaValidator(shape.schema, what=at), shape.read
            at = "response_path"
            return cls(validator, read=read, response_path=response_path)
        except ConfigError as error:
            told = error.message if error.message.startswith(at) else f"{at}: {error.message}"
            raise ConfigError(told, path=at, hint=error.hint) from error

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON Schema, or None where any value fits."""
        return self._validator.schema if self._validator is not None else None

    @property
    def instruction(self) -> str:
        """What a model is told of it, for the system text; "" where any value fits.

        It is said also where the provider enforces the schema: many of them hold the answer to its
        form without telling the model what the fields mean.
        """
        if self.schema is None:
            return ""
        written = json.dumps(self.schema, ensure_ascii=False)
        return (
            "Give your final answer as JSON alone, without explanations or code fences. "
            f"It must fit this JSON Schema:\n{written}"
        )

    def read(self, reply: ChatReply) -> Answer:
        """Read a reply: thinking, code fences and text around are passed over.

        The first value that fits is taken; where none does, the problems are those of the longest.
        Without a schema the longest value is taken. Of a reply that was cut off, only a value that
        is whole beyond doubt counts.
        """
        found = find_json(reply.text)
        candidates = self._candidates(found)
        if reply.finish_reason == "length":
            candidates = [] if found.unclosed else [c for c in candidates if not _is_number(c)]
        if self._validator is None:
            candidates = candidates[:1]
        problems: dict[int, tuple[str, ...]] = {}
        for candidate in candidates:
            answer = self._check(candidate.value)
            if not answer.problems:
                return answer
            problems[id(candidate)] = answer.problems
        if candidates:
            longest = found.longest
            told = problems.get(id(longest)) or next(iter(problems.values()))
            return Answer(problems=told)
        if not reply.text.strip():
            return Answer(problems=("the answer is empty",))
        because = f" ({found.reason})" if found.reason else ""
        return Answer(problems=(f"the answer holds no whole JSON value{because}",))

    def _candidates(self, found: Found) -> list[Candidate]:
        candidates = list(found.candidates)
        if self._validator is None:
            return sorted(candidates, key=lambda one: (not one.labelled, -one.size))
        word = found.text.strip("\"'`*. \n")
        if word in (self._validator.schema.get("enum") or ()):
            # Of a choice between words, the word alone is an answer.
            candidates.append(Candidate(value=word, size=0))
        return candidates

    def _check(self, value: Any) -> Answer:
        if self._validator is not None and (problems := self._validator.problems(value)):
            return Answer(problems=tuple(problems))
        if self._read is not None:
            try:
                value = self._read(value)
            except Misfit as misfit:
                return Answer(problems=tuple(map(_sentence, misfit.problems)))
        if self._follow is not None:
            part = self._follow(value) if isinstance(value, Mapping) else MISSING
            if part is MISSING:
                return Answer(problems=(f"there is nothing at {self._path!r}",))
            value = part
        return Answer(value=value)


async def settle(
    ctx: ExecContext,
    wanted: StructuredOutput,
    reply: ChatReply,
    messages: Sequence[Message | Mapping[str, Any]],
    *,
    ask: Callable[[list[Message | Mapping[str, Any]]], Awaitable[ChatReply]],
    max_retries: int,
) -> tuple[Any, ChatReply]:
    """Return the value of an answer that fits and the reply that held it; ask again where need be.

    Each further question is told as a ``structured`` event, between the tokens of the two answers;
    it holds the conversation, the answer that did not fit, and what is wrong with it. A call of a
    tool in the answers is not carried out.

    Args:
        ctx: the step, for the events.
        wanted: what the answer has to be.
        reply: the first answer.
        messages: what it answered.
        ask: asks the model once more.
        max_retries: how often, at most.

    Raises:
        StructuredOutputError: no answer fits.
        TruncatedOutput: an answer was cut off by the token limit before it was whole. It is not
            asked for again, since it would end at the same limit.
    """
    asked = list(messages)
    attempts = 1
    while True:
        answer = wanted.read(reply)
        if not answer.problems:
            return answer.value, reply
        if reply.finish_reason == "length":
            raise TruncatedOutput(
                f"node {ctx.node_id!r}: the answer was cut off by its token limit before it was "
                f"whole ({'; '.join(answer.problems)}). Raise max_tokens, or ask for less.",
                model=reply.model,
                partial=reply.text,
                permanent=True,
            )
        if attempts > max_retries:
            raise StructuredOutputError(wanted.schema or {}, reply.text, answer.problems, attempts)
        problems = list(answer.problems)
        await ctx.emit("structured", {"errors": problems, "attempt": attempts})
        if reply.text.strip():
            asked.append(assistant(_shortened(reply.text)))
        asked.append(user(_correction(problems)))
        reply = await ask(list(asked))
        attempts += 1


def _correction(problems: Sequence[str]) -> str:
    listed = "\n".join(f"- {problem}" for problem in problems)
    return (
        f"Your answer does not fit:\n{listed}\n"
        "Answer again, with the whole corrected JSON and nothing else."
    )


def _shortened(text: str) -> str:
    half = _SHOWN_AGAIN // 2
    return text if len(text) <= _SHOWN_AGAIN else f"{text[:half]}\n…\n{text[-half:]}"


def _sentence(problem: Problem) -> str:
    return f"{problem.path} {problem.text}{problem.hint}".strip()


def _is_number(candidate: Candidate) -> bool:
    return isinstance(candidate.value, int | float) and not isinstance(candidate.value, bool)
