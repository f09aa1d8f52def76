"""What a store of runs is asked with: the owner and the id of a run, and an age."""

from __future__ import annotations

from teff.errors import ConfigError

__all__ = ["require_age", "require_key"]


def require_key(run_id: str, owner: str, *, name: str = "run_id") -> None:
    """Refuse an id or an owner that a store could not keep apart from another.

    Any other text will do, with slashes, dots, spaces and letters of any script.

    Args:
        run_id: the id of a run.
        owner: whose run it is.
        name: what the id is called in the error.

    Raises:
        ConfigError: one of them is no text, is empty, or holds a NUL or half a surrogate pair.
    """
    for what, value in ((name, run_id), ("owner", owner)):
        if problem := _problem(value):
            raise ConfigError(f"{what}={value!r} {problem}.", path=what)


def require_age(older_than: float) -> None:
    """Refuse an age in seconds below 0, or none at all.

    Raises:
        ConfigError: it is one.
    """
    if not older_than >= 0:
        raise ConfigError(
            f"older_than={older_than!r}: give a number of seconds, 0 or more.", path="older_than"
        )


def _problem(value: object) -> str:
    if not isinstance(value, str):
        return f"is of type {type(value).__name__}; give a text"
    if not value:
        return "is empty; give a text"
    if "\0" in value:
        return "holds a NUL; leave it out"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "holds half a surrogate pair, which is no character; leave it out"
    return ""
