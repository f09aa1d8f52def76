"""A graph as a workflow file: nodes with ids and edges, which loads to the same graph."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import attrs

from teff.errors import ConfigError
from teff.node import Node, default_registry
from teff.runtime import Command
from teff.state import state_schema_to_mapping

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["plain_graph", "write_yaml"]

#: Text that every reader of YAML takes for text without quotes.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(?: [A-Za-z0-9_.-]+)*")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "none"})


def write_yaml(
    graph: Graph, *, tools: Sequence[str] = (), initial: Mapping[str, Any] | None = None
) -> str:
    """Return ``graph`` as the text of a workflow file.

    Args:
        graph: what to write.
        tools: the names of the tools that the file is to name.
        initial: the initial state of the file.

    Raises:
        ConfigError: something in the graph cannot be written: a plain function as a node, a
            condition or a reducer, or an option that is no plain data.
    """
    written = plain_graph(graph)
    head: dict[str, Any] = {}
    if "name" in written:
        head["name"] = written.pop("name")
    if tools:
        head["tools"] = list(tools)
    if initial:
        state = written.setdefault("state", {})
        state["initial"] = _plain(initial, "the initial state")
    return _as_yaml({**head, **written})


def plain_graph(graph: Graph) -> dict[str, Any]:
    """Return ``graph`` as the plain data of a workflow file; see `write_yaml`."""
    written: dict[str, Any] = {}
    if graph.name:
        written["name"] = graph.name
    if graph.defaults.provider:
        written["default_provider"] = graph.defaults.provider
    if graph.defaults.model:
        written["default_model"] = graph.defaults.model
    if graph.defaults.providers is not None:
        written["providers"] = _plain(graph.defaults.providers.declared(), "the providers")
    if graph.limits is not None:
        bounds = attrs.asdict(graph.limits)
        written["limits"] = {name: bound for name, bound in bounds.items() if bound is not None}
    if graph.prices:
        written["prices"] = {model: attrs.asdict(price) for model, price in graph.prices.items()}
    if state := _state(graph):
        written["state"] = state
    ids = [graph.entry_point, *(name for name in graph.nodes if name != graph.entry_point)]
    written["steps"] = [_step(name, graph.nodes[name]) for name in ids]
    written["edges"] = [_edge(edge) for edge in graph.edges]
    return written


def _state(graph: Graph) -> dict[str, Any]:
    """Return the schema, how it is held to, and the reducers that are not of the schema."""
    state: dict[str, Any] = {}
    of_schema: Mapping[str, Any] = {}
    if graph.schema is not None:
        state["schema"] = _plain(state_schema_to_mapping(graph.schema), "the schema of the state")
        of_schema = graph.schema.reducers
        if graph.validate != "error":
            state["validate"] = graph.validate
    reducers = {key: name for key, name in graph.reducers.items() if of_schema.get(key) != name}
    if reducers:
        state["reducers"] = _names(reducers)
    return state


def _names(reducers: Mapping[str, Any]) -> dict[str, str]:
    for key, reducer in reducers.items():
        if not isinstance(reducer, str):
            raise ConfigError(
                f"the reducer of state key {key!r} is a function, which a file cannot hold: use "
                "'append', 'keep' or 'override'.",
                path=key,
            )
    return dict(reducers)


def _edge(edge: Any) -> dict[str, str]:
    if edge.condition is not None and not isinstance(edge.condition, str):
        raise ConfigError(
            f"the edge from {edge.source_id!r} to {edge.target_id!r} has a function as its "
            "condition, which a file cannot hold: write the condition as text.",
            path=edge.source_id,
        )
    written = {"from": edge.source_id, "to": edge.target_id}
    if edge.condition is not None:
        written["condition"] = edge.condition
    return written


def _step(name: str | None, node: Node) -> dict[str, Any]:
    what = f"node {name!r}" if name else f"a {node.type!r} node"
    if node.type not in default_registry.list():
        raise ConfigError(
            f"{what} is of no registered type, so a file cannot name it: register a function with "
            "@node(name), a class with default_registry.register.",
            path=name or "",
        )
    written: dict[str, Any] = {"id": name} if name else {}
    written["type"] = node.type
    config = {
        option: _plain(value, f"{what}: option {option!r}", path=name or "")
        for option, value in node.to_config().items()
    }
    if config:
        written["config"] = config
    return written


def _plain(value: Any, what: str, *, path: str = "") -> Any:
    """Return ``value`` as a file holds it.

    Raises:
        ConfigError: a file cannot hold it.
    """
    if isinstance(value, enum.Enum):
        return _plain(value.value, what, path=path)
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{what} holds {value}, which a file cannot hold.", path=path)
    if isinstance(value, int | float):
        return value
    if value is Command.STOP:
        return "STOP"
    if isinstance(value, Node):
        return _step(value.id, value)
    if hasattr(value, "entry_point"):
        return plain_graph(value)
    if isinstance(value, Mapping):
        return {
            _key(key, what, path=path): _plain(item, what, path=path) for key, item in value.items()
        }
    if isinstance(value, AbstractSet):
        return [_plain(item, what, path=path) for item in sorted(value, key=repr)]
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(item, what, path=path) for item in value]
    kind = "a function" if callable(value) else f"a {type(value).__name__}"
    raise ConfigError(f"{what} holds {kind}, which a file cannot hold.", path=path)


def _key(key: Any, what: str, *, path: str) -> str:
    plain = _plain(key, what, path=path)
    if not isinstance(plain, str):
        raise ConfigError(
            f"{what} holds a mapping with the key {key!r}; in a file keys are text.", path=path
        )
    return plain


def _as_yaml(document: Mapping[str, Any]) -> str:
    import yaml  # loaded when something is written

    class Writer(yaml.SafeDumper):
        """Writes text so that YAML 1.1 and 1.2 read the same, and repeats what stands twice."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(writer: Any, value: str) -> Any:
        # A reference to the environment is what `${` begins; doubled, it is text.
        value = value.replace("${", "$${")
        plain = _PLAIN.fullmatch(value) and value.casefold() not in _RESERVED
        style = None if plain else "|" if "\n" in value else '"'
        return writer.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Writer.add_representer(str, text)
    written: str = yaml.dump(
        dict(document), Dumper=Writer, sort_keys=False, allow_unicode=True, width=100
    )
    return written
