"""`Transform`: small changes to the state, without a model and without code."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import attrs

from teff.errors import ConfigError
from teff.node.base import Node, options
from teff.node.transform_actions import ACTIONS, check_field
from teff.prompt import compile_template
from teff.runtime import ExecContext

__all__ = ["Transform"]


@options
class Transform(Node):
    """Work out one value from the state and keep it under ``output_key``.

    Every result is text but where the table says otherwise. A value that is not text is read as a
    template shows it, a list as JSON. An input key that is missing is an error, but ``contains``,
    ``compare`` and ``coalesce`` take it for nothing.

    ===========================  =================================================================
    ``uppercase`` ``lowercase``  the text in capital or small letters
    ``trim``                     the text without space around it
    ``count_lines``              how many lines the text has
    ``value``                    ``value`` itself, of any type
    ``render``                   ``template`` filled in from the state, see `teff.prompt`
    ``json_get``                 ``field`` of a dict or list, or of the JSON text of one
    ``pick``                     ``field`` of a dict or list
    ``append``                   adds one item to the list under ``output_key``: ``template`` filled
                                 in, or ``value``, or what is under ``input_key``
    ``contains``                 ``"true"`` where the text holds ``needle`` exactly, or the list or
                                 dict has it as an item or key; else ``"false"``
    ``compare``                  ``"true"`` where ``input_key op value`` is true, read like the
                                 condition of an edge; else ``"false"``
    ``split``                    the list of the parts between ``sep``; an empty text has none
    ``join``                     the items of a list with ``sep`` between them
    ``replace``                  the text with ``new`` for every ``old``
    ``coalesce``                 the input as it is where it is filled, else ``value``
    ``to_int`` ``to_float``      the number as text; ``to_int`` drops what follows the point
    ``now``                      the time in UTC (ISO 8601); a run that is resumed sees the same
    ===========================  =================================================================

    Args:
        action: one of the above.
        input_key: the state key to read.
        output_key: the state key to write.
        value: what ``value`` and ``append`` write, ``compare`` compares with, and ``coalesce`` falls
            back to; for ``contains`` another name of ``needle``. None counts as not given.
        template: for ``render`` and ``append``.
        field: for ``json_get`` and ``pick``: a path such as ``user.name`` or ``items[0].price``. A
            field that is not there gives "".
        raw: keep what ``json_get`` and ``pick`` find as it is, and None where nothing is there.
        op: for ``compare``.
        needle: for ``contains``.
        sep: for ``split`` and ``join``.
        old, new: for ``replace``.

    Raises:
        ConfigError: when it is made, an unknown action, an option that is missing for the action,
            or one that the action does not use; in a run, a state key that is missing.
        StateError: in a run, an input that the action cannot read.

    >>> import asyncio
    >>> shout = Transform(action="uppercase", input_key="text", output_key="loud")
    >>> asyncio.run(shout.execute(ExecContext(), {"text": "hello"}))
    {'loud': 'HELLO'}
    """

    type = "transform"

    action: Literal[
        "uppercase",
        "lowercase",
        "trim",
        "count_lines",
        "value",
        "render",
        "json_get",
        "append",
        "contains",
        "compare",
        "split",
        "join",
        "replace",
        "coalesce",
        "pick",
        "to_int",
        "to_float",
        "now",
    ]
    input_key: str = "input"
    output_key: str = "output"
    value: Any = None
    template: str = attrs.field(
        default="", validator=lambda self, _, template: self._compile_template(template)
    )
    field: str = attrs.field(default="", validator=lambda self, _, field: self._check_field(field))
    raw: bool = False
    op: Literal["eq", "ne", "gt", "ge", "lt", "le"] = "eq"
    needle: Any = None
    sep: str = ","
    old: str = ""
    new: str = ""

    def __attrs_post_init__(self) -> None:
        self._check_options()
        if self.action == "split" and not self.sep:
            raise self._wrong("needs a 'sep' that is not empty", "sep")
        if self.action == "compare" and isinstance(self.value, list | tuple | set | Mapping):
            raise self._wrong("compares with text, a number or a truth value", "value")
        for name in ("input_key", "output_key"):
            if not getattr(self, name):
                raise self._wrong(f"needs a state key, and {name!r} is empty", name)

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Return the result under ``output_key``."""
        result = ACTIONS[self.action].work_out(self, ctx, state)
        return {self.output_key: await result if inspect.isawaitable(result) else result}

    def fill_template(self, ctx: ExecContext, state: Mapping[str, Any]) -> str:
        """Return ``template`` filled in from the state."""
        return self._template.render(state, name="template", node=ctx.node_id or self.id or "")

    def reads(self) -> Iterable[str]:
        """Return the input key, or the keys that the template cannot do without."""
        action, given = ACTIONS[self.action], self._given_options()
        if "template" in given:
            return self._template.root_keys
        is_only_choice = "input_key" in action.one_of and not set(given) - {"input_key"}
        return [self.input_key] if "input_key" in action.takes or is_only_choice else []

    def writes(self) -> Iterable[str]:
        """Return the output key."""
        return [self.output_key]

    def _compile_template(self, template: str) -> None:
        self._template = compile_template(template)

    def _check_field(self, field: str) -> None:
        try:
            check_field(field)
        except ConfigError as error:
            raise self._wrong(
                f"has a 'field' that cannot be read: {error.message}", "field"
            ) from None

    def _given_options(self) -> list[str]:
        """Return which options of an action differ from their defaults."""
        given = []
        for option in attrs.fields(cast("Any", Transform)):
            value = getattr(self, option.name)
            if option.name in ("id", "action", "output_key") or value is None:
                continue
            if option.default is None or value != option.default:
                given.append(option.name)
        return given

    def _check_options(self) -> None:
        """Refuse options that do not go with the action."""
        action, given = ACTIONS[self.action], self._given_options()
        for option in given:
            if option not in action.options:
                raise self._wrong(f"does not use the option {option!r}", option)
        for option in action.needs:
            if option not in given:
                raise self._wrong(f"needs the option {option!r}", option)
        chosen = [option for option in action.one_of if option in given]
        if len(chosen) > 1:
            raise self._wrong(f"takes only one of {' and '.join(map(repr, chosen))}", chosen[1])
        if action.one_of and not chosen and "input_key" not in action.one_of:
            raise self._wrong(f"needs the option {action.one_of[0]!r}", action.one_of[0])

    def _wrong(self, problem: str, option: str) -> ConfigError:
        takes = ", ".join((*ACTIONS[self.action].options, "output_key"))
        return ConfigError(
            f"{self._described(self.id)}: action {self.action!r} {problem}.",
            path=option,
            hint=f"It takes {takes}.",
        )
