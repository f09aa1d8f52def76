"""Checks of what a store does with the records of a run."""

# ruff: noqa: D102  # a check says in its name what must hold

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest

from teff.checkpoint import Durability, Record, RecordKind
from teff.errors import TeffError
from teff.testing.contracts.bench import (
    Bench,
    check,
    exactly,
    record,
    same,
    same_records,
    store_run,
)

__all__ = ["HOSTILE", "VALUES", "RecordChecks"]


def _nested(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = [value] if level % 2 else {"in": value}
    return value


#: Every kind of JSON value, and values that stores have been known to change or to obey.
VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "false": False,
    "zero": 0,
    "minus one": -1,
    "big": 10**30,
    "beyond a double": 2**53 + 1,
    "whole float": 1.0,
    "negative zero": -0.0,
    "tenth": 0.1,
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "empty text": "",
    "empty list": [],
    "empty dict": {},
    "empty key": {"": {"": []}},
    "lists": [[], [[]], [{}, None, [1, 1.0, True, "1"]]],
    "deep": _nested(100),
    "controls": "\x00\x01\x1f\x7f\r\n\t\b\\\"'",
    "line ends": "a\u2028b\u2029c\u0085d\r\ne",
    "unicode": "Å e\u0301 \u00e9 ß İ \U0001f600 \U0010ffff \ufeff \ufffd",
    "keys": {"a.b": 1, "a b": 2, "$ref": 3, "ключ": 4, "\n": 5, "A": 6, "a": 7},
    "like a number": ["1", "1.0", "NaN", "Infinity", "null", "true", "1e5", "0x1f"],
    "like JSON": '{"kind":"end","path":"","data":{}}\n{"kind":"start"}',
    "like an object": {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}},
    "like a tag": {"$type": "date", "__class__": "os.system", "py/object": "os.system"},
    "like SQL": "'); DROP TABLE runs; --",
    "like pickle": "cos\nsystem\n(S'true'\ntR.",
    "wide": {f"key {number}": number for number in range(1000)},
}

#: Ids and owners that stores have been known to mix up or to follow out of their folder.
HOSTILE: tuple[str, ...] = (
    *(".", "..", "../up", "../../etc/passwd", "/etc/passwd", "a/b", "a//b", "a\\b", "a/", "C:\\a"),
    *("a", "A", "ä", "a\u0308", "Ä", "ß", "ss", "ı", "i", "İ", "ﬁ", "fi", "а"),  # noqa: RUF001
    *(" ", "a ", " a", "a.", "a\t", "a\n", "\n", "\r", "\x01", "\x7f", "\u200b", "\ufeff"),
    *("a%2fb", "%", "a%b", "a_b", "a*b", "a?b", "a[b]", "a:b", "a|b", "a;b", "a,b", "a#b", "~"),
    *("'", '"', "''", "a'b", "'; DROP TABLE runs; --", "${HOME}", "`id`", "$(id)", "-rf", "--"),
    *(
        "CON",
        "nul",
        "aux.txt",
        "default",
        "null",
        "None",
        "0",
        "1",
        "01",
        "1.0",
        "true",
        "[]",
        "{}",
    ),
    *("\U0001f600", "😀" * 100, "x" * 255, "x" * 256, "x" * 5000, "X" * 5000, "日本語" * 100),
    *("a.jsonl", "a.lease", "a.lock", "a.tmp", "a.db-wal", "a\u2028b", "a\u202eb"),
)

#: Ids and owners that a store refuses.
_REFUSED = {"empty": "", "NUL": "a\0b", "only NUL": "\0", "half a pair": "a\ud800"}


