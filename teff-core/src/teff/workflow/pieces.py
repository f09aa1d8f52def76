"""The idioms that are a piece of a flow: agents with their tools, branches, routes and teams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from teff.errors import ConfigError
from teff.flow import AgentRole, Case, Flow, agent_step
from teff.flow.team import rounds_key_beside
from teff.node import Node, ReActAgent, Supervisor, ToolExec
from teff.workflow.containers import scalar
from teff.workflow.idiom import Idiom, described, required
from teff.workflow.nodes import AGENT_STEP, TOOL_LOOP
from teff.workflow.options import Fields, fields_of
from teff.workflow.part import Part

if TYPE_CHECKING:
    from teff.runtime import Limits
    from teff.workflow.steps import Steps

__all__ = ["LEADER", "PIECES", "ROLE"]

_SUPERVISOR = {**fields_of(Supervisor), "key": str, "fallback": str, "finish_token": str}
LEADER = {**fields_of(Supervisor, without=["id", "agents"]), "fallback": str, "finish_token": str}
_TEAM = {**LEADER, "id": str, "limits": AGENT_STEP["limits"]}
#: Options of a supervisor by the names that they have in files too.
_OTHER_NAMES = {"key": "output_key", "fallback": "fallback_agent", "finish_token": "finish"}
ROLE = {
    **{name: hint for name, hint in AGENT_STEP.items() if name != "id"},
    "tools": AGENT_STEP["use_tools"],
}


def _agent(flow: Flow, part: Part, steps: Steps) -> None:
    options = steps.references.read(part, TOOL_LOOP, what=described(part))
    steps.references.expect_model(part, options, what=described(part))
    flow.harness(**options)


def _branch(flow: Flow, part: Part, steps: Steps) -> None:
    part.check_keys(["key", "cases", "default", "converge"], what="branch")
    cases = []
    for case in required(part, "cases").elements():
        case.check_keys(["value", "steps"], what="a case of branch")
        made = Case(scalar(required(case, "value")))
        for node in steps.chain(required(case, "steps")):
            made.add(node)
        cases.append(made)
    key, default = required(part, "key").text(), _chain_or_none(part.find("default"), steps)
    if not flow.nodes:
        raise part.error(
            "a branch needs a step before it: the first step of a flow cannot choose a way.",
            "Add one, such as `transform: {action: now, output_key: begun}`.",
        )
    flow.branch(key, *cases, default=default)
    if "converge" in part:
        for node in steps.chain(part["converge"]):
            flow.converge(node)


def _default(flow: Flow, part: Part, steps: Steps) -> None:
    """Add the steps for when the condition of the step before does not hold."""
    node = steps.node(part)
    try:
        flow.default(node)
    except ConfigError:
        raise part.error(
            "'default' follows a step that has 'when' beside it, and nothing else."
        ) from None


def _label(flow: Flow, part: Part, steps: Steps) -> None:
    flow.label(part.id())


def _supervisor(flow: Flow, part: Part, steps: Steps) -> None:
    """Add a supervisor; with a mapping of agents, also the ways there and back."""
    wired = {name: part[name] for name in ("agents", "finish") if _holds_steps(part, name)}
    options = _read_but(part, _SUPERVISOR, wired, steps)
    steps.references.expect_model(part, options, what=described(part))
    for short, name in _OTHER_NAMES.items():
        if short in options:
            if name in options:
                raise part[short].error(f"give {short!r} or {name!r}, not both.")
            options[name] = options.pop(short)
    if "agents" in wired:
        chains = _agents(wired["agents"].entries(), steps)
        options["agents"] = list(chains)
    elif "finish" in wired:
        raise part["finish"].error("steps to finish with need 'agents', a mapping to their steps.")
    with _as_it_is_written(part):
        node = Supervisor(**{**rounds_key_beside(flow.nodes.values()), **options})
    steps.references.made(node, part)
    flow.step(node)
    if "agents" in wired:
        finish = _chain_or_none(wired.get("finish"), steps)
        flow.route(node.output_key, agents=chains, finish=finish)


def _supervise(flow: Flow, part: Part, steps: Steps) -> None:
    part.check_keys(["key", "agents", "finish"], what="supervise")
    agents = required(part, "agents").entries()
    flow.route(
        part["key"].text() if "key" in part else "next_agent",
        agents=_agents(agents, steps),
        finish=_chain_or_none(part.find("finish"), steps),
    )


def _team(flow: Flow, part: Part, steps: Steps) -> None:
    """Add a team; what its leader is told may stand under ``leader`` or beside it."""
    wired = {name: part[name] for name in ("leader", "roles") if name in part}
    if "finish" in part and isinstance(part["finish"].value, list | dict | None):
        wired["finish"] = part["finish"]
    options = _with_token(part, _read_but(part, _TEAM, wired, steps))
    for name, told in _leader(part, steps).items():
        if name in options:
            written = name if name in part else "finish"
            raise part[written].error(f"{written!r} stands here and under 'leader'.")
        options[name] = told
    steps.references.expect_model(wired.get("leader", part), options, what=described(part))
    limits = options.pop("limits", None)
    roles: dict[str, list[Node]] = {}
    slots: dict[str, str] = {}
    for name, role in required(part, "roles").entries().items():
        roles[name], slots[name] = _role(name, role, options, limits, steps)
    finish = _chain_or_none(wired.get("finish"), steps)
    with _as_it_is_written(part, wired.get("leader")):
        flow.team(
            options.pop("system", ""),
            roles=roles,
            finish=finish,
            **{"route_keys": slots, **options},
        )


@contextmanager
def _as_it_is_written(part: Part, leader: Part | None = None) -> Iterator[None]:
    """Let an error about a supervisor use the names of the file, and stand where they are."""
    try:
        yield
    except ConfigError as error:
        if error.line is not None:
            raise
        message, path = error.message, error.path
        if described(part).startswith("team"):
            message = re.sub(r"^supervisor\b", "team", message)
            message = message.replace("which is not in agents.", "which is not in 'roles'.")
        holders = [holder for holder in (part, leader) if holder is not None]
        for short, name in _OTHER_NAMES.items():
            if path == name and any(short in holder for holder in holders):
                message, path = message.replace(f"option {name!r}", f"option {short!r}"), short
        holder = next((holder for holder in holders if path and _is_option(holder, path)), part)
        raise holder.located(ConfigError(message, path=path, hint=error.hint)) from error.__cause__


def _leader(part: Part, steps: Steps) -> dict[str, Any]:
    leader = part.find("leader")
    if leader is None:
        return {}
    told = steps.references.read(leader, LEADER, what=f"the leader of {described(part)}")
    return _with_token(leader, told)


def _with_token(part: Part, options: dict[str, Any]) -> dict[str, Any]:
    """Return options with the word that ends the loop under ``finish_token``."""
    if "finish" in options:
        if "finish_token" in options:
            raise part["finish_token"].error(
                "give 'finish_token' or a text under 'finish', not both."
            )
        options["finish_token"] = options.pop("finish")
    return options


def _role(
    name: str, part: Part, leader: Mapping[str, Any], limits: Limits | None, steps: Steps
) -> tuple[list[Node], str]:
    """Return the steps of a role, and the state key that it fills."""
    if isinstance(part.value, list):
        return steps.chain(part), name
    what = f"role {name!r}"
    options = steps.references.read(part, ROLE, what=what)
    asked = {key: options.get(key) or leader.get(key) for key in ("provider", "model")}
    steps.references.expect_model(part, asked, what=what)
    with part.errors_here():
        role = AgentRole.from_mapping(options, name=name)
        node = role.build(**asked, limits=limits, id=f"{part.place.source.prefix}{name}")
    steps.references.made(node, part)
    return [node], role.output_key


def _agents(parts: Mapping[str, Part], steps: Steps) -> dict[str, list[Node]]:
    """Return the steps of agents; in an included file their nodes have its prefix."""
    chains = {name: steps.chain(part) for name, part in parts.items()}
    for name, chain in chains.items():
        prefix = parts[name].place.source.prefix
        if prefix and chain[0].id is None:
            chain[0].id = f"{prefix}{name}"
    return chains


def _holds_steps(part: Part, name: str) -> bool:
    """Whether ``agents`` or ``finish`` of a supervisor holds steps, not names."""
    kind = dict if name == "agents" else list
    return name in part and isinstance(part[name].value, kind)


def _is_option(part: Part, name: str) -> bool:
    return name in part and not _holds_steps(part, name)


def _chain_or_none(part: Part | None, steps: Steps) -> list[Node] | None:
    return None if part is None else steps.chain(part)


def _read_but(
    part: Part, fields: Fields, others: Mapping[str, Part], steps: Steps
) -> dict[str, Any]:
    """Read the options of a mapping in which other things stand too."""
    known = [*fields, *others, *(["leader", "roles"] if fields is _TEAM else [])]
    part.check_keys(known, what=described(part), kind="option")
    return steps.references.read(part.without(others), fields, what=described(part))


#: The same idiom has two names.
_AGENT = Idiom(add=_agent, fields=TOOL_LOOP, about=(ReActAgent, ToolExec))

#: Idioms by name.
PIECES: Mapping[str, Idiom] = {
    "agent": _AGENT,
    "branch": Idiom(
        add=_branch,
        parts={"key": "text", "cases": "cases", "default": "steps", "converge": "steps"},
        needed=["key", "cases"],
        when="never",
    ),
    "default": Idiom(add=_default, value="steps", when="never"),
    "harness": _AGENT,
    "label": Idiom(add=_label, value="text", when="never"),
    "supervise": Idiom(
        add=_supervise,
        parts={"key": "text", "agents": "agents", "finish": "steps"},
        needed=["agents"],
        when="never",
    ),
    "supervisor": Idiom(
        add=_supervisor,
        fields=_SUPERVISOR,
        parts={"agents": "names_or_agents", "finish": "token_or_steps"},
        about=(Supervisor,),
    ),
    "team": Idiom(
        add=_team,
        fields=_TEAM,
        parts={"leader": "leader", "roles": "roles", "finish": "token_or_steps"},
        needed=["roles"],
        about=(Supervisor, agent_step),
    ),
}
