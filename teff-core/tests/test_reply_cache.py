"""The cache of answers: what it keeps apart, what a hit costs, and what it survives."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError
from teff.flow import Flow
from teff.harness import Harness, MemoryReplyCache, ReplyCache, SQLiteReplyCache
from teff.harness.cache import cache_key
from teff.messages import ModelUsage, ToolCall, user
from teff.provider import ChatReply, ChatRequest, ToolSpec
from teff.runtime import RunResult, RunTracer, StreamEvent
from teff.testing import ScriptedProvider


@pytest.fixture(params=["memory", "file"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> ReplyCache:
    return MemoryReplyCache() if request.param == "memory" else SQLiteReplyCache(tmp_path / "c.db")


def ask(provider: Any, cache: Any, text: str = "hi", **options: Any) -> ChatReply:
    harness = Harness(model="m", provider="p", providers={"p": provider}, cache=cache)
    return asyncio.run(harness.call([user(text)], **options))


def run(provider: Any, heard: list[StreamEvent] | None = None, **options: Any) -> RunResult:
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    flow.llm(
        input_key="input",
        **{key: options.pop(key) for key in ("cache", "on_llm") if key in options},
    )
    emit = heard.append if heard is not None else None
    return asyncio.run(flow.compile().run({"input": "hi"}, emit=emit, **options))


def test_the_same_question_is_asked_once(cache: ReplyCache) -> None:
    provider = ScriptedProvider(["only once"])
    assert ask(provider, cache) == ask(provider, cache)
    assert len(provider.requests) == 1


def test_all_of_a_reply_comes_back(cache: ReplyCache) -> None:
    reply = ChatReply(
        text="Łódź 🙂",
        thinking="hm",
        tool_calls=(ToolCall(id="c1", name="add", arguments={"a": [1, {"b": None}]}),),
        finish_reason="tool_calls",
        usage=ModelUsage(prompt_tokens=0, completion_tokens=None),
        model="other",
    )
    provider = ScriptedProvider([reply])
    tools = [ToolSpec(name="add")]
    assert ask(provider, cache, tools=tools) == ask(provider, cache, tools=tools) == reply


@pytest.mark.parametrize(
    "other",
    [
        {"text": "ho"},
        {"tools": [ToolSpec(name="add")]},
        {"tools": [ToolSpec(name="add", description="x")]},
        {"choices": ["a"]},
        {"json_schema": {"type": "object"}},
        {"max_tokens": 3},
        {"stop": ["x"]},
        {"options": {"seed": 1}},
    ],
    ids=str,
)
def test_another_question_is_another_question(cache: ReplyCache, other: dict[str, Any]) -> None:
    provider = ScriptedProvider(["one", "two"])
    assert ask(provider, cache).text == "one"
    assert ask(provider, cache, **other).text == "two"


@attrs.define(kw_only=True, eq=False)
class Placed(ScriptedProvider):
    """A provider with the fields of one over HTTP."""

    name: str = "p"
    base_url: str = "http://one.example"
    headers: dict[str, str] = attrs.field(factory=dict, repr=False)
    options: dict[str, Any] = attrs.field(factory=dict)
    api_key: Any = None

    def __attrs_post_init__(self) -> None:
        super().__init__(name=self.name)


def test_servers_and_their_options_are_kept_apart() -> None:
    request = ChatRequest(model="m", messages=[user("hi")])
    keys = {
        cache_key(provider, request)
        for provider in (
            Placed(),
            Placed(base_url="http://two.example"),
            Placed(base_url="http://me:secret@one.example"),
            Placed(name="q"),
            Placed(headers={"X-Team": "blue"}),
            Placed(options={"seed": 1}),
        )
    }
    assert len(keys) == 6
    assert cache_key(Placed(), request) == cache_key(Placed(), request)
    assert cache_key(Placed(api_key=lambda: "a"), request) == cache_key(Placed(), request)
    assert cache_key(Placed(), attrs.evolve(request, model="n")) not in keys


@given(st.text(), st.text())
def test_keys_of_different_texts_differ(left: str, right: str) -> None:
    provider = Placed()
    keys = [
        cache_key(provider, ChatRequest(model="m", messages=[user(text)])) for text in (left, right)
    ]
    assert (keys[0] == keys[1]) == (left == right)


def test_a_hit_is_no_call_and_costs_nothing() -> None:
    cache, provider, heard = MemoryReplyCache(), ScriptedProvider(["a b"]), []
    first = run(provider, cache=cache)
    tracer = RunTracer()
    second = run(provider, heard, cache=cache, tracer=tracer)
    assert first["output"] == second["output"] == "a b"
    assert first.usage.model_calls == 1
    assert (second.usage.model_calls, second.usage.total_tokens) == (0, 0)
    (told,) = [event.data for event in heard if event.type == "llm"]
    assert (told["cached"], told["cost"]) == (True, 0.0)
    assert "".join(e.data["token"] for e in heard if e.type == "token") == "a b"
    assert tracer.summary().llm_calls == 0


def test_callbacks_hear_of_hits_too() -> None:
    cache, provider = MemoryReplyCache(), ScriptedProvider(["a b"])
    heard: list[Any] = []
    payloads: list[Any] = []

    async def on_llm(*told: Any) -> None:
        heard.append(told[:4])

    for _ in range(2):
        run(
            provider,
            cache=cache,
            on_llm=on_llm,
            on_llm_payload=lambda *told: payloads.append(told[-1]),
        )
    assert heard == [("p", "m", 10, 2)] * 2
    assert payloads == [False, True]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        ChatReply(text="cut", finish_reason="length"),
        ChatReply(text="hm", finish_reason="content_filter"),
    ],
)
def test_what_is_no_whole_answer_is_not_kept(cache: ReplyCache, reply: Any) -> None:
    provider = ScriptedProvider([reply, "whole"])
    ask(provider, cache)
    assert ask(provider, cache).text == "whole"


def test_memory_is_bounded_and_forgets_what_was_not_used() -> None:
    cache, provider = MemoryReplyCache(max_entries=2), ScriptedProvider(map(str, range(9)))
    for text in ("a", "b", "a", "c", "a", "b"):
        ask(provider, cache, text)
    assert len(provider.requests) == 4, "only b was asked twice"


def test_what_a_caller_does_to_a_reply_does_not_reach_the_cache() -> None:
    cache = MemoryReplyCache()

    async def main() -> Any:
        await cache.put("k", {"text": "x", "list": [1]})
        found = await cache.get("k")
        assert isinstance(found, dict)
        found["list"].append(2)
        return await cache.get("k")

    assert asyncio.run(main()) == {"text": "x", "list": [1]}


def test_a_file_is_shared_by_processes_and_private(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    assert ask(ScriptedProvider(["kept"]), SQLiteReplyCache(path)).text == "kept"
    assert ask(ScriptedProvider(), SQLiteReplyCache(path)).text == "kept"
    assert ask(ScriptedProvider(), str(path)).text == "kept"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_answers_of_a_file_age(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    provider = ScriptedProvider(["old", "new"])
    ask(provider, SQLiteReplyCache(path))
    assert ask(provider, SQLiteReplyCache(path, max_age=-1.0)).text == "new"


def test_many_tasks_may_use_a_file_at_once(tmp_path: Path) -> None:
    cache = SQLiteReplyCache(tmp_path / "cache.db", max_entries=50)

    async def main() -> list[Any]:
        await asyncio.gather(*(cache.put(str(n), {"n": n}) for n in range(200)))
        return await asyncio.gather(*(cache.get(str(n)) for n in range(200)))

    found = [reply for reply in asyncio.run(main()) if reply is not None]
    assert len(found) == 50


@pytest.mark.parametrize("content", [b"this is no database at all" * 50])
def test_a_file_that_is_no_cache_is_said_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"cache: .*notes\.txt.* cannot be used"):
        ask(ScriptedProvider(["x"]), str(path))
    with pytest.raises(ConfigError, match="there is no folder .*such"):
        ask(ScriptedProvider(["x"]), str(tmp_path / "no" / "such" / "folder.db"))
    assert path.read_bytes() == content


def test_a_damaged_answer_is_asked_again(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    path = tmp_path / "cache.db"
    provider = ScriptedProvider(["one", "two"])
    ask(provider, SQLiteReplyCache(path))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE replies SET reply = substr(reply, 1, 9)")
    assert ask(provider, SQLiteReplyCache(path)).text == "two"


@pytest.mark.parametrize("wrong", [3, "", [], 1.5, "yes", "Off"])
def test_what_is_no_cache_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="cache"):
        ask(ScriptedProvider(["x"]), wrong)
    with pytest.raises(ConfigError, match="cache"):
        run(ScriptedProvider(["x"]), cache=wrong)


def test_true_keeps_answers_with_their_provider() -> None:
    provider = ScriptedProvider(["once"])
    assert ask(provider, True).text == ask(provider, True).text == "once"
    assert ask(ScriptedProvider(["another"]), True).text == "another"
    assert ask(ScriptedProvider(["again"]), False).text == "again"
