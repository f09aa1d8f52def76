"""Memories: kept apart by namespace, found by their words, laid over a request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.memory import InMemoryStore, MemoryConfig, MemoryStore, memory_text

ADA, BOB = ("users", "ada"), ("users", "bob")


def test_the_store_is_one_by_the_protocol() -> None:
    assert isinstance(InMemoryStore(), MemoryStore)


def test_the_best_fit_comes_first_and_k_bounds_it() -> None:
    async def scenario() -> list[str]:
        store = InMemoryStore()
        for key, text in [("1", "Ada likes tea"), ("2", "Ada likes green tea"), ("3", "Rain")]:
            await store.put(ADA, key, {"text": text})
        return [item.key for item in await store.search(ADA, "green tea?", k=1)]

    assert asyncio.run(scenario()) == ["2"]


def test_put_replaces_and_delete_forgets() -> None:
    async def scenario() -> tuple[list[str], Any]:
        store = InMemoryStore()
        await store.put(ADA, "a", {"text": "old"})
        await store.put(ADA, "a", {"text": "new"})
        await store.put(ADA, "b", {"text": "other"})
        await store.delete(ADA, "b")
        await store.delete(BOB, "a")
        return [item.text for item in await store.list(ADA)], await store.get(ADA, "b")

    assert asyncio.run(scenario()) == (["new"], None)


def test_what_has_expired_is_not_found_and_is_cleaned_up() -> None:
    async def scenario() -> tuple[Any, int, int]:
        store = InMemoryStore()
        await store.put(ADA, "a", {"text": "tea"}, ttl=0)
        await store.put(ADA, "b", {"text": "tea"})
        found = [item.key for item in await store.search(ADA, "tea")]
        return found, await store.cleanup(), await store.cleanup(max_age=0)

    assert asyncio.run(scenario()) == (["b"], 1, 1)


def test_mem_01_fifty_users_at_once_each_find_their_own() -> None:
    async def scenario() -> list[str]:
        store = InMemoryStore()

        async def one(user: str) -> str:
            await store.put(("users", user), "canary", {"text": f"canary of {user}"})
            await asyncio.sleep(0)
            (found,) = await store.search(("users", user), "canary")
            return found.text

        return await asyncio.gather(*(one(f"u{number}") for number in range(50)))

    assert asyncio.run(scenario()) == [f"canary of u{number}" for number in range(50)]


@pytest.mark.parametrize("nobody", [(), "", "users", ("users", ""), ("users", " "), [None], None])
def test_mem_02_a_missing_owner_is_an_error(nobody: Any) -> None:
    store = InMemoryStore()
    for call in (
        lambda: store.search(nobody, "q"),
        lambda: store.list(nobody),
        lambda: store.get(nobody, "k"),
        lambda: store.delete(nobody, "k"),
        lambda: store.put(nobody, "k", {"text": "t"}),
    ):
        with pytest.raises(ConfigError, match="namespace"):
            asyncio.run(call())


def test_mem_04_what_one_agent_keeps_another_finds() -> None:
    store = InMemoryStore()
    asyncio.run(store.put(ADA, "tea", {"text": "Ada likes green tea."}))
    config = MemoryConfig(store=store, namespace=["users", "{user_id}"])
    text = asyncio.run(memory_text(config, "Which tea?", {"user_id": "ada"}))
    assert text == "Relevant memories:\n- Ada likes green tea."
    assert asyncio.run(memory_text(config, "Which tea?", {"user_id": "bob"})) == ""
    assert asyncio.run(memory_text(config, " ", {"user_id": "ada"})) == ""


def test_a_namespace_whose_key_is_missing_or_empty_recalls_nothing() -> None:
    config = MemoryConfig(store="in_memory", namespace=["users", "{user_id}"])
    with pytest.raises(ConfigError, match="user_id"):
        asyncio.run(memory_text(config, "tea", {}))
    with pytest.raises(ConfigError, match="empty"):
        asyncio.run(memory_text(config, "tea", {"user_id": ""}))


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(ConfigError, match="no store of memories"):
        MemoryConfig(store=3, namespace=["a"])
