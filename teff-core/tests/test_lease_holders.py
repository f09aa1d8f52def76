"""A run of a process that is certainly dead is free at once; in doubt, its lease has to run out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.checkpoint import FileCheckpointer, Lease, Record, SQLiteCheckpointer, holder
from teff.checkpoint.holder import Holder, Processes, run_locked, started, this_process
from teff.errors import LeaseLost, RunLocked

Store: TypeAlias = FileCheckpointer | SQLiteCheckpointer

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells all that is needed")
POSIX = pytest.mark.skipif(os.name != "posix", reason="it needs the signals of POSIX")

#: The clock of the stores that judge others, so that no lease runs out while a test is slow.
NOW = time.time()


def step(n: int) -> Record:
    return Record(kind="step", path="plan/1", data={"n": n})


def numbers(records: Sequence[Record]) -> list[int]:
    return [record.data["n"] for record in records]


@pytest.fixture(params=["sqlite", "file"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "file" and os.name != "posix":
        pytest.skip("FileCheckpointer needs the locks of POSIX")
    return str(request.param)


@pytest.fixture
def make_store(kind: str, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    made: list[Store] = []

    def make(processes: Processes | None = None, *, later: float = 0.0) -> Store:
        store: Store = (
            SQLiteCheckpointer(tmp_path / "runs")
            if kind == "sqlite"
            else FileCheckpointer(tmp_path)
        )
        store._runs.clock = lambda: NOW + later
        if processes is not None:
            store._runs.processes = processes
        made.append(store)
        return store

    yield make
    for store in made:
        if isinstance(store, SQLiteCheckpointer):
            store.close()


HELD = """
import asyncio, sys
from pathlib import Path
from teff.checkpoint import FileCheckpointer, Record, SQLiteCheckpointer
async def main():
    kind, folder, now = sys.argv[1:]
    folder = Path(folder)
    store = SQLiteCheckpointer(folder / "runs") if kind == "sqlite" else FileCheckpointer(folder)
    store._runs.clock = lambda: float(now)
    lease = await store.claim("r1")
    await store.append(lease, [Record(kind="step", path="plan/1", data={"n": 0})])
    print("held")
    sys.stdin.readline()
