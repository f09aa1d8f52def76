from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import AmbiguousName, ConfigError, PluginLoadError
from teff.plugins import GROUPS, Catalogue, PluginEntry
from teff.plugins.builtin import BUILTINS
from teff.plugins.catalogue import catalogue
from teff.plugins.entry import canonical_name

MARK = """
class Mark:
    pass
"""


def test_a_plugin_is_imported_when_it_is_first_used_and_not_before(site):
    site.install(
        "acme-nodes", {"teff.nodes": {"mark": "acme_mark:Mark"}}, modules={"acme_mark": MARK}
    )
    found = site.catalogue()

    assert found.names("teff.nodes") == sorted([*BUILTINS["teff.nodes"], "mark"])
    assert found.find("teff.nodes", "mark").distribution == "acme-nodes"
    assert [row.state for row in found.entries()] == ["found"]
    assert "acme_mark" not in sys.modules

    loaded = found.load("teff.nodes", "mark")
    assert loaded is sys.modules["acme_mark"].Mark
    assert found.load("teff.nodes", "acme-nodes/mark") is loaded
    assert [row.state for row in found.entries("teff.nodes")] == ["loaded"]


def test_a_built_in_name_needs_no_look_at_what_is_installed():
    def fail():
        raise AssertionError("scanned")

    found = Catalogue(
        entry_points=fail, builtins={"teff.nodes": {"ordered": "collections:Counter"}}
    )

    from collections import Counter

    assert found.load("teff.nodes", "ordered") is Counter
    assert found.load("teff.nodes", "teff-core/ordered") is Counter


def test_what_is_installed_is_read_once():
    scans = []

    def entry_points():
        scans.append(1)
        return []

    found = Catalogue(entry_points=entry_points)
    for name in ("a", "b"):
        with pytest.raises(ConfigError):
            found.load("teff.tools", name)
    found.names("teff.nodes")
    found.entries()
    assert len(scans) == 1


def test_an_unknown_name_is_an_error_with_the_nearest_one(site):
    site.install("acme", {"teff.providers": {"acme_cloud": "acme_module:Acme"}})
    found = site.catalogue()

    with pytest.raises(
        ConfigError, match=r"unknown provider 'acme_clod'\. Did you mean 'acme_cloud'"
    ):
        found.load("teff.providers", "acme_clod")
    with pytest.raises(ConfigError, match=r"unknown node type 'superviser'.*'supervisor'"):
        found.load("teff.nodes", "superviser")
    with pytest.raises(ConfigError, match="unknown memory store 'x'"):
        found.load("teff.memory", "x")
    with pytest.raises(ConfigError, match="Did you mean 'declared'"):
        found.load("teff.providers", "declard", known=["declared"])


@pytest.mark.parametrize(
    ("group", "name", "distribution"),
    [
        ("teff.providers", "openai", "teff-providers-openai"),
        ("teff.providers", "ollama", "teff-providers-ollama"),
        ("teff.providers", "local", "teff-providers-local"),
        ("teff.providers", "teff-providers-local/local", "teff-providers-local"),
        ("teff.tools", "fetch_url", "teff-tools-web"),
    ],
)
def test_a_known_name_that_is_not_installed_gives_the_pip_line(site, group, name, distribution):
    with pytest.raises(ConfigError, match=f"pip install {distribution}"):
        site.catalogue().load(group, name)


def test_a_misspelt_known_name_that_is_not_installed_gives_both(site):
    with pytest.raises(ConfigError) as caught:
        site.catalogue().load("teff.providers", "olama")
    assert str(caught.value) == (
        "unknown provider 'olama'. Did you mean 'ollama'? "
        "'ollama' comes with teff-providers-ollama: pip install teff-providers-ollama"
    )


def test_an_unknown_group_is_an_error_with_the_nearest_one(site):
    with pytest.raises(ConfigError, match=r"teff\.nodes"):
        site.catalogue().load("teff.node", "x")
    with pytest.raises(ConfigError, match=r"teff\.nodes"):
        site.catalogue().entries("teff.node")


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import a_module_that_is_not_there", "ModuleNotFoundError: .*a_module_that_is_not_there"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise BaseException('ugly')", "BaseException: ugly"),
        ("def broken(:", "SyntaxError"),
        ("", "AttributeError: .*Thing"),
    ],
)
def test_a_broken_plugin_is_an_error_each_time_it_is_named(site, source, cause):
    site.install(
        "acme-broken",
        {"teff.tools": {"thing": "acme_broken:Thing"}},
        version="2.1",
        modules={"acme_broken": source},
    )
    found = site.catalogue()
    for _ in range(3):
        with pytest.raises(PluginLoadError, match=cause) as caught:
            found.load("teff.tools", "thing")
        assert "acme-broken 2.1" in str(caught.value)
        assert "thing = acme_broken:Thing" in str(caught.value)
        assert "pip install --upgrade --force-reinstall acme-broken" in str(caught.value)
        assert caught.value.plugin == "acme-broken"
    (row,) = found.entries()
    assert row.state == "failed"
    assert row.error
    assert "thing" not in found.names("teff.tools")


