"""Every family of models writes the same calls in its own way, and they come back the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.harness import ToolCallScreen, decode_reply, decode_tool_calls

Written: TypeAlias = tuple[str, dict[str, Any]]
Renderer: TypeAlias = Callable[[Sequence[Written]], str]

NAMES = ("get_weather", "search.web", "write-file", "list_files")


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def object_of(call: Written, name: str = "name", arguments: str = "arguments") -> dict[str, Any]:
    return {name: call[0], arguments: call[1]}


def array_of(calls: Sequence[Written], **keys: str) -> str:
    return dumps([object_of(call, **keys) for call in calls])


def each(form: str, *, between: str = "", dumped: str = "") -> Renderer:
    """Write each call by a form with NAME, JSON, OBJECT or LLAMA in it."""

    def render(calls: Sequence[Written]) -> str:
        def one(call: Written) -> str:
            parts = {
                "NAME": call[0],
                "JSON": dumps(call[1]),
                "OBJECT": dumps(object_of(call)),
                "LLAMA": dumps(object_of(call, arguments="parameters")),
                "BLOB": dumps(object_of(call, "action", "action_input")),
                "ESCAPED": dumps({"name": call[0], "arguments": dumps(call[1])}),
                "PYTHON": python(call),
                "PAIRS": "".join(
                    f"<arg_key>{key}</arg_key>\n<arg_value>{as_text(value)}</arg_value>\n"
                    for key, value in call[1].items()
                ),
                "TAGS": "".join(
                    f"<parameter={key}>\n{as_text(value)}\n</parameter>\n"
                    for key, value in call[1].items()
                ),
                "INVOKED": "".join(
                    f'<parameter name="{key}">{as_text(value)}</parameter>\n'
                    for key, value in call[1].items()
                ),
                "DSML": "".join(
                    f'<\uff5cDSML\uff5cparameter name="{key}" string="{str(isinstance(value, str)).lower()}">'
                    f"{as_text(value)}</\uff5cDSML\uff5cparameter>\n"
                    for key, value in call[1].items()
                ),
                "ESCAPES": gemma(call[1], "<escape>"),
                "QUOTES": gemma(call[1], '<|"|>'),
            }
            return "".join(parts.get(part, part) for part in form.split("%"))

        return dumped.partition("%")[0] + between.join(map(one, calls)) + dumped.partition("%")[2]

    return render


def whole(form: str, **keys: str) -> Renderer:
    return lambda calls: form.replace("%", array_of(calls, **keys))


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def python(call: Written) -> str:
    return f"{call[0]}({', '.join(f'{key}={value!r}' for key, value in call[1].items())})"


def gemma(value: Any, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{gemma(one, quote)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(gemma(one, quote) for one in value) + "]"
    return dumps(value)


DEEPSEEK = "<\uff5ctool\u2581calls\u2581begin\uff5c>%<\uff5ctool\u2581calls\u2581end\uff5c>"

JSON_FAMILIES: dict[str, Renderer] = {
    "hermes": each("<tool_call>\n%OBJECT%\n</tool_call>", between="\n"),
    "hermes-one-tag": each("%OBJECT%", between="\n", dumped="<tool_call>\n%\n</tool_call>"),
    "hermes-array": whole("<tool_call>%</tool_call>"),
    "hermes-escaped": each("<tool_call>%ESCAPED%</tool_call>"),
    "hermes-fenced": each("<tool_call>\n```json\n%OBJECT%\n```\n</tool_call>"),
    "hermes-think": each(
        "<tool_call>%OBJECT%</tool_call>", dumped="<think>\nI could call.\n</think>\n\n%"
    ),
    "llama3-json": each("%LLAMA%", between="; ", dumped="%<|eom_id|>"),
    "llama3-tag": each("<|python_tag|>%LLAMA%", dumped="%<|eom_id|>"),
    "llama3-function": each("<function=%NAME%>%JSON%</function>"),
    "bare-json": each("%OBJECT%", between="\n"),
    "duplicate": each("%OBJECT%", between="\n\n"),
    "xlam": whole("%"),
    "xlam-think": whole("</think>\n\n%"),
    "mistral": whole("[TOOL_CALLS] %</s>"),
    "mistral-args": each("[TOOL_CALLS]%NAME%[ARGS]%JSON%", dumped="%</s>"),
    "mistral-id": each("[TOOL_CALLS]%NAME%[CALL_ID]q1W2e3R4t[ARGS]%JSON%"),
    "deepseek-v3": each(
        "<\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>%NAME%\n```json\n%JSON%\n```<\uff5ctool\u2581call\u2581end\uff5c>",
        between="\n",
        dumped=DEEPSEEK,
    ),
    "deepseek-v3.1": each(
        "<\uff5ctool\u2581call\u2581begin\uff5c>%NAME%<\uff5ctool\u2581sep\uff5c>%JSON%<\uff5ctool\u2581call\u2581end\uff5c>",
        dumped=DEEPSEEK,
    ),
    "deepseek-ascii": each(
        "<|tool_call_begin|>function<|tool_sep|>%NAME%\n```json\n%JSON%\n```<|tool_call_end|>",
        dumped="<|tool_calls_begin|>%<|tool_calls_end|>",
    ),
    "kimi-k2": each(
        "<|tool_call_begin|>functions.%NAME%:0<|tool_call_argument_begin|>%JSON%<|tool_call_end|>",
        dumped="<|tool_calls_section_begin|>%<|tool_calls_section_end|>",
    ),
    "granite3": whole("<|tool_call|>%"),
    "granite-20b-fc": each("<function_call> %OBJECT%", between=" "),
    "functionary-3.1": each("<function=%NAME%>%JSON%</function>"),
    "functionary-3.2": each(">>>%NAME%\n%JSON%", between="\n"),
    "functionary-2": each("<|from|>assistant\n<|recipient|>%NAME%\n<|content|>%JSON%<|stop|>"),
    "fenced-json": each("```json\n%OBJECT%\n```", between="\n"),
    "fenced-array": whole("```json\n%\n```"),
    "react-blob": each("Action:\n```json\n%BLOB%\n```", between="\n"),
    "command-r": whole("Action: ```json\n%\n```", name="tool_name", arguments="parameters"),
    "command-r7b": whole(
        "<|START_THINKING|>I look.<|END_THINKING|><|START_ACTION|>%<|END_ACTION|>",
        name="tool_name",
        arguments="parameters",
    ),
    "react": each("Thought: I need it.\nAction: %NAME%\nAction Input: %JSON%", between="\n"),
    "react-capitals": each("ACTION: %NAME%\nACTION_INPUT: %JSON%\n"),
    "phi4-mini": whole("functools%"),
    "nemotron": whole("<TOOLCALL>%</TOOLCALL>"),
    "internlm2": each("<|action_start|><|plugin|>\n%LLAMA%<|action_end|>"),
    "jamba": whole("<tool_calls>%</tool_calls>"),
    "minimax-m1": each("%OBJECT%\n", dumped="<tool_calls>\n%</tool_calls>"),
    "hunyuan": each(
        "<tool_call>%NAME%\n```json\n%JSON%\n```\n</tool_call>", dumped="<tool_calls>%</tool_calls>"
    ),
    "longcat": each("<longcat_tool_call>%OBJECT%</longcat_tool_call>", between="\n"),
    "solar": each(
        "<|tool_call:begin|>1a<|tool_call:name|>%NAME%<|tool_call:args|>%JSON%<|tool_call:end|>"
    ),
    "qwen-agent": each("\u273fFUNCTION\u273f: %NAME%\n\u273fARGS\u273f: %JSON%\n"),
    "harmony": each(
        "<|start|>assistant<|channel|>commentary to=functions.%NAME% <|constrain|>json<|message|>%JSON%<|call|>"
    ),
    "harmony-think": each(
        "<|start|>assistant to=functions.%NAME%<|channel|>commentary json<|message|>%JSON%<|call|>",
        dumped="<|channel|>analysis<|message|>I could.<|end|>%",
    ),
}
PYTHON_FAMILIES: dict[str, Renderer] = {
    "gemma-tool_code": each("%PYTHON%", between="\n", dumped="```tool_code\n%\n```"),
    "gemma-print": each("print(%PYTHON%)", between="\n", dumped="```tool_code\n%\n```"),
    "llama4-pythonic": each("%PYTHON%", between=", ", dumped="[%]"),
    "lfm2": each("%PYTHON%", between=", ", dumped="<|tool_call_start|>[%]<|tool_call_end|>"),
    "olmo3": each("%PYTHON%", between="\n", dumped="<function_calls>\n%\n</function_calls>"),
    "minicpm": each(
        "%PYTHON%",
        between="\n",
        dumped="<|tool_call_start|>\n```python\n%\n```\n<|tool_call_end|>",
    ),
}
TEXT_FAMILIES: dict[str, Renderer] = {
    "glm4.5": each("<tool_call>%NAME%\n%PAIRS%</tool_call>", between="\n"),
    "qwen-coder-xml": each(
        "<tool_call>\n<function=%NAME%>\n%TAGS%</function>\n</tool_call>", between="\n"
    ),
    "qwen-coder-no-opening": each(
        "<function=%NAME%>\n%TAGS%</function>\n</tool_call>", between="\n"
    ),
    "seed-oss": each(
        "<seed:tool_call>\n<function=%NAME%>\n%TAGS%</function>\n</seed:tool_call>", between="\n"
    ),
    "deepseek-dsml": each(
        '<\uff5cDSML\uff5cinvoke name="%NAME%">\n%DSML%</\uff5cDSML\uff5cinvoke>\n',
        dumped="<\uff5cDSML\uff5cfunction_calls>\n%</\uff5cDSML\uff5cfunction_calls>",
    ),
    "minimax-m2": each(
        '<invoke name="%NAME%">\n%INVOKED%</invoke>\n',
        dumped="<minimax:tool_call>\n%</minimax:tool_call>",
    ),
    "claude": each(
        '<invoke name="%NAME%">\n%INVOKED%</invoke>\n',
        dumped="<function_calls>\n%</function_calls>",
    ),
    "grok": each('<xai:function_call name="%NAME%">\n%INVOKED%</xai:function_call>\n'),
    "functiongemma": each("<start_function_call>call:%NAME%%ESCAPES%<end_function_call>"),
    "gemma4": each("<|tool_call>call:%NAME%%QUOTES%<tool_call|>"),
}
FAMILIES = {**JSON_FAMILIES, **PYTHON_FAMILIES, **TEXT_FAMILIES}
#: Those that count only where they end the reply.
AT_THE_END = {
    "llama3-json",
    "bare-json",
    "duplicate",
    "xlam",
    "xlam-think",
    "fenced-json",
    "fenced-array",
    "llama4-pythonic",
}
#: Those that write several calls as one list: all of it runs, or nothing.
WRITTEN_AS_LIST = {
    "hermes-array",
    "xlam",
    "xlam-think",
    "mistral",
    "granite3",
    "fenced-array",
    "command-r",
    "command-r7b",
    "phi4-mini",
    "nemotron",
    "jamba",
    "llama4-pythonic",
    "lfm2",
}
#: A call whose name cannot be one in Python is not written there.
PLAIN_NAMES = ("get_weather", "search.web", "list_files")

CODE = "int f() { if (x) { return \"}\"; } }\n\t// [1] \\n, `a`, ```b``` and <p>'q'</p>"
SCENARIOS: dict[str, list[Written]] = {
    "one call": [("get_weather", {"city": "Oslo"})],
    "no arguments": [("list_files", {})],
    "several calls": [
        ("get_weather", {"city": "Oslo"}),
        ("list_files", {}),
        ("get_weather", {"city": "Oslo"}),
    ],
    "other scripts": [("get_weather", {"city": "Сыктывкар", "note": "北京 ☂ 🌧 \uff5c \u2581"})],
    "code": [("get_weather", {"body": CODE, "city": "x"})],
    "marks in a text": [
        ("get_weather", {"city": 'Use </tool_call> and <tool_call>{"name": "list_files"}, [ARGS]'})
    ],
    "nested values": [
        ("get_weather", {"where": {"and": [{"f": "year", "gt": 2019}, {"in": ["a", []]}]}, "n": {}})
    ],
    "all types": [("search.web", {"i": 7, "no": False, "x": -0.5, "nil": None, "s": "7", "l": []})],
    "line ends": [("get_weather", {"body": "one\n\n  two\r\nthree"})],
}


def schemas_of(calls: Sequence[Written]) -> dict[str, Any]:
    kinds = {str: "string", int: "integer", bool: "boolean", float: "number", dict: "object"}
    found: dict[str, Any] = {}
    for name, arguments in calls:
        properties = found.setdefault(name, {"type": "object", "properties": {}})["properties"]
        for key, value in arguments.items():
            other = "array" if isinstance(value, list) else "null"
            properties[key] = {"type": kinds.get(type(value), other)}
    return found


def decoded(text: str, schemas: Any = None, names: Sequence[str] = NAMES) -> list[Written]:
    return [(call.name, dict(call.arguments)) for call in decode_tool_calls(text, names, schemas)]


each_family = pytest.mark.parametrize("family", FAMILIES)


@each_family
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_calls_come_back_as_they_were_written(family: str, scenario: str) -> None:
    calls = SCENARIOS[scenario]
    text = FAMILIES[family](calls)
    assert decoded(text, schemas_of(calls)) == calls
    assert not decode_reply(text, NAMES, schemas_of(calls)).text.removeprefix("Thought: I need it.")\
        .replace("Thought: I need it.", "").strip()  # fmt: skip


@each_family
def test_prose_before_calls_remains(family: str) -> None:
    calls = SCENARIOS["several calls"]
    text = "Ich sehe nach, é 北 - einen Moment:\n" + FAMILIES[family](calls)
    reply = decode_reply(text, NAMES, schemas_of(calls))
    assert [(call.name, call.arguments) for call in reply.calls] == calls
    if "think" not in family:
        assert reply.text.startswith("Ich sehe nach, é 北 - einen Moment:")


@each_family
def test_prose_behind_calls_remains(family: str) -> None:
    calls = SCENARIOS["several calls"]
    text = FAMILIES[family](calls) + "\nOne moment, [please]."
    reply = decode_reply(text, NAMES, schemas_of(calls))
    if family in AT_THE_END:
        assert not reply.calls
    else:
        assert [(call.name, call.arguments) for call in reply.calls] == calls
    assert reply.text.endswith("One moment, [please].")


@each_family
def test_what_was_not_offered_is_not_called(family: str) -> None:
    text = FAMILIES[family]([("get_wether", {"city": "Oslo"}), ("Get_Weather", {})])
    assert decoded(text) == []
    known = FAMILIES[family]([("get_wether", {"city": "Oslo"}), ("list_files", {})])
    assert decoded(known) == ([] if family in WRITTEN_AS_LIST else [("list_files", {})])


@each_family
@pytest.mark.parametrize("scenario", ["several calls", "code", "marks in a text", "all types"])
def test_a_text_that_is_cut_anywhere_gives_whole_calls_only(family: str, scenario: str) -> None:
    calls = SCENARIOS[scenario]
    text, schemas = FAMILIES[family](calls), schemas_of(calls)
    for end in range(len(text)):
        found = decoded(text[:end], schemas)
        assert found == calls[: len(found)], text[:end]


@each_family
@pytest.mark.parametrize("scenario", ["several calls", "code"])
def test_calls_in_a_stream_are_never_shown(family: str, scenario: str) -> None:
    calls = SCENARIOS[scenario]
    text = f"I look.\n{FAMILIES[family](calls)}"
    prose = decode_reply(text, NAMES, schemas_of(calls)).text
    for size in (1, 7, 64):
        screen = ToolCallScreen(NAMES, schemas_of(calls))
        shown = ""
        for start in range(0, len(text), size):
            shown += screen.feed(text[start : start + size])
            if "</think>" not in text:
                assert prose.startswith(shown.strip())
        assert (shown + screen.close()).strip().endswith(prose)


@each_family
def test_a_call_in_thinking_does_not_count(family: str) -> None:
    text = FAMILIES[family](SCENARIOS["one call"])
    assert decoded(f"<think>{text}</think>") == []
    assert decoded(f"[THINK]\n{text}\n[/THINK]It is warm.") == []


# Ways of writing that belong to one family.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<tool_call>{'name': 'get_weather', 'arguments': {'city': \"Xi'an\"}}</tool_call>", {"city": "Xi'an"}),
        ('<tool_call>{"function": {"name": "get_weather", "arguments": "{}"}, "id": "1"}</tool_call>', {}),
        ('<tool_call>{"name": "get_weather"}</tool_call>', {}),
        ('<tool_call>{"name": "get_weather", "arguments": null}</tool_call>', {}),
        ('<tool_call>{"name": "functions.get_weather", "arguments": {"city": "Oslo",}}', {"city": "Oslo"}),
        ('<|im_start|>assistant\n<tool_call>{"name": "get_weather", "arguments": {}}</tool_call><|im_end|>', {}),
        ('<tool_call><tool_call>{"name": "get_weather", "arguments": {}}</tool_call></tool_call>', {}),
        ('{"tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]}', {}),
        ('{"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}', {"city": "Oslo"}),
        ('{"name": "get_weather", "parameters": {"city": "Oslo"}}\n\n<|eot_id|>', {"city": "Oslo"}),
        ('{"name": "get_weather", "parameters": {}}\nObservation: 3', {}),
        ('<|python_tag|>get_weather.call(city="Oslo")<|eom_id|>', {"city": "Oslo"}),
        ('<think>a</think>\nget_weather\n{"city": "Oslo"}', {"city": "Oslo"}),
        ('get_weather(city="Oslo")', {"city": "Oslo"}),
        ("get_weather(city='''Os\nlo''', a=(1, 2), b={'c': [None]},)", {"city": "Os\nlo", "a": [1, 2], "b": {"c": [None]}}),
        ("[get_weather(city='O' \"slo\", re='\\d\\x41\\u00e9\\n')]", {"city": "Oslo", "re": "\\dA\u00e9\n"}),
        ('<|tool_call_start|>[get_weather(city="Rome")]', {"city": "Rome"}),
        ("```tool_code\nweather = default_api.get_weather(city='Oslo')\nprint(weather)\n```\nWait.", {"city": "Oslo"}),
        ('Sure!\n\n```tool_call\n{"name": "get_weather", "arguments": {}, "why": "?"}\n```', {}),
        ('```xml\n<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>\n```', {}),
        ('```\nThought: hm\nAction: get_weather\nAction Input: {"city": "Oslo"}\n```', {"city": "Oslo"}),
        ('**Action:** `get_weather`\n**Action Input:** ```json\n{"city": "Oslo"}\n```', {"city": "Oslo"}),
        ('> Action: get_weather(city="Oslo")', {"city": "Oslo"}),
        ("Action: get_weather\nAction Input: {'city': 'Oslo'}\nObservation: {\"name\": 1}", {"city": "Oslo"}),
        ('Action: get_weather[]\nAction: get_weather\nAction Input: {}', {}),
        ('[TOOL_CALLS]get_weather{"city": "Lyon"}', {"city": "Lyon"}),
        ('[TOOL_CALLS] {"name": "get_weather", "arguments": {}}', {}),
        ('<|tool\u2581call\u2581begin|>get_weather<|tool\u2581sep|>{}<|tool\u2581call\u2581end|>', {}),
        ('<function name="get_weather"><parameter name="city">Oslo</parameter></function>', {"city": "Oslo"}),
        ("<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</tool_call>", {"city": "Oslo"}),
        ("<function=get_weather><parameter=city>a</parameter> b</parameter></function>", {"city": "a</parameter> b"}),
        ('<steptml:invoke name="get_weather"><steptml:parameter name="city">Oslo</steptml:parameter></steptml:invoke>', {"city": "Oslo"}),
        ('<invoke name="get_weather">{"city": "Oslo"}</invoke>', {"city": "Oslo"}),
        ('<|DSML|invoke name="get_weather"><|DSML|parameter name="n" string="true">2</|DSML|parameter></|DSML|invoke>', {"n": "2"}),
        ("<tool_call>get_weather</tool_call>", {}),
        ('<tool_call>\n{{"name": "get_weather", "arguments": {"city": "Oslo"}}}\n</tool_call>', {"city": "Oslo"}),
        ('<|tool_call_start|>[{"name": "get_weather", "arguments": {}}]<|tool_call_end|>', {}),
        ('<TOOLCALL>[get_weather(city="Oslo")]</TOOLCALL>', {"city": "Oslo"}),
        ('<|python_tag|>get_weather(city="Oslo")', {"city": "Oslo"}),
        ('<|python_start|>[get_weather(city="Oslo")]<|python_end|>', {"city": "Oslo"}),
        ('<function_calls><invoke name="get_weather"></invoke></function_calls>', {}),
        ("<tool_call>get_weather<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>", {"days": 2}),
        (">>>all\nI look.\n>>>get_weather\n{}", {}),
        ("<|recipient|>all\n<|content|>I look.\n<|recipient|>get_weather\n<|content|>{}", {}),
        ('commentary to=functions.get_weather json{"city": "Oslo"}', {"city": "Oslo"}),
        ('<|channel|>commentary to=get_weather <|constrain|>json<|message|>{"city": "Oslo"}', {"city": "Oslo"}),
        ('<start_function_call>call:get_weather{city:<escape>a{,}b<escape>,ok:true,n:[1,{x:-2}],s:oslo}', {"city": "a{,}b", "ok": True, "n": [1, {"x": -2}], "s": "oslo"}),
        ('<tool_use>{"tool": "get_weather", "args": {}}</tool_use>', {}),
        ('<<function>>get_weather(city="Oslo")', {"city": "Oslo"}),
    ],
)  # fmt: skip
def test_a_way_of_writing_is_read(text: str, expected: dict[str, Any]) -> None:
    assert decoded(text) == [("get_weather", expected)]


@pytest.mark.parametrize(
    "text",
    [
        '{"function": "get_weather is the tool", "name": 1}',
        '{"name": "Oslo", "input": "get_weather"}',
        '{"tools": [{"name": "get_weather", "parameters": {}}]}',
        '[{"name": "get_weather", "arguments": {}}, {"name": "get',
        '<tool_call>{"name": "get_weather", "arguments": {}, "description": "?"}</tool_call>',
        '<tool_call>{"name": "get_weather", "content": "sunny"}</tool_call>',
        "<tool_call>get_weather for Oslo</tool_call>",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n",
        "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n",
        "<function=get_weather>\n<parameter=city>\nOslo</function>",
        '<function=nobody>{"name": "get_weather", "arguments": {}}</function>',
        '[TOOL_CALLS]nobody[ARGS]{"name": "get_weather", "arguments": {}}',
        '>>>nobody\n{"name": "get_weather", "arguments": {}}',
        ">>> get_weather()\n'sunny'",
        "The tool get_weather(city='Oslo') gives the weather.",
        "get_weather(city='Oslo') gives the weather.",
        "get_weather",
        "- [get_weather](https://example.org)",
        "Action: call get_weather for Oslo",
        "Action: None\nFinal Answer: {}",
        "Final Answer: this\nAction: get_weather\nAction Input: {}",
        "Thought: Action: get_weather\nAction Input: {}",
        "Action: nobody\nAction Input: {\"name\": \"get_weather\", \"arguments\": {}}",
        "```python\nget_weather(city='Oslo')\n```",
        "```tool_code\nresult = [get_weather(city=x) for x in cities]\n```",
        "```json\n{\"name\": \"get_weather\", \"arguments\": {}}\n```\nThis calls the tool.",
        "<start_function_call>call:get_weather{city:<escape>Oslo",
        "<function=get_weather>\n<parameter=city>\nOslo\n<parameter=days>\n2\n</parameter>\n</function>",
        "<|channel|>analysis<|message|>to=functions.get_weather {}<|end|>",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_call_is_none(text: str) -> None:
    assert decoded(text) == []
    assert decode_reply(text, NAMES).text in (text, "")


def test_several_mistral_calls_may_share_one_mark() -> None:
    text = '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}list_files[ARGS]{}'
    assert decoded(text) == [("get_weather", {"city": "Oslo"}), ("list_files", {})]


def test_an_example_of_the_syntax_in_a_text_stays_in_it() -> None:
    body = "Write:\n<parameter=city>\nOslo\n</parameter>\nin it."
    text = f"<function=get_weather>\n<parameter=body>\n{body}\n</parameter>\n</function>"
    assert decoded(text) == [("get_weather", {"body": body})]


# Any calls.

keys = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda key: key not in {"true", "false", "null"}
)
texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)
scalars = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | texts
floats = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | floats,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


def calls_of(arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Written]]:
    call = st.tuples(st.sampled_from(PLAIN_NAMES), st.dictionaries(keys, arguments, max_size=4))
    return st.lists(call, min_size=1, max_size=3)


@settings(deadline=None)
@given(family=st.sampled_from(sorted(JSON_FAMILIES)), calls=calls_of(values))
def test_any_calls_in_json_come_back(family: str, calls: list[Written]) -> None:
    assert decoded(JSON_FAMILIES[family](calls)) == calls


@settings(deadline=None)
@given(family=st.sampled_from(sorted(PYTHON_FAMILIES)), calls=calls_of(values))
def test_any_calls_in_python_come_back(family: str, calls: list[Written]) -> None:
    assert decoded(PYTHON_FAMILIES[family](calls)) == calls


#: Texts that say nothing in these syntaxes.
words = st.text(st.sampled_from("aé北 {}[]()'\":,`\\/\n-&1"), min_size=1, max_size=20).filter(
    lambda text: text == text.strip() and text not in {"null"} and "<" not in text
)
written = words | st.integers(-(10**12), 10**12) | st.booleans() | st.lists(words, max_size=3)


@settings(deadline=None)
@given(
    family=st.sampled_from(sorted(TEXT_FAMILIES)),
    arguments=st.dictionaries(keys, written, max_size=4),
)
def test_any_calls_in_tags_come_back_by_their_types(family: str, arguments: dict[str, Any]) -> None:
    calls = [("get_weather", arguments), ("list_files", {})]
    assert decoded(TEXT_FAMILIES[family](calls), schemas_of(calls)) == calls


@settings(deadline=None)
@given(
    family=st.sampled_from(sorted({**JSON_FAMILIES, **PYTHON_FAMILIES})),
    calls=calls_of(values),
    share=st.floats(0, 1),
)
def test_any_calls_that_are_cut_give_whole_ones_only(
    family: str, calls: list[Written], share: float
) -> None:
    text = FAMILIES[family](calls)
    found = decoded(text[: int(len(text) * share)])
    assert found == calls[: len(found)]
