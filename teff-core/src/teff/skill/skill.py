"""`Skill`: what the folder of a skill says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from teff.errors import ConfigError

__all__ = ["MAX_FILE_BYTES", "Skill"]

#: The largest file of a skill that is read.
MAX_FILE_BYTES = 1_000_000

_NAME = re.compile(r"\w[\w.-]{0,63}")


def _check_name(skill: Skill, attribute: attrs.Attribute[str], name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no name of a skill: use letters, digits, '-', '_' and '.', at most 64.",
            path="name",
        )


def _names(tools: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if tools is None else tuple(tools)


@attrs.frozen(kw_only=True)
class Skill:
    """Instructions for a kind of work, and the files that belong to them.

    Source: the Agent Skills format, https://agentskills.io/specification.

    Attributes:
        name: how nodes and models call it.
        description: what it is for and when to use it; models choose by it.
        instructions: the text of its ``SKILL.md``, without the front matter.
        allowed_tools: the only tools that may be used beside it; None for no restriction, empty
            for none.
        license, compatibility, metadata: for people.
        folder: where its files are, or None for a skill that is made in Python.

    >>> Skill(name="tone", instructions="Be brief.", allowed_tools=["search"]).allowed_tools
    ('search',)
    """

    name: str = attrs.field(validator=_check_name)
    description: str = ""
    instructions: str = ""
    allowed_tools: tuple[str, ...] | None = attrs.field(default=None, converter=_names)
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    folder: Path | None = None

    def files(self) -> list[str]:
        """Return the files that belong to it, beside ``SKILL.md``, as paths inside its folder."""
        if self.folder is None:
            return []
        root = self.folder.resolve()
        inside = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in inside
            if path.name != "SKILL.md" and path.resolve().is_relative_to(root)
        )

    def read_file(self, path: str) -> str:
        """Return the text of one of its files.

        Args:
            path: as `files` gives it. Nothing outside the folder is read, also not through a link.

        Raises:
            ConfigError: there is no such file in it, or it is no text, or too large.
        """
        if path not in self.files() or self.folder is None:
            known = ", ".join(self.files()) or "none"
            raise ConfigError(
                f"skill {self.name!r} has no file {path!r}.", hint=f"Its files: {known}."
            )
        return read_text(self.folder / path)


def read_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read, is no UTF-8, or is larger than `MAX_FILE_BYTES`.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes.", file=str(path))
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text.", file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", file=str(path)) from None
