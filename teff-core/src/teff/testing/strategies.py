"""Hypothesis strategies: any supervisor, any state, any reply, any agents.

For property tests of supervisors, policies and agents of one's own. Needs ``hypothesis``.

>>> from hypothesis import given
>>> from teff.node import Supervisor
>>> from teff.testing.strategies import json_states, supervisor_options
>>> @given(options=supervisor_options(), state=json_states())
... def test_the_route_is_known(options, state):
...     lead = Supervisor(**options)
...     assert lead.decide(state, "nobody") in lead.vocabulary
>>> test_the_route_is_known()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from teff.runtime import ExecContext

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ImportError as error:  # pragma: no cover - where the tests run, it is there
    raise ImportError(
        "teff.testing.strategies needs hypothesis: pip install 'teff-core[testing]'"
    ) from error

__all__ = [
    "AGENTS",
    "SLOTS",
    "ScriptedAgent",
    "json_states",
    "json_values",
    "reply_texts",
    "scripted_agents",
    "slots_of",
    "supervisor_options",
]

#: The agents and slots that are drawn from where no others are named.
AGENTS = ("ann", "bob", "cat", "dan")
SLOTS = ("facts", "text", "review", "extra")

#: What a state may hold that a supervisor looks at, beside the slots.
_OWN_KEYS = ("next_agent", "supervisor_rounds", "messages", "_next_agent_progress")

#: How models put a choice, with two of the names in it: clear, denied, ambiguous, broken.
_KINDS = (
    *(
        "{0}",
        "{0}.",
        " **{0}** ",
        '"{0}"',
        "`{0}`",
        "({0})",
        "<{0}>",
        "{0}!",
        "{0} -> go",
        "\n{0}\n",
    ),
    *("Next agent: {0}", "next_agent={0}", "I choose {0}.", "{0} should answer.", "- {0}\n"),
    *('{{"agent": "{0}"}}', '{{"next": "{0}", "reason": "not {1}"}}', "['{0}']", '{{"agent": '),
    *('```json\n{{"agent": "{0}"}}\n```', "<answer>{0}</answer>", "\\boxed{{{0}}}"),
    *("<think>maybe {1}</think>{0}", "<think>{0}", "{0}<|im_end|>", "Assistant: {0}\nUser: {1}"),
    *("{0}, not {1}", "not {0} but {1}", "{0} or {1}", "{0}/{1}", "{0} and then {1}", "not {0}"),
    *("Neither {0} nor {1}.", "{0}s", "non-{0}", "{0}_{1}", "Who?", "", " ", "\u4e0d\u662f {0}"),
)


def json_values(*, max_leaves: int = 6) -> SearchStrategy[Any]:
    """Return any JSON value, small."""
    plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
    return st.recursive(
        plain | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=max_leaves,
    )


def json_states(
    keys: Sequence[str] = (), *, slots: Sequence[str] = SLOTS
) -> SearchStrategy[dict[str, Any]]:
    """Return any JSON state, with and without a message of the user.

    Args:
        keys: further keys that are to be there often.
        slots: the slots of the agents, which are there often too.
    """
    known = st.sampled_from([*slots, *_OWN_KEYS, *keys])
    states = st.dictionaries(known | st.text(max_size=4), json_values(), max_size=8)
    asked = {"messages": [{"role": "user", "content": "please"}]}
    return states | states.map(lambda state: {**state, **asked})


def reply_texts(
    names: Sequence[str] = (*AGENTS, "finish"), *, largest: int = 2_000
) -> SearchStrategy[str]:
    """Return any text that a model may reply.

    Recorded kinds of replies with the names in them, any Unicode with surrogates, and long ones.

    Args:
        names: the registered names.
        largest: the length of the longest replies, in characters.
    """
    one = st.sampled_from(list(names))
    kinds = st.builds(lambda kind, a, b: str.format(kind, a, b), st.sampled_from(_KINDS), one, one)
    anything = st.text(st.characters(exclude_categories=()), max_size=20)
    long = st.builds(
        lambda piece, end: (piece * (largest // len(piece) + 1))[:largest] + end,
        (kinds | anything).filter(bool),
        st.just("") | kinds,
    )
    return st.one_of(kinds, kinds, anything, long)


@st.composite
def supervisor_options(
    draw: st.DrawFn, agents: Sequence[str] = AGENTS, slots: Sequence[str] = SLOTS
) -> dict[str, Any]:
    """Return the options of any `Supervisor` in which every agent has one slot at most.

    ``route_keys``, ``fill_order``, ``done_keys``, ``done_mode``, ``fallback_agent``, ``max_rounds``,
    ``max_reasks`` and ``stall_after`` are always there.

    Args:
        draw: given by Hypothesis.
        agents: the names of the agents.
        slots: the slots, as many as there are agents.
    """
    slot_of = dict(zip(agents, draw(st.permutations(slots)), strict=True))
    some = st.lists(st.sampled_from(agents), unique=True)
    options: dict[str, Any] = {
        "route_keys": {agent: slot_of[agent] for agent in draw(some)},
        "fill_order": [(agent, slot_of[agent]) for agent in draw(some)],
        "done_keys": draw(st.lists(st.sampled_from(slots), unique=True)),
        "done_mode": draw(st.sampled_from(["all", "any"])),
        "fallback_agent": draw(st.sampled_from(["", *agents])),
        "max_rounds": draw(st.integers(1, 8)),
        "max_reasks": draw(st.integers(0, 2)),
        "stall_after": draw(st.integers(1, 4)),
    }
    if draw(st.booleans()) or not (slots_of(options) or options["fallback_agent"]):
        options["agents"] = list(agents)
    return options


def slots_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the slot of every agent that has one in `supervisor_options`.

    >>> slots_of({"route_keys": {"ann": "facts"}, "fill_order": [("bob", "text")]})
    {'ann': 'facts', 'bob': 'text'}
    """
    return {**options["route_keys"], **dict(options["fill_order"])}


