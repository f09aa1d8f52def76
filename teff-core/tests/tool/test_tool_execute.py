"""One tool call carried out, whatever happens."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError, GraphInterrupt, ToolError
from teff.messages import ToolCall, read_arguments
from teff.tool import FunctionTool, Tool, ToolResult, execute_call
from teff.tool.text import result_text, shorten


def run(
    function: Callable[..., Any], *, call: ToolCall | None = None, **options: Any
) -> ToolResult:
    made = FunctionTool(function, name="work")
    call = call or ToolCall(id="c1", name="work")
    return asyncio.run(execute_call(call, {"work": made}, state={}, **options))


def call_of(raw: str, name: str = "work") -> ToolCall:
    arguments, error = read_arguments(raw)
    return ToolCall(id="c1", name=name, arguments=arguments, error=error)


def test_a_call_that_works_gives_its_text() -> None:
    result = run(lambda: "fine")
    assert (result.text, result.error, result.call.id) == ("fine", False, "c1")
    assert result.duration >= 0


def test_state_and_context_reach_the_tool() -> None:
    async def look(__state__: Any, __ctx__: Any) -> list[Any]:
        return [__state__, __ctx__]

    assert run(look, ctx="ctx").text == '[{}, "ctx"]'


def test_arguments_that_are_no_json_run_nothing_and_say_where_tol_01() -> None:
    ran: list[str] = []
    tools = {"work": FunctionTool(lambda x: ran.append(x), name="work")}

    async def both() -> list[ToolResult]:
        calls = [call_of('{"city": "Rig'), call_of('{"x": "1"}')]
        return [await execute_call(call, tools, state={}) for call in calls]

    broken, whole = asyncio.run(both())
    assert broken.error
    assert "at character 10" in broken.text
    assert not whole.error
    assert ran == ["1"]


def test_arguments_that_are_no_json_never_run_with_the_defaults_tol_02() -> None:
    ran: list[str] = []

    def wipe(path: str = "all") -> None:
        ran.append(path)

    result = run(wipe, call=call_of("{path: x"))
    assert ran == []
    assert result.error
    assert '"path": {"type": "string", "default": "all"}' in result.text


def test_arguments_of_a_wrong_type_run_nothing_and_say_what_is_expected() -> None:
    ran: list[int] = []

    def wait(seconds: int) -> None:
        ran.append(seconds)

    result = run(wait, call=call_of('{"seconds": "1.9"}'), error_mode="raise")
    assert ran == []
    assert "'seconds' must be a whole number, not text" in result.text
    assert "The tool was not run" in result.text
    assert '"type": "integer"' in result.text


def test_an_unknown_tool_lists_what_there_is_closest_first_tol_05() -> None:
    tools: dict[str, Tool] = {
        name: FunctionTool(lambda: "", name=name) for name in ("add", "get_sites")
    }
    call = ToolCall(id="c1", name="list_sites")
    result = asyncio.run(execute_call(call, tools, state={}, error_mode="raise"))
    assert result.error
    assert result.text == (
        "Error: unknown tool 'list_sites'. Available, closest first: get_sites, add."
    )
    assert "no tools" in asyncio.run(execute_call(call, {}, state={})).text


def test_an_exception_is_told_to_the_model() -> None:
    def fail() -> None:
        raise ValueError("no such city")

    result = run(fail)
    assert result.error
    assert result.text == "Error calling 'work': ValueError: no such city"


def test_an_exception_is_raised_with_its_cause_where_that_is_asked_for() -> None:
    def fail() -> None:
        raise KeyError("city")

    with pytest.raises(ToolError, match="the tool 'work' failed: KeyError: 'city'") as caught:
        run(fail, error_mode="raise")
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.tool == "work"


def test_an_unknown_error_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="'ignore'"):
        run(lambda: "", error_mode="ignore")


@pytest.mark.parametrize("is_async", [True, False])
def test_a_tool_that_takes_too_long_is_given_up(is_async: bool) -> None:
    async def slow() -> None:
        await asyncio.sleep(3600)

    function = slow if is_async else lambda: time.sleep(1)
    result = run(function, timeout=0.02)
    assert result.error
    assert result.text == "Error calling 'work': timed out after 0.02 s"
    with pytest.raises(ToolError, match=r"timed out after 0\.02 s"):
        run(slow, timeout=0.02, error_mode="raise")


def test_a_timeout_of_the_tool_itself_is_an_ordinary_failure() -> None:
    async def fail() -> None:
        raise TimeoutError("the server did not answer")

    assert run(fail, timeout=60).text == (
        "Error calling 'work': TimeoutError: the server did not answer"
    )


def test_a_tool_that_cancels_itself_has_failed() -> None:
    async def fail() -> None:
        raise asyncio.CancelledError

    assert run(fail, timeout=60).text == "Error calling 'work': it was cancelled"


def test_a_cancellation_from_outside_goes_on() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.sleep(3600)

    async def cancel() -> bool:
        tools = {"work": FunctionTool(wait, name="work")}
        task = asyncio.create_task(
            execute_call(ToolCall(id="1", name="work"), tools, state={}, timeout=60)
        )
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(cancel())


class Pause(BaseException):
    pass


@pytest.mark.parametrize("signal", [Pause("x"), GraphInterrupt("key", "question")])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_pause_passes_through(signal: BaseException, is_async: bool) -> None:
    def pause() -> None:
        raise signal

    async def apause() -> None:
        raise signal

    with pytest.raises(type(signal)):
        run(apause if is_async else pause, timeout=60)


@attrs.frozen
class Point:
    x: int
    tags: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Rīga", "Rīga"),
        ({"city": "Rīga"}, '{"city": "Rīga"}'),
        (None, "null"),
        ([1, (2, 3)], "[1, [2, 3]]"),
        (Point(1), '{"x": 1, "tags": []}'),
        (b"\xff\x00", '"<2 bytes>"'),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        ("\ud83d\ude00", "\N{GRINNING FACE}"),
        (["lone \ud800"], '["lone \N{REPLACEMENT CHARACTER}"]'),
    ],
)
def test_any_result_becomes_text(value: object, text: str) -> None:
    assert run(lambda: value).text == text


def test_a_result_that_contains_itself_becomes_text_too() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert run(lambda: circle).text == "[[...]]"


def test_a_huge_result_keeps_head_tail_and_its_size_tol_06() -> None:
    huge = "a" + "b" * 3_000_000 + "z"
    for value in (huge, {"text": huge}):
        result = run(lambda value=value: value, max_chars=1000)
        assert len(result.text) <= 1000
        assert str(len(result_text(value))) in result.text
        assert result.text[0] == result_text(value)[0]
        assert result.text[-1] == result_text(value)[-1]


def test_a_huge_error_is_shortened_as_well_tol_06() -> None:
    def fail() -> None:
        raise ValueError("x" * 1_000_000)

    assert len(run(fail, max_chars=500).text) <= 500


def test_there_is_a_bound_by_default_tol_06() -> None:
    assert len(run(lambda: "x" * 1_000_000).text) < 100_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(value=JSON.filter(lambda value: not isinstance(value, str)))
def test_json_results_are_json_that_can_be_sent(value: object) -> None:
    assert json.loads(result_text(value).encode()) == value


@given(text=st.text(st.characters(), max_size=300), max_chars=st.integers(1, 200))
def test_a_shortened_text_is_never_longer_than_allowed(text: str, max_chars: int) -> None:
    short = shorten(text, max_chars)
    assert len(short) <= max_chars
    assert short == text or len(text) > max_chars
