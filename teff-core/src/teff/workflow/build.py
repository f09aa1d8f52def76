"""From a document to its graph, whichever way its steps are written."""

from __future__ import annotations

from typing import Any

import attrs

from teff.errors import ConfigError
from teff.flow import Flow
from teff.graph import Graph
from teff.runtime import Limits
from teff.state import StateSchema
from teff.state.keys import StateKey
from teff.workflow.classic import classic_graph, is_classic
from teff.workflow.document import NESTED_KEYS, read_document
from teff.workflow.files import read_text
from teff.workflow.part import Part
from teff.workflow.sections import (
    StateSection,
    read_limits,
    read_price_table,
    read_providers,
    read_state,
)
from teff.workflow.steps import Steps
from teff.workflow.yaml import Source

__all__ = ["Built", "build"]


@attrs.frozen(kw_only=True)
class Built:
    """A graph, and what its document says of the state, the limits and the providers."""

    graph: Graph
    state: StateSection
    limits: Limits | None
    providers: dict[str, dict[str, Any]]


def build(document: Part, steps: Steps, *, inside: bool = False) -> Built:
    """Make the graph of a document.

    Args:
        document: a whole file with what it includes, or a mapping of the same form.
        steps: reads the steps.
        inside: whether the graph is a step of another one, so that nobody else sets its initial
            state.

    Raises:
        ConfigError: something in it is wrong; with the place.
    """
    if "steps" not in document:
        raise document.error(
            "the key 'steps' is missing.", "A workflow is a list of steps under it."
        )
    if not document["steps"].elements():
        raise document["steps"].error("the list of steps is empty.", "Add a step to it.")
    options: dict[str, Any] = {
        key: document[key].text()
        for key in ("name", "default_provider", "default_model")
        if key in document
    }
    state = read_state(document["state"]) if "state" in document else StateSection()
    limits = read_limits(document["limits"]) if "limits" in document else None
    providers = read_providers(document["providers"]) if "providers" in document else {}
    prices = read_price_table(document["prices"]) if "prices" in document else None
    if "default_provider" in document:
        steps.references.note_default(document["default_provider"])
    options |= {"providers": providers or None, "limits": limits, "prices": prices}
    options |= (_with_initial(state) if inside else state).options()
    if is_classic(document):
        graph = classic_graph(document, steps, options)
    else:
        graph = _flow_graph(document, steps, options)
    return Built(graph=graph, state=state, limits=limits, providers=providers)


def _flow_graph(document: Part, steps: Steps, options: dict[str, Any]) -> Graph:
    flow = Flow(options.pop("name", ""), **options)
    steps.extend(flow, document["steps"])
    try:
        return flow.compile()
    except ConfigError as error:
        raise steps.references.located(error, document) from None


def _with_initial(state: StateSection) -> StateSection:
    """Make the initial values those that the graph starts from where nothing else is given."""
    if not state.initial:
        return state
    declared = state.schema or StateSchema({})
    keys = {
        **declared.keys,
        **{
            key: attrs.evolve(declared.keys.get(key, StateKey()), default=value, factory=None)
            for key, value in state.initial.items()
        },
    }
    validate = state.validate if state.schema is not None else "off"
    return attrs.evolve(state, schema=StateSchema(keys), validate=validate)


def graph_inside(part: Part, steps: Steps) -> Graph:
    """Return the graph of a mapping with steps, inside of a step."""
    part.check_keys(NESTED_KEYS, what="a graph")
    return build(part, _apart(steps), inside=True).graph


def graph_of_file(part: Part, steps: Steps) -> Graph:
    """Return the graph of a file that a step names; its tools are those of the run, too.

    Raises:
        ConfigError: the file is one of those in which the step stands, or something is wrong in it.
    """
    path = part.place.source.folder / part.text()
    resolved = path.resolve()
    if resolved in steps.files:
        raise part.error(f"{path.name} would run inside of itself without an end.")
    with part.errors_here():
        text = read_text(path)
    source = Source(file=str(path), folder=path.parent)
    document = read_document(text, source, part.environment, path)
    inner = attrs.evolve(_apart(steps), files=(*steps.files, resolved))
    if "tools" in document:
        steps.references.tools_of_files.append(document["tools"])
    return build(document, inner, inside=True).graph


def _apart(steps: Steps) -> Steps:
    """Return what reads the steps of a graph that has ids of its own."""
    return attrs.evolve(steps, references=steps.references.apart())
