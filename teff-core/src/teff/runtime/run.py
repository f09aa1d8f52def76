"""`Run`: what all frames of one run share."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from teff.errors import ConfigError
from teff.messages import ModelUsage, Usage
from teff.plugins import RunInfo
from teff.runtime.budget import Budget
from teff.runtime.events import EventType, Listener, StreamEvent
from teff.runtime.limits import LimitName, Limits
from teff.runtime.meter import count_metered
from teff.runtime.prices import Prices, price_of
from teff.runtime.question import Question
from teff.runtime.signals import LimitSignal

if TYPE_CHECKING:
    from teff.plugins import Hooks
    from teff.provider import ProviderRegistry
    from teff.runtime.journal import Journal
    from teff.runtime.node_hooks import NodeHooks, PayloadCallback
    from teff.runtime.scope import Scope
    from teff.tool import Tool

__all__ = ["Run", "new_run_id"]

_UNBOUNDED = 1 << 62


def new_run_id() -> str:
    """Return an id that no other run has."""
    return uuid.uuid4().hex


class Run:
    """One run of one graph, with everything nested in it.

    The engine makes it; nodes see it through their `ExecContext`.
    """

    def __init__(
        self,
        *,
        run_id: str | None = None,
        graph: str = "",
        owner: str = "default",
        checkpoint_id: str | None = None,
        limits: Limits | None = None,
        tools: Mapping[str, Tool] | None = None,
        providers: ProviderRegistry | None = None,
        emit: Listener | None = None,
        hooks: Hooks | None = None,
        journal: Journal | None = None,
        node_timeout: float | None = None,
        node_hooks: NodeHooks | None = None,
        on_llm_payload: PayloadCallback | None = None,
        detached: bool = False,
        prices: Prices | None = None,
    ) -> None:
        self.id = run_id or checkpoint_id or new_run_id()
        #: What plugins are told of the run.
        self.info = RunInfo(run_id=self.id, graph=graph)
        #: The failure that plugins were told of last.
        self.told_error: Exception | None = None
        self.owner = owner
        self.checkpoint_id = checkpoint_id
        self.limits = limits or Limits()
        #: What models cost, by ``provider/model`` or model.
        self.prices: Prices = prices or {}
        self.max_steps = self.limits.max_steps or _UNBOUNDED
        self.tools: Mapping[str, Tool] = tools or {}
        #: The providers of nodes whose graph declares none.
        self.providers = providers
        #: The one listener, or None while nobody listens: no event is made then.
        self.emit = emit
        self.hooks = hooks
        self.journal = journal
        self.node_timeout = node_timeout
        #: What the caller is told of every node and every model call.
        self.node_hooks = node_hooks
        self.on_llm_payload = on_llm_payload
        #: True for a context made by hand: calls run directly, a pause raises.
        self.detached = detached
        #: The bound that ended the run, also where a node caught the signal.
        self.ended_by: LimitName | None = None
        #: What was warned of, so that it is said once.
        self.warned: set[str] = set()
        #: What a hook of the caller raised, which ends the run.
        self.aborted_by: Exception | None = None
        #: Whether any step has paused or reached a limit, so that the loop looks more closely.
        self.interrupted = False
        #: Set when the run is over; nothing may be begun after that.
        self.closed = False
        self.usage = Usage()
        self.steps = 0
        #: Questions that were asked since the run was started or resumed, by id.
        self.questions: dict[str, Question] = {}
        self._clock_start = time.monotonic()
        self._elapsed_before = 0.0
        #: The parts with limits of their own: by path, without the number of the visit.
        self._parts: dict[str, tuple[str, Budget]] = {}
        self._parts_before: Mapping[str, Any] = {}
        if journal is not None:
            self._restore(journal.totals)
            journal.count = self.totals

    def _restore(self, totals: Mapping[str, Any]) -> None:
        if totals:
            self.usage = Usage.from_json(totals["usage"])
            self.steps = totals["steps"]
            self._elapsed_before = totals["elapsed"]
            self._parts_before = totals.get("parts", {})

    def totals(self) -> dict[str, Any]:
        """Return the counters as they are recorded."""
        counted = {"usage": self.usage.to_json(), "steps": self.steps, "elapsed": self.elapsed}
        if self._parts or self._parts_before:
            parts = {path: budget.totals() for path, budget in self._parts.values()}
            counted["parts"] = {**self._parts_before, **parts}
        return counted

    def open_budget(self, limits: Limits, owner: Scope, path: str, *, is_visit: bool) -> Budget:
        """Return the budget of a part of the run, with what it used before.

        Args:
            limits: its bounds.
            owner: the step that goes on when one is reached.
            path: where the part runs.
            is_visit: whether the path ends with the number of a visit: the visits before it are
                over then, and so are their parts.
        """
        place = path.rpartition("/")[0] if is_visit else path
        before = self._parts_before.get(path)
        if place in self._parts:
            past, same = self._parts[place]
            if past == path:
                before = same.totals()  # it is called again
            else:
                self.forget_parts(past)
        budget = Budget(limits, owner, before)
        self._parts[place] = (path, budget)
        return budget

    def forget_parts(self, path: str) -> None:
        """Forget what parts at and below ``path`` have used: it is recorded as a whole."""
        if not (self._parts or self._parts_before):
            return
        below = f"{path}/"

        def is_over(part: str) -> bool:
            return part == path or part.startswith(below)

        self._parts = {place: part for place, part in self._parts.items() if not is_over(part[0])}
        self._parts_before = {
            part: used for part, used in self._parts_before.items() if not is_over(part)
        }

    @property
    def elapsed(self) -> float:
        """Seconds of running, those before a resume included."""
        return self._elapsed_before + time.monotonic() - self._clock_start

    @property
    def deadline(self) -> float:
        """When the run must end, as ``time.monotonic`` counts; infinity without a deadline."""
        seconds = self.limits.deadline
        if seconds is None:
            return math.inf
        return self._clock_start + seconds - self._elapsed_before

    def reached(self, limit: LimitName) -> LimitSignal:
        """Remember the bound that ends the run; return the signal to raise."""
        self.ended_by = limit
        self.interrupted = True
        return LimitSignal(limit)

    def count_step(self) -> None:
        """Count the execution of a node, before it is made.

        Raises:
            LimitSignal: the run may make no further one.
        """
        if self.steps >= self.max_steps:
            raise self.reached("max_steps")
        self.steps += 1

    def count_model_call(self, model: str) -> None:
        """Count a request to ``model`` (``provider/model``), before it is made.

        Raises:
            LimitSignal: the run may make no further one.
            ConfigError: the cost is bounded, and nobody knows what the model costs.
        """
        limits, usage = self.limits, self.usage
        if limits.max_model_calls is not None and usage.model_calls >= limits.max_model_calls:
            raise self.reached("max_model_calls")
        if limits.max_tokens is not None and usage.total_tokens >= limits.max_tokens:
            raise self.reached("max_tokens")
        if limits.max_cost is not None and usage.cost >= limits.max_cost:
            raise self.reached("max_cost")
        if limits.max_cost is not None:
            self.need_price(model)
        usage.model_calls += 1

    def need_price(self, model: str) -> None:
        """Refuse a model of which nobody knows what it costs.

        Raises:
            ConfigError: it has no price.
        """
        if price_of(model, self.prices) is None:
            raise ConfigError(
                f"the run has a max_cost, but {model!r} has no price: give one in prices=, for "
                "example {" + repr(model) + ": Price(prompt=0, completion=0)}.",
                path="prices",
            )

    def count_tokens(self, model: str, used: ModelUsage) -> None:
        """Add what an answered request used; ``model`` is ``provider/model``."""
        cost = self.cost(model, used)
        self.usage.add_model_tokens(model, used, cost)
        count_metered(model, used, cost)

    def cost(self, model: str, used: ModelUsage) -> float | None:
        """Return what an answered request cost, or None where the model has no price."""
        price = price_of(model, self.prices) if self.prices else None
        return None if price is None else price.cost(used)

    def count_tool_call(self) -> None:
        """Count the call of a tool, before it is made.

        Raises:
            LimitSignal: the run may make no further one.
        """
        bound = self.limits.max_tool_calls
        if bound is not None and self.usage.tool_calls >= bound:
            raise self.reached("max_tool_calls")
        self.usage.tool_calls += 1

    async def tell(
        self,
        type: EventType,
        data: Mapping[str, Any],
        *,
        node_id: str = "",
        node_type: str = "",
        path: str = "",
    ) -> None:
        """Tell the listener, if there is one, and wait until it has taken the event."""
        if self.emit is not None and not self.closed:
            event = StreamEvent(type, node_id, node_type, path, data, time.time())
            waiting = self.emit(event)
            if waiting is not None:
                await waiting
