"""`Supervisor`: a model proposes who acts next, guards decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from typing import Any, Final, Literal, NamedTuple

import attrs

from teff.errors import ConfigError, suggest
from teff.messages import Message, assistant, last_user_message, user, with_system
from teff.node.base import options
from teff.node.context_builder import labelled_sections
from teff.node.model import ModelNode
from teff.node.naming import confusable_names, in_order, unknown_names
from teff.node.progress import Progress, fingerprint
from teff.node.routing import last_known_word, read_route
from teff.runtime import ExecContext
from teff.state import is_filled

__all__ = ["Supervisor", "read_route"]

#: How much of a reply that named nobody is shown to the model again.
_SHOWN_AGAIN = 2_000


class _Verdict(NamedTuple):
    """A route, and who decided it."""

    route: str
    decided_by: str


#: What the guards said while a policy decided, which may ask them or not.
_SAID: Final[ContextVar[list[_Verdict] | None]] = ContextVar("teff_guards_said", default=None)


class _Proposal(NamedTuple):
    """What the model wants, its words, and how they were read."""

    name: str = ""
    reply: str = ""
    read_by: str = "no_decision"


def _whole_number(lowest: int) -> Any:
    def check(node: Supervisor, option: attrs.Attribute[int], value: int) -> None:
        if value < lowest:
            raise ConfigError(
                f"{node._described(node.id)}: option {option.name!r} must be a whole number of "
                f"at least {lowest}, not {value}.",
                path=option.name,
            )

    return check


@options
class Supervisor(ModelNode):
    r"""Write under ``output_key`` which agent acts next, or the finish token.

    The guards come first. The loop ends without a model call where the ``done_keys`` are filled,
    where the ``fill_order`` is complete, and in the round that reaches ``max_rounds``. Otherwise the
    model is asked, `read_route` reads its reply, and `decide` weighs the proposal. A reply that
    names nobody, or several, is asked for again with the list of names; then its last known word
    counts; then the first agent of the ``fill_order``, ``fallback_agent``, the finish token.

    A slot is a state key that an agent fills; *filled* means neither None, "", [] nor {}.

    Args:
        system: what the model is told. Where it is empty, the model is told the names.
        messages_key: where the conversation is. Without a message of the user the model is not
            asked; "" asks it always.
        output_key: where the route goes.
        rounds_key: counts the rounds of a turn.
        max_rounds: the round that ends the loop, at least 1: so at most ``max_rounds - 1`` agents
            run.
        sections: from state key to label, shown to the model where they are filled.
        agents: the names that the model may choose; by default those of the other options.
        route_keys: from agent to its slot. Where the model picks an agent whose slot is filled,
            the loop ends: finished work is not overwritten.
        done_keys: slots that end the loop when they are filled; text is one key.
        done_mode: whether ``all`` or ``any`` of ``done_keys`` must be filled.
        fallback_agent: answers where the model wants to finish before a slot is filled; where no
            slots are named, before an agent has run.
        finish: the token that ends the loop.
        fill_order: a pipeline of ``(agent, slot)``, as pairs or as a mapping. The model picks who
            begins: with the first agent the others follow in order, each while its slot is not
            filled; another one runs alone.
        max_reasks: how often a reply without a decision is asked for again.
        stall_after: an agent that was chosen so many times in a row, while no slot changed, is not
            chosen again: the loop ends. Without slots there is no such guard.
        constrain: whether the provider is to hold the reply to the names: ``auto`` where it can.

    Raises:
        ConfigError: an option does not fit, an agent is named that is not among ``agents``, or two
            names are told apart by case, spaces, ``-`` or ``_`` alone.

    To put a policy of your own in place, override `decide`, and `_needs_model` for states that it
    decides without the model. What it ends for reasons of its own ends with the stop reason
    ``finish``; a name that is no agent's goes to ``fallback_agent`` while its slot is not filled.

    >>> lead = Supervisor(agents=["plan", "write"], fill_order=[("plan", "plan"), ("write", "text")])
    >>> lead.decide({}, "plan"), lead.decide({"plan": "1."}, ""), lead.decide({"text": "!"}, "")
    ('plan', 'write', 'finish')
    """

    type = "supervisor"

    system: str = ""
    messages_key: str = "messages"
    output_key: str = "next_agent"
    rounds_key: str = "supervisor_rounds"
    max_rounds: int = attrs.field(default=6, validator=_whole_number(1))
    sections: Mapping[str, str] | None = None
    agents: Sequence[str] | AbstractSet[str] | None = None
    route_keys: Mapping[str, str] | None = None
    done_keys: str | Sequence[str] | AbstractSet[str] | None = None
    done_mode: Literal["all", "any"] = "all"
    fallback_agent: str = ""
    finish: str = "finish"
    fill_order: Mapping[str, str] | Sequence[tuple[str, str]] | None = None
    max_reasks: int = attrs.field(default=1, validator=_whole_number(0))
    stall_after: int = attrs.field(default=3, validator=_whole_number(1))
    constrain: Literal["auto", "on", "off"] = "auto"

    def __attrs_post_init__(self) -> None:
        for problem, option in self._problems():
            raise ConfigError(f"{self._described(self.id)}: {problem}", path=option)

    # The guards. They read the state and change nothing.

    def decide(self, state: Mapping[str, Any], proposal: str) -> str:
        """Return the route for a state and a proposal: the same on every machine.

        Args:
            state: any state; it is not changed.
            proposal: a name of the vocabulary; anything else, "" too, is no decision.

        Returns:
            An agent, or the finish token.
        """
        verdict = self._judge(state, proposal)
        if (said := _SAID.get()) is not None:
            said.append(verdict)
        return verdict.route

    def _judge(self, state: Mapping[str, Any], proposal: str) -> _Verdict:
        if complete := self._complete(state):
            return _Verdict(self.finish, complete)
        if following := self._next_in_order(state):
            return _Verdict(following, "fill_order")
        if proposal not in self.vocabulary:
            return self._without_proposal(state)
        if proposal == self.finish:
            if self.fallback_agent and not self._produced_anything(state):
                return _Verdict(self.fallback_agent, "fallback")
            return _Verdict(self.finish, "model")
        if self._has_filled_its_slot(proposal, state):
            return _Verdict(self.finish, "route_keys")
        return _Verdict(proposal, "model")

    def _without_proposal(self, state: Mapping[str, Any]) -> _Verdict:
        for agent, _ in self._pipeline[:1]:
            if not self._has_filled_its_slot(agent, state):
                return _Verdict(agent, "fill_order")
        if self.fallback_agent and not self._produced_anything(state):
            return _Verdict(self.fallback_agent, "fallback")
        return _Verdict(self.finish, "no_decision")

    def _complete(self, state: Mapping[str, Any]) -> str:
        """Return the guard that sees all work done, or ""."""
        done = [is_filled(state.get(key)) for key in self._done_keys]
        if done and (all(done) if self.done_mode == "all" else any(done)):
            return "done_keys"
        filled = [is_filled(state.get(slot)) for _, slot in self._pipeline]
        if any(filled) and (all(filled) or not filled[0]):  # an agent that began mid-way runs alone
            return "fill_order"
        return ""

    def _next_in_order(self, state: Mapping[str, Any]) -> str:
        """Return the agent that goes on with a pipeline that has begun, or ""."""
        if not self._pipeline or not is_filled(state.get(self._pipeline[0][1])):
            return ""
        missing = (agent for agent, slot in self._pipeline if not is_filled(state.get(slot)))
        return next(missing, "")

    def _has_filled_its_slot(self, agent: str, state: Mapping[str, Any]) -> bool:
        slot = (self.route_keys or {}).get(agent)
        return slot is not None and is_filled(state.get(slot))

    def _produced_anything(self, state: Mapping[str, Any]) -> bool:
        if self._slots:
            return any(is_filled(state.get(slot)) for slot in self._slots)
        return self._rounds(state) > 0 and state.get(self.output_key) in self._agents

    def _needs_model(self, state: Mapping[str, Any]) -> bool:
        """Say whether the model is to be asked: not where the state alone decides."""
        if self._complete(state) or self._next_in_order(state):
            return False
        return self._has_message(state)

    def _has_message(self, state: Mapping[str, Any]) -> bool:
        return not self.messages_key or bool(last_user_message(state.get(self.messages_key)))

    def _parse_agent(self, text: str) -> str:
        """Return the last word of ``text`` that is in the vocabulary, or ""."""
        return last_known_word(text, self.vocabulary)

    # One round.

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Decide one round; return the route and the count of rounds.

        Beside them the state keeps, under ``_<output_key>_progress``, what the guard against
        standing still must know.
        """
        rounds = self._rounds(state) + 1
        proposal = _Proposal()
        complete = self._complete(state)
        if rounds >= self.max_rounds:
            verdict = _Verdict(self.finish, complete or "max_rounds")
        else:
            if not complete and self._needs_model(state):
                proposal = await self._ask(ctx, state, rounds)
            verdict = self._decided(state, proposal)
        progress = self._progress(state, verdict.route)
        if verdict.route in self._agents and progress.times > self.stall_after:
            verdict = _Verdict(self.finish, "no_progress")
        await ctx.emit(
            "route",
            {
                "proposal": proposal.name,
                "reply": proposal.reply,
                "route": verdict.route,
                "decided_by": verdict.decided_by,
                "round": rounds,
                "max_rounds": self.max_rounds,
            },
        )
        updates: dict[str, Any] = {self.output_key: verdict.route, self.rounds_key: rounds}
        if verdict.route == self.finish:
            ctx.set_stop_reason(self._stop_reason(verdict, state))
            return updates
        ctx.set_stop_reason(None)
        if not progress.goes_without_saying or self._progress_key in state:
            updates[self._progress_key] = progress.to_state()
        return updates

    def _progress(self, state: Mapping[str, Any], route: str) -> Progress:
        if not self._slots or not self._rounds(state):
            return Progress(route, slots=fingerprint(state, self._slots))
        before = Progress.read(state.get(self._progress_key), last=state.get(self.output_key))
        return before.then(route, fingerprint(state, self._slots))

    def _decided(self, state: Mapping[str, Any], proposal: _Proposal) -> _Verdict:
        """Ask `decide`, which may be a subclass's, and say which guard it was."""
        said: list[_Verdict] = []
        asking = _SAID.set(said)
        try:
            route = self.decide(state, proposal.name)
        finally:
            _SAID.reset(asking)
        verdict = self._judge(state, proposal.name)
        if route == verdict.route:
            if verdict.decided_by == "model":
                return _Verdict(route, proposal.read_by)
            if verdict.decided_by == "no_decision" and not said:
                return _Verdict(route, "policy")  # it has not looked at what the guards would do
            return verdict
        if self._agents and route not in self.vocabulary:
            return self._instead_of(route, state)
        return _Verdict(route, proposal.read_by if route == proposal.name else "policy")

    def _instead_of(self, route: object, state: Mapping[str, Any]) -> _Verdict:
        """Return what a name that is no agent's comes to.

        Raises:
            ConfigError: there is no fallback.
        """
        if not self.fallback_agent:
            meant = suggest(str(route), self.vocabulary).strip()
            raise ConfigError(
                f"{self._described(self.id)}: decide() returned {route!r}, which is no agent. "
                f"Known: {', '.join(self.vocabulary)}.",
                hint=meant if meant.startswith("Did you mean") else "",
            )
        pairs = (*(self.route_keys or {}).items(), *self._pipeline)
        slots = [slot for agent, slot in pairs if agent == self.fallback_agent]
        if slots and all(is_filled(state.get(slot)) for slot in slots):
            return _Verdict(self.finish, "no_decision")
        return _Verdict(self.fallback_agent, "fallback")

    def _stop_reason(self, verdict: _Verdict, state: Mapping[str, Any]) -> str:
        if verdict.decided_by in ("model", "last_word", "policy"):
            return "finish"
        if verdict.decided_by == "no_decision" and not self._has_message(state):
            return "no_message"
        return verdict.decided_by

    # Asking the model.

    async def _ask(self, ctx: ExecContext, state: Mapping[str, Any], rounds: int) -> _Proposal:
        """Ask until a reply can be read, at most ``1 + max_reasks`` times."""
        if not self._agents and not self._has_a_policy:
            raise ConfigError(
                f"{self._described(self.id or ctx.node_id)} has no agents to choose from: "
                "name them in agents, route_keys or fill_order.",
                path="agents",
            )
        harness = self.harness(ctx)
        constrained = self.constrain == "on" or (self.constrain == "auto" and harness.can_choose)
        choices = self.vocabulary if constrained else None
        names = ", ".join(self.vocabulary)
        one_of = f"Answer with exactly one of these, and nothing else: {names}."
        messages = with_system(
            [user(self._question(state, rounds))],
            self.system or f"Choose who acts next on the user's request. {one_of}",
        )
        text = ""
        for attempt in range(1, self.max_reasks + 2):
            text = (await harness.call(messages, choices=choices)).text
            if name := read_route(text, self.vocabulary):
                return _Proposal(name, text, "model")
            if attempt <= self.max_reasks:
                await ctx.emit(
                    "structured",
                    {"errors": [f"the reply is not one of: {names}"], "attempt": attempt},
                )
                messages = [*messages, *_asked_again(text, one_of)]
        name = self._parse_agent(text)
        return _Proposal(name, text, "last_word" if name else "no_decision")

    def _question(self, state: Mapping[str, Any], rounds: int) -> str:
        blocks = [*labelled_sections(self.sections or {}, state)]
        blocks.append(f"Round: {rounds}/{self.max_rounds}")
        if message := last_user_message(state.get(self.messages_key)):
            blocks.append(f"User: {message}")
        return "\n\n".join(blocks)

    # What the options name.

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The names that a reply may choose: the agents, and the finish token last."""
        return (*self._agents, self.finish)

    @property
    def _agents(self) -> tuple[str, ...]:
        if self.agents is not None:
            named: Iterable[str] = in_order(self.agents)
        else:
            pipeline = (agent for agent, _ in self._pipeline)
            named = (*(self.route_keys or ()), *pipeline, self.fallback_agent)
        return tuple(name for name in dict.fromkeys(named) if name and name != self.finish)

    @property
    def _done_keys(self) -> tuple[str, ...]:
        if isinstance(self.done_keys, str):
            return (self.done_keys,) if self.done_keys else ()
        return tuple(in_order(self.done_keys or ()))

    @property
    def _pipeline(self) -> tuple[tuple[str, str], ...]:
        order = self.fill_order or ()
        pairs = order.items() if isinstance(order, Mapping) else order
        return tuple((agent, slot) for agent, slot in pairs)

    @property
    def _slots(self) -> tuple[str, ...]:
        pipeline = (slot for _, slot in self._pipeline)
        slots = (*(self.route_keys or {}).values(), *self._done_keys, *pipeline)
        return tuple(dict.fromkeys(slots))

    @property
    def _progress_key(self) -> str:
        return f"_{self.output_key}_progress"

    def _rounds(self, state: Mapping[str, Any]) -> int:
        stored = state.get(self.rounds_key)
        if isinstance(stored, int) and not isinstance(stored, bool) and stored >= 0:
            return stored
        return 0

    @property
    def _has_a_policy(self) -> bool:
        """Whether a subclass decides, and so may look at anything and ask nobody."""
        cls = type(self)
        return (
            cls.decide is not Supervisor.decide or cls._needs_model is not Supervisor._needs_model
        )

    def asks_model(self) -> tuple[str | None, str | None] | None:
        """Return the provider and the model that are named; None where no model need be asked."""
        named = super().asks_model()
        may_ask = type(self)._needs_model is Supervisor._needs_model and self.max_rounds > 1
        return named if may_ask or named != (None, None) else None

    def reads(self) -> Iterable[str] | None:
        """Return the keys of the conversation, the sections and the slots."""
        if self._has_a_policy:
            return None
        keys = (self.messages_key, *(self.sections or ()), *self._slots)
        return [key for key in dict.fromkeys(keys) if key]

    def writes(self) -> Iterable[str]:
        """Return the keys of the route, of the rounds, and of what guards against standing still."""
        return self.loop_keys()

    def outcomes(self) -> Mapping[str, Iterable[str]] | None:
        """Return the names that the route may be; None where no agents are named."""
        return {self.output_key: self.vocabulary} if self._agents else None

    def bounds_rounds(self) -> bool:
        """Say yes: ``max_rounds`` ends them."""
        return True

    def turn_keys(self) -> Iterable[str]:
        """Return the keys that it writes, and the slots: work that is done is done for one turn."""
        return [*self.loop_keys(), *self._slots]

    def loop_keys(self) -> Iterable[str]:
        """Return the keys that mean nothing outside the loop that it leads."""
        return [self.output_key, self.rounds_key, self._progress_key]

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Give what is wrong with the options taken together, each with the option's name."""
        for option in ("output_key", "rounds_key", "finish"):
            if not getattr(self, option):
                yield f"option {option!r} is empty.", option
        named = {
            "fallback_agent": [self.fallback_agent] if self.fallback_agent else [],
            "fill_order": [agent for agent, _ in self._pipeline],
            "route_keys": list(self.route_keys or ()),
        }
        yield from unknown_names(named, self._agents, finish=self.finish)
        if "" in (self.agents or ()):
            yield "option 'agents' holds an empty name.", "agents"
        for problem in confusable_names(self.vocabulary):
            yield problem, "agents"


def _asked_again(reply: str, one_of: str) -> list[Message]:
    shown = [assistant(reply[:_SHOWN_AGAIN])] if reply.strip() else []
    return [*shown, user(f"That does not name exactly one. {one_of}")]
