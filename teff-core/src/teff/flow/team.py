"""What `Flow.team` is put together from: roles made into steps, and the supervisor over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

import teff.node as nodes
from teff.errors import ConfigError
from teff.flow.agent import AgentRole
from teff.flow.chain import Chain

if TYPE_CHECKING:
    from teff.node import Node, Supervisor
    from teff.runtime import Limits

__all__ = ["BuiltRole", "keys_of_team", "role_chain", "rounds_key_beside", "team_supervisor"]


@attrs.frozen(kw_only=True)
class BuiltRole:
    """A role as steps, and the state key that it fills."""

    chain: Chain
    output_key: str


def role_chain(
    name: str,
    role: AgentRole | Mapping[str, Any] | Chain,
    *,
    model: str | None,
    provider: str | None,
    limits: Limits | Mapping[str, Any] | None = None,
) -> BuiltRole:
    """Make the steps of one role; its own model, provider and limits win over those of the team.

    Raises:
        ConfigError: an unknown option of the role.
    """
    if isinstance(role, Mapping):
        role = AgentRole.from_mapping(role, name=name)
    if isinstance(role, AgentRole):
        try:
            chain = role.build(model=model, provider=provider, limits=limits, id=name)
        except ConfigError as error:
            raise ConfigError(
                f"role {name!r}: {error.message}", path=error.path, hint=error.hint
            ) from error
        return BuiltRole(chain=chain, output_key=role.output_key)
    return BuiltRole(chain=role, output_key=name)


def rounds_key_beside(others: Iterable[Node]) -> dict[str, str]:
    """Return the key of the rounds for a supervisor beside others of a flow.

    No two count in the same place: the second is given ``supervisor_rounds_2``.
    """
    number = _number_beside(others)
    return {"rounds_key": f"supervisor_rounds_{number}"} if number > 1 else {}


def keys_of_team(others: Iterable[Node]) -> dict[str, str]:
    """Return the keys for a team beside other nodes of a flow; see `rounds_key_beside`."""
    number = _number_beside(others)
    keys = {"output_key": f"next_agent_{number}"} if number > 1 else {}
    return {**keys, **rounds_key_beside(others)}


def _number_beside(others: Iterable[Node]) -> int:
    return 1 + sum(isinstance(node, nodes.Supervisor) for node in others)


def team_supervisor(
    system: str,
    roles: Mapping[str, BuiltRole],
    *,
    model: str | None,
    provider: str | None,
    fallback: str = "",
    **options: Any,
) -> Supervisor:
    """Make the supervisor of a team.

    Raises:
        ConfigError: no roles, ``fallback`` and ``fallback_agent`` together, or an unknown option.
    """
    if "agents" in options:
        raise ConfigError("the agents of a team are its roles; leave out agents.", path="agents")
    if not roles:
        raise ConfigError("a team needs at least one role.")
    if fallback:
        if options.get("fallback_agent"):
            raise ConfigError("give fallback or fallback_agent, not both.", path="fallback")
        options["fallback_agent"] = fallback
    options.setdefault("route_keys", {name: role.output_key for name, role in roles.items()})
    return nodes.Supervisor(
        system=system,
        agents=list(roles),
        model=model or "",
        provider=provider or "",
        **options,
    )
