"""Tools as functions and as classes."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import attrs
import pytest

from teff.errors import ConfigError, ToolError
from teff.tool import FunctionTool, Tool, tool


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b


class Weather(Tool):
    """Say what the weather is."""

    def run(self, city: str, days: int = 1) -> str:
        return f"rain in {city} for {days} days"


def test_a_decorated_function_is_called_as_before() -> None:
    decorated = tool("plus", register=False)(add)
    assert decorated(1, 2) == 3
    assert decorated(a=1, b=2) == 3
    assert inspect.signature(decorated) == inspect.signature(add)
    assert decorated.__name__ == "add"


def test_a_decorated_async_function_is_awaited_as_before() -> None:
    @tool(register=False)
    async def double(n: int) -> int:
        return 2 * n

    assert asyncio.run(double(2)) == 4


def test_a_model_is_told_the_parameters_of_a_function() -> None:
    spec = tool("plus", register=False)(add).spec()
    assert spec.name == "plus"
    assert spec.description == "Add two numbers."
    assert spec.schema["properties"] == {
        "a": {"type": "integer", "description": "the first"},
        "b": {"type": "integer", "description": "the second"},
    }
    assert spec.schema["required"] == ["a", "b"]


def test_arguments_are_read_by_the_types_of_the_function() -> None:
    decorated = FunctionTool(add)
    assert asyncio.run(decorated.call({"a": "1", "b": "2"})) == 3
    with pytest.raises(ToolError, match="'a' must be a whole number"):
        asyncio.run(decorated.call({"a": 1.9, "b": 2}))


def test_a_description_can_be_given() -> None:
    assert tool(description="Sum.", register=False)(add).spec().description == "Sum."


def test_a_class_is_named_after_itself_and_described_by_its_docstring() -> None:
    spec = Weather().spec()
    assert (spec.name, spec.description) == ("weather", "Say what the weather is.")
    assert asyncio.run(Weather().call({"city": "Riga"})) == "rain in Riga for 1 days"


def test_a_class_without_docstring_is_described_by_its_method() -> None:
    class Plain(Tool):
        def run(self) -> str:
            """Do it."""
            return ""

    class Silent(Tool):
        def run(self) -> str:
            return ""

    assert Plain().spec().description == "Do it."
    assert Silent().spec().description == ""


def test_a_subclass_has_the_name_it_says_or_inherits_the_one_that_was_said() -> None:
    class Named(Tool):
        name = "say_weather"

        def run(self) -> str:
            return ""

    class Better(Named):
        pass

    class Storm(Weather):
        pass

    assert Better().name == "say_weather"
    assert Storm().name == "storm"


def test_an_async_class_is_preferred_to_its_sync_half() -> None:
    class Both(Tool):
        def run(self, n: int) -> str:
            return "sync"

        async def arun(self, n: int) -> str:
            return "async"

    assert asyncio.run(Both().call({"n": 1})) == "async"


def test_an_attrs_class_has_options_of_its_own() -> None:
    @attrs.frozen
    class Search(Tool):
        limit: int = 3

        def run(self, query: str) -> str:
            return query * self.limit

    assert asyncio.run(Search(limit=2).call({"query": "a"})) == "aa"


def test_state_and_context_are_filled_in_and_hidden() -> None:
    def who(greeting: str, __state__: Any, __ctx__: Any = None) -> str:
        return f"{greeting} {__state__['name']} {__ctx__}"

    made = FunctionTool(who)
    assert list(made.spec().schema["properties"]) == ["greeting"]
    call = made.call({"greeting": "hi"}, state={"name": "Ann"}, ctx="ctx")
    assert asyncio.run(call) == "hi Ann ctx"
    with pytest.raises(ToolError, match="'__state__' is no parameter"):
        asyncio.run(made.call({"greeting": "hi", "__state__": {}}, state={}))


def test_another_hidden_parameter_needs_a_default() -> None:
    def odd(__secret: str) -> None: ...

    with pytest.raises(ConfigError, match="hides its parameter '__secret'"):
        FunctionTool(odd)


def test_open_arguments_are_refused_when_the_tool_is_made() -> None:
    with pytest.raises(ConfigError, match=r"takes \*\*options"):

        @tool(register=False)
        def loose(**options: str) -> None: ...


def test_a_schema_of_ones_own_allows_open_arguments() -> None:
    class Remote(Tool):
        schema = {  # noqa: RUF012
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        }

        def run(self, **arguments: Any) -> Any:
            return arguments

    assert Remote().spec().schema == Remote.schema
    assert asyncio.run(Remote().call({"city": "Riga"}, state={"x": 1})) == {"city": "Riga"}
    with pytest.raises(ToolError, match="'city' is missing. 'town' is no parameter."):
        asyncio.run(Remote().call({"town": "Riga"}))


def test_a_class_without_a_method_says_so() -> None:
    class Empty(Tool):
        pass

    with pytest.raises(ConfigError, match="neither `run` nor `arun`"):
        Empty().spec()


def test_a_method_without_its_object_is_no_tool() -> None:
    with pytest.raises(ConfigError, match="a method without its object"):
        tool(register=False)(Weather.run)


def test_a_generator_is_no_tool() -> None:
    def count() -> Iterator[int]:
        yield 1

    async def stream() -> AsyncIterator[int]:
        yield 1

    for function in (count, stream):
        with pytest.raises(ConfigError, match="a tool gives one result"):
            FunctionTool(function)


@pytest.mark.parametrize("name", ["", "two words", "a" * 65, "a\n"])
def test_a_name_that_providers_refuse_is_refused_here(name: str) -> None:
    def nameless() -> None: ...

    nameless.__name__ = ""
    with pytest.raises(ConfigError, match="is no name for a tool"):
        FunctionTool(nameless, name=name)


def test_a_type_that_is_defined_later_is_found_when_it_is_needed() -> None:
    namespace: dict[str, Any] = {"__name__": "later"}
    source = (
        "from __future__ import annotations\n"
        "from teff.tool import tool\n"
        "@tool(register=False)\n"
        "def move(by: Step) -> int:\n"
        "    return by['n']\n"
        "from typing import TypedDict\n"
        "class Step(TypedDict):\n"
        "    n: int\n"
    )
    exec(compile(source, "later.py", "exec"), namespace)
    assert asyncio.run(namespace["move"].call({"by": {"n": 2}})) == 2


def test_a_sync_function_runs_beside_the_event_loop_tol_07() -> None:
    here = threading.get_ident()
    arrived = threading.Barrier(2, timeout=30)
    ticks = 0

    def wait() -> bool:
        arrived.wait()  # passes only where both calls run at the same time
        return threading.get_ident() != here

    async def run() -> tuple[object, object]:
        nonlocal ticks
        waiting = FunctionTool(wait)
        both = asyncio.gather(waiting.call({}), waiting.call({}))
        await asyncio.sleep(0)
        ticks += 1
        first, second = await both
        return first, second

    assert asyncio.run(run()) == (True, True)
    assert ticks == 1


def test_the_loop_ticks_while_a_sync_tool_sleeps_tol_07() -> None:
    async def run() -> int:
        sleeping = asyncio.create_task(FunctionTool(lambda: time.sleep(0.2), name="nap").call({}))
        ticks = 0
        while not sleeping.done():
            await asyncio.sleep(0.001)
            ticks += 1
        return ticks

    assert asyncio.run(run()) > 5


def test_a_sync_function_sees_the_context_variables_of_its_caller() -> None:
    variable = contextvars.ContextVar("variable", default="outside")

    async def run() -> object:
        variable.set("inside")
        return await FunctionTool(lambda: variable.get(), name="look").call({})

    assert asyncio.run(run()) == "inside"


def test_stop_iteration_does_not_hang_the_caller() -> None:
    def stop() -> int:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(FunctionTool(stop).call({}))


def test_the_end_of_the_program_does_not_wait_for_a_tool_that_was_given_up() -> None:
    release = threading.Event()

    async def run() -> None:
        await asyncio.wait_for(FunctionTool(release.wait, name="wait").call({}), 0.02)

    with pytest.raises(TimeoutError):
        asyncio.run(run())  # would not return, were the thread waited for
    release.set()