class RecordChecks:
    """Records are kept: all of them, in order, as they were."""

    @check
    async def test_durability_is_named_by_what_it_survives(self, bench: Bench) -> None:
        store = await bench.open()
        if store.durability not in get_args(Durability):
            raise AssertionError(f"durability is {store.durability!r}")

    @check
    async def test_records_come_back_all_and_in_order(self, bench: Bench) -> None:
        store = await bench.open()
        stored = await store_run(store, "r1", range(200))
        same_records(await store.load("r1"), stored, "the records of the run")

    @check
    async def test_several_records_of_one_append_keep_their_order(self, bench: Bench) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        stored = [record(number) for number in range(50)]
        await store.append(lease, stored[:1])
        await store.append(lease, stored[1:40])
        await store.append(lease, tuple(stored[40:]))
        same_records(await store.load("r1"), stored, "the records of the run")

    @check
    async def test_an_append_of_nothing_stores_nothing(self, bench: Bench) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        await store.append(lease, [])
        same(list(await store.load("r1")), [], "the records of the run")
        await store.append(lease, [record(1)])
        await store.append(lease, [])
        same_records(await store.load("r1"), [record(1)], "the records of the run")

    @check
    async def test_a_new_claim_goes_on_after_the_old_records(self, bench: Bench) -> None:
        store = await bench.open()
        stored = await store_run(store, "r1", "abc")
        stored += await store_run(store, "r1", "de")
        same_records(await store.load("r1"), stored, "the records of the run")

    @check
    async def test_kinds_and_paths_come_back_as_they_were(self, bench: Bench) -> None:
        store = await bench.open()
        paths = ("", "plan/3", "fan/1/[17]", "a b/ü/'\"/\\/\n/\U0001f600", "../..", "x" * 5000)
        # What stands before a snapshot may be left out, so here there is none.
        kinds = [kind for kind in get_args(RecordKind) if kind != "snapshot"]
        stored = [record(1, kind=kind, path=path) for kind in kinds for path in paths]
        lease = await store.claim("r1")
        await store.append(lease, stored)
        same_records(await store.load("r1"), stored, "the records of the run")

    @check
    async def test_what_a_run_goes_on_with_begins_again_at_its_last_snapshot(
        self, bench: Bench
    ) -> None:
        store = await bench.open()
        kinds: list[RecordKind] = ["start", "step", "snapshot", "step", "snapshot", "step"]
        stored = [record(number, kind=kind) for number, kind in enumerate(kinds)]
        await store.append(await store.claim("r1"), stored)
        found = list(await store.load("r1"))
        same_records([found[0], *found[-2:]], [stored[0], *stored[-2:]], "what is needed")
        same([each for each in stored if each in found], found, "the order of the records")

    @pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
    @check
    async def test_a_value_comes_back_equal_with_its_type(self, bench: Bench, value: Any) -> None:
        store = await bench.open()
        await store_run(store, "r1", [value, [value], {"key": value}])
        found = [entry.data["value"] for entry in await store.load("r1")]
        wanted = [value, [value], {"key": value}]
        same([exactly(each) for each in found], [exactly(each) for each in wanted], "the values")

    @check
    async def test_a_value_of_five_megabytes_comes_back(self, bench: Bench) -> None:
        store = await bench.open()
        text = 'ä\n"0123456789' * 400_000
        stored = await store_run(store, "r1", [text, "after"])
        same_records(await store.load("r1"), stored, "the records of the run")

    @check
    async def test_a_change_of_the_data_after_the_append_is_not_stored(self, bench: Bench) -> None:
        store = await bench.open()
        data = {"value": [1]}
        lease = await store.claim("r1")
        await store.append(lease, [Record(kind="value", data=data)])
        data["value"].append(2)
        same_records(await store.load("r1"), [record([1])], "the records of the run")

    @check
    async def test_a_change_of_what_was_loaded_is_not_stored(self, bench: Bench) -> None:
        store = await bench.open()
        await store_run(store, "r1", [[1]])
        (loaded,) = await store.load("r1")
        try:
            loaded.data["value"].append(2)
        except (TypeError, AttributeError):
            return  # it cannot be changed at all
        same_records(await store.load("r1"), [record([1])], "the records of the run")

    @check
    async def test_an_append_is_stored_whole_or_not_at_all(self, bench: Bench) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        await store.append(lease, [record("before")])
        try:
            await store.append(lease, [record(1), record(object()), record(3)])
        except (TeffError, TypeError, ValueError):
            same_records(await store.load("r1"), [record("before")], "the records of the run")
        else:
            pytest.skip("the store takes values that are no JSON")
        await store.append(lease, [record("after")])
        stored = [record("before"), record("after")]
        same_records(await store.load("r1"), stored, "the records of the run")

    @check
    async def test_a_run_that_nobody_began_is_empty(self, bench: Bench) -> None:
        store = await bench.open()
        await store_run(store, "r1", "a")
        same(list(await store.load("r2")), [], "the records of an unknown run")
        same(list(await store.load("r1", owner="ada")), [], "the records of an unknown owner")

    @check
    async def test_appends_at_the_same_time_do_not_mix(self, bench: Bench) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        calls = [[f"{call}.{place}" for place in range(4)] for call in range(25)]
        await asyncio.gather(
            *(store.append(lease, [record(value) for value in call]) for call in calls)
        )
        found = [entry.data["value"] for entry in await store.load("r1")]
        groups = [found[start : start + 4] for start in range(0, len(found), 4)]
        same(sorted(groups), sorted(calls), "what was stored together")

    @check
    async def test_runs_that_are_written_at_the_same_time_do_not_mix(self, bench: Bench) -> None:
        store = await bench.open()
        names = [f"r{number}" for number in range(16)]
        await asyncio.gather(
            *(store_run(store, name, [f"{name}.{place}" for place in range(5)]) for name in names)
        )
        for name in names:
            wanted = [record(f"{name}.{place}") for place in range(5)]
            same_records(await store.load(name), wanted, f"the records of run {name}")

    @check
    async def test_a_load_while_appending_sees_whole_appends_from_the_first(
        self, bench: Bench
    ) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        seen: list[list[Any]] = []

        async def write() -> None:
            for call in range(30):
                await store.append(lease, [record([call, place]) for place in range(3)])

        writing = asyncio.ensure_future(write())
        while not writing.done():
            seen.append([entry.data["value"] for entry in await store.load("r1")])
            await asyncio.sleep(0)
        await writing
        every = [[call, place] for call in range(30) for place in range(3)]
        for found in seen:
            if len(found) % 3 or found != every[: len(found)]:
                raise AssertionError(f"a load saw {found!r}")
        same([len(found) for found in seen], sorted(len(found) for found in seen), "the lengths")

    @check
    async def test_runs_of_two_owners_do_not_meet(self, bench: Bench) -> None:
        store = await bench.open()
        pairs = [("a", "b/c"), ("a/b", "c"), ("a", "b"), ("b", "a"), ("default", "a"), ("ab", "c")]
        leases = {pair: await store.claim(pair[1], owner=pair[0]) for pair in pairs}
        for pair, lease in leases.items():
            await store.append(lease, [record(list(pair))])
        for owner, run_id in pairs:
            wanted = [record([owner, run_id])]
            same_records(await store.load(run_id, owner=owner), wanted, f"{run_id!r} of {owner!r}")

    @check
    async def test_ids_of_any_text_are_kept_apart(self, bench: Bench) -> None:
        store = await bench.open()
        for run_id in HOSTILE:
            lease = await store.claim(run_id)
            same((lease.run_id, lease.owner), (run_id, "default"), "the lease")
            await store.append(lease, [record(run_id)])
        for run_id in HOSTILE:
            same_records(await store.load(run_id), [record(run_id)], f"the run {run_id[:50]!r}")

    @check
    async def test_owners_of_any_text_are_kept_apart(self, bench: Bench) -> None:
        store = await bench.open()
        for owner in HOSTILE:
            lease = await store.claim("r1", owner=owner)
            same((lease.run_id, lease.owner), ("r1", owner), "the lease")
            await store.append(lease, [record(owner)])
        for owner in HOSTILE:
            found = await store.load("r1", owner=owner)
            same_records(found, [record(owner)], f"the run of {owner[:50]!r}")

    @pytest.mark.parametrize("text", _REFUSED.values(), ids=_REFUSED.keys())
    @check
    async def test_an_id_that_is_no_text_is_refused(self, bench: Bench, text: str) -> None:
        store = await bench.open()
        with pytest.raises(TeffError):
            await store.claim(text)
        with pytest.raises(TeffError):
            await store.claim("r1", owner=text)
