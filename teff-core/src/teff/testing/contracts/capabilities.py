"""What a store of runs can do beyond what every one must: found out, never assumed."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import attrs

from teff.checkpoint import Record

__all__ = ["Capability", "capabilities", "goes_to_other_processes", "survives_reopening"]

#: What people ask of a store; see `teff.checkpoint.RunStore`.
_METHODS = ("list", "get", "history", "fork", "copy", "delete", "prune")


@attrs.frozen
class Capability:
    """One thing that a store may be able to do.

    Attributes:
        name: what.
        missing: why it cannot, as a sentence; "" where it can.
    """

    name: str
    missing: str = ""

    @property
    def present(self) -> bool:
        """Whether the store can do it."""
        return not self.missing

    def __str__(self) -> str:
        return f"{self.name}: {'missing, ' + self.missing if self.missing else 'present'}"


def capabilities(make_store: Callable[[], Any]) -> tuple[Capability, ...]:
    """Return what a store can do, and what it lacks and why.

    It is found out by using the store: a run of an owner of its own is stored, and deleted where
    the store can do that.

    Args:
        make_store: opens the store, every time the same one; a plain or a coroutine function.

    >>> from teff.checkpoint import MemoryCheckpointer
    >>> for capability in capabilities(MemoryCheckpointer)[-4:]:
    ...     print(capability)
    prune: present
    leases that run out: missing, it has no lease_ttl
    survives reopening: missing, what is stored in one is not in the next that make_store gives
    several processes: missing, what is stored in one is not in the next that make_store gives
    """
    return asyncio.run(_capabilities(make_store))


async def _capabilities(make_store: Callable[[], Any]) -> tuple[Capability, ...]:
    store = await _opened(make_store)
    found = [
        Capability(name, "" if callable(getattr(store, name, None)) else f"it has no {name}()")
        for name in _METHODS
    ]
    runs_out = "" if _lease_ttl(store) else "it has no lease_ttl"
    await _closed(store)
    lost = await survives_reopening(make_store)
    alone = lost or goes_to_other_processes(make_store)
    return (
        *found,
        Capability("leases that run out", runs_out),
        Capability("survives reopening", lost),
        Capability("several processes", alone),
    )


def _lease_ttl(store: Any) -> bool:
    if hasattr(store, "lease_ttl"):
        return True
    return "lease_ttl" in inspect.signature(type(store)).parameters


async def survives_reopening(make_store: Callable[[], Any]) -> str:
    """Return "" if what is stored in a store is there when it is opened again, else why not."""
    owner = f"teff contract {uuid.uuid4()}"
    store = await _opened(make_store)
    lease = await store.claim("probe", owner=owner)
    await store.append(lease, [Record(kind="value", data={"value": 1})])
    await store.release(lease, "finished")
    await _closed(store)
    store = await _opened(make_store)
    try:
        if not await store.load("probe", owner=owner):
            return "what is stored in one is not in the next that make_store gives"
        if callable(getattr(store, "delete", None)):
            await store.delete("probe", owner=owner)
        return ""
    finally:
        await _closed(store)


def goes_to_other_processes(make_store: Callable[[], Any]) -> str:
    """Return "" if another process can be given ``make_store``, else why not."""
    try:
        ForkingPickler.dumps(make_store)
    except Exception as error:
        # Whatever an object raises that does not want to be sent.
        return (
            "make_store cannot be sent to another process: give functools.partial(YourStore, …) "
            f"({type(error).__name__})"
        )
    return ""


async def _opened(make_store: Callable[[], Any]) -> Any:
    made = make_store()
    return await made if inspect.isawaitable(made) else made


async def _closed(store: Any) -> None:
    close = getattr(store, "aclose", None)
    if callable(close):
        await close()
