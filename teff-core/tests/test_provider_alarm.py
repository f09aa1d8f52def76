"""One timer for many waits: it rings in time, only while somebody waits, and cancels nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from teff.provider.alarm import Alarm


def run(test: Callable[[Alarm], Awaitable[None]]) -> None:
    async def main() -> None:
        alarm = Alarm()
        try:
            await test(alarm)
        finally:
            alarm.stop()

    asyncio.run(main())


def after(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def rings(alarm: Alarm, seconds: float = 0.01) -> None:
    with pytest.raises(TimeoutError), alarm.at(after(seconds)):
        await for_ever()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.01])
def test_it_rings_where_a_wait_takes_too_long(seconds: float) -> None:
    run(lambda alarm: rings(alarm, seconds))


def test_it_rings_again_after_it_has_rung() -> None:
    async def test(alarm: Alarm) -> None:
        for _ in range(3):
            await rings(alarm)

    run(test)


def test_it_does_not_ring_between_the_waits() -> None:
    async def test(alarm: Alarm) -> None:
        with alarm.at(after(0.01)):
            pass
        await asyncio.sleep(0.03)
        with alarm.at(after(5.0)):
            await asyncio.sleep(0.01)
        await rings(alarm)

    run(test)


def test_many_waits_may_last_longer_than_one_together() -> None:
    async def test(alarm: Alarm) -> None:
        for _ in range(10):
            with alarm.at(after(0.1)):
                await asyncio.sleep(0.02)

    run(test)


def test_a_shorter_wait_after_a_longer_one_rings_in_its_own_time() -> None:
    async def test(alarm: Alarm) -> None:
        with alarm.at(after(100.0)):
            await asyncio.sleep(0)
        await asyncio.wait_for(rings(alarm), 5.0)

    run(test)


def test_what_else_goes_wrong_in_a_wait_is_not_changed() -> None:
    async def test(alarm: Alarm) -> None:
        with pytest.raises(ValueError, match="mine"), alarm.at(after(5.0)):
            raise ValueError("mine")
        await rings(alarm)

    run(test)


@pytest.mark.parametrize("seconds", [5.0, 0.0])
def test_who_is_cancelled_from_outside_is_cancelled(seconds: float) -> None:
    async def test(alarm: Alarm) -> None:
        async def wait() -> None:
            with alarm.at(after(seconds)):
                await for_ever()

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises((asyncio.CancelledError, TimeoutError)):
            await task
        assert task.cancelled() or seconds == 0.0

    run(test)


def test_a_timeout_around_it_goes_first_where_it_is_shorter() -> None:
    async def test(alarm: Alarm) -> None:
        reached = False
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                try:
                    with alarm.at(after(5.0)):
                        await for_ever()
                except asyncio.CancelledError:
                    reached = True
                    raise
        assert reached

    run(test)


def test_tasks_may_wait_in_turn() -> None:
    async def test(alarm: Alarm) -> None:
        for _ in range(3):
            await asyncio.create_task(rings(alarm))

    run(test)
