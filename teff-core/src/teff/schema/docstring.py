"""The summary and the parameter descriptions of a Google-style docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

import attrs

__all__ = ["Docstring", "read_docstring"]

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Returns|Return|Yields|Raises|Attributes|Examples?|Notes?|"
    r"Warnings?|See Also|References|Todo):\s*$"
)
_PARAMETER_SECTIONS = ("Args", "Arguments", "Parameters")
_PARAMETER = re.compile(r"\*{0,2}(?P<names>\w+(?:\s*,\s*\w+)*)\s*(?:\([^)]*\))?:\s*(?P<text>.*)$")


@attrs.frozen
class Docstring:
    """What a docstring says: the text before its sections, and a text for each parameter."""

    summary: str = ""
    parameters: Mapping[str, str] = attrs.field(factory=dict)


def read_docstring(text: str) -> Docstring:
    r"""Read a docstring in the style of https://google.github.io/styleguide/pyguide.html#383.

    A text of several lines is joined into one; ``days, hours: how long`` describes both.

    >>> read_docstring("Say the weather.\n\nArgs:\n    city: where, in English").parameters
    {'city': 'where, in English'}
    """
    summary: list[str] = []
    parameters: dict[str, str] = {}
    section = ""
    current: tuple[str, ...] = ()
    indent = None
    for line in inspect.cleandoc(text).splitlines():
        heading = _SECTION.match(line)
        if heading:
            section, current, indent = heading.group(1), (), None
        elif not section:
            summary.append(line)
        elif line and not line[0].isspace():
            section = "other"
        elif section in _PARAMETER_SECTIONS and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            entry = _PARAMETER.match(line.strip()) if depth <= indent else None
            if entry:
                current = tuple(name.strip() for name in entry["names"].split(","))
                parameters.update(dict.fromkeys(current, entry["text"].strip()))
            else:
                for name in current:
                    parameters[name] = f"{parameters[name]} {line.strip()}".strip()
    return Docstring("\n".join(summary).strip(), parameters)