asyncio.run(main())
"""


@contextmanager
def a_holder(kind: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that holds the run ``r1`` and has recorded one step of it."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", HELD, kind, str(folder), str(NOW)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def here(**changes: Any) -> Holder:
    """Return a process of this machine, as the stores of a test are told of it."""
    usual = {"host": "db7", "machine": "boot pid:[1] time:[2]", "pid": 41, "started": 1000}
    return Holder(**{**usual, **changes})


def seen(*living: Holder, this: Holder | None = None) -> Processes:
    """Return what a process knows that sees ``living`` ones, and no others."""
    starts = {process.pid: process.started for process in living}

    def start(pid: int) -> int | None:
        if pid not in starts:
            raise ProcessLookupError
        return starts[pid]

    return Processes(this=lambda: this or here(pid=99, started=5000), started=start)


async def held(make_store: Callable[..., Store], by: Holder) -> tuple[Store, Lease]:
    """Have the run ``r1`` held by another process, with one step that it has recorded."""
    store = make_store(seen(by, this=by))
    lease = await store.claim("r1")
    await store.append(lease, [step(0)])
    return store, lease


# --- Real processes ------------------------------------------------------------------------------


@LINUX
def test_the_run_of_a_killed_process_is_taken_over_at_once(
    kind: str, tmp_path: Path, make_store: Callable[..., Store]
) -> None:
    async def main() -> None:
        with a_holder(kind, tmp_path) as process:
            store = make_store()
            with pytest.raises(RunLocked):
                await store.claim("r1")
            process.send_signal(signal.SIGKILL)
            process.wait()
            summary = await store.get("r1")
            assert summary is not None
            assert (summary.state, summary.held) == ("running", False)
            lease = await store.claim("r1")
        await store.append(lease, [step(1)])
        assert numbers(await store.load("r1")) == [0, 1]

    asyncio.run(main())


@LINUX
def test_a_killed_process_whose_parent_has_not_noticed_is_dead(
    kind: str, tmp_path: Path, make_store: Callable[..., Store]
) -> None:
    with a_holder(kind, tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        asyncio.run(make_store().claim("r1"))


@LINUX
def test_the_run_of_a_killed_process_can_be_deleted_at_once(
    kind: str, tmp_path: Path, make_store: Callable[..., Store]
) -> None:
    async def main() -> None:
        store = make_store()
        with a_holder(kind, tmp_path) as process:
            with pytest.raises(RunLocked, match=f"'r1'.*process {process.pid} on this machine"):
                await store.delete("r1")
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert await store.delete("r1")

    asyncio.run(main())


@POSIX
def test_a_stopped_process_is_alive(
    kind: str, tmp_path: Path, make_store: Callable[..., Store]
) -> None:
    with a_holder(kind, tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(RunLocked, match=f"process {process.pid} on this machine"):
            asyncio.run(make_store().claim("r1"))


@LINUX
def test_of_many_who_want_the_run_of_a_dead_process_one_gets_it(
    kind: str, tmp_path: Path, make_store: Callable[..., Store]
) -> None:
    async def main() -> None:
        with a_holder(kind, tmp_path) as process:
            process.send_signal(signal.SIGKILL)
            process.wait()
            claims = [make_store().claim("r1") for _ in range(5)]
            outcomes = await asyncio.gather(*claims, return_exceptions=True)
        assert sum(isinstance(outcome, RunLocked) for outcome in outcomes) == 4

    asyncio.run(main())


def test_the_same_process_holds_it_in_another_store_too(make_store: Callable[..., Store]) -> None:
    async def main() -> None:
        lease = await make_store().claim("r1")
        other = make_store()
        with pytest.raises(RunLocked, match=rf"process {os.getpid()} on .* in 30\.0 seconds, at "):
            await other.claim("r1")
        del lease

    asyncio.run(main())


@LINUX
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_child_is_another_process(
    kind: str, tmp_path: Path, make_store: Callable[..., Store]
) -> None:
    parent = this_process()
    store = make_store()  # made before the fork, and used first by the child
    child = os.fork()
    if not child:  # pragma: no cover - another process
        status = 1
        try:
            asyncio.run(store.claim("r1"))
            alone = this_process()
            status = 0 if (alone.pid, alone.machine) == (os.getpid(), parent.machine) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(make_store().claim("r1"))  # held by the parent, it would be locked


# --- What is judged, and what not ----------------------------------------------------------------


def test_a_dead_holder_is_fenced_off_like_one_whose_lease_ran_out(
    make_store: Callable[..., Store],
) -> None:
    async def main() -> None:
        first, old = await held(make_store, here())
        (before,) = await first.list()
        assert before.held
        second = make_store(seen())
        taken = await second.claim("r1")
        assert taken.epoch > old.epoch
        # As if it had been taken for dead by mistake: whatever it does, it cannot write.
        for write in (first.append(old, [step(1)]), first.renew(old)):
            with pytest.raises(LeaseLost):
                await write
        await first.release(old, "finished")
        await second.append(taken, [step(2)])
        assert numbers(await second.load("r1")) == [0, 2]
        with pytest.raises(RunLocked):
            await make_store(seen(here(pid=99, started=5000))).claim("r1")

    asyncio.run(main())


def test_a_process_that_lives_holds_its_run(make_store: Callable[..., Store]) -> None:
    async def main() -> None:
        await held(make_store, here())
        with pytest.raises(RunLocked, match="by process 41 on this machine: wait"):
            await make_store(seen(here())).claim("r1")

    asyncio.run(main())


def test_a_later_process_of_the_same_id_holds_nothing(make_store: Callable[..., Store]) -> None:
    async def main() -> None:
        await held(make_store, here())
        await make_store(seen(here(started=1001))).claim("r1")

    asyncio.run(main())


def test_a_process_that_got_the_id_of_the_dead_one_itself_can_tell(
    make_store: Callable[..., Store],
) -> None:
    async def main() -> None:
        await held(make_store, here())
        again = here(started=7000)
        await make_store(seen(again, this=again)).claim("r1")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("elsewhere", "who"),
    [
        ({"host": "db8"}, "process 41 on another machine, 'db8'"),
        ({"machine": "reboot pid:[1] time:[2]"}, "process 41 on 'db7', in another container or"),
        ({"machine": "boot pid:[3] time:[2]"}, "process 41 on 'db7', in another container or"),
        ({"machine": "boot pid:[1] time:[3]"}, "process 41 on 'db7', in another container or"),
        ({"machine": ""}, "process 41 on db7"),
    ],
    ids=["host", "boot", "namespace of processes", "namespace of times", "unknown"],
)
def test_a_process_elsewhere_is_not_judged(
    make_store: Callable[..., Store], elsewhere: dict[str, str], who: str
) -> None:
    async def main() -> None:
        await held(make_store, here(**elsewhere))
        with pytest.raises(RunLocked, match=rf"by {who}.* in 30\.0 seconds"):
            await make_store(seen()).claim("r1")
        await make_store(seen(), later=31).claim("r1")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("stored", "now"), [(None, 1000), (1000, None), (None, None)], ids=["stored", "seen", "both"]
)
def test_a_process_whose_start_is_not_known_is_taken_for_the_same(
    make_store: Callable[..., Store], stored: int | None, now: int | None
) -> None:
    async def main() -> None:
        await held(make_store, here(started=stored))
        with pytest.raises(RunLocked):
            await make_store(seen(here(started=now))).claim("r1")
        await make_store(seen()).claim("r1")  # that there is none of its id is certain all the same

    asyncio.run(main())


def test_who_does_not_know_where_it_is_judges_nobody(make_store: Callable[..., Store]) -> None:
    async def main() -> None:
        nowhere = here(machine="", pid=99, started=None)
        await held(make_store, here(machine=""))
        with pytest.raises(RunLocked):
            await make_store(seen(this=nowhere)).claim("r1")

    asyncio.run(main())


GARBAGE: list[Any] = [
    *(None, "", "me", 7, [], {}, [1, 2]),
    *({**attrs.asdict(here()), "pid": pid} for pid in (0, -1, 2**31, 1e9, True, "41", None)),
    {**attrs.asdict(here()), "started": "1000"},
    {**attrs.asdict(here()), "host": None},
    {**attrs.asdict(here()), "machine": 1},
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_a_holder_that_cannot_be_read_holds_its_run_until_the_lease_runs_out(
    kind: str, tmp_path: Path, make_store: Callable[..., Store], garbage: object
) -> None:
    async def main() -> None:
        if kind == "sqlite":
            this: Any = _Written(json.dumps(garbage))
            await make_store(Processes(this=lambda: this)).claim("r1")
        else:
            await held(make_store, here())
            (path,) = tmp_path.glob("*.lease")
            path.write_text(json.dumps({**json.loads(path.read_text()), "process": garbage}))
        with pytest.raises(RunLocked, match="r1"):
            await make_store(seen()).claim("r1")
        await make_store(seen(), later=31).claim("r1")

    asyncio.run(main())


class _Written:
    """What stands in the place of a holder, and says what it likes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def to_text(self) -> str:
        return self._text


