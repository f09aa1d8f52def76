"""A store beside a model of it that is too simple to be wrong, through any calls in any order."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, get_args

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from teff.checkpoint import Lease, Record, RecordKind, RunState
from teff.errors import CheckpointError, LeaseLost, RunLocked
from teff.state import freeze
from teff.testing.contracts.bench import Bench, same, same_records

__all__ = ["run_model"]

_IDS = st.sampled_from(["a", "A", "b/c"])
_OWNERS = st.sampled_from(["one", "two"])
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_RECORDS = st.lists(
    st.builds(
        Record,
        kind=st.sampled_from([kind for kind in get_args(RecordKind) if kind != "snapshot"]),
        path=st.text(max_size=8),
        data=st.dictionaries(st.text(max_size=5), _VALUES, max_size=3).map(freeze),
    ),
    max_size=4,
)
_STATES = st.sampled_from(get_args(RunState))


@attrs.define
class _Run:
    """What the model knows of a run."""

    records: list[Record] = attrs.field(factory=list)
    lease: Lease | None = None
    state: RunState = "running"
    epoch: int = -1


class _StoreAndModel(RuleBasedStateMachine):
    """Every call is made to the store and to a dict of runs; they must say the same."""

    make_store: Callable[[], Any]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.bench = Bench(self.make_store, {})
        self.store = self.runner.run(self.bench.open())
        #: One owner of this name has been seen by no other example.
        self.example = str(uuid.uuid4())
        self.runs: dict[tuple[str, str], _Run] = {}
        self.lost: list[Lease] = []

    def teardown(self) -> None:
        self.runner.run(self.bench.close())
        self.runner.close()

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call the store."""
        if "owner" in options:
            options["owner"] = f"{options['owner']} {self.example}"
        return self.runner.run(_called(getattr(self.store, name), *arguments, **options))

    def refused(self, error: type[Exception], name: str, *arguments: Any, **options: Any) -> None:
        """Fail unless the store refuses a call with ``error``."""
        try:
            self.call(name, *arguments, **options)
        except error:
            return
        raise AssertionError(f"{name}{arguments!r} was not refused with {error.__name__}")

    def can(self, name: str) -> bool:
        """Tell whether the store has a method."""
        return callable(getattr(self.store, name, None))

    def of(self, owner: str) -> dict[str, _Run]:
        """Return the runs of an owner by their ids."""
        return {run_id: run for (whose, run_id), run in self.runs.items() if whose == owner}

    @rule(owner=_OWNERS, run_id=_IDS)
    def claim(self, owner: str, run_id: str) -> None:
        run = self.runs.get((owner, run_id), _Run())
        if run.lease is not None:
            return self.refused(RunLocked, "claim", run_id, owner=owner)
        run.lease = self.call("claim", run_id, owner=owner)
        if run.lease.epoch <= run.epoch:
            raise AssertionError(f"the epoch went from {run.epoch} to {run.lease.epoch}")
        run.epoch, run.state = run.lease.epoch, "running"
        self.runs[owner, run_id] = run
        return None

    @rule(owner=_OWNERS, run_id=_IDS, records=_RECORDS)
    def append(self, owner: str, run_id: str, records: list[Record]) -> None:
        run = self.runs.get((owner, run_id))
        if run is not None and run.lease is not None:
            self.call("append", run.lease, records)
            run.records += records

    @rule(owner=_OWNERS, run_id=_IDS)
    def renew(self, owner: str, run_id: str) -> None:
        run = self.runs.get((owner, run_id))
        if run is not None and run.lease is not None:
            same(self.call("renew", run.lease).epoch, run.epoch, "the epoch after renew")

    @rule(owner=_OWNERS, run_id=_IDS, state=_STATES)
    def release(self, owner: str, run_id: str, state: RunState) -> None:
        run = self.runs.get((owner, run_id))
        if run is not None and run.lease is not None:
            self.call("release", run.lease, state)
            self.lost.append(run.lease)
            run.lease, run.state = None, state

    @precondition(lambda self: self.lost)
    @rule(data=st.data(), records=_RECORDS.filter(bool), state=_STATES)
    def use_a_lost_lease(self, data: st.DataObject, records: list[Record], state: RunState) -> None:
        lease = data.draw(st.sampled_from(self.lost))
        self.refused(LeaseLost, "append", lease, records)
        self.refused(LeaseLost, "renew", lease)
        self.call("release", lease, state)

    @rule(owner=_OWNERS, run_id=_IDS)
    def load(self, owner: str, run_id: str) -> None:
        run = self.runs.get((owner, run_id), _Run())
        same_records(self.call("load", run_id, owner=owner), run.records, "the records")

    @precondition(lambda self: self.can("history"))
    @rule(owner=_OWNERS, run_id=_IDS)
    def history(self, owner: str, run_id: str) -> None:
        run = self.runs.get((owner, run_id), _Run())
        history = self.call("history", run_id, owner=owner)
        same_records([entry.record for entry in history], run.records, "the history")
        numbers = [entry.number for entry in history]
        same(numbers, list(range(1, len(run.records) + 1)), "the numbers of the history")

    @precondition(lambda self: self.can("fork"))
    @rule(owner=_OWNERS, run_id=_IDS, new_id=_IDS, at=st.integers(0, 6))
    def fork(self, owner: str, run_id: str, new_id: str, at: int) -> None:
        runs = self.of(owner)
        if run_id not in runs or new_id in runs or not 1 <= at <= len(runs[run_id].records):
            return self.refused(CheckpointError, "fork", run_id, at, new_id, owner=owner)
        state = self.call("fork", run_id, at, new_id, owner=owner).state
        self.runs[owner, new_id] = _Run(runs[run_id].records[:at], state=state)
        return None

    @precondition(lambda self: self.can("copy"))
    @rule(owner=_OWNERS, run_id=_IDS, new_id=_IDS)
    def copy(self, owner: str, run_id: str, new_id: str) -> None:
        runs = self.of(owner)
        if run_id not in runs or new_id in runs:
            return self.refused(CheckpointError, "copy", run_id, new_id, owner=owner)
        run = self.call("copy", run_id, new_id, owner=owner)
        same(run.state, runs[run_id].state, "the state of the copy")
        self.runs[owner, new_id] = _Run(list(runs[run_id].records), state=run.state)
        return None

    @precondition(lambda self: self.can("delete"))
    @rule(owner=_OWNERS, run_id=_IDS)
    def delete(self, owner: str, run_id: str) -> None:
        run = self.runs.get((owner, run_id))
        if run is not None and run.lease is not None:
            return self.refused(RunLocked, "delete", run_id, owner=owner)
        same(self.call("delete", run_id, owner=owner), run is not None, "delete")
        self.runs.pop((owner, run_id), None)
        return None

    @precondition(lambda self: self.can("list"))
    @invariant()
    def the_list_is_that_of_the_model(self) -> None:
        for owner in ("one", "two"):
            found = {
                run.run_id: (run.records, run.state, run.held)
                for run in self.call("list", owner=owner)
            }
            wanted = {
                run_id: (len(run.records), run.state, run.lease is not None)
                for run_id, run in self.of(owner).items()
            }
            same(found, wanted, f"the runs of {owner!r}")


async def _called(method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return await method(*arguments, **options)


def run_model(make_store: Callable[[], Any], *, examples: int, steps: int) -> None:
    """Try the store against the model.

    Args:
        make_store: opens the store.
        examples: how many sequences of calls are tried.
        steps: how many calls they have at most.
    """
    machine = type("StoreAndModel", (_StoreAndModel,), {"make_store": staticmethod(make_store)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
