"""Open questions: what a pause asks, and how answers find it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from teff.errors import ConfigError, suggest
from teff.schema.validate import SchemaValidator
from teff.state import thaw

__all__ = ["Question", "checked_choices", "checked_schema", "match_answers"]


@attrs.frozen(kw_only=True)
class Question:
    """What a run that paused wants to know.

    Attributes:
        id: unique within the run: the path of the step, and the key.
        key: the name that the node gave it.
        prompt: the text for a person.
        path, node_id: where it was asked.
        choices: the only answers it takes, or None for any.
        schema: a JSON Schema of the answer, or None.
    """

    id: str
    key: str
    prompt: str = ""
    path: str = ""
    node_id: str = ""
    choices: Sequence[Any] | None = None
    schema: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored and shown to programs."""
        data: dict[str, Any] = thaw(attrs.asdict(self, recurse=False))
        if self.choices is not None:
            data["choices"] = list(self.choices)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Question:
        """Read what `to_json` gave."""
        return cls(**data)

    def check(self, answer: object) -> None:
        """Refuse an answer that is none of the choices, or does not fit the schema.

        Raises:
            ConfigError: naming the key, and what is expected.
        """
        if self.schema is not None:
            problems = SchemaValidator(self.schema, what=f"answer to {self.key!r}").problems(answer)
            if problems:
                raise ConfigError(
                    f"{answer!r} is no answer to {self.key!r}: {'; '.join(problems)}",
                    path=self.key,
                )
        if self.choices is not None and not any(
            type(answer) is type(choice) and answer == choice for choice in self.choices
        ):
            raise ConfigError(
                f"{answer!r} is no answer to {self.key!r}; "
                f"choose one of: {', '.join(map(str, self.choices))}.",
                path=self.key,
            )


def checked_choices(choices: Iterable[Any] | None) -> tuple[Any, ...] | None:
    """Return choices as a tuple.

    Raises:
        ConfigError: they are one text, which would be taken apart into letters.
    """
    if isinstance(choices, str):
        raise ConfigError(f"choices must be a list of answers, not the text {choices!r}.")
    return None if choices is None else tuple(choices)


def checked_schema(schema: Mapping[str, Any] | None, key: str) -> Mapping[str, Any] | None:
    """Return the schema of an answer; one that no answer could be held against is refused now.

    Raises:
        ConfigError: it is no JSON Schema.
    """
    if schema is not None:
        SchemaValidator(schema, what=f"the schema of {key!r}")
    return schema


def match_answers(resume: object, questions: Sequence[Question]) -> dict[str, Any]:
    """Return the answers in ``resume`` by the ids of the questions they belong to.

    A mapping answers by key or by id, some of the questions or all. Any other value, a falsy one
    too, answers the one question that is open.

    Raises:
        ConfigError: a key that nobody asked for, a bare value where several questions are open, a
            key that several of them share, a question that is answered both by its key and its id,
            or an answer that a question does not take.
    """
    by_id = {question.id: question for question in questions}
    if not isinstance(resume, Mapping):
        if len(questions) != 1:
            ids = ", ".join(by_id) or "none"
            raise ConfigError(
                f"{len(questions)} questions are open; answer by id: resume={{id: answer}} "
                f"with the ids {ids}."
            )
        questions[0].check(resume)
        return {questions[0].id: resume}
    answers: dict[str, Any] = {}
    for name, answer in resume.items():
        question = by_id.get(name) or _by_key(name, questions)
        if question.id in answers:
            raise ConfigError(
                f"{question.key!r} is answered twice, by its key and by its id.", path=question.key
            )
        question.check(answer)
        answers[question.id] = answer
    return answers


def _by_key(key: str, questions: Sequence[Question]) -> Question:
    asked = [question for question in questions if question.key == key]
    if len(asked) > 1:
        ids = ", ".join(question.id for question in asked)
        raise ConfigError(f"several open questions have the key {key!r}; answer by id: {ids}.")
    if not asked:
        known = [question.key for question in questions] + [question.id for question in questions]
        open_now = ", ".join(dict.fromkeys(known)) or "none"
        raise ConfigError(
            f"nobody asked for {key!r}. Open questions: {open_now}.",
            path=str(key),
            hint=suggest(str(key), known).strip() if len(known) > 12 else "",
        )
    return asked[0]
