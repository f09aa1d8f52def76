"""Skills: what a folder says, and what a node makes of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from teff.errors import ConfigError, ToolError
from teff.skill import Skill, load_skill, mount_skills
from teff.tool import Tool

SKILL = """\
---
name: refunds
description: "How refunds are handled: limits, and who decides."
allowed-tools: search, lookup
metadata:
  team: billing
---
Refunds above 100 EUR need a person.
"""


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_bytes(text.encode())
    return folder / name


def tools(*names: str) -> list[Tool]:
    def made(name: str) -> Tool:
        class Made(Tool):
            """Do nothing."""

            def run(self) -> str:
                return name

        Made.name = name
        return Made()

    return [made(name) for name in names]


def test_a_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path, "refunds", SKILL)
    skill = load_skill("refunds", skill_dir=tmp_path)
    assert skill.name == "refunds"
    assert skill.description == "How refunds are handled: limits, and who decides."
    assert skill.allowed_tools == ("search", "lookup")
    assert skill.metadata == {"team": "billing"}
    assert skill.instructions == "Refunds above 100 EUR need a person."


@pytest.mark.parametrize("marks", ["\ufeff", ""])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_byte_order_mark_and_other_line_ends_change_nothing(
    tmp_path: Path, marks: str, ending: str
) -> None:
    write(tmp_path, "refunds", marks + SKILL.replace("\n", ending))
    assert load_skill("refunds", skill_dir=tmp_path).allowed_tools == ("search", "lookup")


def test_without_front_matter_the_folder_is_the_name(tmp_path: Path) -> None:
    write(tmp_path, "tone", "Be brief.\n")
    assert load_skill("tone", skill_dir=tmp_path) == Skill(
        name="tone", instructions="Be brief.", folder=tmp_path / "tone"
    )


@pytest.mark.parametrize(
    "written", ["allowed-tools:", "allowed-tools: []", "allowed_tools: ''"], ids=repr
)
def test_an_empty_list_of_tools_allows_none(tmp_path: Path, written: str) -> None:
    write(tmp_path, "quiet", f"---\nname: quiet\n{written}\n---\nSay nothing.")
    skills = mount_skills(["quiet"], skill_dir=tmp_path)
    assert skills.narrowed(tools("search", "mail")) == []


def test_skl_01_front_matter_that_does_not_parse_is_an_error_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, "guide", "---\nname: guide\ndescription: Guides you: step 1\n---\nText")
    with pytest.raises(ConfigError, match="does not parse") as caught:
        load_skill("guide", skill_dir=tmp_path)
    assert (caught.value.line, caught.value.file) == (3, str(tmp_path / "guide" / "SKILL.md"))
    assert "quotes" in caught.value.hint


@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("name: x\nallowed-tools: [a]\nallowed-tools: [b]", "stands twice"),
        ("name: x\nallowed-tools: [a]\nallowed_tools: [b]", "twice, in two spellings"),
        ("name: x\nallowed-tools: {a: b}", "must be a list"),
        ("name: x\ndisallowed-tools: [a]", "restriction must not be lost"),
        ("name: [x]", "'name' must be text"),
        ("name: ../x", "no name of a skill"),
        ("- a", "must be a mapping"),
    ],
)
def test_a_restriction_cannot_vanish(tmp_path: Path, front: str, said: str) -> None:
    write(tmp_path, "x", f"---\n{front}\n---\nText")
    with pytest.raises(ConfigError, match=said):
        load_skill("x", skill_dir=tmp_path)


def test_front_matter_that_is_never_closed_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "x", "---\nname: x\n")
    with pytest.raises(ConfigError, match="never closed"):
        load_skill("x", skill_dir=tmp_path)


@pytest.mark.parametrize("name", ["../x", "/etc", "a/../../b", "C:\\x", "ok\0", "", ".", "nme"])
def test_skl_04_a_name_never_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    write(tmp_path / "skills", "name", "Text")
    write(tmp_path, "x", "Text")
    with pytest.raises(ConfigError, match="no skill"):
        load_skill(name, skill_dir=tmp_path / "skills")


def test_skl_04_a_link_out_of_a_skill_is_not_followed_but_a_linked_folder_is(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    real = write(tmp_path / "elsewhere", "tone", "Be brief.")
    (real / "more.md").write_text("More.")
    (real / "out.md").symlink_to(secret)
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "tone").symlink_to(real)
    skill = load_skill("tone", skill_dir=tmp_path / "skills")
    assert skill.files() == ["more.md"]
    assert skill.read_file("more.md") == "More."
    for path in ("out.md", "../../secret.txt", str(secret), "more.md\0"):
        with pytest.raises(ConfigError, match="has no file"):
            skill.read_file(path)
    hidden = tmp_path / "skills" / "hidden"
    hidden.mkdir()
    (hidden / "SKILL.md").symlink_to(secret)
    with pytest.raises(ConfigError, match="leads out"):
        load_skill("hidden", skill_dir=tmp_path / "skills")


def test_a_skill_is_loaded_by_the_model_when_it_needs_it(tmp_path: Path) -> None:
    folder = write(tmp_path, "refunds", SKILL)
    (folder / "limits.md").write_text("100 EUR")
    skills = mount_skills("refunds", skill_dir=tmp_path)
    assert "100 EUR need" not in skills.system_text()
    assert "- refunds: How refunds" in skills.system_text()
    (loader,) = skills.tools()

    def load(**arguments: str) -> object:
        return asyncio.run(loader.call(arguments))

    assert load(name="refunds") == (
        "Refunds above 100 EUR need a person.\n\nFiles of this skill: limits.md"
    )
    assert load(name="refunds", file="limits.md") == "100 EUR"
    for wrong in ({"name": "refund"}, {"name": "refunds", "file": "../x"}):
        with pytest.raises(ToolError, match="no skill|no file"):
            load(**wrong)


def test_whole_skills_need_no_tool() -> None:
    skills = mount_skills([Skill(name="tone", instructions="Be brief.")], mount="full")
    assert skills.system_text() == "# Skill: tone\n\nBe brief."
    assert skills.tools() == []


def test_several_skills_narrow_together_and_none_widens() -> None:
    skills = mount_skills(
        [
            Skill(name="a", allowed_tools=["search", "mail"]),
            Skill(name="b", allowed_tools=["mail", "shell"]),
            Skill(name="c"),
        ]
    )
    assert [tool.name for tool in skills.narrowed(tools("search", "mail"))] == ["mail"]


def test_one_skill_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="two skills"):
        mount_skills([Skill(name="a"), Skill(name="a")])


def test_a_missing_folder_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder") as caught:
        mount_skills(["a"], skill_dir=tmp_path / "skills")
    assert "skill_dir" in caught.value.hint
