"""Skills: folders of instructions that a node lays over its requests."""

from teff.skill.load import load_skill
from teff.skill.mount import MountedSkills, SkillMount, mount_skills
from teff.skill.skill import Skill

__all__ = ["MountedSkills", "Skill", "SkillMount", "load_skill", "mount_skills"]
