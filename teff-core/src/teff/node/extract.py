"""`Extract`: a recipe for taking fields out of a text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, Self

import attrs

from teff.errors import ConfigError, suggest
from teff.node.base import Node
from teff.node.fallback import Fallback
from teff.node.llm import LLM
from teff.schema.shape import shape_of

__all__ = ["Extract"]


@attrs.define
class Extract:
    """A model that extracts a dict, and what fills the fields that it leaves empty.

    It is no node: `nodes` gives the nodes, to be put one after the other.

    >>> extract = Extract.model(schema={"city": "string", "country": "string"}, id="place")
    >>> extract.fallback("country", value="Latvia").fallback("city", lambda state: state["home"])
    <Extract 'place' with 2 fallbacks>
    >>> [node.id for node in extract.nodes()]
    ['place', 'place-fallback-1', 'place-fallback-2']

    Attributes:
        id: of the node that asks the model; those of the fallbacks begin with it.
        output_key: where the dict is.
    """

    id: str
    output_key: str
    _options: dict[str, Any]
    _fallbacks: list[Fallback] = attrs.field(factory=list, init=False)

    @classmethod
    def model(
        cls,
        *,
        schema: Any,
        system: str = "",
        model: str = "",
        provider: str = "",
        prompt: str = "",
        input_key: str = "",
        output_key: str = "output",
        id: str = "extract",
        **options: Any,
    ) -> Self:
        """Return a recipe that asks a model.

        Args:
            schema: what is extracted: a JSON Schema, a type, or a map of fields; as the options
                ``json_schema`` and ``output_type`` of `LLM`.
            system: what the model is told; a template.
            model, provider: as for `LLM`.
            prompt: a template for the question.
            input_key: the state key of the text; ``input`` where neither it nor a ``prompt`` nor
                ``messages_key`` is given.
            output_key: the state key of the result.
            id: of the node.
            options: more options of `LLM`.

        Raises:
            ConfigError: an unknown option, or a value that does not fit.
        """
        if not (input_key or prompt or options.get("messages_key")):
            input_key = "input"
        options |= {"json_schema" if _is_json_schema(schema) else "output_type": schema}
        options |= {"system": system, "model": model, "provider": provider}
        options |= {"prompt": prompt, "input_key": input_key, "output_key": output_key}
        made = cls(id, output_key, options)
        made.llm()  # refuses wrong options here, and not where the nodes are asked for
        return made

    def fallback(
        self, field: str, fn: Callable[..., Any] | None = None, *, value: Any = None
    ) -> Self:
        """Add what fills a field that the model left empty; return this recipe.

        In a JSON Schema and in a map of fields the field may then be left out, or be null.

        Args:
            field: the field.
            fn: a function ``(state)`` that gives the value, plain or async.
            value: the value itself in place of ``fn``; a text is a template.

        Raises:
            ConfigError: not one of ``fn`` and ``value`` is given, or the field is misspelt.
        """
        properties = (self._schema() or {}).get("properties", {})
        # Any other field is one that the fallback adds.
        if field not in properties and get_close_matches(field, properties, cutoff=0.8):
            raise ConfigError(
                f"extract {self.id!r}: the fallback of {field!r} is for no field of the schema.",
                path=f"fallbacks.{field}",
                hint=suggest(field, properties).strip(),
            )
        number = len(self._fallbacks) + 1
        self._fallbacks.append(
            Fallback(
                id=f"{self.id}-fallback-{number}",
                input_key=self.output_key,
                field=field,
                fn=fn,
                value=value,
            )
        )
        return self

    def llm(self) -> LLM:
        """Return the node that asks the model."""
        options = dict(self._options)
        schema = self._schema()
        if schema is not None and self._fallbacks:
            options.pop("output_type", None)
            options["json_schema"] = _loosened(schema, {one.field for one in self._fallbacks})
        return LLM(options, id=self.id)

    def nodes(self) -> list[Node]:
        """Return the node that asks the model, and after it those that fill fields, with ids."""
        return [self.llm(), *self._fallbacks]

    def _schema(self) -> Mapping[str, Any] | None:
        """Return the JSON Schema of what is extracted; None for a type of Python."""
        fields = self._options.get("output_type")
        if isinstance(fields, Mapping):
            return shape_of(fields).schema
        schema: Mapping[str, Any] | None = self._options.get("json_schema")
        return schema

    def __repr__(self) -> str:
        return f"<Extract {self.id!r} with {len(self._fallbacks)} fallbacks>"


def _loosened(schema: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Return ``schema`` where some fields may be missing, or null."""
    properties = {
        name: {"anyOf": [written, {"type": "null"}]} if name in fields else written
        for name, written in schema.get("properties", {}).items()
    }
    required = [name for name in schema.get("required", ()) if name not in fields]
    return {**schema, "properties": properties, "required": required}


def _is_json_schema(schema: Any) -> bool:
    """Whether it is certainly a JSON Schema, and no map of fields."""
    if not isinstance(schema, Mapping):
        return False
    return isinstance(schema.get("properties"), Mapping) or "$schema" in schema
