"""Tools by name: registered, installed, in scope."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from teff.errors import ConfigError
from teff.plugins import Catalogue, PluginEntry
from teff.tool import FunctionTool, Tool, ToolRegistry, default_tool_registry, scope_tools, tool
from teff.tool import decorator as decorator_module
from teff.tool import registry as registry_module


def add(a: int, b: int) -> int:
    return a + b


def shout(text: str) -> str:
    return text.upper()


class Echo(Tool):
    def run(self, text: str) -> str:
        return text


@attrs.frozen(kw_only=True)
class Search(Tool):
    limit: int = 3
    site: str

    def run(self, query: str) -> str:
        return query


class Older(Tool):
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def run(self) -> str:
        return ""


class Keyed(Tool):
    def __init__(self, key: str, retries: int = 0) -> None:
        self.key = key

    def run(self) -> str:
        return ""


echo = Echo()
made_with: list[Mapping[str, Any]] = []


def make_echo(config: Mapping[str, Any]) -> Tool:
    made_with.append(config)
    return Echo()


def make_nothing(config: Mapping[str, Any]) -> str:
    return "nothing"


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        PluginEntry(
            distribution="d", group="teff.tools", name=name, target=f"offered_tools:{target}"
        )
        for name, target in {
            "echo": "echo",
            "echo_class": "Echo",
            "echo_made": "make_echo",
            "nothing": "make_nothing",
        }.items()
    ]
    found = Catalogue(entry_points=lambda: entries)
    monkeypatch.setattr(registry_module, "catalogue", lambda: found)
    monkeypatch.setitem(sys.modules, "offered_tools", sys.modules[__name__])
    made_with.clear()


def test_a_registered_function_is_found_by_its_name() -> None:
    registry = ToolRegistry([add])
    assert registry.resolve("add").name == "add"
    assert registry.resolve("add") is registry.resolve("add")


def test_a_registered_class_is_made_once() -> None:
    registry = ToolRegistry([Echo])
    assert isinstance(registry.resolve("echo"), Echo)
    assert registry.resolve("echo") is registry.resolve("echo")


def test_the_decorator_registers_unless_it_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(default_tool_registry, ToolRegistry)
    registry = ToolRegistry()
    monkeypatch.setattr(decorator_module, "default_tool_registry", registry)
    decorated = tool(add)
    tool("loud", register=False)(shout)
    assert registry.resolve("add") is decorated
    with pytest.raises(ConfigError, match="unknown tool 'loud'.*Give it to the run as tools="):
        registry.resolve("loud")


def test_another_function_cannot_take_a_name() -> None:
    registry = ToolRegistry([add])
    with pytest.raises(ConfigError, match="another tool is registered as 'add'"):
        registry.register(FunctionTool(shout, name="add"))
    registry.register(FunctionTool(shout, name="add"), replace=True)
    assert registry.resolve("add")("x") == "X"  # type: ignore[operator]


def test_a_definition_that_is_executed_again_replaces_itself() -> None:
    registry = ToolRegistry()
    for factor in (1, 2):

        def scale(n: int, factor: int = factor) -> int:
            return n * factor

        registry.register(scale)
    assert registry.resolve("scale")(3) == 6  # type: ignore[operator]


@pytest.mark.parametrize("name", ["echo", "echo_class", "echo_made", "d/echo"])
def test_what_is_installed_is_found_whatever_the_entry_point_gives(name: str) -> None:
    registry = ToolRegistry()
    assert isinstance(registry.resolve(name), Tool)
    assert registry.resolve(name).name == "echo"


def test_what_is_registered_comes_before_what_is_installed() -> None:
    registry = ToolRegistry([FunctionTool(shout, name="echo")])
    assert isinstance(registry.resolve("echo"), FunctionTool)


def test_an_entry_point_that_gives_no_tool_is_named() -> None:
    with pytest.raises(ConfigError, match="'nothing' is no tool, but a str"):
        ToolRegistry().resolve("nothing")


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="unknown tool 'ad'.*Did you mean 'add'"):
        ToolRegistry([add]).resolve("ad")


def test_a_name_of_a_known_distribution_gets_the_line_that_installs_it() -> None:
    with pytest.raises(ConfigError, match="pip install teff-tools-web"):
        ToolRegistry([add]).resolve("fetch_url")


def test_options_are_read_strictly_into_a_class() -> None:
    registry = ToolRegistry([Search])
    made = registry.create("search", {"limit": "4", "site": "x.org"})
    assert isinstance(made, Search)
    assert made.limit == 4
    with pytest.raises(ConfigError, match="tool 'search': unknown option 'limitt'.*'limit'"):
        registry.create("search", {"limitt": 4, "site": "x.org"})
    with pytest.raises(ConfigError, match="the option 'site' is missing"):
        registry.create("search")


def test_options_of_other_classes_go_to_their_constructor() -> None:
    registry = ToolRegistry([Older, Keyed])
    made = registry.create("older", {"anything": 1})
    assert isinstance(made, Older)
    assert made.config == {"anything": 1}
    assert isinstance(registry.create("keyed", {"key": "k"}), Keyed)
    with pytest.raises(ConfigError, match="unknown option 'kay'. Did you mean 'key'?"):
        registry.create("keyed", {"kay": "k"})
    with pytest.raises(ConfigError, match="missing a required argument: 'key'"):
        registry.create("keyed", {})


def test_options_go_to_a_factory() -> None:
    ToolRegistry().create("echo_made", {"a": 1})
    assert made_with == [{"a": 1}]


def test_a_tool_without_options_refuses_them() -> None:
    with pytest.raises(ConfigError, match="unknown option 'loud'; it takes none"):
        ToolRegistry([add]).create("add", {"loud": True})


@pytest.mark.parametrize("thing", [3, "add", int])
def test_what_is_no_tool_cannot_be_registered(thing: Any) -> None:
    with pytest.raises(ConfigError, match="is no tool"):
        ToolRegistry([thing])


def test_the_list_has_every_name_and_a_copy_is_independent() -> None:
    registry = ToolRegistry([add])
    copied = registry.copy()
    copied.register(shout)
    assert registry.list() == ["add", "echo", "echo_class", "echo_made", "nothing"]
    assert "shout" in copied.list()


POOL: list[Tool] = [FunctionTool(add), FunctionTool(shout), Echo()]


@pytest.mark.parametrize(
    ("use_tools", "names"),
    [
        (None, []),
        (False, []),
        ([], []),
        (True, ["add", "shout", "echo"]),
        ("all", ["add", "shout", "echo"]),
        ("*", ["add", "shout", "echo"]),
        ("shout", ["shout"]),
        (["echo", "add", "echo"], ["echo", "add"]),
    ],
)
def test_use_tools_narrows_what_there_is(use_tools: Any, names: list[str]) -> None:
    assert [found.name for found in scope_tools(POOL, use_tools)] == names
    assert [found.name for found in scope_tools({t.name: t for t in POOL}, use_tools)] == names


@pytest.mark.parametrize("use_tools", ["shot", ["add", "shot"], "add,shout"])
def test_an_unknown_name_in_use_tools_is_an_error(use_tools: Any) -> None:
    with pytest.raises(ConfigError, match="use_tools: unknown tool"):
        scope_tools(POOL, use_tools)


def test_two_tools_of_one_name_are_an_error() -> None:
    with pytest.raises(ConfigError, match="two tools have the name 'echo'"):
        scope_tools([*POOL, Echo()], "all")
