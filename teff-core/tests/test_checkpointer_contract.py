"""Every checkpointer that Teff brings keeps the contract, and the contract finds those that do not."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest

from teff.checkpoint import FileCheckpointer, Lease, MemoryCheckpointer, Record, SQLiteCheckpointer
from teff.errors import RunLocked
from teff.testing import CheckpointerContract, capabilities
from teff.testing.contracts.model import run_model

AN_HOUR = 3600.0


class TestMemory(CheckpointerContract):
    @pytest.fixture
    def make_store(self) -> Callable[[], MemoryCheckpointer]:
        store = MemoryCheckpointer()
        return lambda: store


class TestFile(CheckpointerContract):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[], FileCheckpointer]:
        return partial(FileCheckpointer, tmp_path / "runs")

    @pytest.fixture
    def expire_leases(self) -> Callable[[FileCheckpointer], None]:
        def expire(store: FileCheckpointer) -> None:
            store._runs.clock = lambda: time.time() + AN_HOUR

        return expire

    @pytest.fixture
    def damage(self, tmp_path: Path) -> Callable[[str, str], None]:
        def flip(run_id: str, owner: str) -> None:
            (path,) = (tmp_path / "runs").glob(f"{run_id}-*.jsonl")
            content = bytearray(path.read_bytes())
            content[content.index(b"bbbb")] ^= 1
            path.write_bytes(content)

        return flip


class TestFileThatSurvivesALossOfPower(TestFile):
    model_examples = 5

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[], FileCheckpointer]:
        return partial(FileCheckpointer, tmp_path / "runs", durability="power")


class TestSQLite(CheckpointerContract):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[], SQLiteCheckpointer]:
        return partial(SQLiteCheckpointer, tmp_path / "runs.db")

    @pytest.fixture
    def expire_leases(self) -> Callable[[SQLiteCheckpointer], None]:
        def expire(store: SQLiteCheckpointer) -> None:
            store._runs.clock = lambda: time.time() + AN_HOUR

        return expire

    @pytest.fixture
    def damage(self, tmp_path: Path) -> Callable[[str, str], None]:
        def change(run_id: str, owner: str) -> None:
            connection = sqlite3.connect(tmp_path / "runs.db")
            changed = connection.execute(
                "UPDATE teff_records SET data = replace(data, 'bbbb', 'bcbb')"
            )
            assert changed.rowcount
            connection.commit()
            connection.close()

        return change


class TestSQLiteThatSurvivesTheProcess(TestSQLite):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[], SQLiteCheckpointer]:
        return partial(SQLiteCheckpointer, tmp_path / "runs.db", durability="process")


class TestSQLiteThatSurvivesTheExit(TestSQLite):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[], SQLiteCheckpointer]:
        return partial(SQLiteCheckpointer, tmp_path / "runs.db", durability="exit")


# --- The contract finds what is wrong ------------------------------------------------------------


class LosesTheLast(MemoryCheckpointer):
    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        await super().append(lease, records[: max(1, len(records) - 1)] if records else records)


class TurnsAppendsRound(MemoryCheckpointer):
    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        await super().append(lease, records[::-1])


class StoresHalfOfAnAppend(MemoryCheckpointer):
    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        for record in records:
            json.dumps(record.data)
            await super().append(lease, [record])


class MixesAppends(MemoryCheckpointer):
    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        for record in records:
            await super().append(lease, [record])
            await asyncio.sleep(0)


class TakesWholeFloatsForIntegers(MemoryCheckpointer):
    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        def changed(value: Any) -> Any:
            return int(value) if isinstance(value, float) and value.is_integer() else value

        await super().append(
            lease,
            [
                attrs.evolve(entry, data={key: changed(value) for key, value in entry.data.items()})
                for entry in records
            ],
        )


class DropsNone(MemoryCheckpointer):
    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        kept = {}
        for entry in records:
            kept = {key: value for key, value in entry.data.items() if value is not None}
            await super().append(lease, [attrs.evolve(entry, data=kept)])


class LosesLineEnds(MemoryCheckpointer):
    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        await super().append(
            lease, [attrs.evolve(entry, path=entry.path.strip()) for entry in records]
        )
        text = [json.dumps(entry.data, ensure_ascii=False).splitlines()[0] for entry in records]
        assert all(map(json.loads, text))


class MixesOwners(MemoryCheckpointer):
    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        return await super().claim(f"{owner}/{run_id}")

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        return await super().load(f"{owner}/{run_id}")


class FoldsCase(MemoryCheckpointer):
    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        lease = await super().claim(run_id.casefold(), owner=owner)
        return attrs.evolve(lease, run_id=run_id)

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        await super().append(attrs.evolve(lease, run_id=lease.run_id.casefold()), records)

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        return await super().load(run_id.casefold(), owner=owner)


class TakesAnyId(MemoryCheckpointer):
    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        return await super().claim(repr(run_id), owner=repr(owner))


class LocksNothing(MemoryCheckpointer):
    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        run = self._find(run_id, owner)
        if run is not None:
            run.held = False
        return await super().claim(run_id, owner=owner)


class ChecksAndThenLocks(MemoryCheckpointer):
    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        run = self._find(run_id, owner)
        held = run is not None and run.held
        await asyncio.sleep(0)
        if held:
            raise RunLocked(f"{run_id} is held", run_id=run_id)
        if run := self._find(run_id, owner):
            run.held = False
        return await super().claim(run_id, owner=owner)


class NamesNoRun(MemoryCheckpointer):
    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        try:
            return await super().claim(run_id, owner=owner)
        except RunLocked as error:
            raise RunLocked(str(error)) from None


class CountsNoEpochs(MemoryCheckpointer):
    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        await super().claim(run_id, owner=owner)
        self._runs[owner, run_id].epoch = 1
        return Lease(run_id=run_id, owner=owner, epoch=1)


class CountsEpochsAnew(MemoryCheckpointer):
    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        before = self._find(run_id, owner)
        epoch = before.epoch + 1 if before is not None else 1
        await super().claim(run_id, owner=owner)
        self._runs[owner, run_id].epoch = epoch
        return Lease(run_id=run_id, owner=owner, epoch=epoch)


class FencesNobody(MemoryCheckpointer):
    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        self._runs[lease.owner, lease.run_id].add(records, self._clock())


class FreesWhatOthersHold(MemoryCheckpointer):
    async def release(self, lease: Lease, state: Any) -> None:
        if run := self._find(lease.run_id, lease.owner):
            run.held, run.state = False, state


class RaisesAtALostRelease(MemoryCheckpointer):
    async def release(self, lease: Lease, state: Any) -> None:
        await self.renew(lease)
        await super().release(lease, state)


class ForgetsTheState(MemoryCheckpointer):
    async def release(self, lease: Lease, state: Any) -> None:
        await super().release(lease, "finished")


class KeepsACancelledClaim(MemoryCheckpointer):
    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        lease = await super().claim(run_id, owner=owner)
        await asyncio.sleep(0)
        return lease


class ForksInPlace(MemoryCheckpointer):
    async def fork(self, run_id: str, at: int, new_id: str, *, owner: str = "default") -> Any:
        forked = await super().fork(run_id, at, new_id, owner=owner)
        self._runs[owner, new_id].stored = self._runs[owner, run_id].stored
        return forked


class ForksBesideTheRecord(MemoryCheckpointer):
    async def fork(self, run_id: str, at: int, new_id: str, *, owner: str = "default") -> Any:
        return await super().fork(run_id, max(1, at - 1), new_id, owner=owner)


class CopiesOverARun(MemoryCheckpointer):
    async def copy(self, run_id: str, new_id: str, *, owner: str = "default") -> Any:
        if run_id != new_id:
            self._runs.pop((owner, new_id), None)
        return await super().copy(run_id, new_id, owner=owner)


class DeletesWhatIsHeld(MemoryCheckpointer):
    async def delete(self, run_id: str, *, owner: str = "default") -> bool:
        return self._runs.pop((owner, run_id), None) is not None


class DeletesTheEntryOnly(MemoryCheckpointer):
    left: ClassVar[dict[Any, Any]] = {}

    async def delete(self, run_id: str, *, owner: str = "default") -> bool:
        self.left[owner, run_id] = await self.load(run_id, owner=owner)
        return await super().delete(run_id, owner=owner)

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        return await super().load(run_id, owner=owner) or self.left.get((owner, run_id), ())


class PrunesWhatIsPaused(MemoryCheckpointer):
    async def prune(self, *, older_than: float, owner: str = "default") -> int:
        for run in self._runs.values():
            run.state = "finished" if run.state == "paused" else run.state
        return await super().prune(older_than=older_than, owner=owner)


class PrunesAllOwners(MemoryCheckpointer):
    async def prune(self, *, older_than: float, owner: str = "default") -> int:
        owners = {key[0] for key in self._runs}
        return sum(
            [
                await super(PrunesAllOwners, self).prune(older_than=older_than, owner=each)
                for each in owners
            ]
        )


class ListsTheFirstFirst(MemoryCheckpointer):
    async def list(self, *, owner: str = "default") -> Any:
        return (await super().list(owner=owner))[::-1]


class CountsFromZero(MemoryCheckpointer):
    async def history(self, run_id: str, *, owner: str = "default") -> Any:
        found = await super().history(run_id, owner=owner)
        return [attrs.evolve(entry, number=entry.number - 1) for entry in found]


class MakesRunsByLooking(MemoryCheckpointer):
    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        if self._find(run_id, owner) is None:
            await self.release(await self.claim(run_id, owner=owner), "finished")
        return await super().load(run_id, owner=owner)


FAULTY = {
    LosesTheLast: "several_records_of_one_append",
    TurnsAppendsRound: "several_records_of_one_append",
    StoresHalfOfAnAppend: "an_append_is_stored_whole",
    MixesAppends: "appends_at_the_same_time",
    TakesWholeFloatsForIntegers: "a_value_comes_back_equal",
    DropsNone: "a_value_comes_back_equal",
    LosesLineEnds: "kinds_and_paths|a_value_comes",
    MixesOwners: "owners_of_any_text|the_epoch_grows",
    FoldsCase: "ids_of_any_text",
    TakesAnyId: "an_id_that_is_no_text",
    LocksNothing: "a_run_that_is_held_is_locked",
    ChecksAndThenLocks: "of_many_claims_at_once",
    NamesNoRun: "a_run_that_is_held_is_locked",
    CountsNoEpochs: "the_epoch_grows",
    CountsEpochsAnew: "a_lease_from_before_a_deletion",
    FencesNobody: "a_lease_that_was_given_back",
    FreesWhatOthersHold: "releasing_a_lost_lease",
    RaisesAtALostRelease: "releasing_a_lost_lease",
    ForgetsTheState: "get_says_how_a_run_was_left",
    KeepsACancelledClaim: "a_claim_that_was_cancelled",
    ForksInPlace: "a_fork_and_its_run_go_on_apart",
    ForksBesideTheRecord: "a_fork_has_the_first_records",
    CopiesOverARun: "a_copy_of_no_run_or_onto",
    DeletesWhatIsHeld: "a_run_that_is_held_is_not_deleted",
    DeletesTheEntryOnly: "delete_leaves_nothing",
    PrunesWhatIsPaused: "prune_deletes",
    PrunesAllOwners: "prune_deletes",
    ListsTheFirstFirst: "list_shows",
    CountsFromZero: "history_numbers",
    MakesRunsByLooking: "there_is_nothing_of_an_unknown_run",
}


@pytest.mark.parametrize("store", FAULTY, ids=lambda store: store.__name__)
def test_a_faulty_store_is_found_by_the_check_that_is_named_after_the_fault(store):
    found = failed_checks(store)
    assert any(re.search(FAULTY[store], name) for name in found), found


def test_a_sound_store_fails_no_check():
    assert failed_checks(MemoryCheckpointer) == []


def failed_checks(store: type[MemoryCheckpointer]) -> list[str]:
    """Return the names of the checks that fail for a store in memory."""
    found = []
    for name, values in checks():
        for given in values:
            opened = store()
            hooks = {"make_store": lambda opened=opened: opened}
            hooks |= {"expire_leases": None, "damage": None}
            try:
                getattr(CheckpointerContract(), name)(**hooks, **given)
            except pytest.skip.Exception:
                continue
            except (Exception, pytest.fail.Exception):
                found.append(name)
                break
    return found


def checks() -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the names of the checks, but those of whole stores, with what they are given."""
    found = []
    for name in dir(CheckpointerContract):
        check = getattr(CheckpointerContract, name)
        if name.startswith("test_") and "expire_leases" in inspect.signature(check).parameters:
            marks = [
                mark for mark in getattr(check, "pytestmark", ()) if mark.name == "parametrize"
            ]
            values = [{mark.args[0]: value} for mark in marks for value in mark.args[1]]
            found.append((name, values or [{}]))
    return found


