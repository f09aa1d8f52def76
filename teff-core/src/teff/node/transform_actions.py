"""The actions of `teff.node.transform.Transform`: a function each, and the options they take."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import attrs

from teff.conditions import Compare, Key, Predicate, Value, compile_condition
from teff.errors import ConfigError, StateError, suggest
from teff.paths import MISSING, lookup, parse_path
from teff.prompt import to_text
from teff.runtime import ExecContext
from teff.state import Append, is_filled

if TYPE_CHECKING:
    from teff.node.transform import Transform

__all__ = ["ACTIONS", "Action", "check_field"]


@attrs.frozen
class Action:
    """An action: how its result is worked out, and the options it takes beside ``output_key``.

    Attributes:
        work_out: called with the node, the context and the state; may return an awaitable.
        takes: the options that may be given.
        needs: those that must be.
        one_of: those of which one must be; ``input_key`` counts where none is given.
    """

    work_out: Callable[[Transform, ExecContext, Mapping[str, Any]], Any]
    takes: tuple[str, ...] = attrs.field(default=("input_key",), kw_only=True)
    needs: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    one_of: tuple[str, ...] = attrs.field(default=(), kw_only=True)

    @property
    def options(self) -> tuple[str, ...]:
        """Every option that may be given."""
        return (*self.takes, *self.needs, *self.one_of)


def _uppercase(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return _read_text(node, ctx, state).upper()


def _lowercase(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return _read_text(node, ctx, state).lower()


def _trim(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return _read_text(node, ctx, state).strip()


def _count_lines(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return str(len(_read_text(node, ctx, state).splitlines()))


def _value(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> Any:
    return node.value


def _render(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return node.fill_template(ctx, state)


def _append(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> Append:
    if node.template:
        return Append([node.fill_template(ctx, state)])
    return Append([_read(node, ctx, state) if node.value is None else node.value])


def _contains(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    found = state.get(node.input_key)
    needle = to_text(node.value if node.needle is None else node.needle)
    if isinstance(found, list | tuple | set | frozenset | Mapping):
        return to_text(any(to_text(item) == needle for item in found))
    return to_text(needle in to_text(found))


def _compare(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return to_text(_comparison(node.input_key, node.op, to_text(node.value))(state))


def _split(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> list[str]:
    text = _read(node, ctx, state)
    if text is not None and not isinstance(text, str):
        _refuse(node, ctx, "text", text)
    return text.split(node.sep) if text else []


def _join(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    items = _read(node, ctx, state)
    if items is not None and not isinstance(items, list | tuple):
        _refuse(node, ctx, "a list", items)
    return node.sep.join(map(to_text, items or ()))


def _replace(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return _read_text(node, ctx, state).replace(node.old, node.new)


def _coalesce(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> Any:
    found = state.get(node.input_key)
    return found if is_filled(found) else node.value


def _pick(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> Any:
    return _field_of(_read(node, ctx, state), node, ctx)


def _json_get(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> Any:
    value = _read(node, ctx, state)
    if isinstance(value, str):
        try:
            return _field_of(json.loads(value) if value.strip() else None, node, ctx)
        except (ValueError, RecursionError):
            _refuse(node, ctx, "a dict, a list or the JSON text of one", value)
    return _field_of(value, node, ctx)


def _to_int(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return str(math.trunc(_number(node, ctx, state)))


def _to_float(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return str(float(_number(node, ctx, state)))


def _now(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> Any:
    return ctx.once("now", lambda: datetime.now(UTC).isoformat(timespec="microseconds"))


#: The actions by name.
ACTIONS: Final[Mapping[str, Action]] = {
    "uppercase": Action(_uppercase),
    "lowercase": Action(_lowercase),
    "trim": Action(_trim),
    "count_lines": Action(_count_lines),
    "value": Action(_value, takes=(), needs=("value",)),
    "render": Action(_render, takes=(), needs=("template",)),
    "json_get": Action(_json_get, takes=("input_key", "raw"), needs=("field",)),
    "append": Action(_append, takes=(), one_of=("template", "value", "input_key")),
    "contains": Action(_contains, one_of=("needle", "value")),
    "compare": Action(_compare, takes=("input_key", "op"), needs=("value",)),
    "split": Action(_split, takes=("input_key", "sep")),
    "join": Action(_join, takes=("input_key", "sep")),
    "replace": Action(_replace, takes=("input_key", "new"), needs=("old",)),
    "coalesce": Action(_coalesce, needs=("value",)),
    "pick": Action(_pick, takes=("input_key", "raw"), needs=("field",)),
    "to_int": Action(_to_int),
    "to_float": Action(_to_float),
    "now": Action(_now, takes=()),
}


def check_field(field: str) -> None:
    """Refuse a field that is no path; an empty one is no field.

    Raises:
        ConfigError: it is no path, see `teff.paths`.
    """
    if field:
        parse_path(field if not field.startswith("[") else f"{_INPUT}{field}")


def _read(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> Any:
    """Return the input, which must be there."""
    try:
        return state[node.input_key]
    except KeyError:
        raise ConfigError(
            f"{_name(node, ctx)} needs the state key {node.input_key!r}, "
            "and the state does not hold it.",
            path="input_key",
            hint=suggest(node.input_key, map(str, state)).strip(),
        ) from None


def _read_text(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> str:
    return to_text(_read(node, ctx, state))


def _name(node: Transform, ctx: ExecContext) -> str:
    return f"{node._described(ctx.node_id or node.id)} ({node.action})"


def _refuse(node: Transform, ctx: ExecContext, needed: str, value: object) -> NoReturn:
    found = repr(value)
    shown = found if len(found) <= 60 else f"{found[:60]}…"
    raise StateError(
        f"{_name(node, ctx)} needs {needed} under the state key {node.input_key!r}, "
        f"and found {type(value).__name__}: {shown}"
    ) from None


_OPERATORS: Final[Mapping[str, Literal["=", "!=", ">", ">=", "<", "<="]]] = {
    "eq": "=",
    "ne": "!=",
    "gt": ">",
    "ge": ">=",
    "lt": "<",
    "le": "<=",
}


@lru_cache(maxsize=256)
def _comparison(key: str, op: str, text: str) -> Predicate:
    return compile_condition(Compare(Key(key, quoted=True), _OPERATORS[op], (Value(text),)))


#: Stands for the input itself at the beginning of a path.
_INPUT: Final = "input"


def _field_of(value: Any, node: Transform, ctx: ExecContext) -> Any:
    if isinstance(value, Mapping) and not node.field.startswith("["):
        found = lookup(value, node.field)
    elif value is None or isinstance(value, list | tuple | Mapping):
        dot = "" if node.field.startswith("[") else "."
        found = lookup({_INPUT: value}, f"{_INPUT}{dot}{node.field}")
    else:
        _refuse(node, ctx, "a dict or a list", value)
    if found is MISSING:
        found = None
    return found if node.raw else to_text(found)


_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _number(node: Transform, ctx: ExecContext, state: Mapping[str, Any]) -> int | float | Decimal:
    value = _read(node, ctx, state)
    number: int | float | Decimal = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    elif _INTEGER.fullmatch(text := to_text(value).strip()):
        number = int(text)
    elif _DECIMAL.fullmatch(text):
        number = Decimal(text)  # to_int drops what follows the point, and nothing else
    try:
        finite = math.isfinite(number)
    except OverflowError:
        finite = False
    if not finite:
        _refuse(node, ctx, "a number", value)
    return number
