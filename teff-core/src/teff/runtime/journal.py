"""The journal: what a run has finished, so that nothing finished is done again.

It gives meaning to the records of one run in a `Checkpointer`: the committed steps of each frame,
the results of recorded calls, questions and answers. A frame's state is the fold of its steps;
nothing else about it is stored. A run without a checkpointer has no journal at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from teff.checkpoint import Checkpointer, Lease, Record, RecordKind, RunState
from teff.errors import CheckpointError, ConfigError, GraphChanged
from teff.runtime.question import Question, match_answers
from teff.runtime.steps import uninterrupted
from teff.state import freeze, plain_update

if TYPE_CHECKING:
    from teff.checkpoint.encoding import Encoder

__all__ = ["Journal", "encoder_of", "open_journal"]

#: So many records stand between two snapshots at least.
_SHORTEST = 200


class Journal:
    """The records of one run, by what they mean.

    Records hold plain JSON: values are encoded here, and decoded as the state holds them.

    Args:
        store: where the records are.
        lease: the right to write them.
        records: those that there are.
        encoder: knows the types that may be stored.

    Attributes:
        input: the frozen state that the run was started with.
        about: what else was to be remembered of its start.
        steps: by frame path, the data of its committed steps: ``node``, ``effects`` (as
            `teff.state.plain_update` gives them), ``next``, ``reason``.
        values: by path, the results of recorded calls.
        answers: by question id.
        questions: what was open when the run paused last and is not answered.
        answered: every question that was answered.
        has_news: whether an answer was recorded since the run paused last.
        snapshot: what the root frame had come to when the last snapshot was taken, or None.
        end: the data of the last ``end`` record, if nothing follows it.
        totals: the run's counters when the last record was written.
    """

    def __init__(
        self,
        store: Checkpointer,
        lease: Lease,
        records: Sequence[Record] = (),
        *,
        encoder: Encoder | None = None,
    ) -> None:
        self._store = store
        self._lease = lease
        self._encoder = encoder or encoder_of({})
        #: The bounds that the run was started with, by name.
        self.limits: Mapping[str, Any] = {}
        self.input: Mapping[str, Any] = {}
        self.about: Mapping[str, Any] = {}
        self.signature: Mapping[str, Any] = {}
        self.steps: dict[str, list[Mapping[str, Any]]] = {}
        self.values: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self.questions: list[Question] = []
        self.answered: list[Question] = []
        self.has_news = False
        self.snapshot: Mapping[str, Any] | None = None
        #: How many records there are since it, and how many there are to be before the next.
        self._since_snapshot = 0
        self._until_snapshot = _SHORTEST
        self.end: Mapping[str, Any] | None = None
        self.totals: Mapping[str, Any] = {}
        #: What the run's counters are now; set by the run that writes.
        self.count: Callable[[], Mapping[str, Any]] = dict
        for record in records:
            try:
                self._read(record)
            except CheckpointError as error:
                if error.run_id:
                    raise
                told = f"run {lease.run_id!r} cannot be read: {error}"
                raise type(error)(told, run_id=lease.run_id) from error

    def _read(self, record: Record) -> None:
        data = self._encoder.decode(record.data)
        self.end = data if record.kind == "end" else None
        self.totals = data.get("totals") or self.totals
        self._since_snapshot += 1
        if record.kind == "start":
            self.input, self.signature = data["state"], data["signature"]
            self.limits, self.about = data["limits"], data.get("about", {})
        elif record.kind == "step":
            self.steps.setdefault(record.path, []).append(data)
            if not record.path:  # whatever was asked within it, it has gone on without an answer
                self.questions = []
        elif record.kind == "value":
            self.values[record.path] = data["value"]
        elif record.kind == "pause":
            self.questions = [Question.from_json(question) for question in data["questions"]]
            self.has_news = False
        elif record.kind == "answer":
            self.answers[record.path] = data["value"]
            self.has_news = True
            self.answered += [asked for asked in self.questions if asked.id == record.path]
            self.questions = [asked for asked in self.questions if asked.id != record.path]
        elif record.kind == "snapshot":
            self._restore(data)

    def _restore(self, data: Mapping[str, Any]) -> None:
        """Go on from a snapshot: what is beneath the steps before it is not needed any more."""
        self.snapshot = data["frame"]
        self.steps.clear()
        self.values.clear()
        self.answers = dict(data["answers"])
        self.answered = [Question.from_json(asked) for asked in data["answered"]]
        self.questions = []
        self._since_snapshot, self._until_snapshot = 0, data["following"]

    async def _write(self, kind: RecordKind, path: str, data: Mapping[str, Any]) -> None:
        record = Record(kind=kind, path=path, data={**data, "totals": self._totals()})
        await self._store.append(self._lease, [record])
        if kind in ("step", "value"):  # those are only looked up when the run goes on later
            self._since_snapshot += 1
        else:
            self._read(record)

    def _totals(self) -> Any:
        return self._encoder.encode(dict(self.count()))

    @property
    def state(self) -> RunState:
        """How the run was left, as far as is known."""
        if self.end is not None:
            ended: RunState = self.end["status"]
            return ended
        return "paused" if self.questions else "running"

    async def record_start(
        self,
        state: Mapping[str, Any],
        *,
        signature: Mapping[str, Any],
        limits: Mapping[str, Any],
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """Record what the run starts from, and what else is to be remembered of that.

        Raises:
            StateError: the input holds what cannot be stored.
        """
        data = {
            "state": self._encoder.encode(dict(state), where="the input: state"),
            "signature": self._encoder.encode(signature, where="the graph's signature"),
            "limits": self._encoder.encode(dict(limits)),
        }
        if about:
            data["about"] = self._encoder.encode(dict(about), where="about")
        await self._write("start", "", data)

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

        Raises:
            StateError: they hold what cannot be stored; nothing was recorded.
        """
        data = {
            "node": node,
            "effects": self._update(effects, node),
            "next": next,
            "reason": reason,
            "times": list(times),
        }
        if given:
            data["given"] = self._update(given, node)
        await self._write("step", path, data)

    @property
    def wants_snapshot(self) -> bool:
        """Whether a step of the root frame that was recorded should be followed by a snapshot."""
        return self._since_snapshot >= self._until_snapshot

    async def record_snapshot(
        self,
        state: Mapping[str, Any],
        *,
        visits: Mapping[str, int],
        next: str | None,
        reason: str | None,
    ) -> None:
        """Record what the root frame has come to, so that no earlier step has to be read again.

        The next one follows after as many records as this one has kilobytes, and at least 200: so
        snapshots take no more room than the steps, however large the state is.
        """
        encoded = self._encoder.encode(dict(state), where="state")
        size = len(json.dumps(encoded, ensure_ascii=False))
        frame = {
            "state": encoded,
            "visits": self._encoder.encode(dict(visits)),
            "next": next,
            "reason": reason,
        }
        data = {
            "frame": frame,
            "answers": self._encoder.encode(self.answers),
            "answered": self._encoder.encode([asked.to_json() for asked in self.answered]),
            "following": max(_SHORTEST, size // 1_000),
        }
        await self._write("snapshot", "", data)

    def check(self, update: Mapping[str, Any], node: str) -> None:
        """Refuse what a node returned, before anything is done with it, where it cannot be stored.

        Raises:
            StateError: naming the node, the place and the type.
        """
        self._update(update, node)

    def _update(self, update: Mapping[str, Any], node: str) -> dict[str, Any]:
        plain = plain_update(update)
        values = self._encoder.encode(plain["values"], where=f"node {node!r}: state")
        return {"values": values, "operators": self._encoder.encode(plain["operators"])}

    def check_question(self, asked: Question) -> None:
        """Refuse a question, before anybody is told of it, where it cannot be stored.

        Raises:
            StateError: naming the question, the place and the type.
        """
        self._encoder.encode(asked.to_json(), where=f"the question {asked.key!r}")

    async def record_value(self, path: str, value: Any) -> None:
        """Record the result of a call.

        Raises:
            StateError: it cannot be stored; nothing was recorded.
        """
        encoded = self._encoder.encode(value, where=f"the result of {path!r}")
        await self._write("value", path, {"value": encoded})

    async def record_pause(self, questions: Sequence[Question]) -> None:
        """Record what is open."""
        told = [asked.to_json() for asked in questions]
        await self._write(
            "pause", "", {"questions": self._encoder.encode(told, where="the questions")}
        )

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
        totals = self._totals()
        records = [
            Record(
                kind="answer",
                path=question_id,
                data={
                    "value": self._encoder.encode(value, where=f"the answer to {question_id!r}"),
                    "totals": totals,
                },
            )
            for question_id, value in answers.items()
        ]
        await self._store.append(self._lease, records)
        for record in records:
            self._read(record)

    async def record_end(self, data: Mapping[str, Any]) -> None:
        """Record how the run ended."""
        await self._write("end", "", self._encoder.encode(data, where="the end"))

    async def close(self, state: RunState) -> None:
        """Give the run back to the store."""
        await self._store.release(self._lease, state)


def encoder_of(types: Mapping[str, type]) -> Encoder:
    """Return what encodes the values of a run that may have these types."""
    from teff.checkpoint.encoding import Encoder  # loaded where a run is stored

    return Encoder(types)


async def open_journal(
    store: Checkpointer,
    run_id: str,
    *,
    owner: str,
    signature: Mapping[str, Any],
    types: Mapping[str, type] | None = None,
) -> Journal:
    """Claim the run and read its journal; a new run's journal is empty.

    ``types`` are those that its values may have beside the registered ones, by their stored names.

    Raises:
        RunLocked: somebody else works on the run.
        GraphChanged: the run was made by a graph with another signature.
    """
    claimed: list[Lease] = []
    records: Sequence[Record] = ()

    async def claim() -> None:
        claimed.append(await store.claim(run_id, owner=owner))

    try:
        await uninterrupted(claim())
        records = await store.load(run_id, owner=owner)
        journal = Journal(store, claimed[0], records, encoder=encoder_of(types or {}))
        if journal.signature:
            _compare(run_id, journal.signature, signature)
    except GraphChanged:
        await uninterrupted(store.release(claimed[0], journal.state))
        raise
    except BaseException:
        if claimed:
            await uninterrupted(store.release(claimed[0], _left_by(records)))
        raise
    return journal


def _left_by(records: Sequence[Record]) -> RunState:
    """Return how a run was left that cannot be read, by the last of its records."""
    if records and records[-1].kind == "end":
        status: RunState = records[-1].data["status"]
        return status
    return "paused" if records and records[-1].kind == "pause" else "running"


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
