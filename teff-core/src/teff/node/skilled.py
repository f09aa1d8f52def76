"""`SkilledNode`: the options of nodes that work with skills."""

from __future__ import annotations

from collections.abc import Sequence

from teff.errors import ConfigError
from teff.node.base import Node, options
from teff.skill import MountedSkills, Skill, SkillMount, mount_skills

__all__ = ["SkilledNode"]


@options
class SkilledNode(Node):
    """A node that lays skills over its requests, or carries out the calls of one that does.

    Args:
        skills: names of folders in ``skill_dir``, or `Skill` objects. They are read once, when the
            node is made.
        skill_dir: the folder of the skills.
        skill_mount: ``on_demand`` tells the model their names and descriptions, and gives it a tool
            to load the rest; ``full`` tells it everything.
    """

    skills: str | Sequence[str | Skill] = ()
    skill_dir: str = "skills"
    skill_mount: SkillMount = "on_demand"

    def __attrs_post_init__(self) -> None:
        try:
            self._skills: MountedSkills = mount_skills(
                self.skills, skill_dir=self.skill_dir, mount=self.skill_mount
            )
        except ConfigError as error:
            raise ConfigError(
                f"{self._described(self.id)}: {error.message}",
                path=error.path or "skills",
                file=error.file,
                line=error.line,
                hint=error.hint,
            ) from None
