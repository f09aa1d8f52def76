"""The two files of one run in a folder: what was stored, and who may write.

``order-7-1c0f….jsonl`` holds the run and is only ever added to. ``order-7-1c0f….lease`` beside it is
replaced as a whole. Whoever reads or writes either holds a lock of the operating system on the
first one for that moment; it ends with the process, so that nothing is left locked by a crash.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import get_args

import attrs

from teff.checkpoint.holder import Holder
from teff.checkpoint.lines import read_header, time_of, time_text
from teff.checkpoint.protocol import RunState
from teff.errors import CheckpointError, RunLocked

__all__ = ["Place", "RunFile", "StoredLease", "open_new_run", "open_run", "places", "sync_folder"]

#: Seconds that a process may hold the lock on a run file: it writes, and lets go.
_PATIENCE = 10.0

#: Links are refused by the system itself, where it can.
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)

_READABLE = re.compile(r"[^a-z0-9_-]+")


def _readable(text: str, length: int) -> str:
    return _READABLE.sub("-", text.casefold()).strip("-")[:length] or "run"


def _digest(*texts: str, size: int) -> str:
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=size).hexdigest()


def _owner_part(owner: str) -> str:
    """Return what the names of an owner's files begin with; nothing for the owner of most runs."""
    if owner == "default":
        return ""
    return f"{_readable(owner, 40)}-{_digest(owner, size=4)}."


@attrs.frozen
class Place:
    """Where the files of a run are.

    Their name tells a reader which run it is, and no other run has it, whatever ids and owners
    are made of: a digest tells them apart, also where the file system does not tell ``a`` from
    ``A``.
    """

    folder: Path
    run_id: str
    owner: str
    name: str = attrs.field(init=False)

    @name.default
    def _name(self) -> str:
        digest = _digest(self.owner, self.run_id, size=16)
        return f"{_owner_part(self.owner)}{_readable(self.run_id, 60)}-{digest}"

    @property
    def records(self) -> Path:
        """The file that holds the run."""
        return self.folder / f"{self.name}.jsonl"

    @property
    def lease(self) -> Path:
        """The file that says who may write."""
        return self.folder / f"{self.name}.lease"

    @property
    def new_lease(self) -> Path:
        """What becomes the lease file once it is written."""
        return self.folder / f"{self.name}.lease.new"


def places(folder: Path, owner: str) -> Iterator[Place]:
    """Yield where the runs of an owner are, in no order.

    Files that do not say whose they are, or were made by a newer Teff, are left out.
    """
    pattern = re.compile(rf"{re.escape(_owner_part(owner))}[a-z0-9_-]+\.jsonl")
    names = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208  # names are matched first
    for name in filter(pattern.fullmatch, names):
        with suppress(CheckpointError):
            header = read_header(_first_line(folder / name))
            if header is not None and header.owner == owner:
                place = Place(folder, header.run_id, owner)
                if place.records.name == name:
                    yield place


def _first_line(path: Path) -> bytes:
    descriptor = _open(path, os.O_RDONLY, run_id=path.name)
    if descriptor is None:
        return b""
    try:
        return _line_of(descriptor)
    finally:
        os.close(descriptor)


def _line_of(descriptor: int) -> bytes:
    """Return the first line of an open file, without its end."""
    line = b""
    while piece := os.pread(descriptor, 4096, len(line)):
        line += piece
        if b"\n" in piece:
            break
    return line.partition(b"\n")[0]


@attrs.frozen(kw_only=True)
class StoredLease:
    """What a lease file says.

    Attributes:
        epoch: of the newest lease; 0 where there was none.
        holder: who has it, for people; "" once it was given back.
        process: the process that has it, None where that is not known.
        until: when it runs out unless it is renewed, in seconds since the epoch.
        ttl: how long it runs at a time, in seconds.
        state: how the run was left when it was given back.
        records: how many records are known to have reached the disk.
    """

    epoch: int = 0
    holder: str = ""
    process: Holder | None = None
    until: float = 0.0
    ttl: float = 0.0
    state: RunState = "running"
    records: int = 0

    def held(self, now: float) -> bool:
        """Tell whether somebody's lease runs now; that process may be dead.

        Nobody holds a run for longer than the time of a lease: where it seems to be twice as long,
        the clock was set back. (The time is written to the microsecond, and so may be rounded up.)
        """
        return bool(self.holder) and now < self.until <= now + 2 * self.ttl

    @property
    def left(self) -> RunState:
        """How the run was left; ``running`` where nobody gave it back."""
        return "running" if self.holder else self.state

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps({**attrs.asdict(self), "until": time_text(self.until)}) + "\n"

    @classmethod
    def from_text(cls, text: bytes) -> StoredLease:
        """Read a lease file. What cannot be read is nobody's: a loss of power leaves such files."""
        try:
            content = json.loads(text)
            process = Holder.of(content.get("process"))
            content = {**content, "until": time_of(content["until"]), "process": process}
            lease = cls(**{field.name: content[field.name] for field in attrs.fields(cls)})
            whole = lease.state in get_args(RunState) and isinstance(lease.holder, str)
            numbers = (lease.epoch, lease.records, lease.ttl)
            if whole and all(isinstance(number, int | float) for number in numbers):
                return lease
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            pass
        return cls()


