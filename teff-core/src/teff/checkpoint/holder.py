"""Which process holds a run, and whether it is certainly dead, so that nobody waits for its lease.

A process is only judged by one that sees the same process ids: on the same machine, since the same
boot, in the same container. Everything else is unknown, and then the lease has to run out.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import attrs

from teff.errors import RunLocked

__all__ = ["Holder", "Processes", "run_locked", "started", "this_process"]

_PROC = Path("/proc")

#: Process ids are above 0, which stands for a whole group of processes, and fit into 32 bits.
_MOST_PID = 2**31 - 1


@attrs.frozen(kw_only=True)
class Holder:
    """The process that holds a run, as it is stored with the lease.

    Attributes:
        host: the name of its machine.
        machine: what its process id is an id in: the boot of the machine, and the namespaces of a
            container; "" where that cannot be told.
        pid: its process id.
        started: when it was started, in ticks since the boot, which tells it from a later process
            of the same id; None where that cannot be told.
    """

    host: str
    machine: str
    pid: int
    started: int | None = None

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def to_text(self) -> str:
        """Return it as JSON."""
        return json.dumps(attrs.asdict(self), separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> Holder | None:
        """Return what `to_text` made JSON of, or None where it is nothing of the kind."""
        try:
            return cls.of(json.loads(text))
        except (ValueError, RecursionError):
            return None

    @classmethod
    def of(cls, value: object) -> Holder | None:
        """Return the process that a JSON value describes, or None where it describes none."""
        if not isinstance(value, Mapping):
            return None
        host, machine = value.get("host"), value.get("machine")
        pid, since = value.get("pid"), value.get("started")
        if not isinstance(host, str) or not isinstance(machine, str):
            return None
        if type(pid) is not int or not 0 < pid <= _MOST_PID:
            return None
        if since is not None and type(since) is not int:
            return None
        return cls(host=host, machine=machine, pid=pid, started=since)


def this_process() -> Holder:
    """Return this process as the holder of a run. A forked child is another one."""
    pid, machine, since = os.getpid(), "", None
    if sys.platform == "linux":
        try:
            machine = _linux_machine(pid)
            since = started(pid) if machine else None
        except (OSError, ValueError):
            machine = ""
    elif sys.platform == "darwin":
        machine = sys.platform  # there are no containers, and nothing that tells boots apart
    return Holder(host=socket.gethostname(), machine=machine, pid=pid, started=since)


def _linux_machine(pid: int) -> str:
    """Return the boot and the namespaces of this process; "" where ``/proc`` is of other ones."""
    status = (_PROC / "self/status").read_bytes().splitlines()
    # Several ids, or another one, belong to a process that sees the ``/proc`` of another container.
    if [line.split()[1:] for line in status if line.startswith(b"NSpid:")] != [[b"%d" % pid]]:
        return ""
    boot = (_PROC / "sys/kernel/random/boot_id").read_bytes().decode().strip()
    spaces = [_PROC / "self/ns/pid"]
    if (time := _PROC / "self/ns/time").is_symlink():  # it moves the starts of processes
        spaces.append(time)
    return " ".join((boot, *(str(space.readlink()) for space in spaces))) if boot else ""


def started(pid: int) -> int | None:
    """Return when a process was started, in ticks since the boot; None where that cannot be told.

    Raises:
        ProcessLookupError: there is certainly no such process.
    """
    # Windows would end the process; elsewhere one that is there may be told to be missing.
    if sys.platform not in ("linux", "darwin"):
        return None
    with suppress(PermissionError):  # it is there, and somebody else's
        os.kill(pid, 0)
    if sys.platform != "linux":
        return None
    try:
        # The name of the program comes first, in brackets, and may hold brackets and blanks.
        fields = (_PROC / f"{pid}/stat").read_bytes().rpartition(b")")[2].split()
        state, threads, since = fields[0], int(fields[17]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None  # processes may be hidden from other users
    if state in (b"Z", b"X") and threads <= 1:
        raise ProcessLookupError(f"process {pid} is dead, and its parent has not noticed yet")
    return since


@attrs.frozen(kw_only=True)
class Processes:
    """What is known of processes.

    Attributes:
        this: gives the present one.
        started: gives the start of another one; see `started`.
    """

    this: Callable[[], Holder] = this_process
    started: Callable[[int], int | None] = started

    def is_dead(self, holder: Holder | None) -> bool:
        """Tell whether a process is certainly dead. One that was stopped is not."""
        if holder is None or not self._are_here(holder, self.this()):
            return False
        try:
            since = self.started(holder.pid)
        except ProcessLookupError:
            return True
        return since is not None and holder.started is not None and since != holder.started

    @staticmethod
    def _are_here(holder: Holder, this: Holder) -> bool:
        return bool(this.machine) and (holder.host, holder.machine) == (this.host, this.machine)

    def describe(self, holder: Holder | None) -> str:
        """Say which process it is to somebody who wants to find it."""
        if holder is None:
            return "a process that is not known"
        this = self.this()
        if self._are_here(holder, this):
            return f"process {holder.pid} on this machine"
        if holder.host != this.host:
            return f"process {holder.pid} on another machine, {holder.host!r}"
        if this.machine and holder.machine:
            return (
                f"process {holder.pid} on {holder.host!r}, in another container or before a restart"
            )
        return str(holder)


def run_locked(run_id: str, who: str, *, until: float, now: float) -> RunLocked:
    """Return the error that says who works on a run, and until when."""
    try:
        at = f", at {datetime.fromtimestamp(until).astimezone():%H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # later than there are dates
        at = ""
    return RunLocked(
        f"run {run_id!r} is being worked on by {who}: wait for it to end, or use another id. "
        f"Unless it is renewed, its lease runs out in {until - now:.1f} seconds{at}",
        run_id=run_id,
    )
