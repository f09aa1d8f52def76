"""The journal: what a run has finished, so that nothing finished is done again.

It gives meaning to the records of one run in a `Checkpointer`: the committed steps of each frame,
the results of recorded calls, questions and answers. A frame's state is the fold of its steps;
nothing else about it is stored. A run without a checkpointer has no journal at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from teff.checkpoint import Checkpointer, Lease, Record, RecordKind, RunState
from teff.errors import ConfigError, GraphChanged
from teff.runtime.question import Question, match_answers
from teff.runtime.steps import uninterrupted
from teff.state import freeze, plain_update

__all__ = ["Journal", "open_journal"]


class Journal:
    """The records of one run, by what they mean.

    Attributes:
        input: the frozen state that the run was started with.
        steps: by frame path, the data of its committed steps: ``node``, ``effects`` (as
            `teff.state.plain_update` gives them), ``next``, ``reason``.
        values: by path, the results of recorded calls.
        answers: by question id.
        questions: what was open when the run paused last and is not answered.
        answered: every question that was answered.
        end: the data of the last ``end`` record, if nothing follows it.
        totals: the run's counters when the last record was written.
    """

    def __init__(self, store: Checkpointer, lease: Lease, records: Sequence[Record] = ()) -> None:
        self._store = store
        self._lease = lease
        #: The bounds that the run was started with, by name.
        self.limits: Mapping[str, Any] = {}
        self.input: Mapping[str, Any] = {}
        self.signature: Mapping[str, Any] = {}
        self.steps: dict[str, list[Mapping[str, Any]]] = {}
        self.values: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self.questions: list[Question] = []
        self.answered: list[Question] = []
        self.end: Mapping[str, Any] | None = None
        self.totals: Mapping[str, Any] = {}
        #: What the run's counters are now; set by the run that writes.
        self.count: Callable[[], Mapping[str, Any]] = dict
        for record in records:
            self._read(record)

    def _read(self, record: Record) -> None:
        data = record.data
        self.end = data if record.kind == "end" else None
        self.totals = data.get("totals") or self.totals
        if record.kind == "start":
            self.input, self.signature = data["state"], data["signature"]
            self.limits = data["limits"]
        elif record.kind == "step":
            self.steps.setdefault(record.path, []).append(data)
        elif record.kind == "value":
            self.values[record.path] = data["value"]
        elif record.kind == "pause":
            self.questions = [Question.from_json(question) for question in data["questions"]]
        elif record.kind == "answer":
            self.answers[record.path] = data["value"]
            self.answered += [asked for asked in self.questions if asked.id == record.path]
            self.questions = [asked for asked in self.questions if asked.id != record.path]

    async def _write(self, kind: RecordKind, path: str, data: Mapping[str, Any]) -> None:
        record = Record(kind=kind, path=path, data=freeze({**data, "totals": self.count()}))
        await self._store.append(self._lease, [record])
        if kind not in ("step", "value"):  # those are only looked up when the run goes on later
            self._read(record)

    @property
    def state(self) -> RunState:
        """How the run was left, as far as is known."""
        if self.end is not None:
            ended: RunState = self.end["status"]
            return ended
        return "paused" if self.questions else "running"

    async def record_start(
        self, state: Mapping[str, Any], *, signature: Mapping[str, Any], limits: Mapping[str, Any]
    ) -> None:
        """Record what the run starts from."""
        await self._write("start", "", {"state": state, "signature": signature, "limits": limits})

    async def record_step(
        self,
        path: str,
        *,
        node: str,
        effects: Mapping[str, Any],
        next: str | None,
        reason: str | None,
        times: tuple[float, float],
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """Record one finished step of the frame at ``path``: its effects and where it went next.

        ``given`` is what went through reducers whose effects do not say what they were given, for
        frames whose updates go on to the graph around them.
        """
        data = {
            "node": node,
            "effects": plain_update(effects),
            "next": next,
            "reason": reason,
            "times": times,
        }
        await self._write("step", path, {**data, "given": plain_update(given)} if given else data)

    async def record_value(self, path: str, value: Any) -> None:
        """Record the result of a call."""
        await self._write("value", path, {"value": value})

    async def record_pause(self, questions: Sequence[Question]) -> None:
        """Record what is open."""
        await self._write("pause", "", {"questions": [asked.to_json() for asked in questions]})

    def new_answers(self, resume: Any) -> dict[str, Any]:
        """Return the answers in ``resume`` by question id, without those that are recorded already.

        Raises:
            ConfigError: an answer to a question that nobody asked, that does not fit its question,
                or that differs from the recorded one.
        """
        if not isinstance(resume, Mapping):
            if not self.questions and self.answered:
                self._require_same(self.answered[-1], resume)
                return {}
            return match_answers(resume, self.questions)
        open_names = {name for asked in self.questions for name in (asked.id, asked.key)}
        fresh: dict[Any, Any] = {}
        for name, answer in resume.items():
            before = [asked for asked in self.answered if name in (asked.id, asked.key)]
            if before and name not in open_names:
                self._require_same(before[-1], answer)
            else:
                fresh[name] = answer
        return match_answers(fresh, self.questions)

    def _require_same(self, asked: Question, answer: Any) -> None:
        if freeze(answer) != self.answers[asked.id]:
            raise ConfigError(
                f"{asked.key!r} was answered already, with something else: "
                "call without resume= to go on.",
                path=asked.key,
            )

    async def record_answers(self, answers: Mapping[str, Any]) -> None:
        """Record answers by question id, all of them or none."""
        totals = freeze(dict(self.count()))
        records = [
            Record(kind="answer", path=question_id, data=freeze({"value": value, "totals": totals}))
            for question_id, value in answers.items()
        ]
        await self._store.append(self._lease, records)
        for record in records:
            self._read(record)

    async def record_end(self, data: Mapping[str, Any]) -> None:
        """Record how the run ended."""
        await self._write("end", "", data)

    async def close(self, state: RunState) -> None:
        """Give the run back to the store."""
        await self._store.release(self._lease, state)


async def open_journal(
    store: Checkpointer, run_id: str, *, owner: str, signature: Mapping[str, Any]
) -> Journal:
    """Claim the run and read its journal; a new run's journal is empty.

    Raises:
        RunLocked: somebody else works on the run.
        GraphChanged: the run was made by a graph with another signature.
    """
    claimed: list[Lease] = []

    async def claim() -> None:
        claimed.append(await store.claim(run_id, owner=owner))

    try:
        await uninterrupted(claim())
        journal = Journal(store, claimed[0], await store.load(run_id, owner=owner))
        if journal.signature:
            _compare(run_id, journal.signature, signature)
    except GraphChanged:
        await uninterrupted(store.release(claimed[0], journal.state))
        raise
    except BaseException:
        if claimed:
            await uninterrupted(store.release(claimed[0], "running"))
        raise
    return journal


def _compare(run_id: str, stored: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    if stored == freeze(current):
        return
    differences = []
    old, new = stored.get("nodes", {}), current.get("nodes", {})
    if removed := sorted(old.keys() - new.keys()):
        differences.append(f"removed {', '.join(removed)}")
    if added := sorted(new.keys() - old.keys()):
        differences.append(f"added {', '.join(added)}")
    if changed := sorted(name for name in old.keys() & new.keys() if old[name] != new[name]):
        differences.append(f"changed {', '.join(changed)}")
    what = "; ".join(differences) or "its edges differ"
    raise GraphChanged(
        f"run {run_id!r} was made by another graph: {what}. "
        "Resume it with the graph it was started with, or start a run with a new id",
        run_id=run_id,
    )
