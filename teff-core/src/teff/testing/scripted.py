"""`ScriptedProvider`: a model whose answers the test writes."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import attrs

from teff.errors import ProviderError
from teff.messages import message_text
from teff.provider import Capabilities, ChatDelta, ChatReply, ChatRequest
from teff.provider.failures import shorten
from teff.testing.answers import Delayed, Pieces, Rule, ScriptedAnswer, call_tool, say, shown

__all__ = ["ScriptedAnswer", "ScriptedProvider", "call_tool"]


class ScriptedProvider:
    """Answers from a script; keeps the requests that it was sent.

    Answers are given in order. Those under `when` are given to the requests that fit, before the
    others and as often as they fit; of several the first. A text streams word by word, and what
    `pieces` returns as it is cut there.

    A request that finds no answer fails with an ``AssertionError``. `assert_done` fails where that
    happened, even if the error was caught, or where answers were left over. As a context manager it
    calls `assert_done` at its end, unless another error is on its way.

    Args:
        answers: the script; see `ScriptedAnswer` and `when`.
        name: the provider's name.
        capabilities: what it says it can do; by default everything but a schema beside tools.

    Attributes:
        requests: what was asked, in order.
        closed: whether `aclose` was called.

    >>> import asyncio
    >>> from teff.testing import when
    >>> def ask(provider, text):
    ...     request = ChatRequest(model="m", messages=[{"role": "user", "content": text}])
    ...     return asyncio.run(provider.chat(request)).text
    >>> with ScriptedProvider(["Hello.", when("refund", "billing")]) as provider:
    ...     ask(provider, "I want a refund"), ask(provider, "Hi")
    ('billing', 'Hello.')
    """

    def __init__(
        self,
        answers: Iterable[ScriptedAnswer | Rule] = (),
        *,
        name: str = "scripted",
        capabilities: Capabilities | None = None,
    ) -> None:
        if isinstance(answers, str):
            raise TypeError(f"the script is a list of answers: [{shorten(answers, 60)!r}]")
        self.name = name
        self.capabilities = capabilities or Capabilities(choices=True, json_schema=True)
        self.requests: list[ChatRequest] = []
        self.closed = False
        script = list(answers)
        self._rules = [answer for answer in script if isinstance(answer, Rule)]
        self._answers = deque(answer for answer in script if not isinstance(answer, Rule))
        self._used: Counter[int] = Counter()
        self._unanswered: list[str] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Give the answer to ``request``."""
        turn = await self._next(request)
        if isinstance(turn.end, BaseException):
            raise turn.end
        return turn.end

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the answer to ``request`` piece by piece."""
        turn = await self._next(request)
        for delta in turn.deltas:
            if turn.pause:
                await asyncio.sleep(turn.pause)
            yield delta
        if isinstance(turn.end, BaseException):
            raise turn.end
        yield ChatDelta(reply=turn.end)

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    def assert_done(self) -> None:
        """Fail where answers were not asked for, or a request found none.

        Raises:
            AssertionError: it says what was left, and what was asked.
        """
        if self._unanswered:
            raise AssertionError(self._unanswered[0])
        left = [shown(answer) for answer in self._answers]
        unused = [rule for place, rule in enumerate(self._rules) if self._is_open(place)]
        if left or unused:
            count = (
                "1 scripted answer was" if len(left) == 1 else f"{len(left)} scripted answers were"
            )
            faults = [f"{count} never asked for: {', '.join(left)}"] if left else []
            faults += [self._unused(rule) for rule in unused]
            raise AssertionError(f"{'; '.join(faults)}. {self._history()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.assert_done()

    async def _next(self, request: ChatRequest) -> _Turn:
        self.requests.append(request)
        answer: Any = self._take(request)
        while True:
            if isinstance(answer, Delayed):
                await asyncio.sleep(answer.seconds)
                answer = answer.answer
            elif callable(answer):
                answer = answer(request)
                if inspect.isawaitable(answer):
                    answer = await answer
            else:
                return _turn(answer, request, self.name)

    def _take(self, request: ChatRequest) -> ScriptedAnswer:
        for place, rule in enumerate(self._rules):
            if self._used[place] != rule.times and rule.fits(request):
                self._used[place] += 1
                return rule.answer
        if self._answers:
            return self._answers.popleft()
        rules = ", ".join(shown(rule) for rule in self._rules)
        unfit = f"; nothing of {rules} fits" if rules else ""
        fault = (
            f"the script has no answer left for request {len(self.requests)}, "
            f"which ends with {_ending(request)}{unfit}"
        )
        self._unanswered.append(fault)
        raise AssertionError(fault)

    def _is_open(self, place: int) -> bool:
        return self._used[place] < (self._rules[place].times or 1)

    def _unused(self, rule: Rule) -> str:
        used = self._used[self._rules.index(rule)]
        if not used:
            return f"{shown(rule)} never fitted a request"
        return f"{shown(rule)} fitted {used} of {rule.times} times"

    def _history(self) -> str:
        if not self.requests:
            return "There was no request."
        count, last = len(self.requests), _ending(self.requests[-1])
        if count == 1:
            return f"There was one request, which ends with {last}."
        return f"There were {count} requests, the last of which ends with {last}."


@attrs.frozen
class _Turn:
    """What one request gets: the pieces for a stream, and what comes after them, or at once."""

    deltas: Sequence[ChatDelta]
    end: ChatReply | BaseException
    pause: float = 0.0


def _turn(answer: object, request: ChatRequest, provider: str) -> _Turn:
    if isinstance(answer, Pieces):
        return _Turn(answer.deltas, _end_of(answer, request, provider), answer.pause)
    if isinstance(answer, BaseException):
        return _Turn((), _signed(answer, request, provider))
    if isinstance(answer, str):
        answer = attrs.evolve(say(answer), model=request.model)
    if not isinstance(answer, ChatReply):
        raise TypeError(
            "a script answers with a text, a ChatReply, an error, pieces(…) or after(…), "
            f"not {type(answer).__name__}"
        )
    thinking = [ChatDelta(thinking=answer.thinking)] if answer.thinking else []
    return _Turn([*thinking, *(ChatDelta(text=word) for word in _words(answer.text))], answer)


def _end_of(answer: Pieces, request: ChatRequest, provider: str) -> ChatReply | BaseException:
    if isinstance(answer.then, BaseException):
        return _signed(answer.then, request, provider)
    reply = answer.then or attrs.evolve(say(answer.text), model=request.model)
    return attrs.evolve(
        reply, text=reply.text or answer.text, thinking=reply.thinking or answer.thinking
    )


def _signed(error: BaseException, request: ChatRequest, provider: str) -> BaseException:
    """Return ``error`` with the names that every provider puts on its errors."""
    if isinstance(error, ProviderError):
        error.provider = error.provider or provider
        error.model = error.model or request.model
    # A rule raises one error many times, and each time adds to its traceback.
    return error.with_traceback(None)


def _ending(request: ChatRequest) -> str:
    """Return the last message of a request in a few words, with the tools that it offers."""
    last = request.messages[-1]
    tools = f" (offering {', '.join(tool.name for tool in request.tools)})" if request.tools else ""
    return f"{last.get('role', 'no role')} {shorten(message_text(last), 200)!r}{tools}"


def _words(text: str) -> list[str]:
    pieces = [f"{word} " for word in text.split(" ")]
    pieces[-1] = pieces[-1][:-1]
    return [piece for piece in pieces if piece]
