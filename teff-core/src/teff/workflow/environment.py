"""References to environment variables in the texts of a workflow file.

=====================  ==========================================================
``${NAME}``            the value; an error where the variable is not set
``${NAME:-default}``   the value, or the default where it is not set or empty
``${NAME:?message}``   the value, or an error with the message
``$${NAME}``           the text ``${NAME}`` itself
=====================  ==========================================================

A default may hold references of its own. They are filled in after the file has been read, so a
value is always text and can never add a key or a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from teff.errors import ConfigError

__all__ = ["Environment"]

_OPENING = re.compile(r"\$(\$?)\{")
_BRACE = re.compile(r"\$?\{|\}")
_REFERENCE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:[-?])(.*))?", re.DOTALL)

#: Shorter values are only hidden where they stand in quotes: they are parts of too many words.
_SHORTEST_HIDDEN = 4


class Environment:
    """Fills in references, and keeps what it filled in out of messages.

    >>> environment = Environment({"HOST": "db", "TOKEN": "sk-77"})
    >>> environment.fill("http://${HOST}:${PORT:-80}/$${HOST}")
    'http://db:80/${HOST}'
    >>> environment.fill("${TOKEN}"), environment.hide("unknown provider 'sk-77'")
    ('sk-77', "unknown provider '${TOKEN}'")

    Args:
        variables: from names to values; ``os.environ`` by default.
    """

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables
        self._filled: dict[str, str] = {}

    def fill(self, text: str) -> str:
        """Return ``text`` with every reference replaced.

        Raises:
            ConfigError: a variable is not set, or a reference cannot be read.
        """
        parts: list[str] = []
        position = 0
        while opening := _OPENING.search(text, position):
            parts.append(text[position : opening.start()])
            position = opening.end()
            if opening.group(1):
                parts.append("${")
            else:
                end = _closing_brace(text, position)
                parts.append(self._value_of(text[position:end]))
                position = end + 1
        return "".join((*parts, text[position:]))

    def hide(self, message: str) -> str:
        """Return ``message`` with references in place of the values that were filled in."""
        for value in sorted(self._filled, key=len, reverse=True):
            reference = f"${{{self._filled[value]}}}"
            message = message.replace(repr(value), repr(reference))
            if len(value) >= _SHORTEST_HIDDEN:
                message = message.replace(value, reference)
        return message

    def _value_of(self, inside: str) -> str:
        match = _REFERENCE.fullmatch(inside)
        if match is None:
            shown = " ".join(inside.split())
            raise ConfigError(
                f"${{{shown}}} is no reference to an environment variable.",
                hint="Write ${NAME}, ${NAME:-default} or ${NAME:?message}; "
                f"the text itself is $${{{shown}}}.",
            )
        name, operator, argument = match.groups()
        value = self._variables.get(name)
        if operator is not None and not value:
            if operator == ":-":
                return self.fill(argument)
            reason = f": {' '.join(argument.split())}" if argument.strip() else "."
            raise ConfigError(f"the environment variable {name} is not set{reason}")
        if value is None:
            raise ConfigError(
                f"the environment variable {name} is not set.",
                hint=f"Set it, or give a default: ${{{name}:-default}}.",
            )
        if value:
            self._filled[value] = name
        return value


def _closing_brace(text: str, start: int) -> int:
    """Return where the brace is closed that was opened just before ``start``."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace.group() != "}" else -1
        if depth == 0:
            return brace.start()
    raise ConfigError(
        "a '${' is never closed.", hint="Write ${NAME}; the text itself is written $${."
    )
