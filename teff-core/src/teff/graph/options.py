"""What a run takes beside its state, and what the engine makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from teff.checkpoint import Checkpointer
from teff.errors import ConfigError
from teff.provider import ProviderRegistry
from teff.runtime import Limits, Listener, ModelDefaults
from teff.state import Reducer
from teff.tool import FunctionTool, Tool

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["RunOptions", "check_options", "model_defaults", "tool_pool"]


class RunOptions(TypedDict, total=False):
    """What `Graph.run` and `Graph.stream` take beside the state."""

    #: Tools that nodes may name: `Tool` objects, or typed functions.
    tools: Iterable[Tool | Callable[..., Any]]
    #: Reducers by key; they win over those of the graph.
    reducers: Mapping[str, Reducer]
    #: Hears every event, before ``emit`` does; any listener.
    tracer: Listener
    #: Hears every event; a plain or an async function.
    emit: Listener | None
    limits: Limits
    #: ``"raise"``: reaching a limit raises `LimitReached` with the result.
    on_limit: Literal["stop", "raise"]
    #: The older name of ``Limits.max_steps``, counted for this call alone.
    max_iterations: int
    #: Seconds for each execution of a node; then it fails with ``TimeoutError``. A sub-flow has no
    #: such bound, its nodes have.
    node_timeout: float
    checkpointer: Checkpointer
    #: The id of the run in the checkpointer.
    checkpoint_id: str
    #: Whose run it is; runs of different owners never meet.
    owner: str
    #: The answer to the one open question, or answers by key or id.
    resume: Any
    providers: ProviderRegistry | Mapping[str, Any]
    default_provider: str
    default_model: str


def check_options(options: RunOptions) -> None:
    """Refuse an unknown option, and half of what a stored run needs.

    Raises:
        TypeError: an unknown option.
        ConfigError: a checkpointer without an id, an id or answers without a checkpointer, or a
            value that makes no sense.
    """
    unknown = options.keys() - RunOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(sorted(RunOptions.__annotations__))
        raise TypeError(f"run() takes no {', '.join(sorted(unknown))}; it takes {known}")
    timeout: object = options.get("node_timeout")
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise ConfigError(f"node_timeout must be a number of seconds above 0, not {timeout!r}.")
    if options.get("on_limit", "stop") not in ("stop", "raise"):
        raise ConfigError(f"on_limit is 'stop' or 'raise', not {options['on_limit']!r}.")
    providers: object = options.get("providers")
    if not (providers is None or isinstance(providers, ProviderRegistry | Mapping)):
        raise ConfigError(
            "providers must be a ProviderRegistry or a dict from name to options, not "
            f"{type(providers).__name__}."
        )
    for name in ("tracer", "emit"):
        if options.get(name) is not None and not callable(options[name]):
            raise ConfigError(f"{name} must be a function that takes an event.")
    store: object = options.get("checkpointer")
    if store is not None and not isinstance(store, Checkpointer):
        raise ConfigError(f"a {type(store).__name__} is no checkpointer.")
    limits: object = options.get("limits")
    if limits is not None and not isinstance(limits, Limits):
        raise ConfigError(f"limits must be a Limits(...), not {type(limits).__name__}.")
    if options.get("checkpointer") is not None and not options.get("checkpoint_id"):
        raise ConfigError("a run with a checkpointer needs a checkpoint_id to find it by.")
    if options.get("checkpointer") is None and options.get("checkpoint_id"):
        raise ConfigError("a checkpoint_id needs a checkpointer that holds the run.")
    if "resume" in options and options.get("checkpointer") is None:
        raise ConfigError("resume= needs the checkpointer that holds the paused run.")


def tool_pool(given: Iterable[Tool | Callable[..., Any]] | None) -> dict[str, Tool]:
    """Return the tools of a run by name; typed functions are made into tools.

    Raises:
        ConfigError: two of them have one name.
    """
    pool: dict[str, Tool] = {}
    for tool in given or ():
        made = tool if isinstance(tool, Tool) else FunctionTool(tool)
        if made.name in pool:
            raise ConfigError(f"two of the tools are called {made.name!r}.", path="tools")
        pool[made.name] = made
    return pool


def model_defaults(
    graph: Graph, options: RunOptions, *, providers: ProviderRegistry | None
) -> ModelDefaults:
    """Return the providers and defaults of a run: its own, and else those of the graph."""
    return ModelDefaults(
        providers=providers,
        provider=options.get("default_provider"),
        model=options.get("default_model"),
    ).filled_from(graph.defaults)
