"""Templates: text with ``{key}`` where a value of the state belongs.

======================  ========================================================================
``{key}``               the value of a key, or of a path: ``{user.name}``, ``{items[0]}``
``{key|some text}``     the same, or that text where the key is missing or not filled
``{{key}}``             the literal ``{key}``; ``{{key|text}}`` likewise
======================  ========================================================================

Every other brace is literal, single or doubled, so JSON stands in a prompt as it is: ``{"a": {}}``,
``{ }``, ``{1; 2}``. What makes a placeholder is its shape: a name of letters, digits, ``_`` and
inner hyphens that starts with no digit, then ``.name`` and ``[index]``, without a space. Paths are
those of edge conditions (see ``teff.paths``), so a literal dotted key wins and attributes are out of
reach. There are no format specifications. A prompt that means ``{yes|no}`` itself writes
``{{yes|no}}``.

Values are inserted once and never expanded again: a brace in what a user or a model wrote stays a
brace. ``to_text`` says how a value looks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from attrs import field, frozen

from teff.errors import ConfigError, suggest
from teff.paths import MISSING, compile_path, lookup, parse_path, root_key
from teff.state.filled import is_filled

__all__ = ["Template", "compile_template", "render_template", "to_text"]

_NAME = r"[^\W\d]\w*+(?:-+\w++)*+"
_PATH = rf"{_NAME}(?:\.\w++(?:-+\w++)*+|\[-?[0-9]{{1,18}}\])*+"
_PLACEHOLDER = re.compile(
    rf"\{{\{{(?P<literal>{_PATH}(?:\|[^{{}}]*+)?)\}}\}}"
    rf"|\{{(?P<path>{_PATH})(?:\|(?P<default>[^{{}}]*+))?\}}"
)


@frozen
class _Placeholder:
    """One ``{path}`` or ``{path|default}``."""

    path: str
    default: str | None
    read: Callable[[Mapping[str, object]], object] = field(eq=False, repr=False)

    def text(self, state: Mapping[str, object]) -> str | None:
        """Return what goes into the text, or None where the state has nothing for it."""
        found = self.read(state)
        if self.default is not None and (found is MISSING or not is_filled(found)):
            return self.default
        return None if found is MISSING else to_text(found)


@frozen
class Template:
    """A template that was taken apart once and can be rendered many times.

    Made by ``compile_template``.

    Attributes:
        source: the template as it was written.
    """

    source: str
    _parts: tuple[str | _Placeholder, ...] = field(eq=False, repr=False)

    @property
    def keys(self) -> frozenset[str]:
        """The paths that must be in the state: those of placeholders without a default."""
        return frozenset(slot.path for slot in self._slots() if slot.default is None)

    @property
    def optional_keys(self) -> frozenset[str]:
        """The paths that are read where the state has them, and have a default everywhere else."""
        return frozenset(slot.path for slot in self._slots()) - self.keys

    @property
    def root_keys(self) -> frozenset[str]:
        """The keys of the state that ``keys`` start from."""
        return frozenset(map(root_key, self.keys))

    def render(self, state: Mapping[str, object], *, name: str = "", node: str = "") -> str:
        """Return the text with every placeholder filled from the state.

        Args:
            state: where the values come from.
            name: what the template is called, for the error: an option such as ``"prompt"``.
            node: the id of the node that renders it, for the error.

        Raises:
            ConfigError: a key without a default is missing (a ``KeyError`` too); the message names
                the key, the template, the node and the nearest key that exists.
        """
        pieces: list[str] = []
        for part in self._parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            text = part.text(state)
            if text is None:
                raise _missing(part.path, state, name=name, node=node)
            pieces.append(text)
        return "".join(pieces)

    def _slots(self) -> Iterator[_Placeholder]:
        return (part for part in self._parts if isinstance(part, _Placeholder))


def compile_template(template: str) -> Template:
    """Take a template apart, to render it many times or to see which keys it needs.

    Every text is a template, so the only mistake is a value that is no text.

    >>> greeting = compile_template("Dear {user.name|friend}, {{you}} owe {amount}.")
    >>> sorted(greeting.keys), sorted(greeting.optional_keys)
    (['amount'], ['user.name'])
    >>> greeting.render({"amount": 5})
    'Dear friend, {you} owe 5.'

    Raises:
        ConfigError: ``template`` is not text.
    """
    if not isinstance(template, str):
        raise ConfigError(f"a template is text, not {type(template).__name__}: {template!r}")
    return _compiled(template)


def render_template(
    template: str, state: Mapping[str, object], *, name: str = "", node: str = ""
) -> str:
    """Return the template with every placeholder filled from the state.

    >>> render_template('Answer {q} as {"act": "<x>"}', {"q": "why"})
    'Answer why as {"act": "<x>"}'

    Args:
        template: the text; see the module for its language.
        state: where the values come from.
        name: what the template is called, for the error.
        node: the id of the node that renders it, for the error.

    Raises:
        ConfigError: a key without a default is missing (a ``KeyError`` too), or ``template`` is
            not text.
    """
    return compile_template(template).render(state, name=name, node=node)


def to_text(value: object) -> str:
    """Return a value as a template shows it.

    Text as it is; None as nothing; booleans as ``true`` and ``false``; lists, tuples, sets (sorted,
    so that a prompt is the same in every process) and dicts as JSON with every character as itself;
    anything else, also inside of them, by ``str()``.

    >>> to_text(["Łódź", True, None]), to_text(True), to_text(None), to_text(1.5)
    ('["Łódź", true, null]', 'true', '', '1.5')
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        try:
            return json.dumps(value, ensure_ascii=False, default=_json_or_text)
        except (TypeError, ValueError):
            # Keys that JSON does not know, or a value that holds itself.
            return str(value)
    return str(value)


@lru_cache(maxsize=256)
def _compiled(template: str) -> Template:
    return Template(template, tuple(_parts_of(template)))


def _parts_of(template: str) -> Iterator[str | _Placeholder]:
    end = 0
    for found in _PLACEHOLDER.finditer(template):
        if found.start() > end:
            yield template[end : found.start()]
        path = found["path"]
        if path is None:
            yield "{" + found["literal"] + "}"
        else:
            yield _Placeholder(path, found["default"], compile_path(path))
        end = found.end()
    if end < len(template):
        yield template[end:]


def _json_or_text(value: object) -> object:
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else str(value)


def _missing(path: str, state: Mapping[str, object], *, name: str, node: str) -> ConfigError:
    """Describe a placeholder that has no value, with the nearest path that has one."""
    template = f"the template {name!r}" if name else "a template"
    place = f" of node {node!r}" if node else ""
    return ConfigError(
        f"{template}{place} needs the key {path!r}, and the state does not hold it.",
        hint=_way_out(path, state),
    )


def _way_out(path: str, state: Mapping[str, object]) -> str:
    """Say what the state holds where the path leaves it."""
    found: object = state
    where = ""
    for part in parse_path(path):
        step = f"[{part}]" if isinstance(part, int) else f".{part}" if where else part
        below = lookup(state, where + step)
        if below is MISSING:
            break
        found, where = below, where + step
    if isinstance(found, Mapping):
        prefix = f"{where}." if where else ""
        shown = (key for key in map(str, found) if path.startswith("_") or key[:1] != "_")
        return suggest(path, [prefix + key for key in shown]).strip()
    if isinstance(found, (list, tuple)):
        return f"{where!r} is a list of {len(found)}."
    return f"{where!r} is {type(found).__name__}, which has no parts."