def test_the_model_finds_faults_too():
    store = DeletesWhatIsHeld()
    with pytest.raises(AssertionError, match="delete.* was not refused with RunLocked"):
        run_model(lambda: store, examples=100, steps=20)


# --- How it is used ------------------------------------------------------------------------------


def test_what_a_store_can_do_is_found_out(tmp_path):
    file = capabilities(partial(FileCheckpointer, tmp_path))
    assert [each.name for each in file][:3] == ["list", "get", "history"]
    assert {each.missing for each in file} == {""}
    assert list(tmp_path.iterdir()) == []

    memory = {each.name: each for each in capabilities(MemoryCheckpointer)}
    assert memory["fork"].present
    assert not memory["survives reopening"].present
    assert str(memory["leases that run out"]) == (
        "leases that run out: missing, it has no lease_ttl"
    )

    (alone,) = [each for each in capabilities(lambda: FileCheckpointer(tmp_path)) if each.missing]
    assert alone.name == "several processes"
    assert "give functools.partial(YourStore, …)" in alone.missing


THIRD_PARTY = '''
import pytest
from teff.checkpoint import MemoryCheckpointer
from teff.testing import CheckpointerContract, capabilities
from teff.testing.contracts.model import run_model


class MyCheckpointer:
    """Has what the engine needs, and nothing more."""

    durability = "exit"

    def __init__(self):
        store = MemoryCheckpointer()
        self.claim, self.renew, self.append = store.claim, store.renew, store.append
        self.load, self.release = store.load, store.release


class TestMine(CheckpointerContract):
    model_examples = 3

    @pytest.fixture
    def make_store(self):
        return MyCheckpointer


class TestForgotten(CheckpointerContract):
    pass
'''


def test_a_store_of_a_third_party_is_tried_in_five_lines(tmp_path):
    (tmp_path / "test_mine.py").write_text(THIRD_PARTY)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    options = ["-W", "error", "--junit-xml=report.xml"]
    mine = [*command, *options, "test_mine.py::TestMine"]
    done = subprocess.run(mine, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    for reason in (
        "MyCheckpointer has no list()",
        "MyCheckpointer has no fork()",
        "the fixture damage of the contract is not given",
        "what is stored in one is not in the next that make_store gives",
    ):
        assert reason in done.stdout
    assert 'name="fork" value="it has no fork()"' in (tmp_path / "report.xml").read_text()

    forgotten = [*command, "-x", "test_mine.py::TestForgotten"]
    done = subprocess.run(forgotten, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "give the contract a fixture make_store that returns a function" in done.stdout


def test_only_the_contract_needs_pytest():
    code = "import sys, teff.testing; assert 'pytest' not in sys.modules; teff.testing.capabilities"
    subprocess.run([sys.executable, "-c", code], check=True)
