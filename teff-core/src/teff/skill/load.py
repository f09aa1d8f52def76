"""From a folder with a ``SKILL.md`` to a `Skill`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from teff.errors import ConfigError, suggest
from teff.skill.skill import Skill, read_text

__all__ = ["load_skill"]

_FILE: Final = "SKILL.md"
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)(?:^---[ \t]*$\n?)", re.DOTALL | re.MULTILINE)

#: The keys of front matter, in each spelling, and what they become.
_KEYS: Final[Mapping[str, str]] = {
    "name": "name",
    "description": "description",
    "when_to_use": "when_to_use",
    "when-to-use": "when_to_use",
    "license": "license",
    "compatibility": "compatibility",
    "metadata": "metadata",
    "allowed-tools": "allowed_tools",
    "allowed_tools": "allowed_tools",
}
#: Restrictions that are not kept must not be overlooked.
_NOT_KEPT: Final = ("disallowed-tools", "disallowed_tools")


def load_skill(skill: str | Skill, *, skill_dir: str | Path = "skills") -> Skill:
    """Return a skill.

    Args:
        skill: a skill that is made already; or the name of a folder in ``skill_dir``. A name never
            leads out of ``skill_dir``; a folder there may itself be a link.
        skill_dir: the folder of the skills.

    Raises:
        ConfigError: there is no such skill, its front matter does not parse, or something in it
            makes no sense; with the file and the line.
    """
    if isinstance(skill, Skill):
        return skill
    folder = Path(skill_dir)
    try:
        names = sorted(path.name for path in folder.iterdir() if (path / _FILE).is_file())
    except OSError:
        raise ConfigError(
            f"skill {skill!r} is looked for in {folder}, which is no folder that can be read.",
            path="skills",
            hint="Set skill_dir to the folder of the skills.",
        ) from None
    # Names are compared with what is there, so that none can lead anywhere else.
    if skill not in names:
        known = suggest(skill, names) if names else " There are no skills."
        raise ConfigError(f"there is no skill {skill!r} in {folder}.{known}", path="skills")
    return _read(folder / skill)


def _read(folder: Path) -> Skill:
    file = folder / _FILE
    if not file.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"{file} is a link that leads out of its folder.", path="skills")
    text = read_text(file).replace("\r\n", "\n")
    fields: dict[str, Any] = {"name": folder.name}
    if text.startswith("---"):
        front = _FRONT_MATTER.match(text)
        if front is None:
            raise ConfigError(
                "the front matter is never closed.",
                file=str(file),
                line=1,
                hint="End it with a line of three hyphens.",
            )
        fields |= _fields(_parse(front[1], file), file)
        text = text[front.end() :]
    described = (fields.get("description", ""), fields.pop("when_to_use", ""))
    fields["description"] = " ".join(part for part in described if part)
    try:
        return Skill(instructions=text.strip(), folder=folder, **fields)
    except ConfigError as error:
        raise ConfigError(error.message, file=str(file), path=error.path) from None


def _parse(text: str, file: Path) -> Mapping[str, Any]:
    import yaml  # loaded where there is a skill to read

    try:
        written = yaml.compose(text, Loader=yaml.BaseLoader)
        found = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  # every scalar stays text
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(
            f"the front matter does not parse: {getattr(error, 'problem', None) or error}.",
            file=str(file),
            line=mark.line + 2 if mark is not None else 1,
            hint="Put a text that holds ': ' in quotes.",
        ) from None
    if found is None or found == "":
        return {}
    if not isinstance(found, Mapping):
        raise ConfigError("the front matter must be a mapping.", file=str(file), line=1)
    keys = [key.value for key, _ in written.value] if written is not None else []
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ConfigError(f"{twice[0]!r} stands twice in the front matter.", file=str(file))
    return found


def _fields(found: Mapping[str, Any], file: Path) -> dict[str, Any]:
    for key in _NOT_KEPT:
        if key in found:
            raise ConfigError(
                f"{key!r} is not kept here, and a restriction must not be lost.",
                file=str(file),
                hint="Name what may be used, under 'allowed-tools'.",
            )
    fields: dict[str, Any] = {}
    for key, value in found.items():
        name = _KEYS.get(key)
        if name is None:
            continue  # other programs keep things of their own here
        if name in fields:
            raise ConfigError(f"{key!r} stands twice, in two spellings.", file=str(file))
        if name == "metadata":
            if not isinstance(value, Mapping):
                raise ConfigError("'metadata' must be a mapping.", file=str(file))
        elif name == "allowed_tools":
            value = _tools(value, file)
        elif not isinstance(value, str):
            raise ConfigError(f"{key!r} must be text.", file=str(file))
        fields[name] = value
    return fields


def _tools(value: Any, file: Path) -> list[str]:
    """Read names in a list, or in a text with spaces or commas between them."""
    if isinstance(value, str):
        return [name for name in re.split(r"[\s,]+", value) if name]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    raise ConfigError("'allowed-tools' must be a list of names.", file=str(file))
