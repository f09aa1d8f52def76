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
from teff.tool.threads import run_in_thread

__all__ = ["JSON_OBJECT", "Answer", "StructuredOutput", "settle"]

#: The schema of any JSON object; what servers call their JSON mode.
JSON_OBJECT: Mapping[str, Any] = {"type": "object"}

#: Of these one at least is in a schema that says anything.
_KEYWORDS_OF_ALL_DRAFTS = """
$ref $dynamicRef $recursiveRef $schema $defs $id $comment definitions type enum const allOf
anyOf oneOf not if then else properties patternProperties additionalProperties propertyNames
required minProperties maxProperties dependencies dependentRequired dependentSchemas items
prefixItems additionalItems unevaluatedItems unevaluatedProperties contains minContains
maxContains minItems maxItems uniqueItems minLength maxLength pattern format minimum maximum
exclusiveMinimum exclusiveMaximum multipleOf title description default examples
"""
_KEYWORDS = frozenset(_KEYWORDS_OF_ALL_DRAFTS.split())

#: How much of an answer that did not fit is shown to the model again.
_SHOWN_AGAIN = 4_000
#: A longer answer is not looked at; what was meant as a value is not that long.
_LONGEST = 4_000_000
#: From so many characters on an answer is read beside the event loop.
_LONG = 50_000

#: Why an answer that ended so is not whole.
_CUT = {
    "length": "the answer was cut off by its token limit",
    "content_filter": "the answer was cut off by a content filter",
}


@attrs.frozen(kw_only=True)
class Answer:
    """What a reply was read as.

    Attributes:
        value: what it says, where it has no problems.
        problems: what is wrong with it, one sentence each.
        text: what it says, without thinking.
    """

    value: Any = None
    problems: tuple[str, ...] = ()
    text: str = ""


