from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff import errors
from teff.errors import (
    CheckpointCorrupt,
    CheckpointError,
    ConfigError,
    GraphInterrupt,
    IncompleteStream,
    LimitReached,
    NodeError,
    PluginError,
    PluginLoadError,
    ProviderError,
    RunLocked,
    StateError,
    StructuredOutputError,
    TeffError,
    ToolError,
    TruncatedOutput,
    WorkflowError,
    suggest,
)

EVERY_ERROR: list[TeffError] = [
    ConfigError("no", path="a.b", file="f.yaml", line=2, column=3, hint="Do it."),
    StateError("no"),
    WorkflowError("no"),
    GraphInterrupt("key", "prompt", "node", "run", interrupts=["a", "b"], result={"n": 1}),
    LimitReached("max_steps", result={"n": 1}),
    ProviderError("no", provider="p", model="m", status=429, body="b", retry_after=2.5),
    IncompleteStream("cut", partial="Hel", provider="p"),
    TruncatedOutput("cut", partial="Hel", permanent=True),
    errors.ContextLimitError("no", tokens=9, limit=5),
    StructuredOutputError({"type": "object"}, "text", ["a is missing"], 3),
    ToolError("no", tool="find"),
    CheckpointError("no", run_id="r"),
    RunLocked("no", run_id="r"),
    CheckpointCorrupt("no", run_id="r"),
    PluginError("no", plugin="p", hook="h"),
    PluginLoadError("no", plugin="p"),
]


def test_every_error_descends_from_the_root_and_is_described() -> None:
    for name in errors.__all__:
        found = getattr(errors, name)
        if inspect.isclass(found) and issubclass(found, BaseException):
            assert issubclass(found, TeffError)
            assert not issubclass(found, SystemExit | KeyboardInterrupt)
            assert name in (errors.__doc__ or "")
        assert inspect.getdoc(found)


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (ConfigError("no"), (KeyError, ValueError)),
        (StateError("no"), (TypeError, ValueError)),
        (WorkflowError("no"), (RuntimeError,)),
        (LimitReached("max_steps"), (RuntimeError,)),
        (StructuredOutputError({}, "", [], 1), (ValueError,)),
        (IncompleteStream("no"), (ProviderError,)),
        (TruncatedOutput("no"), (ProviderError,)),
        (RunLocked("no"), (CheckpointError,)),
        (PluginLoadError("no"), (PluginError,)),
    ],
)
def test_errors_are_caught_by_the_built_in_that_fits(
    error: Exception, also: tuple[type[Exception], ...]
) -> None:
    for kind in also:
        assert isinstance(error, kind)


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_that_crosses_a_process_keeps_its_text_and_details(
    error: TeffError, again: Any
) -> None:
    back = again(error)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ({}, "no such step"),
        ({"hint": "Name one."}, "no such step Name one."),
        ({"line": 3}, "line 3: no such step"),
        ({"line": 3, "column": 7}, "line 3:7: no such step"),
        ({"file": "flow.yaml"}, "flow.yaml: no such step"),
        ({"file": "flow.yaml", "line": 3}, "flow.yaml:3: no such step"),
        (
            {"file": "flow.yaml", "line": 3, "column": 7, "hint": "Name one."},
            "flow.yaml:3:7: no such step Name one.",
        ),
        ({"path": "steps[2]"}, "no such step"),
    ],
)
def test_a_config_error_prints_its_place_and_the_way_out_without_quotes(
    details: dict[str, Any], text: str
) -> None:
    error = ConfigError("no such step", **details)
    assert str(error) == text
    assert error.message == "no such step"


def test_an_interrupt_says_what_the_run_waits_for() -> None:
    assert str(GraphInterrupt("ok")) == "the run waits for an answer to 'ok'"
    assert str(GraphInterrupt("ok", "Send?")) == "the run waits for an answer to 'ok': Send?"
    several = GraphInterrupt("ok", "Send?", interrupts=["a", "b", "c"])
    assert str(several).endswith("(and 2 more open questions)")
    assert GraphInterrupt("ok").nested_checkpoint_id is None


def test_a_limit_and_a_schema_say_what_was_not_kept() -> None:
    assert str(LimitReached("max_tokens")) == "the run was stopped by its limit max_tokens"
    error = StructuredOutputError({}, "x", ["a is missing", "b is no number"], 3)
    assert str(error) == (
        "the answer does not fit its schema after 3 attempts: a is missing; b is no number"
    )
    assert "after 1 attempt:" in str(StructuredOutputError({}, "x", ["a"], 1))


def test_the_body_of_a_provider_error_is_shortened() -> None:
    assert len(ProviderError("no", body="x" * 5000).body) == 2000


def test_a_node_error_has_a_json_form() -> None:
    error = NodeError.from_exception(ValueError("bad"), node="plan", path="plan/2")
    assert error.to_state() == {
        "node": "plan",
        "path": "plan/2",
        "type": "ValueError",
        "message": "bad",
    }
    assert repr(error) == "NodeError(node='plan', type='ValueError', message='bad')"


# Suggestions


@pytest.mark.parametrize(
    ("name", "known", "suggestion"),
    [
        ("max_rund", ["max_rounds", "system"], " Did you mean 'max_rounds'?"),
        ("MAX", ["max"], " Did you mean 'max'?"),
        ("zzz", ["b", "a", "b"], " Known: a, b."),
        ("zzz", [f"name{n}" for n in range(20)], ""),
        ("zzz", [], ""),
        ("", ["a"], " Known: a."),
    ],
)
def test_the_nearest_name_or_a_short_list_is_suggested(
    name: str, known: list[str], suggestion: str
) -> None:
    assert suggest(name, known) == suggestion


@given(st.text(max_size=8), st.lists(st.text(max_size=8), max_size=5))
def test_a_suggestion_names_only_what_is_known(name: str, known: list[str]) -> None:
    found = suggest(name, iter(known))
    assert found == "" or found.startswith((" Did you mean ", " Known: "))
    if found.startswith(" Did you mean "):
        assert any(repr(candidate) in found for candidate in known)
    if name in known:
        assert found == f" Did you mean {name!r}?"
