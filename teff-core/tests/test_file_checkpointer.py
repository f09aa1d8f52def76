"""`FileCheckpointer`: its files, and what it does beside the contract that every checkpointer keeps."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import gc
import json
import os
import stat
import threading
import time
import zlib
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.checkpoint import Checkpointer, FileCheckpointer, Lease, Record, RunStore, run_file
from teff.checkpoint.run_file import Place
from teff.errors import CheckpointCorrupt, CheckpointError, ConfigError, LeaseLost, RunLocked
from teff.flow import Flow
from teff.plugins import catalogue


def value(content: object, path: str = "p") -> Record:
    return Record(kind="value", path=path, data={"value": content})


def contents(records: Iterable[Record]) -> list[Any]:
    return [record.data["value"] for record in records]


def run(scenario: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(scenario)


async def stored(
    folder: Path, groups: Iterable[list[Any]], *, run_id: str = "r1", left: str = "paused"
) -> Path:
    """Store groups of values, each by one append, and return the path of the file."""
    store = FileCheckpointer(folder)
    lease = await store.claim(run_id)
    for group in groups:
        await store.append(lease, [value(content) for content in group])
    if left:
        await store.release(lease, left)
    return the_file(folder, run_id)


def the_file(folder: Path, run_id: str = "r1", ending: str = "jsonl") -> Path:
    (path,) = folder.glob(f"{run_id}-*.{ending}")
    return path


def loaded(folder: Path, run_id: str = "r1") -> list[Any]:
    return contents(run(FileCheckpointer(folder).load(run_id)))


def move_clock(store: FileCheckpointer, seconds: float) -> None:
    store._runs.clock = lambda: time.time() + seconds


# --- What a reader sees --------------------------------------------------------------------------


def test_a_run_is_one_file_of_json_lines_named_after_it(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        lease = await store.claim("Order 7/ü")
        await store.append(lease, [value("Grüße\n", "plan/3")])
        await store.append(lease, [value(1), value(None)])
        await store.release(lease, "finished")

    run(scenario())
    path = the_file(tmp_path, "order-7")
    head, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert head["teff_run"] == 1
    assert (head["run_id"], head["owner"]) == ("Order 7/ü", "default")
    assert [line["number"] for line in lines] == [1, 2, 3]
    assert [line["kind"] for line in lines] == ["value"] * 3
    assert [line["path"] for line in lines] == ["plan/3", "p", "p"]
    assert [line["data"]["value"] for line in lines] == ["Grüße\n", 1, None]
    assert [line.get("more", False) for line in lines] == [False, True, False]
    assert all(line["time"].endswith("+00:00") for line in lines)
    assert "Grüße" in path.read_text(encoding="utf-8")


def test_every_line_has_the_checksum_of_the_rest_of_it(tmp_path):
    path = run(stored(tmp_path, [["a"], ["b", "c"]]))
    for line in path.read_bytes().splitlines():
        body, checksum = line[: -len(',"crc":"00000000"}')], line[-len('00000000"}') : -2]
        assert checksum == b"%08x" % zlib.crc32(body)


def test_who_works_on_a_run_stands_in_the_file_beside_it(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        lease = await store.claim("r1")
        held = json.loads(the_file(tmp_path, ending="lease").read_text())
        assert (held["epoch"], held["state"]) == (lease.epoch, "running")
        assert f"process {os.getpid()}" in held["holder"]
        await store.release(lease, "paused")
        left = json.loads(the_file(tmp_path, ending="lease").read_text())
        assert (left["epoch"], left["state"], left["holder"]) == (lease.epoch, "paused", "")

    run(scenario())


def test_it_is_found_by_its_name():
    assert catalogue().load("teff.checkpointers", "file") is FileCheckpointer


def test_it_is_a_checkpointer_and_a_store_that_people_can_look_into(tmp_path):
    store = FileCheckpointer(tmp_path)
    assert isinstance(store, Checkpointer)
    assert isinstance(store, RunStore)
    assert store.durability == "process"


def test_a_graph_that_pauses_goes_on_in_another_store_of_the_same_folder(tmp_path):
    flow = Flow()
    flow.interrupt("ok", prompt="Go on?")
    flow.transform(action="render", template="{name}: {ok}", output_key="said")
    graph = flow.compile()
    with pytest.raises(BaseException, match="waits for an answer to 'ok'"):
        run(graph.run({"name": "Ada"}, checkpointer=FileCheckpointer(tmp_path), checkpoint_id="r1"))
    (paused,) = run(FileCheckpointer(tmp_path).list())
    assert (paused.state, paused.held) == ("paused", False)
    store = FileCheckpointer(tmp_path)
    result = run(graph.run(None, checkpointer=store, checkpoint_id="r1", resume={"ok": "yes"}))
    assert result["said"] == "Ada: yes"
    (finished,) = run(FileCheckpointer(tmp_path).list())
    assert finished.state == "finished"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durability": "exit"}, "durability='exit' is none of a folder of files"),
        ({"durability": "disk"}, "take 'process' or 'power'"),
        ({"lease_ttl": 0}, "lease_ttl=0 is no time"),
        ({"lease_ttl": -1}, "lease_ttl=-1 is no time"),
        ({"lease_ttl": float("nan")}, "lease_ttl=nan is no time"),
        ({"lease_ttl": float("inf")}, "lease_ttl=inf is no time"),
        ({"lease_ttl": True}, "lease_ttl=True is no time"),
        ({"lease_ttl": "30"}, "lease_ttl='30' is no time"),
    ],
)
def test_a_wrong_option_is_refused_by_name(tmp_path, options, text):
    with pytest.raises(ConfigError, match=text) as refused:
        FileCheckpointer(tmp_path, **options)
    assert refused.value.path in options


def test_nothing_is_made_before_the_first_run_is_begun(tmp_path):
    folder = tmp_path / "a" / "b"
    store = FileCheckpointer(folder)
    assert run(store.load("r1")) == ()
    assert run(store.list()) == ()
    assert run(store.get("r1")) is None
    assert run(store.delete("r1")) is False
    assert run(store.prune(older_than=0)) == 0
    assert not folder.exists()
    run(store.claim("r1"))
    assert len(list(folder.iterdir())) == 2


# --- Names ---------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)
KEYS = st.tuples(TEXT | st.sampled_from(["a", "A", "default", ".", "..", "a/b"]), TEXT)


@given(one=KEYS, other=KEYS)
def test_every_run_has_a_name_of_its_own_that_every_file_system_takes(one, other):
    names = [Place(Path("/runs"), run_id, owner).name for owner, run_id in (one, other)]
    assert (names[0].casefold() == names[1].casefold()) == (one == other)
    for name in names:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
        assert not name.startswith((".", "-"))
        assert len(f"{name}.lease.new".encode()) <= 255


@given(one=KEYS)
def test_a_place_is_in_the_folder(one):
    place = Place(Path("/runs"), one[1], one[0])
    for path in (place.records, place.lease, place.new_lease):
        assert path.parent == Path("/runs")
        assert os.path.normpath(path) == str(path)


def test_files_and_folders_are_for_their_user_alone(tmp_path):
    old = os.umask(0)
    try:
        folder = tmp_path / "runs"
        run(stored(folder, [["a"]]))
    finally:
        os.umask(old)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("ending", ["jsonl", "lease"])
def test_a_link_is_never_followed(tmp_path, ending):
    folder, secret = tmp_path / "runs", tmp_path / "secret"
    path = run(stored(folder, [["a"]])).with_suffix(f".{ending}")
    secret.write_bytes(path.read_bytes())
    before = secret.read_bytes()
    path.unlink()
    path.symlink_to(secret)

    async def scenario() -> None:
        store = FileCheckpointer(folder)
        for call in (store.claim, store.load, store.get, store.history, store.delete):
            with pytest.raises(CheckpointError, match="is a link or a device.*Remove it"):
                await call("r1")
        assert await store.list() == ()

    if ending == "jsonl":
        run(scenario())
    else:
        with pytest.raises(CheckpointError, match="is a link or a device"):
            run(FileCheckpointer(folder).claim("r1"))
    assert secret.read_bytes() == before


def test_a_link_in_place_of_the_next_lease_is_replaced_and_not_followed(tmp_path):
    folder, secret = tmp_path / "runs", tmp_path / "secret"
    secret.write_text("mine")
    lease = run(stored(folder, [["a"]])).with_suffix(".lease")
    Path(f"{lease}.new").symlink_to(secret)
    run(FileCheckpointer(folder).claim("r1"))
    assert secret.read_text() == "mine"
    assert not lease.is_symlink()


def test_a_device_is_not_touched(tmp_path):
    path = run(stored(tmp_path, [["a"]]))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CheckpointError, match="is a link or a device"):
        run(FileCheckpointer(tmp_path).load("r1"))


def test_files_of_others_in_the_folder_are_let_alone(tmp_path):
    run(stored(tmp_path, [["a"]]))
    for name in ("notes.txt", "notes.jsonl", "x-00.jsonl", "r1.jsonl.bak", ".hidden.jsonl"):
        (tmp_path / name).write_text('{"teff_run":1}\n')
    (tmp_path / "folder.jsonl").mkdir()
    store = FileCheckpointer(tmp_path)
    assert [entry.run_id for entry in run(store.list())] == ["r1"]
    run(store.prune(older_than=0))
    run(store.delete("r1"))
    assert len(list(tmp_path.iterdir())) == 6


# --- After a crash -------------------------------------------------------------------------------

GROUPS = [["one"], ["two", "three"], ["four"]]
ENDS = [0, 1, 3, 4]  # how many records there can be


def test_a_file_that_a_crash_cut_short_holds_whole_appends_and_goes_on(tmp_path):
    path = run(stored(tmp_path, GROUPS, left=""))
    content = path.read_bytes()
    head = content.index(b"\n") + 1
    for length in range(head, len(content) + 1):
        path.write_bytes(content[:length])

        async def scenario() -> list[Any]:
            store = FileCheckpointer(tmp_path)
            move_clock(store, 3600)
            before = contents(await store.load("r1"))
            lease = await store.claim("r1")
            await store.append(lease, [value("after")])
            assert contents(await store.load("r1")) == [*before, "after"]
            await store.release(lease, "running")
            return before

        lease_file = path.with_suffix(".lease")
        before_lease = lease_file.read_bytes()
        before = run(scenario())
        lease_file.write_bytes(before_lease)
        assert len(before) in ENDS
        assert before == ["one", "two", "three", "four"][: len(before)]
        assert content.startswith(
            path.read_bytes().partition(b'{"number":%d,' % (len(before) + 1))[0]
        )


def test_ckp_06_a_run_that_was_given_back_is_never_taken_for_a_shorter_one(tmp_path):
    path = run(stored(tmp_path, GROUPS))
    content = path.read_bytes()
    store = FileCheckpointer(tmp_path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        if length == len(content) - 1:  # only the end of the last line is missing
            assert loaded(tmp_path) == ["one", "two", "three", "four"]
            continue
        with pytest.raises(CheckpointCorrupt, match="'r1'"):
            run(store.load("r1"))


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 400, b"\0" * 400 + b"\n", b"\x80\x04\x95.", b"\n\n"]
)
def test_ckp_06_other_bytes_are_never_taken_for_an_empty_run(tmp_path, content):
    path = run(stored(tmp_path, GROUPS))
    path.write_bytes(content)
    store = FileCheckpointer(tmp_path)
    with pytest.raises(CheckpointCorrupt, match="'r1' is damaged"):
        run(store.load("r1"))
    with pytest.raises(CheckpointCorrupt, match="'r1' is damaged"):
        run(store.get("r1"))
    assert run(store.list()) == ()
    assert run(store.delete("r1")) is True
    assert list(tmp_path.iterdir()) == []


def test_a_flipped_bit_is_told_wherever_it_is(tmp_path):
    path = run(stored(tmp_path, GROUPS))
    content = path.read_bytes()
    store = FileCheckpointer(tmp_path)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match="'r1'"):
            run(store.load("r1"))


@settings(max_examples=60)
@given(data=st.data())
def test_damage_of_any_kind_is_told_or_harmless(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("runs")
    path = run(stored(folder, GROUPS))
    content = path.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 40)))
    path.write_bytes(content[:start] + data.draw(st.binary(max_size=20)) + content[end:])
    try:
        found = loaded(folder)
    except CheckpointError as error:
        found = error.run_id
    assert found in ("r1", ["one", "two", "three", "four"])


def test_a_damaged_line_is_named_with_its_file_and_the_rest_can_be_forked(tmp_path):
    path = run(stored(tmp_path, [[number] for number in range(6)]))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"value":3', b'"value":4')
    path.write_bytes(b"".join(lines))
    store = FileCheckpointer(tmp_path)
    with pytest.raises(CheckpointCorrupt) as told:
        run(store.load("r1"))
    assert f"line 5 of {path} does not fit its checksum" in str(told.value)
    assert "with a fork at 3" in str(told.value)
    run(store.fork("r1", 3, "r2"))
    assert loaded(tmp_path, "r2") == [0, 1, 2]
    with pytest.raises(CheckpointCorrupt):
        run(store.fork("r1", 4, "r3"))
    with pytest.raises(CheckpointCorrupt):
        run(store.copy("r1", "r3"))
    assert {entry.run_id for entry in run(store.list())} == {"r1", "r2"}


def test_lines_that_are_missing_doubled_or_exchanged_are_told(tmp_path):
    path = run(stored(tmp_path, [[number] for number in range(4)]))
    head, *lines = path.read_bytes().splitlines(keepends=True)
    for changed in (
        [lines[0], *lines[2:]],
        [lines[0], lines[0], *lines[1:]],
        [lines[1], lines[0], *lines[2:]],
        [*lines, lines[-1]],
        [head, *lines],
        [*lines[:2], b"\n", *lines[2:]],
    ):
        path.write_bytes(head + b"".join(changed))
        with pytest.raises(CheckpointCorrupt, match="line [2-6] of"):
            run(FileCheckpointer(tmp_path).load("r1"))


def test_the_file_of_another_run_is_not_taken_for_this_one(tmp_path):
    path = run(stored(tmp_path, [["a"]]))
    other = run(stored(tmp_path, [["b"]], run_id="r2"))
    path.write_bytes(other.read_bytes())
    store = FileCheckpointer(tmp_path)
    with pytest.raises(CheckpointCorrupt, match="line 1 of .* is of run 'r2' of owner 'default'"):
        run(store.load("r1"))
    assert [entry.run_id for entry in run(store.list())] == ["r2"]


def line(content: dict[str, Any]) -> bytes:
    body = json.dumps(content, separators=(",", ":"), ensure_ascii=False)[:-1].encode()
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "script"},
        {"path": 1},
        {"data": [1]},
        {"number": "1"},
        {"number": 2},
        {"time": "today"},
        {"time": 5},
        {"data": {"value": float("nan")}},
    ],
)
def test_ckp_09_a_line_with_a_right_checksum_is_looked_at_all_the_same(tmp_path, change):
    path = run(stored(tmp_path, [["a"]]))
    head, record = path.read_bytes().splitlines(keepends=True)
    content = json.loads(record)
    del content["crc"]
    path.write_bytes(head + line(content))
    assert loaded(tmp_path) == ["a"]
    path.write_bytes(head + line(content | change))
    with pytest.raises(CheckpointCorrupt, match="line 2"):
        run(FileCheckpointer(tmp_path).load("r1"))


def test_a_file_of_a_newer_teff_is_refused_with_the_way_out(tmp_path):
    path = run(stored(tmp_path, [["a"]]))
    run(stored(tmp_path, [["b"]], run_id="r2"))
    head, record = path.read_bytes().splitlines(keepends=True)
    content = json.loads(head)
    del content["crc"]
    path.write_bytes(line(content | {"teff_run": 2}) + record)
    store = FileCheckpointer(tmp_path)
    for call in (store.load, store.get):
        with pytest.raises(CheckpointError, match="format 2 by a newer Teff.*upgrade teff-core"):
            run(call("r1"))
    assert [entry.run_id for entry in run(store.list())] == ["r2"]


def test_an_editor_may_leave_out_the_end_of_the_last_line(tmp_path):
    path = run(stored(tmp_path, [["a"], ["b"]]))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert loaded(tmp_path) == ["a", "b"]
    run(stored(tmp_path, [["c"], ["d"]]))
    assert loaded(tmp_path) == ["a", "b", "c", "d"]
    assert len(path.read_bytes().splitlines()) == 5


@pytest.mark.parametrize("length", [0, 1, 20, 60, 109, None])
def test_what_a_crash_left_of_a_run_that_was_being_made_is_no_run(tmp_path, length):
    path = run(stored(tmp_path, []))
    path.write_bytes(path.read_bytes()[:length])
    path.with_suffix(".lease").unlink()
    store = FileCheckpointer(tmp_path)
    assert run(store.get("r1")) is None
    assert run(store.list()) == ()
    assert run(store.load("r1")) == ()
    with pytest.raises(CheckpointError, match="there is no run 'r1'"):
        run(store.copy("r1", "r2"))
    run(stored(tmp_path, [["x"]], run_id="r0"))
    run(store.copy("r0", "r1"))
    assert loaded(tmp_path) == ["x"]


def test_what_a_crash_left_of_a_run_can_be_deleted(tmp_path):
    path = run(stored(tmp_path, []))
    path.write_bytes(b"")
    path.with_suffix(".lease").unlink()
    assert run(FileCheckpointer(tmp_path).delete("r1")) is False
    assert list(tmp_path.iterdir()) == []


def test_delete_and_prune_leave_no_file_at_all(tmp_path):
    for run_id in ("r1", "r2"):
        path = run(stored(tmp_path, [["a"]], run_id=run_id, left="finished"))
        Path(f"{path.with_suffix('.lease')}.new").write_text("left by a crash")
    store = FileCheckpointer(tmp_path)
    assert run(store.delete("r1")) is True
    assert run(store.prune(older_than=0)) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_its_lease_file_can_be_used(tmp_path):
    path = run(stored(tmp_path, GROUPS))
    path.with_suffix(".lease").unlink()
    (entry,) = run(FileCheckpointer(tmp_path).list())
    assert (entry.state, entry.held, entry.records) == ("running", False, 4)
    run(stored(tmp_path, [["five"]]))
    assert loaded(tmp_path) == ["one", "two", "three", "four", "five"]


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, b"{", b"[]", b'{"epoch":"x"}', b"null", b"\xff", b'{"a":1}']
)
def test_a_lease_file_that_cannot_be_read_is_held_by_nobody(tmp_path, content):
    path = run(stored(tmp_path, GROUPS, left=""))
    path.with_suffix(".lease").write_bytes(content)
    run(stored(tmp_path, [["five"]]))
    assert loaded(tmp_path) == ["one", "two", "three", "four", "five"]


# --- When the disk refuses -----------------------------------------------------------------------


@pytest.mark.parametrize("taken", [0, 1, 50])
def test_a_full_disk_is_told_and_nothing_is_half_stored(tmp_path, monkeypatch, taken):
    written = os.write

    def full(descriptor: int, content: bytes) -> int:
        if b'"big"' not in content and b'"number":2' not in content:
            return written(descriptor, content)
        if full.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        room, full.room = full.room, 0
        return written(descriptor, content[:room])

    full.room = taken

    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        lease = await store.claim("r1")
        await store.append(lease, [value("before")])
        size = the_file(tmp_path).stat().st_size
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(CheckpointError, match="run 'r1' cannot be .*No space left") as told:
            await store.append(lease, [value("big"), value("more")])
        assert told.value.run_id == "r1"
        assert the_file(tmp_path).stat().st_size == size
        monkeypatch.setattr(os, "write", written)
        await store.append(lease, [value("after")])
        assert contents(await store.load("r1")) == ["before", "after"]

    run(scenario())


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    store = FileCheckpointer(tmp_path / "file" / "runs")
    with pytest.raises(
        CheckpointError, match="run 'r1' cannot be read or written.*Not a directory"
    ):
        run(store.claim("r1"))


def test_a_lease_that_cannot_be_written_leaves_the_run_as_it_was(tmp_path, monkeypatch):
    run(stored(tmp_path, [["a"]]))

    def refused(self: Path, target: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", refused)
        with pytest.raises(CheckpointError, match="Input/output error"):
            run(FileCheckpointer(tmp_path).claim("r1"))
    assert len(list(tmp_path.iterdir())) == 2
    run(stored(tmp_path, [["b"]]))
    assert loaded(tmp_path) == ["a", "b"]


def test_a_run_that_is_kept_locked_is_told_after_a_while(tmp_path, monkeypatch):
    path = run(stored(tmp_path, [["a"]]))
    monkeypatch.setattr(run_file, "_PATIENCE", 0.05)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunLocked, match="keeps .* locked. Is it suspended"):
            run(FileCheckpointer(tmp_path).claim("r1"))
    run(FileCheckpointer(tmp_path).claim("r1"))


@pytest.mark.parametrize(("durability", "synced"), [("process", 0), ("power", 3)])
def test_a_record_is_synced_as_the_durability_asks(tmp_path, monkeypatch, durability, synced):
    calls: list[str] = []
    for name in ("fdatasync", "fsync"):
        if hasattr(os, name):
            monkeypatch.setattr(os, name, lambda descriptor, name=name: calls.append(name))

    async def scenario() -> None:
        store = FileCheckpointer(tmp_path, durability=durability)
        assert store.durability == durability
        lease = await store.claim("r1")
        assert ("fsync" in calls) == (durability == "power")  # the name of the file
        calls.clear()
        for number in range(3):
            await store.append(lease, [value(number), value(number)])
        assert len(calls) == synced
        await store.release(lease, "paused")
        assert len(calls) > synced  # a run that is left is on the disk

    run(scenario())


# --- Leases --------------------------------------------------------------------------------------


def test_a_locked_run_says_who_works_on_it_and_for_how_long(tmp_path):
    async def scenario() -> None:
        lease = await FileCheckpointer(tmp_path).claim("r1")
        with pytest.raises(RunLocked) as locked:
            await FileCheckpointer(tmp_path).claim("r1")
        text = str(locked.value)
        assert f"run 'r1' is being worked on by process {os.getpid()} on" in text
        assert "its lease runs out in" in text
        del lease

    run(scenario())


def test_a_clock_that_was_set_back_locks_nobody_out(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        move_clock(store, 86_400)
        old = await store.claim("r1")
        today = FileCheckpointer(tmp_path)
        lease = await today.claim("r1")
        with pytest.raises(LeaseLost):
            await store.append(old, [value(1)])
        await today.append(lease, [value(2)])
        assert contents(await today.load("r1")) == [2]

    run(scenario())


def test_a_lease_is_renewed_in_the_background_while_it_is_held(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path, lease_ttl=0.15)
        lease = await store.claim("r1")
        await asyncio.sleep(0.3)
        with pytest.raises(RunLocked):
            await FileCheckpointer(tmp_path).claim("r1")
        await store.append(lease, [value(1)])
        await store.release(lease, "finished")

    run(scenario())


def end(threads: Iterable[threading.Thread]) -> bool:
    """Tell whether all of them end."""
    for thread in threads:
        thread.join(timeout=5)
    return not any(thread.is_alive() for thread in threads)


def test_the_thread_that_renews_ends_with_the_last_lease(tmp_path):
    before = set(threading.enumerate())

    def renewing() -> list[threading.Thread]:
        new = set(threading.enumerate()) - before
        return [thread for thread in new if thread.name == "teff-leases"]

    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        first, second = await store.claim("r1"), await store.claim("r2")
        (thread,) = renewing()
        await store.release(first, "finished")
        assert renewing() == [thread]
        await store.release(second, "finished")
        assert end([thread])

    run(scenario())


def test_a_store_that_is_dropped_renews_no_more_and_leaves_no_thread(tmp_path):
    before = set(threading.enumerate())
    store = FileCheckpointer(tmp_path)
    run(store.claim("r1"))
    threads = set(threading.enumerate()) - before
    assert {thread.name for thread in threads} == {"teff-leases", "teff-files_0"}
    del store
    gc.collect()
    assert end(threads)


def test_a_lease_that_was_lost_is_renewed_no_more(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path, lease_ttl=30)
        await store.claim("r1")
        other = FileCheckpointer(tmp_path)
        move_clock(other, 3600)
        lease = await other.claim("r1")
        store._renewal.renew_all()
        assert store._renewal._held == set()
        await other.append(lease, [value(1)])
        await other.release(lease, "finished")

    run(scenario())


def test_a_renewal_that_the_disk_refuses_is_tried_again(tmp_path, monkeypatch):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        lease = await store.claim("r1")
        path = the_file(tmp_path, ending="lease")
        before = json.loads(path.read_text())["until"]
        with monkeypatch.context() as patched:

            def refused(self: Path, target: Path) -> None:
                raise OSError(errno.ENOSPC, "No space left on device")

            patched.setattr(Path, "replace", refused)
            store._renewal.renew_all()
        assert json.loads(path.read_text())["until"] == before
        store._renewal.renew_all()
        assert json.loads(path.read_text())["until"] > before
        await store.release(lease, "finished")

    run(scenario())


def test_the_number_of_a_record_is_right_after_another_store_wrote_to_the_run(tmp_path):
    async def scenario() -> None:
        store, other = FileCheckpointer(tmp_path), FileCheckpointer(tmp_path)
        for number in range(4):
            writer = (store, other)[number % 2]
            lease = await writer.claim("r1")
            await writer.append(lease, [value(number)])
            await writer.append(lease, [value(number)])
            await writer.release(lease, "paused")
        history = await store.history("r1")
        assert [entry.number for entry in history] == list(range(1, 9))
        assert [entry.record.data["value"] for entry in history] == [0, 0, 1, 1, 2, 2, 3, 3]

    run(scenario())


def test_a_store_can_be_used_in_one_event_loop_after_the_other_and_from_threads(tmp_path):
    store = FileCheckpointer(tmp_path)
    lease = run(store.claim("r1"))
    threads = [
        threading.Thread(target=lambda number=number: run(store.append(lease, [value(number)])))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run(store.release(lease, "finished"))
    assert sorted(contents(run(store.load("r1")))) == list(range(8))


def test_appends_are_stored_in_the_order_in_which_they_were_asked_for(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        lease = await store.claim("r1")
        await asyncio.gather(*(store.append(lease, [value(number)]) for number in range(50)))
        assert contents(await store.load("r1")) == list(range(50))

    run(scenario())


def test_a_list_reads_the_ends_of_long_runs(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        for run_id, last in (("long", "x" * 300_000), ("short", "x")):
            lease = await store.claim(run_id)
            for content in ("a" * 100_000, "b", last):
                await store.append(lease, [value(content), value("end")])
            await store.release(lease, "finished")
        assert {entry.run_id: entry.records for entry in await store.list()} == {
            "long": 6,
            "short": 6,
        }

    run(scenario())


def test_a_lease_without_its_file_is_lost(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        with pytest.raises(LeaseLost, match="Resume it to go on") as lost:
            await store.append(Lease(run_id="r1", owner="default", epoch=1), [value(1)])
        assert lost.value.run_id == "r1"
        assert not list(tmp_path.iterdir())

    run(scenario())


def test_a_lease_file_of_a_newer_teff_is_understood(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        await store.claim("r1")
        path = the_file(tmp_path, ending="lease")
        path.write_text(json.dumps({**json.loads(path.read_text()), "more": 1}))
        with pytest.raises(RunLocked):
            await FileCheckpointer(tmp_path).claim("r1")

    run(scenario())


def test_a_fork_of_a_run_whose_end_is_gone_is_not_taken_for_finished(tmp_path):
    path = run(stored(tmp_path, [["a"], ["b"], ["c"]], left="finished"))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    store = FileCheckpointer(tmp_path)
    with pytest.raises(CheckpointCorrupt, match="ends after 2 records, and 3 were stored.*at 2"):
        run(store.load("r1"))
    assert run(store.fork("r1", 2, "r2")).state == "running"
    assert loaded(tmp_path, "r2") == ["a", "b"]
    with pytest.raises(CheckpointError, match="has no record 3: it has 2, counted from 1"):
        run(store.fork("r1", 3, "r3"))
    with pytest.raises(CheckpointError, match="has no record 0: it has 2, counted from 1"):
        run(store.fork("r1", 0, "r3"))


def test_a_fork_that_ends_with_a_question_is_paused(tmp_path):
    async def scenario() -> None:
        store = FileCheckpointer(tmp_path)
        lease = await store.claim("r1")
        await store.append(lease, [value("a"), Record(kind="pause", data={}), value("b")])
        states = [(await store.fork("r1", at, f"f{at}")).state for at in (1, 2, 3)]
        assert states == ["running", "paused", "running"]

    run(scenario())


def test_an_age_below_zero_is_refused(tmp_path):
    for age in (-1, float("nan")):
        with pytest.raises(ConfigError, match="older_than=.*: give a number of seconds, 0 or more"):
            run(FileCheckpointer(tmp_path).prune(older_than=age))


def test_its_repr_says_where_the_runs_are(tmp_path):
    shown = repr(FileCheckpointer(tmp_path, durability="power"))
    assert shown == f"FileCheckpointer({str(tmp_path)!r}, durability='power')"
