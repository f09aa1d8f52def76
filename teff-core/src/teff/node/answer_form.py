"""`AnswerForm`: what the options of a node say of the form of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs

from teff.errors import ConfigError, suggest
from teff.harness import JSON_OBJECT, Asking, Harness, StructuredOutput, TokenCallback, settle
from teff.messages import Message
from teff.provider import ChatReply
from teff.runtime import ExecContext

__all__ = ["AnswerForm", "ResponseFormat"]

#: The value of the option ``response_format``; see `AnswerForm.of`.
ResponseFormat = str | Mapping[str, Any] | None


@attrs.frozen(kw_only=True)
class AnswerForm:
    """How an answer is asked for, and what is kept of it.

    Attributes:
        wanted: what it has to be; None takes any text.
        schema: what the provider is told of it.
        options: the same in the provider's own words.
        as_text: whether the JSON value is kept as text.
    """

    wanted: StructuredOutput | None = None
    schema: Mapping[str, Any] | None = None
    options: Mapping[str, Any] | None = None
    as_text: bool = False

    @classmethod
    def of(
        cls,
        response_format: ResponseFormat = None,
        *,
        json_schema: Mapping[str, Any] | None = None,
        output_type: Any = None,
        parse: bool = False,
        response_path: str = "",
        what: str = "",
    ) -> Self:
        """Read the options of a node.

        Args:
            response_format: ``"json"``, or ``{"type": "json_object"}``: the answer is a JSON object,
                and the provider is told no more of it. ``{"type": "json_schema", "json_schema":
                {"schema": …}}`` is the schema in it, as ``json_schema``. Another mapping is sent as
                it is, in place of the schema.
            json_schema, output_type, response_path: see `StructuredOutput.of`.
            parse: whether the answer is read as JSON.
            what: whose options they are, to begin a message with.

        Raises:
            ConfigError: one of them is wrong, or two say different things; ``path`` names it.
        """
        try:
            return cls._of(response_format, json_schema, output_type, parse, response_path)
        except ConfigError as error:
            told = f"{what}: {error.message}" if what else error.message
            raise ConfigError(told, path=error.path, hint=error.hint) from error

    @classmethod
    def _of(
        cls,
        response_format: ResponseFormat,
        json_schema: Mapping[str, Any] | None,
        output_type: Any,
        parse: bool,
        response_path: str,
    ) -> Self:
        given, sent = _read(response_format)
        if given is not None and given != JSON_OBJECT:
            if json_schema is not None or output_type is not None:
                raise ConfigError(
                    "response_format holds a schema: give no json_schema or output_type beside it.",
                    path="response_format",
                )
            json_schema = given
        has_schema = json_schema is not None or output_type is not None
        as_text = given == JSON_OBJECT and not (has_schema or parse or response_path)
        if given == JSON_OBJECT and not has_schema:
            json_schema = JSON_OBJECT
        wanted = None
        if json_schema is not None or output_type is not None or parse or response_path:
            wanted = StructuredOutput.of(
                json_schema=json_schema, output_type=output_type, response_path=response_path
            )
        schema: Mapping[str, Any] | None = None
        if wanted is not None and sent is None:
            schema = wanted.schema
        if given == JSON_OBJECT:
            schema = _object_for(schema)
        return cls(wanted=wanted, schema=schema, options=sent, as_text=as_text)

    @property
    def instruction(self) -> str:
        """What the model is told, for the system text, or ""."""
        return self.wanted.instruction if self.wanted is not None else ""

    def asking(
        self,
        ctx: ExecContext,
        harness: Harness,
        *,
        stream: bool = False,
        on_token: TokenCallback | None = None,
    ) -> Asking:
        """Return what asks for such an answer.

        Answers that have to fit are not shown piece by piece, unless ``on_token`` wants them: what
        does not fit is asked for again.
        """
        return Asking(
            ctx,
            harness,
            json_schema=self.schema,
            options=self.options,
            stream=stream,
            show=self.wanted is None or on_token is not None,
            on_token=on_token,
        )

    async def settle(
        self,
        ctx: ExecContext,
        asking: Asking,
        reply: ChatReply,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        max_retries: int,
        is_draft: bool,
    ) -> tuple[Any, ChatReply]:
        """Return what is kept of the answer, and the reply that held it; see `teff.harness.settle`.

        Without a schema an answer is not asked for again.
        """
        if self.wanted is None:
            return reply.text, reply
        again = self.wanted.schema is not None
        value, reply = await settle(
            ctx,
            self.wanted,
            reply,
            messages,
            ask=asking.ask,
            max_retries=max_retries if again else 0,
            is_draft=is_draft and again,
            more_room=asking.more_room,
            next_model=asking.next_model,
        )
        return json.dumps(value, ensure_ascii=False) if self.as_text else value, reply


def _read(
    response_format: ResponseFormat,
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Return the schema that ``response_format`` means, or what is sent as it is."""
    if response_format is None:
        return None, None
    if not isinstance(response_format, Mapping):
        if response_format == "json":
            return JSON_OBJECT, None
        raise ConfigError(
            f"option 'response_format' must be 'json' or a mapping, not {response_format!r}.",
            path="response_format",
        )
    kind = response_format.get("type")
    if kind == "json_object":
        return JSON_OBJECT, None
    if kind != "json_schema":
        meant = suggest(str(kind or ""), ["json_object", "json_schema"])
        if kind is None or "Did you mean" in meant:
            raise ConfigError(
                f"option 'response_format' has {'no type' if kind is None else f'type {kind!r}'}."
                f"{meant}",
                path="response_format",
            )
        return None, {"response_format": response_format}
    described = response_format.get("json_schema")
    schema = described.get("schema") if isinstance(described, Mapping) else None
    if not isinstance(schema, Mapping):
        raise ConfigError(
            "option 'response_format' holds no schema.",
            hint='Write {"type": "json_schema", "json_schema": {"schema": {…}}}, or json_schema.',
            path="response_format",
        )
    return schema, None


def _object_for(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    kind = (schema or {}).get("type", "object")
    if kind != "object" and "object" not in kind:
        raise ConfigError(
            f"option 'response_format' asks for an object, and the schema for {kind!r}: "
            "leave response_format out.",
            path="response_format",
        )
    return dict(JSON_OBJECT)
