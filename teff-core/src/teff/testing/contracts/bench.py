"""What the checks of a contract work with: stores that are opened and closed, and exact comparison."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from teff.checkpoint import Record, RecordKind
from teff.state import freeze
from teff.testing.contracts.capabilities import survives_reopening

try:
    import pytest
except ImportError as error:  # pragma: no cover - where the tests run, it is there
    raise ImportError(
        "teff.testing.contracts needs pytest: pip install 'teff-core[testing]'"
    ) from error

__all__ = ["Bench", "check", "exactly", "record", "same", "same_records", "store_run"]

#: Seconds after which a check has failed: the store is stuck.
_PATIENCE = 60.0


#: The fixtures that a user of the contract may give beside ``make_store``.
_HOOKS = ("expire_leases", "damage")


class Bench:
    """What a check has in hand.

    Attributes:
        make_store: opens the store that is tested.
        hooks: what else the contract's user gave, by name.
    """

    def __init__(
        self, make_store: Callable[[], Any], hooks: Mapping[str, Callable[..., Any] | None]
    ) -> None:
        self.make_store = make_store
        self._hooks = hooks
        self._open: list[Any] = []

    async def open(self, *needs: str) -> Any:
        """Open the store, once more if it is open; skip the test where it lacks a method."""
        made = self.make_store()
        store = await made if inspect.isawaitable(made) else made
        self._open.append(store)
        for name in needs:
            if not callable(getattr(store, name, None)):
                pytest.skip(f"{type(store).__name__} has no {name}()")
        return store

    async def open_again(self, *needs: str) -> Any:
        """Open the store once more; skip the test where that is another, empty one."""
        missing = await survives_reopening(self.make_store)
        if missing:
            pytest.skip(missing)
        return await self.open(*needs)

    def hook(self, name: str) -> Callable[..., Any]:
        """Return what the fixture ``name`` gives; skip the test where it is not given."""
        given = self._hooks.get(name)
        if given is None:
            pytest.skip(f"the fixture {name} of the contract is not given")
        return given

    async def call(self, name: str, *arguments: Any) -> None:
        """Call the hook ``name``, which may be a coroutine function."""
        result = self.hook(name)(*arguments)
        if inspect.isawaitable(result):
            await result

    async def close(self) -> None:
        """Close every store that was opened and can be closed."""
        for store in reversed(self._open):
            close = getattr(store, "aclose", None)
            if callable(close):
                await close()
        self._open.clear()


def check(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine method that takes a `Bench`, and maybe more by name."""
    own, bench, *more = inspect.signature(test).parameters.values()

    def run(self: Any, **given: Any) -> None:
        hooks = {name: given.pop(name) for name in _HOOKS}
        bench = Bench(given.pop("make_store"), hooks)

        async def checked() -> None:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await test(self, bench, **given)
            finally:
                await bench.close()

        asyncio.run(checked())

    run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
    run.__module__ = test.__module__
    fixtures = [bench.replace(name=name) for name in ("make_store", *_HOOKS)]
    # What pytest reads, to know which fixtures and parameters to pass.
    run.__signature__ = inspect.Signature([own, *fixtures, *more])  # type: ignore[attr-defined]
    return run


def record(value: Any, *, kind: RecordKind = "value", path: str = "") -> Record:
    """Return a record that holds ``value``, frozen as the engine freezes it."""
    return Record(kind=kind, path=path, data=freeze({"value": value}))


def exactly(value: Any) -> str:
    """Return a text that two JSON values share if they are equal with their types: 1 is not 1.0."""
    return json.dumps(value, sort_keys=True)


def same(found: object, wanted: object, what: str) -> None:
    """Fail unless ``found`` equals ``wanted``; ``what`` says what was looked at."""
    if found != wanted:
        raise AssertionError(f"{what}: {_short(found)}, expected {_short(wanted)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 1000 else f"{text[:500]} … {text[-500:]}"


def same_records(found: Iterable[Record], wanted: Iterable[Record], what: str) -> None:
    """Fail unless both are the same records in the same order, their values' types included."""
    same([_content(entry) for entry in found], [_content(entry) for entry in wanted], what)


def _content(entry: Record) -> tuple[str, str, str]:
    return entry.kind, entry.path, exactly(entry.data)


async def store_run(
    store: Any,
    run_id: str,
    values: Iterable[Any],
    *,
    owner: str = "default",
    left: str = "finished",
) -> list[Record]:
    """Store a run with a record for each of ``values``, give it back, and return the records."""
    stored = [record(value) for value in values]
    lease = await store.claim(run_id, owner=owner)
    for entry in stored:
        await store.append(lease, [entry])
    await store.release(lease, left)
    return stored