class StructuredOutput:
    """What an answer has to be: JSON, of a schema or of any kind.

    It is strict: no value is made into one that fits. What is wrong is said of each place by name,
    so that a model can repair it.

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
                _check_keywords(json_schema)
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
        if self.schema == JSON_OBJECT:
            return "Give your final answer as a JSON object alone, without explanations or code fences."
        written = json.dumps(self.schema, ensure_ascii=False)
        return (
            "Give your final answer as JSON alone, without explanations or code fences. "
            f"It must fit this JSON Schema:\n{written}"
        )

    def read(self, reply: ChatReply) -> Answer:
        """Read a reply: thinking, code fences and text around are passed over.

        The first value that fits is taken; where none does, the problems are those of the longest.
        Without a schema the longest value is taken. A reply that was cut off by its token limit or
        a content filter has a problem whatever it says: nobody knows what would have followed. One
        of more than 4,000,000 characters is not looked at.
        """
        if reply.finish_reason in _CUT:
            return Answer(problems=(_CUT[reply.finish_reason],))
        if len(reply.text) > _LONGEST:
            return Answer(problems=(f"the answer is longer than {_LONGEST:,} characters",))
        found = find_json(reply.text)
        answer = self._first_that_fits(found) or Answer(problems=(_absence(reply, found),))
        return attrs.evolve(answer, text=found.answer)

    def _first_that_fits(self, found: Found) -> Answer | None:
        candidates = self._candidates(found)
        if self._validator is None:
            candidates = candidates[:1]
        told: dict[int, Answer] = {}
        for candidate in candidates:
            told[id(candidate)] = answer = self._check(candidate.value)
            if not answer.problems:
                return answer
        return told.get(id(found.longest)) or next(iter(told.values()), None)

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
    is_draft: bool = False,
    more_room: Callable[[], int | None] | None = None,
    next_model: Callable[[str], Awaitable[bool]] | None = None,
) -> tuple[Any, ChatReply]:
    """Return the value of an answer that fits and the reply that held it; ask again where need be.

    Each further question is told as a ``structured`` event, between the tokens of the two answers;
    it holds the conversation, the answer that did not fit, and what is wrong with it. Thinking is
    not sent back. A call of a tool in the answers is not carried out.

    An answer that was cut off by its token limit is never taken. Where ``more_room`` gives it room
    the same is asked once more; the event then holds ``max_tokens``. One that was cut off by a
    content filter is the last: what one service refuses is not handed to the next.

    Args:
        ctx: the step, for the events.
        wanted: what the answer has to be.
        reply: the first answer.
        messages: what it answered.
        ask: asks the model once more.
        max_retries: how often, at most; the same for each model.
        is_draft: whether tools were offered for the first answer, in place of its form. To ask for
            the form then is no retry.
        more_room: raises the token limit of the answers to come, and returns it; None where there
            is none to raise.
        next_model: has the next model asked from now on, told why; false where there is none. It is
            asked anew, without the answers of the one before.

    Raises:
        StructuredOutputError: no answer fits.
        TruncatedOutput: an answer was cut off, and there is no more room, or it was not enough.
    """
    asked, left, attempts = list(messages), max_retries + is_draft, 0
    while True:
        attempts += 1
        answer = await _read(wanted, reply)
        if not answer.problems:
            return answer.value, reply
        if reply.finish_reason == "content_filter":
            raise _failure(ctx, wanted, reply, answer, attempts)
        told: dict[str, Any] = {"errors": list(answer.problems), "attempt": attempts}
        is_cut = reply.finish_reason == "length"
        room = more_room() if is_cut and more_room is not None and left > 0 else None
        if room is not None:
            left -= 1
            told["max_tokens"] = room
        elif not is_cut and left > 0:
            left -= 1
            asked += _correction(answer)
        elif next_model is not None and await next_model("; ".join(answer.problems)):
            asked, left = list(messages), max_retries
        else:
            raise _failure(ctx, wanted, reply, answer, attempts)
        await ctx.emit("structured", told)
        reply = await ask(list(asked))


async def _read(wanted: StructuredOutput, reply: ChatReply) -> Answer:
    if len(reply.text) < _LONG:
        return wanted.read(reply)
    answer: Answer = await run_in_thread(wanted.read, {"reply": reply})
    return answer


def _failure(
    ctx: ExecContext, wanted: StructuredOutput, reply: ChatReply, answer: Answer, attempts: int
) -> StructuredOutputError | TruncatedOutput:
    if reply.finish_reason != "length":
        return StructuredOutputError(wanted.schema or {}, reply.text, answer.problems, attempts)
    return TruncatedOutput(
        f"node {ctx.node_id!r}: the answer was cut off by its token limit before it was whole. "
        "Raise max_tokens, or ask for less.",
        model=reply.model,
        partial=reply.text,
        permanent=True,
    )


def _check_keywords(schema: Mapping[str, Any]) -> None:
    """Refuse what would let every value pass, since no keyword of JSON Schema is in it."""
    if schema and not _KEYWORDS & schema.keys():
        raise ConfigError(
            f"holds no keyword of JSON Schema: {', '.join(map(str, schema))}.",
            hint="A map from field names to types is output_type.",
        )


def _correction(answer: Answer) -> list[Message]:
    """Return what is said after an answer: itself, and what is wrong with it."""
    listed = "\n".join(f"- {problem}" for problem in answer.problems)
    said = [assistant(_shortened(answer.text))] if answer.text else []
    question = user(
        f"Your answer does not fit:\n{listed}\n"
        "Answer again, with the whole corrected JSON and nothing else."
    )
    return [*said, question]


def _absence(reply: ChatReply, found: Found) -> str:
    """Say what a reply without a value is."""
    if found.answer:
        because = f" ({found.reason})" if found.reason else ""
        return f"the answer holds no whole JSON value{because}"
    return (
        "the answer calls a tool, and none is offered"
        if reply.tool_calls
        else "the answer is empty"
    )


def _shortened(text: str) -> str:
    half = _SHOWN_AGAIN // 2
    return text if len(text) <= _SHOWN_AGAIN else f"{text[:half]}\n…\n{text[-half:]}"


def _sentence(problem: Problem) -> str:
    return f"{problem.path} {problem.text}{problem.hint}".strip()
