"""The options of the built-in node types, with the defaults that programs and files rely on."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import attrs
import pytest

#: The options of each node type with their defaults, as they are documented.
OPTIONS: dict[str, dict[str, Any]] = {
    "AppendAssistant": {"output_key": "draft", "messages_key": "messages"},
    "CommandNode": {"routes": (), "goto": None, "update": None},
    "ContextBuilder": {"sections": {}, "output_key": "input", "reset_keys": ()},
    "Fallback": {"input_key": "output", "field": "", "fn": None},
    "Gate": {
        "input_key": "verdict",
        "ok_field": "ok",
        "output_key": "decision",
        "pass_value": "yes",
        "fail_value": "fix",
        "rounds_key": "rounds",
        "max_rounds": 3,
        "message_field": "message",
        "message_key": "",
        "missing_is_ok": False,
    },
    "Interrupt": {"key": "", "prompt": "", "choices": None, "schema": None},
    "LLM": {
        "model": "",
        "system": "",
        "prompt": "",
        "input_key": "",
        "output_key": "output",
        "provider": "",
        "temperature": None,
        "max_tokens": None,
        "timeout": None,
        "response_format": None,
        "on_token": None,
        "json_schema": None,
        "output_type": None,
        "parse": False,
        "max_retries": 2,
        "max_tool_rounds": 10,
        "tool_timeout": None,
        "tool_approval": None,
        "http_max_retries": 2,
        "base_url": "",
        "chat_path": "",
        "auth_header": "",
        "auth_prefix": None,
        "api_key_env": "",
        "messages_key": "",
        "append_reply": False,
        "response_path": "",
        "skill_dir": "skills",
        "memory": None,
    },
    "Loop": {"max_rounds": 10},
    "Map": {
        "input_keys": "",
        "output_key": "",
        "result_key": "",
        "chunk_size": 1,
        "max_concurrency": None,
        "on_error": "fail",
        "errors_key": "",
    },
    "Parallel": {
        "max_concurrency": None,
        "on_error": "fail",
        "errors_key": "errors",
        "timeout": None,
    },
    "ReActAgent": {
        "system": "",
        "input_key": "input",
        "output_key": "output",
        "messages_key": "messages",
        "tool_call_key": "_tool_call_name",
        "temperature": None,
        "max_tokens": None,
        "skill_dir": "skills",
        "max_tool_rounds": 10,
        "on_token": None,
        "memory": None,
    },
    "Retry": {
        "max_retries": 3,
        "delay": 0.0,
        "backoff": 1.0,
        "jitter": 0.0,
        "max_delay": None,
        "timeout": None,
        "retry_on": (),
    },
    "Supervisor": {
        "messages_key": "messages",
        "output_key": "next_agent",
        "rounds_key": "supervisor_rounds",
        "max_rounds": 6,
        "sections": None,
        "agents": None,
        "route_keys": None,
        "done_keys": None,
        "done_mode": "all",
        "fallback_agent": "",
        "finish": "finish",
        "fill_order": None,
    },
    "ToolCall": {
        "args": {},
        "output_key": "output",
        "on_error": "raise",
        "max_chars": None,
        "timeout": None,
    },
    "ToolExec": {
        "messages_key": "messages",
        "tool_call_key": "_tool_call_name",
        "tool_error_mode": "message",
        "tool_timeout": None,
        "tool_approval": None,
        "human_key": "ask_human",
        "skill_dir": "skills",
    },
    "Transform": {
        "input_key": "input",
        "output_key": "output",
        "value": None,
        "template": "",
        "raw": False,
    },
    "Validate": {
        "input_key": "answer",
        "equals": None,
        "any_of": None,
        "regex": None,
        "check": None,
        "ok_field": "ok",
        "output_key": "decision",
        "pass_value": "да",
        "fail_value": "нет",
        "rounds_key": "rounds",
        "max_rounds": 100,
        "missing_is_ok": False,
        "on_exhausted": "pass",
    },
}


@pytest.mark.parametrize("class_name", OPTIONS)
def test_options_have_their_names_and_defaults(class_name: str) -> None:
    found = {}
    for field in attrs.fields(getattr(import_module("teff.node"), class_name)):
        default: Any = field.default
        found[field.name] = default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
    assert "id" in found
    assert {name: found.get(name, "missing") for name in OPTIONS[class_name]} == OPTIONS[class_name]