def test_a_lease_file_without_the_process_is_held(tmp_path: Path) -> None:
    async def main() -> None:
        store = FileCheckpointer(tmp_path)
        await store.claim("r1")
        (path,) = tmp_path.glob("*.lease")
        lease = json.loads(path.read_text())
        del lease["process"]
        path.write_text(json.dumps(lease))
        with pytest.raises(RunLocked, match=f"by process {os.getpid()} on "):
            await FileCheckpointer(tmp_path).claim("r1")

    asyncio.run(main())


def test_a_lease_file_tells_the_process_and_forgets_it_once_it_is_given_back(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        store = FileCheckpointer(tmp_path)
        lease = await store.claim("r1")
        (path,) = tmp_path.glob("*.lease")
        assert json.loads(path.read_text())["process"] == attrs.asdict(this_process())
        await store.renew(lease)
        assert json.loads(path.read_text())["process"] == attrs.asdict(this_process())
        await store.release(lease, "paused")
        assert json.loads(path.read_text())["process"] is None

    asyncio.run(main())


# --- What the system tells -----------------------------------------------------------------------


@LINUX
def test_this_process_is_told_by_the_system() -> None:
    this = this_process()
    assert this.pid == os.getpid()
    assert this.started == started(this.pid)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert this.machine.startswith(f"{boot} pid:[")
    assert str(this) == f"process {os.getpid()} on {this.host}"


@LINUX
def test_the_name_of_a_program_may_hold_brackets_and_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    write_stat(tmp_path, name="a) R 1 (b", since=1234)
    assert started(os.getpid()) == 1234


@LINUX
@pytest.mark.parametrize(("state", "threads", "dead"), [("Z", 1, True), ("X", 0, True), ("Z", 2, False), ("T", 1, False)])  # fmt: skip
def test_a_process_is_dead_when_its_last_thread_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, threads: int, dead: bool
) -> None:
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    write_stat(tmp_path, state=state, threads=threads)
    if dead:
        with pytest.raises(ProcessLookupError):
            started(os.getpid())
    else:
        assert started(os.getpid()) == 1000


