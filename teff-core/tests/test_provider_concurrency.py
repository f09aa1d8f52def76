"""How many calls of one provider run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from teff.errors import ConfigError, ProviderError
from teff.harness import Harness, provider_concurrency, set_provider_concurrency
from teff.messages import user
from teff.provider import Capabilities, ChatReply, ChatRequest, ProviderRegistry


class Counting:
    """Counts the calls that run at once."""

    capabilities = Capabilities()

    def __init__(self, name: str = "counted", fail: int = 0) -> None:
        self.name = name
        self.now = self.most = self.calls = 0
        self.fail = fail

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0.001)
        finally:
            self.now -= 1
        if self.calls <= self.fail:
            raise ProviderError("busy", status=503, retry_after=0.0)
        return ChatReply(text="ok")

    def stream(self, request: ChatRequest) -> Any:
        raise AssertionError("not asked for")

    async def aclose(self) -> None:
        pass


@pytest.fixture(autouse=True)
def unbounded() -> Iterator[None]:
    yield
    for name in ("counted", "other"):
        set_provider_concurrency(name, None)


async def ask(provider: Counting, times: int, **settings: Any) -> list[ChatReply]:
    harness = Harness(
        model="m", provider=provider.name, providers={provider.name: provider}, **settings
    )
    return await asyncio.gather(*(harness.call([user("hi")]) for _ in range(times)))


def test_without_a_bound_all_calls_run_at_once() -> None:
    provider = Counting()
    asyncio.run(ask(provider, 20))
    assert provider.most == 20


def test_max_parallel_bounds_the_calls_of_a_provider() -> None:
    provider = Counting()
    assert len(asyncio.run(ask(provider, 20, max_parallel=3))) == 20
    assert provider.most == 3


def test_a_bound_of_the_process_holds_for_every_harness_and_for_that_provider_alone() -> None:
    set_provider_concurrency("counted", 2)
    assert provider_concurrency("counted") == 2
    provider, other = Counting(), Counting("other")

    async def main() -> None:
        await asyncio.gather(ask(provider, 9), ask(provider, 9), ask(other, 9))

    asyncio.run(main())
    assert (provider.most, other.most) == (2, 9)


def test_the_narrower_bound_counts() -> None:
    set_provider_concurrency("counted", 4)
    for limit, most in ((2, 2), (9, 4)):
        provider = Counting()
        asyncio.run(ask(provider, 12, max_parallel=limit))
        assert provider.most == most


def test_event_loops_do_not_wait_for_each_other() -> None:
    set_provider_concurrency("counted", 1)
    provider = Counting()
    for _ in range(3):
        asyncio.run(ask(provider, 3))
    assert (provider.most, provider.calls) == (1, 9)


def test_a_slot_is_given_back_by_failures_cancellation_and_while_a_retry_waits() -> None:
    provider = Counting(fail=3)

    async def main() -> None:
        tasks = [asyncio.create_task(ask(provider, 2, max_parallel=1)) for _ in range(4)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert len(await ask(provider, 4, max_parallel=1)) == 4

    asyncio.run(main())
    assert provider.most == 1


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2"])
def test_a_bound_is_a_whole_number_of_at_least_one(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        set_provider_concurrency("counted", wrong)
    assert provider_concurrency("counted") is None


@attrs.define(kw_only=True, eq=False)
class Declared(Counting):
    """A provider that is made from options."""

    name: str = "counted"

    def __attrs_post_init__(self) -> None:
        super().__init__(self.name)


def test_a_declared_provider_has_a_bound_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ProviderRegistry({"counted": {"type": "declared", "max_parallel": 2}})
    monkeypatch.setattr(ProviderRegistry, "_load_type", lambda self, name, declared: Declared)
    harness = Harness(model="m", provider="counted", providers=registry)

    async def main() -> None:
        await asyncio.gather(*(harness.call([user("hi")]) for _ in range(9)))

    asyncio.run(main())
    assert registry.resolve("counted").most == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [0, "2", True, 1.5])
def test_a_declared_bound_that_is_none_is_refused_by_name(wrong: Any) -> None:
    registry = ProviderRegistry({"ollama": {"max_parallel": wrong}})
    with pytest.raises(ConfigError, match="provider 'ollama': max_parallel"):
        registry.check("ollama")


def test_two_workflows_may_each_bound_a_provider_of_the_same_name() -> None:
    """They are two servers, and none waits for the other."""
    servers = [Counting(), Counting()]

    async def main() -> None:
        calls = []
        for server in servers:
            registry = ProviderRegistry({"fast": server})
            registry._options["fast"] = {"max_parallel": 1}
            harness = Harness(model="m", provider="fast", providers=registry)
            calls += [harness.call([user("hi")]) for _ in range(3)]
        running = asyncio.gather(*calls)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [server.now for server in servers] == [1, 1]
        await running

    asyncio.run(main())
