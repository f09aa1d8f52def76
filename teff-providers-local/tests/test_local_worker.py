"""The thread between event loops and the engine."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import attrs
import pytest

from teff_providers_local.engine import EngineSettings
from teff_providers_local.worker import Job, Worker, borrow_worker, return_workers

SETTINGS = EngineSettings(path=Path("model.gguf"), threads=1, context_tokens=64)


class Borrower:
    pass


def submit(worker: Worker) -> queue.SimpleQueue[Any]:
    """Return what a job of this worker delivers."""
    delivered: queue.SimpleQueue[Any] = queue.SimpleQueue()
    worker.submit(Job({}, delivered.put))
    return delivered


def events(delivered: queue.SimpleQueue[Any]) -> list[Any]:
    return list(iter(lambda: delivered.get(timeout=10), None))


def test_a_job_delivers_events_and_then_none(engines: Any) -> None:
    worker = borrow_worker(SETTINGS, Borrower())
    assert len(events(submit(worker))) == 5


def test_a_job_that_cannot_deliver_is_cancelled() -> None:
    def gone(event: object) -> None:
        raise RuntimeError("Event loop is closed")

    job = Job({}, gone)
    assert job.send({}) is True
    assert job.is_cancelled


def test_a_cancelled_job_delivers_nothing() -> None:
    delivered: list[object] = []
    job = Job({}, delivered.append)
    job.cancel()
    assert job.send({}) is True
    assert delivered == []


def test_closing_ends_the_running_and_the_waiting_jobs(engines: Any) -> None:
    engines.script = engines.endless
    worker = borrow_worker(SETTINGS, Borrower())
    running, waiting = submit(worker), submit(worker)
    running.get(timeout=10)
    worker.close()
    worker.join()
    events(running)
    assert events(waiting) == []
    assert len(engines.requests) == 1
    assert engines.closed == [SETTINGS]


def test_a_closed_worker_ends_jobs_at_once(engines: Any) -> None:
    worker = borrow_worker(SETTINGS, Borrower())
    worker.close()
    worker.close()
    assert events(submit(worker)) == []


def test_a_worker_that_never_had_a_job_loads_nothing(engines: Any) -> None:
    first = Borrower()
    borrow_worker(SETTINGS, first)
    (worker,) = return_workers(first)
    worker.join()
    assert (engines.loaded, engines.closed) == ([], [])


def test_borrowing_twice_is_borrowing_once(engines: Any) -> None:
    first, second = Borrower(), Borrower()
    assert borrow_worker(SETTINGS, first) is borrow_worker(SETTINGS, first)
    assert borrow_worker(SETTINGS, first) is borrow_worker(SETTINGS, second)
    assert return_workers(first) == []
    assert len(return_workers(second)) == 1


def test_a_borrower_that_is_forgotten_holds_nothing(engines: Any) -> None:
    worker, other = borrow_worker(SETTINGS, Borrower()), Borrower()
    assert return_workers(other) == [worker]
    worker.join()


@pytest.mark.parametrize("changed", [{"threads": 2}, {"context_tokens": 32}])
def test_other_settings_are_another_worker(engines: Any, changed: dict[str, Any]) -> None:
    borrower = Borrower()
    worker = borrow_worker(SETTINGS, borrower)
    assert borrow_worker(attrs.evolve(SETTINGS, **changed), borrower) is not worker
    for unused in return_workers(borrower):
        unused.join()