def test_a_broken_plugin_hurts_only_whoever_names_it(site):
    site.install("acme-a", {"teff.tools": {"bad": "acme_bad:X"}}, modules={"acme_bad": "1/0"})
    site.install("acme-b", {"teff.tools": {"good": "acme_good:Mark"}}, modules={"acme_good": MARK})
    found = site.catalogue()
    assert found.load("teff.tools", "good")
    assert "acme_bad" not in sys.modules


def test_the_interrupt_key_ends_a_load(site):
    site.install(
        "acme",
        {"teff.tools": {"slow": "acme_slow:X"}},
        modules={"acme_slow": "raise KeyboardInterrupt"},
    )
    found = site.catalogue()
    with pytest.raises(KeyboardInterrupt):
        found.load("teff.tools", "slow")
    assert [row.state for row in found.entries()] == ["found"]


def test_what_a_plugin_prints_on_import_stays_off_standard_output(site, capsys):
    site.install(
        "acme",
        {"teff.nodes": {"loud": "acme_loud:Mark"}},
        modules={"acme_loud": "print('hello')\n" + MARK},
    )
    site.catalogue().load("teff.nodes", "loud")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "hello" in printed.err


def test_a_name_that_two_distributions_offer_is_an_error_that_lists_both(site):
    for number in (1, 2):
        site.install(
            f"acme-{number}",
            {"teff.tools": {"mark": f"acme_twin_{number}:Mark"}},
            modules={f"acme_twin_{number}": MARK},
        )
    found = site.catalogue()
    with pytest.raises(AmbiguousName, match="by acme-1 and by acme-2; write 'acme-1/mark' or"):
        found.load("teff.tools", "mark")
    assert found.names("teff.tools") == ["acme-1/mark", "acme-2/mark"]
    assert {row.state for row in found.entries()} == {"ambiguous"}
    assert "acme_twin_1" not in sys.modules

    assert found.load("teff.tools", "Acme_2/mark") is sys.modules["acme_twin_2"].Mark
    assert [row.state for row in found.entries()] == ["ambiguous", "loaded"]


def test_an_allow_list_settles_which_of_two_is_meant(site, monkeypatch):
    for number in (1, 2):
        site.install(
            f"acme-{number}",
            {"teff.tools": {"mark": f"acme_rival_{number}:Mark"}},
            modules={f"acme_rival_{number}": MARK},
        )
    monkeypatch.setenv("TEFF_PLUGINS", "ACME_2")
    found = site.catalogue()
    assert found.load("teff.tools", "mark") is sys.modules["acme_rival_2"].Mark
    assert [row.state for row in found.entries()] == ["blocked", "loaded"]


def test_a_built_in_cannot_be_shadowed(site):
    site.install(
        "acme", {"teff.nodes": {"transform": "acme_shadow:Mark"}}, modules={"acme_shadow": MARK}
    )
    found = site.catalogue()
    assert found.find("teff.nodes", "transform").target == "teff.node.transform:Transform"
    (row,) = found.entries()
    assert row.state == "shadowed"
    assert "acme/transform" in row.error
    assert "acme/transform" in found.names("teff.nodes")
    assert found.load("teff.nodes", "acme/transform") is sys.modules["acme_shadow"].Mark


def test_a_known_name_from_another_distribution_is_warned_about(site, caplog):
    site.install(
        "totally-openai",
        {"teff.providers": {"openai": "acme_squatter:Mark"}},
        modules={"acme_squatter": MARK},
    )
    found = site.catalogue()
    found.load("teff.providers", "openai")
    found.load("teff.providers", "openai")
    (record,) = caplog.records
    assert "totally-openai" in record.getMessage()
    assert "teff-providers-openai" in record.getMessage()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("TEFF_DISABLE_PLUGINS", "1"), ("TEFF_PLUGINS", "none"), ("TEFF_PLUGINS", "")],
)
def test_a_blocked_distribution_is_never_imported(site, monkeypatch, variable, value):
    site.install(
        "acme", {"teff.tools": {"mark": "acme_blocked:Mark"}}, modules={"acme_blocked": ""}
    )
    monkeypatch.setenv(variable, value)
    found = site.catalogue()
    for name in ("mark", "acme/mark"):
        with pytest.raises(ConfigError, match=f"acme, which may not be loaded: {variable}"):
            found.load("teff.tools", name)
    assert [row.state for row in found.entries()] == ["blocked"]
    assert found.names("teff.tools") == []
    assert "acme_blocked" not in sys.modules


