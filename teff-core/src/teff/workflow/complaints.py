"""What PyYAML says about a file that it cannot read, as one sentence with the way out."""

from __future__ import annotations

import re

from yaml import MarkedYAMLError, YAMLError
from yaml.reader import ReaderError

from teff.errors import ConfigError

__all__ = ["explain"]

_QUOTE_IT = "Put the text in quotes."

#: What PyYAML's problem begins with → what is wrong, and the way out. ``{0}`` is the first group.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"found character '\\t'",
        "a tab stands where only spaces may indent.",
        "Indent with spaces.",
    ),
    (
        r"found character '(.)' that cannot start any token",
        "a value cannot begin with '{0}'.",
        _QUOTE_IT,
    ),
    (
        r"mapping values are not allowed here",
        "a ':' stands where no key can be.",
        "Put a text that holds ': ' in quotes, or correct the indentation.",
    ),
    (
        r"could not find expected ':'",
        "a key without its ':'.",
        "Write `key: value`, and check the indentation of this line and the one above.",
    ),
    (
        r"found unknown escape character '?(.)'?",
        "'\\{0}' means nothing in double quotes.",
        "Use single quotes, or write the backslash twice.",
    ),
    (
        r"expected alphabetic or numeric character, but found '(.)'",
        "a value that begins with '*' or '&' is read as an alias or an anchor.",
        _QUOTE_IT,
    ),
    (
        r"expected ',' or '.', but got '\?'",
        "a '?' stands in a text between brackets.",
        _QUOTE_IT,
    ),
    (
        r"expected ',' or '(.)', but got",
        "a list or mapping that was opened before is not closed with '{0}' here.",
        "Close it; or, if it is meant as text, put the whole text in quotes.",
    ),
    (
        r"expected <block end>, but found '<block|expected <block end>, but found '[-?]'",
        "the line is not indented as the lines before it.",
        "Indent what belongs together by the same number of spaces.",
    ),
    (
        r"expected <block end>, but found",
        "something follows a value that is complete.",
        "Put a text that begins with a quote, '[' or '{{' in quotes as a whole.",
    ),
    (
        r"sequence entries are not allowed here",
        "a '-' stands where no list can begin.",
        "Put the list on lines of its own, below the key.",
    ),
    (
        r"found undefined tag handle|expected ' ', but found|expected URI",
        "a value that begins with '!' is read as a tag.",
        _QUOTE_IT,
    ),
    (
        r"expected '<document start>'",
        "something follows the end of the document.",
        "A workflow file holds one document.",
    ),
    (
        r"expected chomping or indentation indicators",
        "a value that begins with '>' or '|' is read as a text on the lines below.",
        _QUOTE_IT,
    ),
    (
        r"expected the node content, but found",
        "a value is missing here.",
        "Write one, or put the text in quotes.",
    ),
)


def explain(error: YAMLError, text: str, file: str) -> ConfigError:
    """Return ``error`` as one sentence with its place in ``file``, whose content is ``text``."""
    if isinstance(error, ReaderError):
        before = text[: error.position]
        return ConfigError(
            f"the character U+{ord(text[error.position]):04X} may not stand in a YAML file.",
            file=file,
            line=before.count("\n") + 1,
            column=len(before) - (before.rfind("\n") + 1) + 1,
            hint="Remove it, or write it as an escape in double quotes.",
        )
    if not isinstance(error, MarkedYAMLError):
        return ConfigError(f"not YAML: {_flat(str(error))}", file=file)
    mark = error.problem_mark
    message, hint = _in_words(error)
    if "found unexpected end of stream" in (error.problem or "") and error.context_mark is not None:
        mark, message, hint = error.context_mark, "a quote is never closed.", "Close it."
    if mark is None:
        return ConfigError(message, file=file, hint=hint)
    return ConfigError(message, file=file, line=mark.line + 1, column=mark.column + 1, hint=hint)


def _in_words(error: MarkedYAMLError) -> tuple[str, str]:
    problem = error.problem or ""
    for pattern, message, hint in _KNOWN:
        if match := re.match(pattern, problem):
            return message.format(*match.groups()), hint.format()
    return f"not YAML: {_flat(', '.join(filter(None, (error.context, problem))))}.", ""


def _flat(text: str) -> str:
    return " ".join(text.split())
