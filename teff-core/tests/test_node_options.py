"""How nodes declare options, and how types are registered."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from teff.errors import ConfigError
from teff.flow import Flow
from teff.node import Node, NodeRegistry, options
from teff.node.registry import make_function_node, node


@options
class Greet(Node):
    type = "greet"

    name: str = "world"
    times: int = attrs.field(default=1, validator=attrs.validators.ge(1))

    async def execute(self, ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"greeting": f"Hello, {self.name}! " * self.times}


@attrs.define
class Table(Node):
    """As an author writes it who knows attrs and nothing of ours."""

    type = "table"

    path: str
    rows: int = 10

    async def execute(self, ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"rows": self.rows}


class Plain(Node):
    type = "plain"

    async def execute(self, ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"got": self.config["anything"]}


def test_keywords_and_the_mapping_form_make_the_same_node() -> None:
    for made in (Greet(name="Ada", id="g"), Greet({"name": "Ada", "id": "g"})):
        assert (made.name, made.times, made.id) == ("Ada", 1, "g")
        assert made.config["name"] == "Ada"


def test_keywords_win_over_the_mapping() -> None:
    assert Greet({"name": "Ada"}, name="Bo").name == "Bo"


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="unknown option 'nme'.*Did you mean 'name'") as caught:
        Greet(nme="Ada")
    assert caught.value.path == "nme"


@pytest.mark.parametrize("wrong", [{"times": "two"}, {"times": 1.5}, {"times": True}, {"name": 3}])
def test_a_value_of_the_wrong_type_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Greet(wrong)


def test_a_value_out_of_range_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="times"):
        Greet(times=0)


def test_the_config_can_be_read_and_set_and_checks_what_is_set() -> None:
    made = Greet()
    made.config["times"] = 2
    assert made.times == 2
    assert dict(made.config) == {"id": None, "name": "world", "times": 2}
    with pytest.raises(ConfigError, match="tmes"):
        made.config["tmes"] = 3
    with pytest.raises(ConfigError, match="times"):
        made.config["times"] = "many"
    with pytest.raises(KeyError):
        made.config["nothing"]


def test_a_plain_subclass_reads_what_it_was_given() -> None:
    made = Plain({"anything": 1}, more=2, id="p")
    assert (dict(made.config), made.id) == ({"anything": 1, "more": 2, "id": "p"}, "p")
    assert asyncio.run(Flow().step(made).compile().run())["got"] == 1


def test_a_subclass_of_a_node_with_options_keeps_them() -> None:
    class Loud(Greet):
        type = "loud"

    assert Loud(name="Ada").name == "Ada"
    with pytest.raises(ConfigError, match="loud: unknown option"):
        Loud(nme="Ada")


def test_the_registry_makes_every_style_of_node() -> None:
    registry = NodeRegistry({"greet": Greet, "table": Table, "plain": Plain})
    assert registry.create("greet", {"name": "Ada"}).config["name"] == "Ada"
    table = registry.create("table", {"path": "a.csv", "rows": "3"}, id="t")
    assert (table.config["rows"], table.id) == (3, "t")
    assert registry.create("plain", anything=1).config["anything"] == 1
    with pytest.raises(ConfigError, match="'rws'.*Did you mean 'rows'"):
        registry.create("table", {"path": "a.csv", "rws": 3})


def test_an_unknown_type_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="supervisr.*Did you mean 'supervisor'"):
        NodeRegistry().create("supervisr")


def test_a_taken_name_needs_replace() -> None:
    registry = NodeRegistry()
    registry.register("mine", Greet)
    for taken in ("mine", "transform"):
        with pytest.raises(ConfigError, match=f"'{taken}' exists already"):
            registry.register(taken, Greet)
    registry.register("mine", Plain, replace=True)
    assert isinstance(registry.create("mine"), Plain)


def test_a_copy_is_a_registry_of_its_own() -> None:
    registry = NodeRegistry()
    registry.copy().register("mine", Greet)
    assert "mine" not in registry.list()
    assert "transform" in registry.list()


def test_a_function_becomes_a_node_type_and_stays_itself() -> None:
    registry = NodeRegistry()

    @attrs.frozen
    class Settings:
        suffix: str = "!"

    @node("shout", config=Settings, registry=registry)
    async def shout(ctx: Any, settings: Settings, state: dict[str, Any]) -> dict[str, Any]:
        return {"out": state["in"].upper() + settings.suffix}

    made = registry.create("shout", {"suffix": "?"}, id="s")
    assert asyncio.run(Flow().step(made).compile().run({"in": "hi"}))["out"] == "HI?"
    assert shout.__name__ == "shout"
    with pytest.raises(ConfigError, match="sufix.*Did you mean 'suffix'"):
        registry.create("shout", {"sufix": "?"})


def test_a_function_node_without_options_takes_none() -> None:
    registry = NodeRegistry()

    @node("plain", registry=registry)
    def plain(ctx: Any, state: dict[str, Any]) -> None:
        return None

    with pytest.raises(ConfigError, match="takes no options"):
        registry.create("plain", {"x": 1})


@pytest.mark.parametrize("wrong", [lambda: None, lambda state: None, lambda a, b, c: None, 3, None])
def test_what_cannot_be_called_with_context_and_state_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        make_function_node(wrong)


def test_a_callable_object_with_an_async_call_is_awaited() -> None:
    class Adder:
        async def __call__(self, ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
            return {"n": state["n"] + 1}

    graph = Flow().step(make_function_node(Adder(), "adder")).compile()
    assert asyncio.run(graph.run({"n": 1}))["n"] == 2
