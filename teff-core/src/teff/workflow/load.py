"""From a workflow file to a `Workflow`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from teff.graph import Graph
from teff.tool import Tool
from teff.workflow.build import build, graph_inside, graph_of_file
from teff.workflow.document import read_document
from teff.workflow.environment import Environment
from teff.workflow.files import read_text
from teff.workflow.hooks import Hooks, read_hooks
from teff.workflow.part import Part
from teff.workflow.references import References
from teff.workflow.sections import read_tools
from teff.workflow.steps import Steps
from teff.workflow.store import read_checkpoint
from teff.workflow.workflow import Workflow
from teff.workflow.yaml import Source

__all__ = ["from_yaml", "load", "loads"]


def load(path: str | Path, *, environment: Mapping[str, str] | None = None) -> Workflow:
    """Read a workflow file, with the files that it includes.

    Args:
        path: the file.
        environment: for references such as ``${NAME}``; ``os.environ`` by default.

    Raises:
        ConfigError: the file cannot be read, or something in it is wrong; with ``file``, ``line``,
            ``column`` and a hint.
        PluginError: a plugin that it names cannot be loaded.
    """
    path = Path(path)
    return _workflow(read_text(path), path, path.parent, environment)


def loads(
    text: str,
    base_dir: str | Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> Workflow:
    r"""Read a workflow from a text; see `load`.

    >>> workflow = loads("steps:\n  - transform: {action: uppercase, output_key: loud}")
    >>> list(workflow.graph.nodes)
    ['transform_1']

    Args:
        text: what a workflow file would hold.
        base_dir: the folder that relative paths in it start from; the current one by default.
        environment: as for `load`.
    """
    return _workflow(text, None, Path(base_dir or "."), environment)


def from_yaml(path: str | Path) -> Graph:
    """Return the graph of a workflow file; see `load`, which gives its initial state and tools too."""
    return load(path).graph


def _workflow(
    text: str, path: Path | None, base_dir: Path, variables: Mapping[str, str] | None
) -> Workflow:
    source = Source(file="<text>" if path is None else str(path), folder=base_dir)
    document = read_document(text, source, Environment(variables), path)
    references = References()
    steps = Steps(
        read_graph=graph_inside,
        read_file=graph_of_file,
        references=references,
        files=() if path is None else (path.resolve(),),
    )
    built = build(document, steps)
    texts = {key: document[key].text() for key in ("name", "description") if key in document}
    return Workflow(
        name=texts.get("name", ""),
        description=texts.get("description", ""),
        path=path,
        base_dir=base_dir,
        graph=built.graph,
        initial=built.state.initial,
        tools=_tools(document, references),
        limits=built.limits,
        providers=built.providers,
        hooks=read_hooks(document["hooks"]) if "hooks" in document else Hooks(),
        store=read_checkpoint(document["checkpoint"]) if "checkpoint" in document else None,
        text=text,
        whole=document,
        references=references,
    )


def _tools(document: Part, references: References) -> tuple[Tool, ...]:
    """Return the tools of a document, and those of the files that run as a step of it."""
    tools = (
        {tool.name: tool for tool in read_tools(document["tools"])} if "tools" in document else {}
    )
    for part in references.tools_of_files:
        for tool in read_tools(part):
            tools.setdefault(tool.name, tool)
    return tuple(tools.values())
