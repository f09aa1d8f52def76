"""Renewing the leases that a store has given out, for as long as it holds any."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from teff.checkpoint.protocol import Lease
from teff.errors import CheckpointError, LeaseLost

__all__ = ["Renewal"]


class Renewal:
    """Renews leases every so often, in a daemon thread that lives while there are any.

    The thread does not keep the store alive: a store that is dropped lets its leases run out.

    Args:
        renew: a bound method that renews one lease. `LeaseLost` ends the renewing of that lease;
            after another `CheckpointError` or an ``OSError`` it is tried again the next time.
        every: seconds between two rounds.
    """

    def __init__(self, renew: Callable[[Lease], None], *, every: float) -> None:
        self._renew = weakref.WeakMethod(renew)
        self._every = every
        self._held: set[Lease] = set()
        self._end: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def add(self, lease: Lease) -> None:
        """Renew ``lease`` from now on."""
        with self._lock:
            self._held.add(lease)
            if self._end is None:
                stop = threading.Event()
                self._end = weakref.finalize(self, stop.set)
                arguments = (weakref.ref(self), stop, self._every)
                threading.Thread(
                    target=_renew_until, args=arguments, name="teff-leases", daemon=True
                ).start()

    def discard(self, lease: Lease) -> None:
        """Renew ``lease`` no more; with the last one, the thread ends."""
        with self._lock:
            self._held.discard(lease)
            if self._end is not None and not self._held:
                self._end()
                self._end = None

    def renew_all(self) -> None:
        """Renew every lease once."""
        renew = self._renew()
        with self._lock:
            leases = tuple(self._held) if renew is not None else ()
        for lease in leases:
            assert renew is not None  # noqa: S101  # for the type checker; there are leases
            try:
                renew(lease)
            except LeaseLost:
                self.discard(lease)
            except (CheckpointError, OSError):
                continue  # a full disk may have room again before the lease runs out


def _renew_until(reference: weakref.ref[Renewal], stop: threading.Event, every: float) -> None:
    while not stop.wait(every):
        renewal = reference()
        if renewal is None:
            return
        renewal.renew_all()
        del renewal  # else the thread would keep it alive while it waits