@LINUX
@pytest.mark.parametrize("content", [None, "", "1 (python", "1 (python) S 1 1"])
def test_a_process_that_is_hidden_is_not_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    if content is not None:
        write_stat(tmp_path).write_text(content)
    assert started(os.getpid()) is None


@POSIX
def test_the_process_of_another_user_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, sent: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert started(os.getpid()) == this_process().started


@LINUX
@pytest.mark.parametrize("ids", ["", "NSpid:\t4711\t{pid}\n", "NSpid:\t4711\n", "Pid:\t{pid}\n"])
def test_a_process_that_sees_the_processes_of_others_does_not_know_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: str
) -> None:
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    write_stat(tmp_path)
    (tmp_path / "self").mkdir()
    (tmp_path / "self/status").write_text(f"Name:\tpython\n{ids.format(pid=os.getpid())}")
    assert this_process().machine == ""


@LINUX
def test_a_process_without_proc_does_not_know_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    this = this_process()
    assert (this.machine, this.pid, this.started) == ("", os.getpid(), None)
    assert not Processes().is_dead(this)
    assert Processes().describe(this) == str(this)


@pytest.mark.parametrize("platform", ["win32", "freebsd14"])
def test_where_missing_processes_prove_nothing_nobody_is_judged_or_signalled(
    monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    sent: list[object] = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    this = this_process()
    assert (this.machine, this.started, started(this.pid)) == ("", None, None)
    assert not Processes().is_dead(this)
    assert not sent


@POSIX
def test_on_a_mac_only_a_process_that_is_missing_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    this = this_process()
    assert (this.machine, this.started) == ("darwin", None)
    assert not Processes().is_dead(this)
    monkeypatch.setattr(os, "kill", _missing)
    assert Processes().is_dead(this)


def _missing(pid: int, sent: int) -> None:
    raise ProcessLookupError


def write_stat(
    proc: Path, *, name: str = "python", state: str = "S", threads: int = 1, since: int = 1000
) -> Path:
    """Write what the system tells of this process."""
    pid = os.getpid()
    before, after = "0 " * 16, "0 " * 30
    path = proc / f"{pid}/stat"
    path.parent.mkdir()
    path.write_text(f"{pid} ({name}) {state} {before}{threads} 0 {since} {after}\n")
    return path


# --- Text ----------------------------------------------------------------------------------------

HOLDERS = st.builds(
    Holder,
    host=st.text(),
    machine=st.text(),
    pid=st.integers(1, 2**31 - 1),
    started=st.none() | st.integers(),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(HOLDERS)
def test_a_holder_comes_back_from_its_text_as_it_was(stored: Holder) -> None:
    assert Holder.of_text(stored.to_text()) == stored


@given(HOLDERS, st.sampled_from(["host", "machine", "pid", "started"]), JSON)
def test_whatever_is_read_is_a_holder_or_none(stored: Holder, name: str, value: Any) -> None:
    found = Holder.of({**attrs.asdict(stored), name: value, "more": value})
    assert found is None or Holder.of_text(found.to_text()) == found
    assert found is None or 0 < found.pid < 2**31


@given(st.text() | st.just("[" * 100_000))
def test_no_text_makes_reading_a_holder_fail(text: str) -> None:
    found = Holder.of_text(text)
    assert found is None or isinstance(found, Holder)


def test_a_lease_that_ends_after_all_dates_is_told_without_one() -> None:
    text = str(run_locked("r1", "process 41", until=1e300, now=0.0))
    assert text.endswith(" seconds")


@pytest.mark.parametrize("fraction", [0.0, 1e-7, 4e-7, 5e-7, 6e-7, 9e-7, 0.123456789])
def test_a_lease_is_held_whatever_its_end_is_rounded_to(
    make_store: Callable[..., Store], fraction: float
) -> None:
    async def main() -> None:
        await make_store(later=fraction).claim("r1")
        with pytest.raises(RunLocked):
            await make_store(later=fraction).claim("r1")

    asyncio.run(main())
