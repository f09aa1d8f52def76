"""`Session`: a chat in a checkpointer, one run for each turn.

The turns of the chat ``"c"`` are the runs ``"c#turn-1"``, ``"c#turn-2"``, … Which of them are over
stands in a run of its own, ``"c#session"``, one short record for each; whoever holds its lease takes
the turn. So a turn reads that list and the turn before it, however long the chat is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from teff.checkpoint import Checkpointer, Lease, Record, RunState
from teff.errors import RunLocked
from teff.runtime import Frame, Journal, Question, Run, uninterrupted
from teff.runtime.journal import encoder_of

__all__ = ["Session", "open_session", "state_of", "stored_run"]


class Session:
    """A chat as its store knows it.

    Args:
        store: where it is.
        id: of the chat.
        owner: whose it is.
        types: those that its values may have beside the registered ones, by their stored names.

    Attributes:
        id: of the chat.
        closed: the number of the last turn that is over; 0 before the first.
        asked: the id of the question that the caller was told of last, while it is open.
    """

    def __init__(
        self, store: Checkpointer, id: str, *, owner: str, types: Mapping[str, type]
    ) -> None:
        self._types = types
        self.id = id
        self.closed = 0
        self.asked = ""
        self._store = store
        self._owner = owner
        self._lease: Lease | None = None
        #: What was noted before the last record. Who cancels is told of nothing, so it is written
        #: again then: the same message must find the turn open.
        self._before: Mapping[str, Any] = {}

    @property
    def list_id(self) -> str:
        """The id of the run that lists the turns."""
        return f"{self.id}#session"

    def run_id(self, number: int) -> str:
        """Return the id of the run of a turn."""
        return f"{self.id}#turn-{number}"

    async def read(self) -> None:
        """Read which turns are over."""
        for record in await self._store.load(self.list_id, owner=self._owner):
            self._note(record.data)

    def _note(self, data: Mapping[str, Any]) -> None:
        self.asked = data["asked"]
        self.closed = data["turn"] - bool(self.asked)  # a turn that has asked is not over

    async def turn(self, number: int) -> Journal:
        """Return what is recorded of a turn; nothing where it has not begun."""
        return await _read(self._store, self.run_id(number), owner=self._owner, types=self._types)

    async def close_turn(self, number: int) -> None:
        """Record that a turn is over: no later one goes on with it."""
        await self._append({"turn": number, "asked": ""})

    async def tell_asked(self, number: int, question: Question) -> None:
        """Record that the caller is told of a question, so that the next message answers it."""
        await self._append({"turn": number, "asked": question.id})

    async def _append(self, data: Mapping[str, Any]) -> None:
        self._before = {"turn": self.closed + bool(self.asked), "asked": self.asked}
        try:
            await self._write(data)
        except asyncio.CancelledError:
            await self._write(self._before)
            raise
        self._note(data)

    async def _write(self, data: Mapping[str, Any]) -> None:
        assert self._lease is not None  # noqa: S101  # only an open session is written
        # Each says all there is to say, so no earlier one is read again.
        record = Record(kind="snapshot", path="turn", data=dict(data))
        await uninterrupted(self._store.append(self._lease, [record]))

    async def claim(self) -> None:
        """Take the session, for one turn.

        Raises:
            RunLocked: another turn is under way.
        """
        try:
            self._lease = await self._store.claim(self.list_id, owner=self._owner)
        except RunLocked:
            raise RunLocked(
                f"session {self.id!r} is in the middle of another turn: wait for it to end",
                run_id=self.id,
            ) from None

    async def release(self, left: RunState) -> None:
        """Give the session back."""
        if self._lease is not None:
            await self._store.release(self._lease, left)

    async def leave(self, left: RunState) -> None:
        """Give the session back after a turn; a cancellation of that takes back what was told."""
        try:
            await uninterrupted(self.release(left))
        except asyncio.CancelledError:
            if left != "failed":
                await uninterrupted(self._reopen())
            raise

    async def _reopen(self) -> None:
        try:
            await self.claim()
        except RunLocked:
            return  # another turn has begun; its message decides
        try:
            await self._write(self._before)
        finally:
            await self.release("failed")


@asynccontextmanager
async def open_session(
    store: Checkpointer, id: str, *, owner: str, types: Mapping[str, type]
) -> AsyncIterator[Session]:
    """Hold a session, so that nobody else takes a turn of it.

    Raises:
        RunLocked: another turn is under way.
    """
    session = Session(store, id, owner=owner, types=types)
    left: RunState = "failed"
    try:
        await uninterrupted(session.claim())
        await session.read()
        yield session
        left = "paused" if session.asked else "finished"
    finally:
        await session.leave(left)


async def stored_run(
    store: Checkpointer, id: str, *, owner: str, types: Mapping[str, type]
) -> Journal:
    """Return what is recorded of a chat's turn: the one that goes on, or the last that is over.

    Where there is no chat of that id, it is what is recorded of the run of that id.
    """
    session = Session(store, id, owner=owner, types=types)
    await session.read()
    for number in (session.closed + 1, session.closed):
        turn = await session.turn(number)
        if turn.signature:
            return turn
    return await _read(store, id, owner=owner, types=types)


async def _read(
    store: Checkpointer, run_id: str, *, owner: str, types: Mapping[str, type]
) -> Journal:
    records = await store.load(run_id, owner=owner)
    # Only to be read: no lease is that old.
    lease = Lease(run_id=run_id, owner=owner, epoch=0)
    return Journal(store, lease, records, encoder=encoder_of(types))


def state_of(turn: Journal) -> Mapping[str, Any]:
    """Return the state that a run ended with, or that its finished steps have come to; frozen."""
    if turn.end is not None and turn.end["final"]:
        ended: Mapping[str, Any] = turn.end["state"]
        return ended
    return Frame(Run(journal=turn), "", turn.input, entry="").state
