"""The idiom `delegate`: a model that has agents as tools, each a role, steps, or another file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from teff.flow import AgentRole, SubFlow
from teff.node import Delegate, Node
from teff.node.delegation import SubAgent
from teff.workflow.idiom import Idiom, described, required
from teff.workflow.options import Fields, fields_of
from teff.workflow.part import Part
from teff.workflow.pieces import ROLE

if TYPE_CHECKING:
    from teff.workflow.steps import Steps

__all__ = ["DELEGATION", "SUB_AGENT", "SUB_AGENT_SOURCES", "SUB_AGENT_WITH_SOURCE"]

_DELEGATE = fields_of(Delegate, without=["agents", "guards"])

#: The options of an agent that is something to give tasks to, whatever runs.
_OF_ALL: Fields = {
    "description": str,
    "context": str | Sequence[str] | Mapping[str, str],
    "limits": ROLE["limits"],
}

#: The options of an agent that is a role.
SUB_AGENT: Fields = {**_OF_ALL, **ROLE}

#: What else may run, and the options beside it.
SUB_AGENT_SOURCES = ("steps", "file", "graph", "node", "role")
_WITH_ANSWER: Fields = {**_OF_ALL, "output_key": str}
SUB_AGENT_WITH_SOURCE: Mapping[str, Fields] = {
    "steps": _WITH_ANSWER,
    "file": _WITH_ANSWER,
    "graph": _WITH_ANSWER,
    "node": _WITH_ANSWER,
    "role": _OF_ALL,
}

#: What is given in Python only, and what a file has in its place.
_PYTHON_ONLY = {"flow": "Write 'steps', 'graph' or 'file' in its place."}


def _delegate(part: Part, steps: Steps) -> Node:
    what = described(part)
    if "guards" in part:
        raise part["guards"].error(
            f"{what}: 'guards' are functions, which a file cannot hold.",
            "Give them in Python: `Flow.delegate(…, guards={…})`.",
        )
    part.check_keys([*_DELEGATE, "agents"], what=what, kind="option")
    options = steps.references.read(part.without(["agents"]), _DELEGATE, what=what)
    steps.references.expect_model(part, options, what=what)
    agents: dict[str, SubAgent] = {}
    for name, agent in _named(required(part, "agents")):
        if name in agents:
            raise agent.error(f"{what}: two agents are called {name!r}.")
        agents[name] = _agent(name, agent, options, steps)
    return Delegate(agents=agents, **options)


def _named(part: Part) -> list[tuple[str, Part]]:
    """Return the agents with their names, which stand before them or under ``name``."""
    if not isinstance(part.value, list):
        return list(part.entries().items())
    listed = []
    for agent in part.elements():
        agent.entries()
        name = required(agent.labelled("an agent"), "name")
        listed.append((name.text(), agent.without(["name"])))
    return listed


def _agent(name: str, part: Part, leader: Mapping[str, Any], steps: Steps) -> SubAgent:
    what = f"agent {name!r}"
    sources = [key for key in part.entries() if key in SUB_AGENT_SOURCES]
    _check(part, sources, what)
    if "description" not in part:
        raise part.error(
            f"{what}: the key 'description' is missing; the model chooses by it.",
            "Say in a sentence what the agent is for.",
        )
    made, output_key = None, ""
    fields = SUB_AGENT_WITH_SOURCE[sources[0]] if sources else SUB_AGENT
    if sources and sources[0] != "role":
        options = steps.references.read(part.without(sources), fields, what=what)
        made = _made(part[sources[0]], sources[0], steps)
        output_key = options.get("output_key", "")
    else:
        role = part["role"] if sources else part.without(_OF_ALL)
        beside = part.without([key for key in part.entries() if key not in _OF_ALL])
        options = steps.references.read(beside, _OF_ALL, what=what)
        made, output_key = _role(name, role, leader, steps, what=what)
    with part.errors_here():
        return SubAgent(
            name=name,
            description=options["description"],
            node=made,
            output_key=output_key,
            context=options.get("context", {}),
            limits=options.get("limits"),
        )


def _check(part: Part, sources: Sequence[str], what: str) -> None:
    """Refuse options that are unknown, or do not go with each other."""
    for key, way_out in _PYTHON_ONLY.items():
        if key in part:
            raise part[key].error(f"{what}: {key!r} is given in Python only.", way_out)
    part.check_keys([*SUB_AGENT, *SUB_AGENT_SOURCES], what=what, kind="option")
    if len(sources) > 1:
        first, second = sources[:2]
        raise part[second].error(f"{what}: give {first!r} or {second!r}, not both.")
    for source in sources:
        takes = [*SUB_AGENT_WITH_SOURCE[source], source]
        for key, option in part.entries().items():
            if key not in takes:
                raise option.error(
                    f"{what}: {key!r} does not stand beside {source!r}.",
                    f"Beside it stand {', '.join(takes[:-1])}.",
                )


def _made(part: Part, source: str, steps: Steps) -> Node:
    """Return what an agent runs that is no role."""
    if source == "node":
        return steps.node(part)
    if source == "steps":
        flow = steps.flow(part)
        with part.errors_here():
            graph = flow.compile()
    else:
        graph = steps.graph_in(part) if source == "graph" else steps.graph_of_file(part)
    return SubFlow(graph)


def _role(
    name: str, part: Part, leader: Mapping[str, Any], steps: Steps, *, what: str
) -> tuple[Node, str]:
    """Return the node of a role, and the state key that its answer is under."""
    options = steps.references.read(part, ROLE, what=what)
    if not options.get("system"):
        raise part.error(
            f"{what}: there is nothing to run.",
            f"Give a role's 'system', or one of {', '.join(SUB_AGENT_SOURCES[:-1])}.",
        )
    asked = {key: options.get(key) or leader.get(key) for key in ("provider", "model")}
    steps.references.expect_model(part, asked, what=what)
    with part.errors_here():
        role = AgentRole.from_mapping(options, name=name)
        return role.build(**asked, id=name), role.output_key


#: Idioms by name.
DELEGATION: Mapping[str, Idiom] = {
    "delegate": Idiom(
        make=_delegate,
        fields=_DELEGATE,
        parts={"agents": "sub_agents"},
        needed=["agents"],
        about=(Delegate,),
    ),
}
