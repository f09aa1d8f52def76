"""Graphs as Mermaid flowcharts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from teff.graph.edge import ERROR

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["draw_mermaid"]


def draw_mermaid(graph: Graph, *, show_conditions: bool = True) -> str:
    """Return ``graph`` as a flowchart for https://mermaid.js.org: error edges are dotted."""
    boxes = {name: f"n{number}" for number, name in enumerate(graph.nodes)}
    lines = ["flowchart TD"]
    for name, node in graph.nodes.items():
        label = f"{name} [{node.type}]" if node.type and node.type != name else name
        lines.append(f'    {boxes[name]}["{_escape(label)}"]')
    for edge in graph.edges:
        source, target = boxes[edge.source_id], boxes[edge.target_id]
        if edge.condition == ERROR:
            lines.append(f"    {source} -. on error .-> {target}")
        elif edge.label and show_conditions:
            lines.append(f'    {source} -- "{_escape(edge.label)}" --> {target}')
        else:
            lines.append(f"    {source} --> {target}")
    lines.append(f"    class {boxes[graph.entry_point]} entry")
    lines.append("    classDef entry stroke-width:3px")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Write what has a meaning in Mermaid labels as entity codes, and line ends as spaces."""
    flat = " ".join(text.split())
    return re.sub(r"[\"#<>&`\\;]", lambda match: f"#{ord(match.group())};", flat)
