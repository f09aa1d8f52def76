"""From a workflow file to a `Workflow`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from teff.errors import ConfigError, suggest
from teff.flow import Flow
from teff.graph import Graph
from teff.plugins import catalogue
from teff.provider import ProviderRegistry
from teff.runtime import Limits
from teff.state import compile_reducers
from teff.tool import Tool, default_tool_registry
from teff.workflow.environment import Environment
from teff.workflow.options import as_written, fields_of, plugin_class, read_options
from teff.workflow.part import Part
from teff.workflow.references import References
from teff.workflow.steps import Steps
from teff.workflow.workflow import Workflow
from teff.workflow.yaml import MAX_CHARACTERS, read_yaml

__all__ = ["from_yaml", "load", "loads"]

_KEYS = (
    "name",
    "description",
    "default_provider",
    "default_model",
    "providers",
    "state",
    "tools",
    "limits",
    "steps",
)


def load(path: str | Path, *, environment: Mapping[str, str] | None = None) -> Workflow:
    """Read a workflow file.

    Args:
        path: the file.
        environment: for references such as ``${NAME}``; ``os.environ`` by default.

    Raises:
        ConfigError: the file cannot be read, or something in it is wrong; with ``file``, ``line``,
            ``column`` and a hint.
        PluginError: a plugin that it names cannot be loaded.
    """
    path = Path(path)
    return _workflow(_content(path), path, path.parent, environment)


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


def _content(path: Path) -> str:
    file = str(path)
    try:
        if path.is_dir():
            raise ConfigError(
                f"{file} is a folder, not a workflow file.", hint=_files_in(path, path.name)
            )
        if path.stat().st_size > 4 * MAX_CHARACTERS:
            raise ConfigError(
                f"the file is larger than a workflow file may be ({4 * MAX_CHARACTERS:,} bytes).",
                file=file,
            )
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {file}.", hint=_files_in(path.parent, path.name)
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(
            "the file is not UTF-8.", file=file, line=line, hint="Save it as UTF-8."
        ) from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None


def _files_in(folder: Path, name: str) -> str:
    try:
        names = [entry.name for entry in folder.iterdir() if entry.suffix in (".yaml", ".yml")]
    except OSError:
        return ""
    return suggest(name, names).strip().replace("Known:", "Workflow files there:")


def _workflow(
    text: str, path: Path | None, base_dir: Path, variables: Mapping[str, str] | None
) -> Workflow:
    environment = Environment(variables)
    file = str(path) if path is not None else "<text>"
    written = read_yaml(text, file, fill=environment.fill)
    if written is None:
        raise ConfigError("the file is empty; a workflow has 'steps'.", file=file)
    whole = Part.whole(written, file, environment)
    whole.check_keys(_KEYS, what="a workflow file")
    if "steps" not in whole:
        raise whole.error("the key 'steps' is missing.", "A workflow is a list of steps under it.")
    texts = {
        key: whole[key].text()
        for key in ("name", "description", "default_provider", "default_model")
        if key in whole
    }
    providers = _if_there(whole, "providers", _providers, {})
    initial, reducers = _if_there(whole, "state", _state, ({}, {}))
    limits = _if_there(whole, "limits", _limits, None)
    flow = Flow(
        texts.get("name", ""),
        reducers=reducers,
        providers=providers or None,
        default_provider=texts.get("default_provider"),
        default_model=texts.get("default_model"),
        limits=limits,
    )
    references = References()
    graph = _graph(flow, whole, references)
    return Workflow(
        name=texts.get("name", ""),
        description=texts.get("description", ""),
        path=path,
        base_dir=base_dir,
        graph=graph,
        initial=initial,
        tools=_if_there(whole, "tools", _tools, ()),
        limits=limits,
        providers=providers,
        whole=whole,
        references=references,
    )


def _if_there(whole: Part, key: str, read: Callable[[Part], Any], default: Any) -> Any:
    return read(whole[key]) if key in whole else default


def _graph(flow: Flow, whole: Part, references: References) -> Graph:
    steps = whole["steps"]
    if not steps.elements():
        raise steps.error("the list of steps is empty.", "Add a step to it.")
    if "default_provider" in whole:
        references.note_default(whole["default_provider"])
    Steps(references=references).extend(flow, steps)
    try:
        return flow.compile()
    except ConfigError as error:
        raise references.located(error, whole) from None


def _providers(part: Part) -> dict[str, dict[str, Any]]:
    """Read ``providers``: a mapping by name, or a list in which each has a name."""
    declared: dict[str, Part] = {}
    if isinstance(part.value, list):
        for provider in part.elements():
            if "name" not in provider.entries():
                raise provider.error("a provider in a list needs a 'name'.")
            name = provider["name"].text()
            if name in declared:
                raise provider["name"].error(f"two providers have the name {name!r}.")
            declared[name] = provider.without(["name"])
    else:
        declared = part.entries()
    return {name: _provider(name, provider) for name, provider in declared.items()}


def _provider(name: str, part: Part) -> dict[str, Any]:
    for option in part.entries().values():
        option.check_present()
    expected: Any = Any
    if "type" in part:
        with part["type"].errors_here():
            expected = catalogue().load("teff.providers", part["type"].text())
    options: dict[str, Any] = as_written(part.written, expected)
    with part.errors_here():
        ProviderRegistry({name: options}).check(name)
    return options


def _state(part: Part) -> tuple[dict[str, Any], dict[str, str]]:
    """Read ``state``: the initial values, and the reducers of its keys."""
    part.check_keys(["initial", "schema", "reducers"], what="state")
    initial = part["initial"].entries() if "initial" in part else {}
    reducers: dict[str, str] = {}
    for section in ("schema", "reducers"):
        for key, entry in (part[section].entries() if section in part else {}).items():
            if section == "schema" and isinstance(entry.value, dict):
                entry.check_keys(["reducer"], what=f"the schema of {key!r}")
                if "reducer" not in entry:
                    continue
                entry = entry["reducer"]
            with entry.errors_here():
                reducers[key] = entry.text()
                compile_reducers({key: reducers[key]})
    return {key: value.value for key, value in initial.items()}, reducers


def _limits(part: Part) -> Limits:
    options = read_options(part, fields_of(Limits), what="limits")
    with part.errors_here():
        return Limits(**options)


def _tools(part: Part) -> tuple[Tool, ...]:
    """Read ``tools``: names, or mappings of a name and the options of the tool."""
    tools: dict[str, Tool] = {}
    for entry in part.elements():
        tool = _tool(entry)
        if tool.name in tools:
            raise entry.error(f"two tools have the name {tool.name!r}.")
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(part: Part) -> Tool:
    if not isinstance(part.value, dict):
        with part.errors_here():
            return default_tool_registry.resolve(part.text())
    part.check_keys(["name", "config"], what="a tool")
    if "name" not in part:
        raise part.error("a tool needs a 'name'.")
    name, config = part["name"].text(), part.find("config")
    options: dict[str, Any] = {}
    if config is not None:
        config.entries()
        options = as_written(config.written, plugin_class("teff.tools", name))
    try:
        return default_tool_registry.create(name, options)
    except ConfigError as error:
        raise (config if error.path and config is not None else part["name"]).located(
            error
        ) from None
    except (TypeError, ValueError) as error:  # from the code of a plugin
        raise part.error(f"tool {name!r} refuses its options: {error}.") from error