class RunFile:
    """A run file that is open and locked. See `open_run`."""

    def __init__(self, place: Place, descriptor: int) -> None:
        self.place = place
        self._descriptor = descriptor

    @property
    def size(self) -> int:
        """How long it is, in bytes."""
        return os.fstat(self._descriptor).st_size

    def first_line(self) -> bytes:
        """Return the first line, without its end."""
        return _line_of(self._descriptor)

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes from ``start`` to ``end``, or to the end of the file."""
        pieces, end = [], self.size if end is None else end
        while start < end:
            piece = os.pread(self._descriptor, end - start, start)
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def write(self, content: bytes, *, at: int, power: bool) -> None:
        """Write at ``at``, where the file then ends: all of it, or nothing.

        With ``power``, it is on the disk when this returns.
        """
        if self.size != at:
            os.ftruncate(self._descriptor, at)
        try:
            written = os.write(self._descriptor, content)
            while written < len(content):  # a full disk takes a part, and refuses the rest
                written += os.write(self._descriptor, content[written:])
            if power:
                self.sync()
        except BaseException:
            os.ftruncate(self._descriptor, at)
            raise

    def sync(self) -> None:
        """Return once everything is on the disk."""
        _sync(self._descriptor)

    @property
    def lease(self) -> StoredLease:
        """What the lease file says; an empty lease where there is none."""
        descriptor = _open(self.place.lease, os.O_RDONLY, run_id=self.place.run_id)
        if descriptor is None:
            return StoredLease()
        try:
            return StoredLease.from_text(os.read(descriptor, 4096))
        finally:
            os.close(descriptor)

    def set_lease(self, lease: StoredLease, *, power: bool = False) -> None:
        """Replace the lease file."""
        place = self.place
        place.new_lease.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN
        descriptor = os.open(place.new_lease, flags, 0o600)
        try:
            try:
                os.write(descriptor, lease.to_text().encode())
                if power:
                    _sync(descriptor)
            finally:
                os.close(descriptor)
            place.new_lease.replace(place.lease)
        except BaseException:
            place.new_lease.unlink(missing_ok=True)
            raise
        if power:
            sync_folder(place.folder)

    def remove(self, *, power: bool) -> None:
        """Remove everything of the run. The run itself goes last, so that a rest can be found."""
        place = self.place
        for path in (place.new_lease, place.lease, place.records):
            path.unlink(missing_ok=True)
        if power:
            sync_folder(place.folder)


@contextmanager
def open_run(place: Place, *, write: bool = True) -> Iterator[RunFile | None]:
    """Open the file of a run and lock it; give None where there is none.

    Args:
        place: which run.
        write: nobody else reads or writes it meanwhile; else only nobody writes.

    Raises:
        RunLocked: somebody has kept it locked for ten seconds.
        CheckpointError: it is a link, or no file.
    """
    flags = os.O_RDWR | os.O_APPEND if write else os.O_RDONLY
    descriptor = _locked(place, flags)
    if descriptor is None:
        yield None
        return
    try:
        yield RunFile(place, descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_new_run(place: Place) -> Iterator[RunFile]:
    """Open the file of a run for writing, and make it where there is none; see `open_run`."""
    descriptor = None
    while descriptor is None:
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _locked(place, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        yield RunFile(place, descriptor)
    finally:
        os.close(descriptor)


def _locked(place: Place, flags: int) -> int | None:
    while True:
        descriptor = _open(place.records, flags, run_id=place.run_id)
        if descriptor is None:
            return None
        try:
            _lock(descriptor, place, exclusive=bool(flags & os.O_RDWR))
            if _is_at(place.records, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # somebody has deleted the run since it was opened


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _open(path: Path, flags: int, *, run_id: str) -> int | None:
    """Open a file, never through a link; return None where there is none."""
    try:
        descriptor = os.open(path, flags | _PLAIN, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _no_file(path, run_id) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_file(path, run_id)
    return descriptor


def _no_file(path: Path, run_id: str) -> CheckpointError:
    return CheckpointError(
        f"run {run_id!r}: {path} is a link or a device, and is not touched. Remove it",
        run_id=run_id,
    )


def _lock(descriptor: int, place: Place, *, exclusive: bool) -> None:
    if sys.platform == "win32":  # pragma: no cover - FileCheckpointer refuses to begin there
        raise OSError("there are no locks of this kind")
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock

    pause, deadline = 0.0005, time.monotonic() + _PATIENCE
    while True:
        with suppress(BlockingIOError):
            return flock(descriptor, (LOCK_EX if exclusive else LOCK_SH) | LOCK_NB)
        if time.monotonic() > deadline:
            raise RunLocked(
                f"run {place.run_id!r}: another process keeps {place.records} locked. "
                "Is it suspended? Continue or end it",
                run_id=place.run_id,
            )
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":  # pragma: no cover - fsync leaves it in the drive's cache there
        from fcntl import F_FULLFSYNC, fcntl

        fcntl(descriptor, F_FULLFSYNC)
    else:
        getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_folder(folder: Path) -> None:
    """Return once the names of the files in ``folder`` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
