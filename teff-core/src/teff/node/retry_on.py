"""Which failures are tried again: the option ``retry_on`` of `teff.node.retry.Retry`."""

from __future__ import annotations

import re
import sys
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from teff.errors import CheckpointError, ConfigError, GraphInterrupt, ToolError, WorkflowError

__all__ = ["RetryOn", "compile_retry_on", "plain_retry_on"]

#: An exception class, the name of one, or an HTTP status.
RetryOn: TypeAlias = type[Exception] | str | int

_STATUS = re.compile(r"[1-5][0-9][0-9]")
_STATUS_CLASS = re.compile(r"([1-5])xx", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")

#: Trying again repairs no wrong setting and no lost record, and a pause is no failure.
_NEVER: Final = (ConfigError, CheckpointError, GraphInterrupt)
_NEVER_BY_NAME: Final = frozenset(
    {*(kind.__name__ for kind in _NEVER), "CancelledError", "KeyboardInterrupt", "SystemExit"}
)

_Matches: TypeAlias = Callable[[Exception], bool]


def compile_retry_on(selectors: RetryOn | Sequence[RetryOn]) -> _Matches:
    """Return the function that says whether a failure is to be tried again.

    >>> passing = compile_retry_on([ConnectionError, "httpx.TimeoutException", 429, "5xx"])
    >>> passing(ConnectionResetError()), passing(ValueError())
    (True, False)

    Args:
        selectors: what is tried again, one or several; nothing stands for every failure.

    Raises:
        ConfigError: something that selects no failure, or one that is never tried again; without
            the name of a node in its message.
    """
    tests = [_test_of(selector) for selector in _several(selectors)]

    def matches(error: Exception) -> bool:
        if isinstance(error, _NEVER) or _is_cancellation(error):
            return False
        if not tests or any(test(error) for test in tests):
            return True
        # What a tool raised comes wrapped, so that a model can be told.
        cause = error.__cause__ if isinstance(error, ToolError) else None
        return isinstance(cause, Exception) and any(test(cause) for test in tests)

    return matches


def plain_retry_on(selectors: RetryOn | Sequence[RetryOn]) -> list[str | int]:
    """Return selectors as a file holds them: exception classes by their names.

    >>> plain_retry_on([ConnectionError, 429])
    ['ConnectionError', 429]
    """
    return [
        _name_of(selector) if isinstance(selector, type) else selector
        for selector in _several(selectors)
    ]


def _several(selectors: Any) -> list[Any]:
    if isinstance(selectors, list | tuple | set | frozenset):
        return list(selectors)
    return [selectors]


def _name_of(kind: type[Exception]) -> str:
    name = f"{kind.__module__}.{kind.__name__}"
    # A module that was loaded from a file may be called what no name is.
    return kind.__name__ if kind.__module__ == "builtins" or not _NAME.fullmatch(name) else name


def _is_cancellation(error: Exception) -> bool:
    """Whether the engine made the error of a ``CancelledError`` that the node raised itself."""
    return isinstance(error, WorkflowError) and isinstance(error.__cause__, CancelledError)


def _test_of(selector: Any) -> _Matches:
    if isinstance(selector, type):
        if not issubclass(selector, Exception) or issubclass(selector, _NEVER):
            raise _never(selector.__name__)
        return lambda error: isinstance(error, selector)
    text = str(selector).strip() if isinstance(selector, str | int) else ""
    if isinstance(selector, bool):
        text = ""
    if _STATUS.fullmatch(text):
        status = int(text)
        return lambda error: status in _statuses(error)
    if hundreds := _STATUS_CLASS.fullmatch(text):
        first = int(hundreds[1])
        return lambda error: any(status // 100 == first for status in _statuses(error))
    if not _NAME.fullmatch(text):
        raise ConfigError(
            f"{selector!r} is neither an exception class, nor the name of one, nor an HTTP status.",
            hint='Write for example ConnectionError, "httpx.ConnectError", 429 or "5xx".',
        )
    if text.rpartition(".")[2] in _NEVER_BY_NAME:
        raise _never(text)
    return lambda error: _has_name(error, text)


def _never(name: str) -> ConfigError:
    return ConfigError(
        f"{name} is never tried again.",
        hint="Only failures of the node are: no wrong settings, no pauses, no cancellations.",
    )


def _has_name(error: Exception, name: str) -> bool:
    """Whether the class of an error, or one that it inherits from, is called ``name``.

    A module in front may be the one that defines the class, one around it, or one that offers it
    under another name, such as ``requests.ConnectionError`` or ``asyncio.TimeoutError``.
    """
    module, _, short = name.rpartition(".")
    if not module:
        return any(cls.__name__ == short for cls in type(error).__mro__)
    offered = vars(sys.modules[module]).get(short) if module in sys.modules else None
    if isinstance(offered, type):
        return isinstance(error, offered)
    return any(
        cls.__name__ == short and f"{cls.__module__}.".startswith(f"{module}.")
        for cls in type(error).__mro__
    )


def _statuses(error: Exception) -> list[int]:
    """Return the HTTP statuses that an error, or the response that it holds, tells."""
    found = [
        getattr(holder, name, None)
        for holder in (error, getattr(error, "response", None))
        for name in ("status", "status_code")
    ]
    return [status for status in found if isinstance(status, int)]
