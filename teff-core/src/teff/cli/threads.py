"""Threads that would keep an interrupted process from ending."""

from __future__ import annotations

import threading

__all__ = ["threads_to_wait_for"]


def threads_to_wait_for() -> bool:
    """Return whether there are threads that Python waits for when it ends.

    Those of Teff are none; but a node or a tool may have used ``asyncio.to_thread``, whose threads
    can be neither stopped nor left behind.
    """
    main = threading.main_thread()
    return any(thread is not main and not thread.daemon for thread in threading.enumerate())
