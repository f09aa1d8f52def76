"""`Graph.turn`: one message of a chat, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs

from teff.checkpoint import Checkpointer
from teff.errors import ConfigError, GraphInterrupt, LimitReached
from teff.graph.edge import ERROR
from teff.graph.options import (
    RunOptions,
    TurnOptions,
    check_keys,
    check_mapping,
    check_options,
)
from teff.graph.running import run_graph
from teff.graph.session import Session, open_session, state_of
from teff.graph.turn_keys import is_turn_key, turn_keys
from teff.messages import Usage, conversation, last_assistant_message, message_text, user
from teff.runtime import Journal, Question, RunResult
from teff.state import freeze

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["TurnResult", "reply_of", "take_turn"]


@attrs.frozen(kw_only=True)
class TurnResult:
    """What came of a message.

    Attributes:
        session_id: of the chat.
        reply: what the assistant said last in this turn, or "".
        waiting: whether a question is open; the next message is its answer.
        prompt, key: the question, or None.
        state: the state now, as ordinary dicts and lists.
        stop_reason: why the turn ended, see `RunResult`; ``interrupt`` while it waits.
        usage: what the turn used so far.
    """

    session_id: str
    reply: str = ""
    waiting: bool = False
    prompt: str | None = None
    key: str | None = None
    state: Mapping[str, Any] = attrs.field(factory=dict)
    stop_reason: str = ""
    usage: Usage = attrs.field(factory=Usage)


@attrs.frozen(kw_only=True)
class Chat:
    """Which chat a message belongs to; see `Graph.turn`."""

    checkpointer: Checkpointer
    id: str
    state: Mapping[str, Any]
    messages_key: str
    transient_keys: Iterable[str]


async def take_turn(graph: Graph, message: Any, chat: Chat, options: TurnOptions) -> TurnResult:
    """Take one turn of a chat; see `Graph.turn`."""
    _check(chat, options)
    owner = options.get("owner", "default")
    async with open_session(
        chat.checkpointer, chat.id, owner=owner, types=graph.stored_types
    ) as session:
        number = session.closed + 1
        turn = await session.turn(number)
        begun: Mapping[str, Any] | None = None
        resume: dict[str, Any] | None = None
        question = turn.questions[0] if turn.questions else None
        if question is not None and session.asked == question.id:
            resume = {question.id: _as_answer(question, message)}
        elif not _repeats(turn, message, chat.messages_key):
            if not isinstance(message, str):
                raise ConfigError(f"a message must be text, not {type(message).__name__}.")
            if turn.signature:
                await session.close_turn(number)
                number += 1
            elif session.closed:
                turn = await session.turn(session.closed)
            before = _kept(graph, chat, state_of(turn)) if session.closed else chat.state
            begun = _with_message(graph, before, message, chat.messages_key)
        where = {"checkpointer": chat.checkpointer, "checkpoint_id": session.run_id(number)}
        run_options = cast("RunOptions", {**options, **where})
        if resume is not None:
            run_options["resume"] = resume
        result, asked = await _run(graph, session, number, begun, run_options)
        since = (turn.input if begun is None else begun).get(chat.messages_key)
        return TurnResult(
            session_id=chat.id,
            reply=_reply(since, result.get(chat.messages_key)),
            waiting=asked is not None,
            prompt=None if asked is None else asked.prompt,
            key=None if asked is None else asked.key,
            state=dict(result),
            stop_reason=result.stop_reason,
            usage=result.usage,
        )


def _check(chat: Chat, options: TurnOptions) -> None:
    if "resume" in options:
        raise TypeError("turn() takes no resume: the message is the answer to an open question")
    store: object = chat.checkpointer
    if not isinstance(store, Checkpointer):
        raise ConfigError(f"a {type(store).__name__} is no checkpointer.")
    for name, given in (("checkpoint_id", chat.id), ("messages_key", chat.messages_key)):
        if not (given and isinstance(given, str)):
            raise ConfigError(f"{name} must be a text that is not empty, not {given!r}.")
    check_mapping("state", chat.state, "from state key to value")
    check_keys("transient_keys", chat.transient_keys)
    check_options(cast("RunOptions", options))


async def _run(
    graph: Graph,
    session: Session,
    number: int,
    state: Mapping[str, Any] | None,
    options: RunOptions,
) -> tuple[RunResult, Question | None]:
    """Run a turn to its end, or to a question."""
    try:
        result = await run_graph(graph, state, options, is_turn=True)
    except GraphInterrupt as pause:
        asked: Question = pause.interrupts[0]
        await session.tell_asked(number, asked)
        return _result_of(pause), asked
    except LimitReached:
        await session.close_turn(number)
        raise
    await session.close_turn(number)
    return result, None


def _result_of(pause: GraphInterrupt) -> RunResult:
    result = pause.result
    assert isinstance(result, RunResult)  # noqa: S101  # a stored run that pauses tells its state
    return result


def _as_answer(question: Question, message: Any) -> Any:
    """Return the choice that a text names, or the message as it is."""
    if isinstance(message, str):
        said = message.strip().casefold()
        for choice in question.choices or ():
            if str(choice).strip().casefold() == said:
                return choice
    return message


def _repeats(turn: Journal, message: Any, messages_key: str) -> bool:
    """Return whether a message is the one that an unfinished turn is at work on."""
    if not turn.signature:
        return False
    if turn.answered:
        last = turn.answered[-1]
        if freeze(_as_answer(last, message)) == turn.answers[last.id]:
            return True
    said = turn.input.get(messages_key) or [None]
    return bool(message_text(said[-1]) == message)


def _kept(graph: Graph, chat: Chat, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the chat keeps from one turn to the next."""
    keys = {*turn_keys(graph.nodes.values()), *chat.transient_keys}
    if any(edge.condition == ERROR for edge in graph.edges):
        keys.add("error")
    return {
        key: value
        for key, value in state.items()
        if key == chat.messages_key or not is_turn_key(key, keys)
    }


def _with_message(
    graph: Graph, state: Mapping[str, Any], message: str, messages_key: str
) -> dict[str, Any]:
    """Return the state that a turn begins with."""
    said = conversation(state, messages_key)
    begun = {**state, messages_key: [*said, user(message)]}
    if graph.schema is None or "input" in graph.schema.keys:
        begun["input"] = message
    return begun


def reply_of(state: Mapping[str, Any], messages_key: str) -> str:
    """Return what the assistant said last since the user spoke, or ""."""
    return last_assistant_message(_since_user(state.get(messages_key)))


def _reply(before: object, after: object) -> str:
    """Return what the assistant said last in a turn; ``before`` ends with the user's message."""
    if isinstance(before, list) and isinstance(after, list) and after[: len(before)] == before:
        return last_assistant_message(after[len(before) :])
    return last_assistant_message(_since_user(after))  # a node shortened the conversation


def _since_user(messages: object) -> list[Any]:
    if not isinstance(messages, list):
        return []
    spoken = [
        place
        for place, message in enumerate(messages)
        if isinstance(message, Mapping) and message.get("role") == "user"
    ]
    return messages[spoken[-1] + 1 :] if spoken else messages
