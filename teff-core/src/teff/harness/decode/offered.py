"""What was offered to the model: the names of its tools, and the types of their arguments."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from teff.harness.decode.values import PythonCall, whole_value
from teff.messages import ToolCall

__all__ = ["MOST_CALLS", "Offered"]

#: So many calls of one reply are decoded.
MOST_CALLS: Final = 64

_NAME_KEYS: Final = ("name", "tool_name", "function_name", "tool", "action", "function")
_ARGUMENT_KEYS: Final = (
    "arguments",
    "parameters",
    "args",
    "input",
    "tool_input",
    "action_input",
    "params",
    "kwargs",
)
_OTHER_KEYS: Final = frozenset({"type", "id", "call_id", "tool_call_id", "index"})
_LISTS: Final = ("tool_calls", "tool_call", "function_call")
_TYPES: Final = frozenset({"function", "function_call", "tool_call", "tool_use", "tool"})
_JSON_TYPES: Final = ("object", "string", "integer", "number", "boolean", "array", "null")
_TRUTH: Final = {"true": True, "false": False}


class Offered:
    """The tools that a model was offered.

    Args:
        names: of the tools.
        schemas: from names to the JSON Schemas of their arguments, or to mappings from arguments to
            type names (``"integer"``) or schemas.
    """

    def __init__(
        self, names: Collection[str], schemas: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self.names = frozenset(names)
        self._schemas = schemas or {}

    def known(self, name: object) -> str | None:
        """Return the name of the tool that is meant: exactly it, or after ``functions.``."""
        if not isinstance(name, str):
            return None
        written = name.strip()
        for candidate in (written, written.removeprefix("functions.")):
            if candidate in self.names:
                return candidate
        return None

    def call(self, name: object, arguments: object) -> Iterator[ToolCall]:
        """Yield the call of a tool, where it was offered and the arguments are its arguments."""
        known = self.known(name)
        bound = self.arguments(known, arguments) if known is not None else None
        if known is not None and bound is not None:
            yield ToolCall(id=f"call_{uuid.uuid4().hex}", name=known, arguments=bound)

    def arguments(self, name: str, written: object) -> dict[str, Any] | None:
        """Return arguments as a dict; None where they are none.

        A text may be the JSON of an object, or the value of the only argument that a tool takes.
        """
        if isinstance(written, Mapping):
            return dict(written)
        if written is None:
            return {}
        if not isinstance(written, str):
            return None
        if not written.strip():
            return {}
        try:
            value = whole_value(written)
        except ValueError:
            value = written
        if isinstance(value, dict):
            return value
        only = self.only_text(name)
        if only and not written.lstrip().startswith(("{", "[")):
            return {only: value if isinstance(value, str) else written.strip()}
        return None

    def typed(self, name: str, key: str, text: str, *, is_text: str | None = None) -> Any:
        """Return one argument that was written as text.

        Texts stay as they are. Without a type, what is a JSON value is one, else it is a text.

        Args:
            name: of the tool.
            key: of the argument.
            text: as it was written.
            is_text: ``true`` or ``false`` where the model itself has said so.
        """
        types = _types(self._properties(name).get(key))
        if is_text == "true":
            return text
        if is_text == "false":
            types -= {"string"}
        stripped = text.strip()
        if stripped in ("null", "None") and (not types or "null" in types):
            return None
        if "string" in types:
            return text
        if stripped.lower() in _TRUTH and ("boolean" in types or stripped in _TRUTH):
            return _TRUTH[stripped.lower()]
        try:
            value = whole_value(text)
        except ValueError:
            return text
        if types or not isinstance(value, str):
            return value
        return text if text[:1] == "'" else value

    def python_call(self, call: PythonCall) -> Iterator[ToolCall]:
        """Yield a call written in Python; without names, arguments are bound in their order."""
        known = self.known(call.name.removeprefix("default_api.").removesuffix(".call"))
        if known is None:
            return
        order = list(self._properties(known))
        places = order[: len(call.positional)]
        if len(call.positional) > len(order) or set(places) & set(call.keywords):
            return
        bound = dict(zip(places, call.positional, strict=True))
        yield from self.call(known, {**bound, **call.keywords})

    def takes_nothing(self, name: str) -> bool:
        """Say whether a tool is known to have no arguments."""
        return name in self._schemas and not self._properties(name)

    def only_text(self, name: str) -> str:
        """Return the only argument that a tool needs, where it may be a text; else ""."""
        properties = self._properties(name)
        schema = self._schemas.get(name, {})
        required = schema.get("required") if properties is schema.get("properties") else None
        needed = list(required) if required else list(properties)
        if len(needed) != 1:
            return ""
        types = _types(properties.get(needed[0]))
        return str(needed[0]) if not types or "string" in types else ""

    def calls_in(self, value: object, *, strictly: bool = False) -> Iterator[ToolCall]:
        """Yield the calls that a JSON value writes.

        Of a list, all run or none does: with an entry that is no call of an offered tool it lists
        something else, or was not meant so.

        Args:
            value: an object, or a list of them.
            strictly: whether an object with any other key is no call, as where nothing marks it.
        """
        if isinstance(value, list):
            found: list[ToolCall] = []
            for item in value:
                if not (calls := list(self._of_item(item, strictly=strictly))):
                    return
                found += calls[: MOST_CALLS - len(found)]
            yield from found
        elif isinstance(value, dict):
            for key in _LISTS:
                if isinstance(value.get(key), dict | list) and len(value) == 1:
                    yield from self.calls_in(value[key], strictly=strictly)
                    return
            yield from self._call_in(value, strictly=strictly)

    def _of_item(self, item: object, *, strictly: bool) -> Iterator[ToolCall]:
        if isinstance(item, dict):
            yield from self.calls_in(item, strictly=strictly)

    def _call_in(self, value: Mapping[str, Any], *, strictly: bool) -> Iterator[ToolCall]:
        if isinstance(inner := value.get("function"), dict):
            outer = set(value) - _OTHER_KEYS - {"function"}
            if not outer or not strictly:
                yield from self._call_in(inner, strictly=strictly)
            return
        name_key = next((key for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
        if name_key is None or (known := self.known(value[name_key])) is None:
            return
        key = next((key for key in _ARGUMENT_KEYS if key in value), None)
        foreign = set(value) - _OTHER_KEYS - {name_key, key}
        kind = value.get("type", "function")
        if foreign and (strictly or key is None or "description" in foreign):
            return
        if kind not in _TYPES and (strictly or key is None):
            return
        written = value[key] if key is not None else {}
        if key == "parameters" and self._is_definition(known, written):
            return
        yield from self.call(known, written)

    def _is_definition(self, name: str, written: object) -> bool:
        """Say whether parameters are a JSON Schema, or name types by such for each of them."""
        if not isinstance(written, Mapping):
            return False
        own = self._properties(name)
        if isinstance(written.get("properties"), Mapping) and "properties" not in own:
            return True
        if _is_schema(written) and "type" not in own:
            return True
        return bool(written) and all(
            _is_schema(value) and "object" not in _types(own.get(key))
            for key, value in written.items()
        )

    def _properties(self, name: str) -> Mapping[str, Any]:
        schema = self._schemas.get(name, {})
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and schema.get("type", "object") == "object":
            return properties
        return {} if schema.get("type") == "object" else schema


def _is_schema(value: object) -> bool:
    return isinstance(value, Mapping) and value.get("type") in _JSON_TYPES


def _types(schema: object) -> frozenset[str]:
    """Return the JSON types that a schema allows; none where it does not say."""
    if isinstance(schema, str):
        return frozenset({schema})
    if not isinstance(schema, Mapping):
        return frozenset()
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    if isinstance(kind, Sequence):
        return frozenset(str(one) for one in kind)
    if isinstance(allowed := schema.get("enum"), Sequence) and allowed:
        return (
            frozenset({"string"}) if all(isinstance(one, str) for one in allowed) else frozenset()
        )
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    if isinstance(choices, Sequence):
        return frozenset().union(*(_types(choice) for choice in choices))
    return frozenset()