@attrs.frozen
class ScriptedAgent:
    """An agent that does one thing; a step of a flow, as it is.

    Attributes:
        name: what it is called.
        does: ``fill`` its own slot, ``misplace`` its work in another one, do ``nothing``, or
            ``crash`` with a `RuntimeError`.
        slot: what it fills; None where it fills nothing.
    """

    name: str
    does: Literal["fill", "misplace", "nothing", "crash"]
    slot: str | None = None

    def __call__(self, ctx: ExecContext, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return what it writes.

        Raises:
            RuntimeError: it is one that crashes.
        """
        if self.does == "crash":
            raise RuntimeError(f"{self.name} crashed")
        return {} if self.slot is None else {self.slot: f"by {self.name}"}


def scripted_agents(
    options: Mapping[str, Any],
    *,
    agents: Sequence[str] = AGENTS,
    slots: Sequence[str] = SLOTS,
    crash: bool = True,
) -> SearchStrategy[dict[str, ScriptedAgent]]:
    """Return the agents of `supervisor_options`, each of them good or bad.

    Args:
        options: what `supervisor_options` gave.
        agents: the names of the agents.
        slots: where work may be misplaced.
        crash: whether some raise.
    """
    own = slots_of(options)

    def agent(name: str) -> SearchStrategy[ScriptedAgent]:
        kinds = [
            st.just(ScriptedAgent(name, "fill", own.get(name))),
            st.builds(ScriptedAgent, st.just(name), st.just("misplace"), st.sampled_from(slots)),
            st.just(ScriptedAgent(name, "nothing")),
        ]
        return st.one_of(*kinds, *([st.just(ScriptedAgent(name, "crash"))] if crash else []))

    return st.fixed_dictionaries({name: agent(name) for name in agents})