@pytest.mark.parametrize("value", ["0", "", "false"])
def test_a_switch_that_is_off_blocks_nothing(site, monkeypatch, value):
    site.install("acme", {"teff.tools": {"mark": "acme_module:Mark"}})
    monkeypatch.setenv("TEFF_DISABLE_PLUGINS", value)
    assert site.catalogue().names("teff.tools") == ["mark"]


def test_a_distribution_that_stands_on_the_path_twice_counts_once(site):
    site.install(
        "acme", {"teff.tools": {"mark": "acme_double:Mark"}}, modules={"acme_double": MARK}
    )
    (site.root / "lib64").symlink_to(site.folder(), target_is_directory=True)
    found = site.catalogue("lib", "lib64")
    assert len(found.entries()) == 1
    assert found.load("teff.tools", "mark")


def test_of_two_versions_the_first_on_the_path_counts(site):
    site.install("Acme.Tools", {"teff.tools": {"new": "acme_module:New"}}, version="2.0")
    site.install(
        "acme_tools", {"teff.tools": {"old": "acme_module:Old"}}, version="1.0", folder="stale"
    )
    assert [(row.name, row.version) for row in site.catalogue("lib", "stale").entries()] == [
        ("new", "2.0")
    ]


def test_a_name_declared_twice_by_one_distribution_fails_when_it_is_used():
    rows = [
        PluginEntry(distribution="acme", group="teff.tools", name="x", target=target)
        for target in ("m:A", "m:B")
    ]
    found = Catalogue(entry_points=lambda: rows)
    with pytest.raises(PluginLoadError, match="declared twice: as m:A and as m:B"):
        found.load("teff.tools", "x")
    assert len(found.entries()) == 1


def test_a_name_cannot_pose_as_that_of_another_distribution():
    rows = [
        PluginEntry(distribution="evil", group="teff.tools", name="good/tool", target="m:A"),
    ]
    found = Catalogue(entry_points=lambda: rows)
    with pytest.raises(ConfigError, match="unknown tool 'good/tool'"):
        found.load("teff.tools", "good/tool")
    (row,) = found.entries()
    assert (row.state, row.error) == ("failed", "a name may not contain '/'")


def _no_metadata(info: Path) -> None:
    (info / "METADATA").unlink()


def _no_name(info: Path) -> None:
    (info / "METADATA").write_text("Metadata-Version: 2.1\nVersion: 1.0\n")


def _garbage(info: Path) -> None:
    (info / "entry_points.txt").write_bytes(b"[teff.tools]\n\xff\xfe = \xff\n")


def _no_equals_sign(info: Path) -> None:
    (info / "entry_points.txt").write_text("[teff.tools]\nno equals sign\n")


@pytest.mark.parametrize("damage", [_no_metadata, _no_name, _garbage, _no_equals_sign])
def test_broken_metadata_is_a_row_and_not_a_crash(site, damage):
    damage(site.install("acme-damaged", {"teff.tools": {"x": "acme_module:X"}}))
    site.install("acme-whole", {"teff.tools": {"y": "acme_module:Y"}})
    found = site.catalogue()
    assert found.names("teff.tools") == ["y"]
    broken, whole = found.entries()
    assert (broken.state, broken.group) == ("failed", "")
    assert str(site.folder()) in broken.error
    assert whole.name == "y"


def test_rows_are_sorted_and_can_be_of_one_group(site):
    site.install("b", {"teff.tools": {"z": "m:z", "y": "m:y"}, "teff.nodes": {"n": "m:n"}})
    site.install("a", {"teff.tools": {"x": "m:x"}, "console_scripts": {"other": "m:main"}})
    found = site.catalogue()
    assert [(row.group, row.name) for row in found.entries()] == [
        ("teff.nodes", "n"),
        ("teff.tools", "x"),
        ("teff.tools", "y"),
        ("teff.tools", "z"),
    ]
    assert [row.name for row in found.entries("teff.tools")] == ["x", "y", "z"]


def test_extras_in_an_entry_point_are_ignored(site):
    site.install("acme", {"teff.tools": {"x": "acme_module:X [fast]"}})
    assert [row.target for row in site.catalogue().entries()] == ["acme_module:X"]


def test_the_process_has_one_catalogue():
    assert catalogue() is catalogue()
    assert catalogue().find("teff.nodes", "llm_chat").distribution == "teff-core"


def test_the_built_in_table_names_groups_that_exist():
    assert set(BUILTINS) <= set(GROUPS)


@given(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", fullmatch=True))
def test_the_canonical_name_is_its_own_canonical_name(name):
    once = canonical_name(name)
    assert canonical_name(once) == once
    assert canonical_name(name.upper().replace("-", "_")) == once
