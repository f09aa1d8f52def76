"""Arguments with templates in them, filled in for a tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from teff.paths import MISSING, compile_path
from teff.prompt import Template, compile_template, to_text
from teff.state import is_filled, thaw

__all__ = ["Arguments"]

_UNIONS: Final = ("anyOf", "oneOf")


@attrs.frozen
class _Value:
    """A template that is one placeholder and nothing else, for which the value itself stands."""

    template: Template
    path: str
    default: str | None

    def find(self, state: Mapping[str, Any]) -> Any:
        """Return the value, or its default, or `MISSING`."""
        found = compile_path(self.path)(state)
        if self.default is not None and (found is MISSING or not is_filled(found)):
            return self.default
        return found


class Arguments:
    """What a tool is to be called with: texts are templates, at any depth.

    >>> Arguments({"to": "{user.name}", "items": "{cart}"}).fill({"user": {"name": "Bo"}, "cart": [3]})
    {'to': 'Bo', 'items': [3]}
    """

    def __init__(self, written: Mapping[str, Any]) -> None:
        self._parts = {name: _compiled(value) for name, value in written.items()}
        self._templates = list(_templates_in(self._parts))

    @property
    def names(self) -> list[str]:
        """The names of the arguments."""
        return list(self._parts)

    @property
    def root_keys(self) -> frozenset[str]:
        """The state keys that the templates cannot do without."""
        return frozenset[str]().union(*(template.root_keys for template in self._templates))

    @property
    def is_constant(self) -> bool:
        """Whether no template asks for anything."""
        return not any(template.keys | template.optional_keys for template in self._templates)

    def fill(
        self,
        state: Mapping[str, Any],
        *,
        schema: Mapping[str, Any] | None = None,
        node: str = "",
    ) -> dict[str, Any]:
        """Return the arguments for a state.

        A text that is one placeholder gives the value itself; where ``schema`` takes text alone, its
        text.

        Args:
            state: where the values come from.
            schema: the JSON Schema of the arguments.
            node: whose arguments they are, for the error.

        Raises:
            ConfigError: a key without a default is missing.
        """
        filled: dict[str, Any] = _filled(self._parts, schema or {}, state, "args", node)
        return filled


def _compiled(written: Any) -> Any:
    if isinstance(written, str):
        template = compile_template(written)
        return _only_placeholder(template) or template
    if isinstance(written, Mapping):
        return {name: _compiled(value) for name, value in written.items()}
    if isinstance(written, list | tuple):
        return [_compiled(value) for value in written]
    return written


def _only_placeholder(template: Template) -> _Value | None:
    paths = template.keys | template.optional_keys
    inside = template.source[1:-1]
    path, bar, default = inside.partition("|")
    if len(paths) != 1 or path not in paths or "{" in inside or "}" in inside:
        return None
    return _Value(template, path, default if bar else None)


def _templates_in(part: Any) -> Iterator[Template]:
    if isinstance(part, Template):
        yield part
    elif isinstance(part, _Value):
        yield part.template
    elif isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _templates_in(inner)


def _filled(part: Any, schema: Any, state: Mapping[str, Any], where: str, node: str) -> Any:
    if isinstance(part, dict):
        schema = _member_with(schema, "properties")
        properties = schema.get("properties") or {}
        others = schema.get("additionalProperties")
        return {
            name: _filled(inner, properties.get(name, others), state, f"{where}.{name}", node)
            for name, inner in part.items()
        }
    if isinstance(part, list):
        items = _member_with(schema, "items").get("items")
        return [
            _filled(inner, items, state, f"{where}[{number}]", node)
            for number, inner in enumerate(part)
        ]
    if isinstance(part, _Value):
        found = part.find(state)
        if found is MISSING:
            return part.template.render(state, name=where, node=node)  # says what is missing
        types = _types(schema)
        if found is None and "null" in types:
            return None
        is_text = "string" in types and types <= {"string", "null"}
        return to_text(found) if is_text else thaw(found)
    if isinstance(part, Template):
        return part.render(state, name=where, node=node)
    return part


def _member_with(schema: Any, key: str) -> Mapping[str, Any]:
    """Return the schema, or the first of its alternatives, that has the key; else nothing."""
    if not isinstance(schema, Mapping):
        return {}
    if key in schema:
        return schema
    members = (_member_with(member, key) for name in _UNIONS for member in schema.get(name, ()))
    return next((member for member in members if member), {})


def _types(schema: Any) -> set[str]:
    """Return the JSON types that a schema takes, as far as it says."""
    if not isinstance(schema, Mapping):
        return set()
    found = schema.get("type", [])
    types = {found} if isinstance(found, str) else set(found)
    return types.union(*(_types(member) for name in _UNIONS for member in schema.get(name, ())))
