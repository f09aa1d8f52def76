"""Skills of a node: what they add to its system text, and what they leave of its tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs

from teff.errors import ConfigError, ToolError
from teff.skill.load import load_skill
from teff.skill.skill import Skill
from teff.tool import Tool

__all__ = ["LOAD_SKILL", "MountedSkills", "SkillMount", "mount_skills"]

#: How skills reach the model: by name and description, with a tool that loads the rest; or whole.
SkillMount: TypeAlias = Literal["on_demand", "full"]

LOAD_SKILL: Final = "load_skill"


@attrs.frozen
class MountedSkills:
    """Skills that were loaded for a node.

    >>> skills = mount_skills([Skill(name="tone", description="How to write.")])
    >>> print(skills.system_text())
    You have skills. Before you do what one of them is for, load it with the tool load_skill.
    - tone: How to write.
    """

    skills: tuple[Skill, ...] = ()
    mount: SkillMount = "on_demand"

    def __bool__(self) -> bool:
        return bool(self.skills)

    def system_text(self) -> str:
        """Return what is added to the system text; "" without skills."""
        if not self.skills:
            return ""
        if self.mount == "full":
            return "\n\n".join(
                f"# Skill: {skill.name}\n\n{skill.instructions}" for skill in self.skills
            )
        listed = [f"- {skill.name}: {skill.description}" for skill in self.skills]
        head = (
            "You have skills. Before you do what one of them is for, load it with the tool "
            f"{LOAD_SKILL}."
        )
        return "\n".join([head, *listed])

    def narrowed(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return those of ``tools`` that every skill allows. Skills never add any."""
        return [
            tool
            for tool in tools
            if all(
                skill.allowed_tools is None or tool.name in skill.allowed_tools
                for skill in self.skills
            )
        ]

    def tools(self) -> list[Tool]:
        """Return the tool that loads skills, where they are not given whole."""
        return [_LoadSkill(self.skills)] if self.skills and self.mount == "on_demand" else []


class _LoadSkill(Tool):
    """Load a skill: its instructions, or one of its files."""

    name = LOAD_SKILL

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = {skill.name: skill for skill in skills}

    def run(self, name: str, file: str = "") -> str:
        """Return the instructions of a skill, or a file of it.

        Args:
            name: the skill.
            file: a file of it, as its instructions name it; empty for the instructions.
        """
        skill = self._skills.get(name)
        if skill is None:
            raise ToolError(
                f"there is no skill {name!r}; there are {', '.join(self._skills)}", tool=self.name
            )
        if file:
            try:
                return skill.read_file(file)
            except ConfigError as error:
                raise ToolError(str(error), tool=self.name) from None
        files = skill.files()
        listed = f"\n\nFiles of this skill: {', '.join(files)}" if files else ""
        return skill.instructions + listed


def mount_skills(
    skills: str | Sequence[str | Skill],
    *,
    skill_dir: str | Path = "skills",
    mount: SkillMount = "on_demand",
) -> MountedSkills:
    """Load skills, once, for a node.

    Raises:
        ConfigError: see `load_skill`; or one skill is named twice.
    """
    named = [skills] if isinstance(skills, str) else skills
    loaded = [load_skill(skill, skill_dir=skill_dir) for skill in named]
    names = [skill.name for skill in loaded]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two skills have the name {name!r}.", path="skills")
    return MountedSkills(tuple(loaded), mount)
