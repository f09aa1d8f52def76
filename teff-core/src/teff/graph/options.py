"""What a run takes beside its state, and what the engine makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from teff.checkpoint import Checkpointer
from teff.errors import ConfigError, suggest
from teff.provider import ProviderRegistry
from teff.runtime import (
    Limits,
    Listener,
    ModelDefaults,
    NodeHook,
    NodeHooks,
    PayloadCallback,
    Price,
    read_prices,
)
from teff.state import Reducer

if TYPE_CHECKING:
    from teff.graph.graph import Graph
    from teff.tool import Tool

__all__ = [
    "RunOptions",
    "TurnOptions",
    "Validation",
    "check_keys",
    "check_mapping",
    "check_options",
    "check_text",
    "check_validation",
    "model_defaults",
    "tool_pool",
]

#: What happens where something does not fit the schema of the state.
Validation = Literal["off", "warn", "error"]


class TurnOptions(TypedDict, total=False):
    """What `Graph.run`, `Graph.stream` and `Graph.turn` take; each option may be left out."""

    #: Tools that nodes may name: `Tool` objects, or typed functions.
    tools: Iterable[Tool | Callable[..., Any]]
    #: Reducers by key; they win over those of the graph.
    reducers: Mapping[str, Reducer]
    #: Hears every event, before ``emit`` does: a `RunTracer`, or any listener.
    tracer: Listener
    #: Hears every event; a plain or an async function.
    emit: Listener | None
    #: ``on_node_start(node_id, node, state)``, ``on_node_end(node_id, node, state, result)`` after
    #: the merge, ``on_node_error(node_id, node, state, error)``; plain or async functions, told of
    #: every node at any depth. ``state`` is a copy, ``result`` the update. What a hook raises ends
    #: the run, past every error edge.
    hooks: Mapping[str, NodeHook]
    #: Told of each model call that was answered; a plain or an async function
    #: ``(provider, model, messages, content, usage, latency_ms, cached)``. What it raises ends the
    #: run.
    on_llm_payload: PayloadCallback
    #: Bounds of the run, in place of those of the graph.
    limits: Limits
    #: What models cost for a million tokens, by ``provider/model`` or the model's name: `Price`
    #: values, or mappings with ``prompt`` and ``completion``. They are laid over those of the graph.
    prices: Mapping[str, Price | Mapping[str, float]]
    #: ``"raise"``: reaching a limit raises `LimitReached` with the result.
    on_limit: Literal["stop", "raise"]
    #: The older name of ``Limits.max_steps``, counted for this call alone.
    max_iterations: int
    #: Seconds for each execution of a node; then it fails with ``TimeoutError``. A sub-flow has no
    #: such bound, its nodes have.
    node_timeout: float
    #: What a stored run is to remember of its start beside its input: JSON values, by name.
    about: Mapping[str, Any]
    #: Whose run it is; runs of different owners never meet.
    owner: str
    #: Where nodes find the provider that they name; a registry, or what one is made from.
    providers: ProviderRegistry | Mapping[str, Any]
    #: The provider and the model of nodes that name none.
    default_provider: str
    default_model: str


class RunOptions(TurnOptions, total=False):
    """What `Graph.run` and `Graph.stream` take beside the state."""

    #: Where the run is recorded, so that it can go on after a pause or a crash.
    checkpointer: Checkpointer
    #: The id of the run in the checkpointer.
    checkpoint_id: str
    #: The answer to the one open question, or answers by key or id.
    resume: Any


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
    if timeout is not None and not (
        isinstance(timeout, int | float) and timeout is not True and timeout > 0
    ):
        raise ConfigError(f"node_timeout must be a number of seconds above 0, not {timeout!r}.")
    if options.get("on_limit", "stop") not in ("stop", "raise"):
        raise ConfigError(f"on_limit is 'stop' or 'raise', not {options['on_limit']!r}.")
    check_mapping("reducers", options.get("reducers"), "from state key to reducer")
    check_mapping("about", options.get("about"), "from name to value")
    providers: object = options.get("providers")
    if not (providers is None or isinstance(providers, ProviderRegistry | Mapping)):
        raise ConfigError(
            "providers must be a ProviderRegistry or a dict from name to options, not "
            f"{type(providers).__name__}."
        )
    for name in ("tracer", "emit"):
        if options.get(name) is not None and not callable(options[name]):
            raise ConfigError(f"{name} must be a function that takes an event.")
    payload_callback = options.get("on_llm_payload")
    if not (payload_callback is None or callable(payload_callback)):
        raise ConfigError("on_llm_payload must be a function; see RunOptions for what it is given.")
    NodeHooks.of(options.get("hooks"))
    limits: object = options.get("limits")
    if limits is not None and not isinstance(limits, Limits):
        raise ConfigError(f"limits must be a Limits(...), not {type(limits).__name__}.")
    if options.get("prices") is not None:
        read_prices(options["prices"])
    check_text("default_provider", options.get("default_provider"))
    check_text("default_model", options.get("default_model"))
    _check_record(options)


def _check_record(options: RunOptions) -> None:
    """Refuse half of what a stored run needs."""
    store: object = options.get("checkpointer")
    if store is not None and not isinstance(store, Checkpointer):
        raise ConfigError(f"a {type(store).__name__} is no checkpointer.")
    check_text("checkpoint_id", options.get("checkpoint_id"))
    check_text("owner", options.get("owner", ""), optional=False)
    if options.get("checkpointer") is not None and not options.get("checkpoint_id"):
        raise ConfigError("a run with a checkpointer needs a checkpoint_id to find it by.")
    if options.get("checkpointer") is None and options.get("checkpoint_id"):
        raise ConfigError("a checkpoint_id needs a checkpointer that holds the run.")
    if "resume" in options and options.get("checkpointer") is None:
        raise ConfigError("resume= needs the checkpointer that holds the paused run.")


def check_text(name: str, given: object, *, optional: bool = True) -> None:
    """Refuse what is no text.

    Args:
        name: of the option.
        given: its value.
        optional: whether None will do, too.

    Raises:
        ConfigError: it is something else.
    """
    if not (isinstance(given, str) or (optional and given is None)):
        raise ConfigError(f"{name} must be a text, not {given!r}.", path=name)


def check_mapping(name: str, given: object, holds: str) -> None:
    """Refuse what is neither None nor a mapping.

    Args:
        name: of the option.
        given: its value.
        holds: what the mapping is from and to, in words.

    Raises:
        ConfigError: it is something else.
    """
    if not (given is None or isinstance(given, Mapping)):
        raise ConfigError(f"{name} must be a dict {holds}, not {type(given).__name__}.", path=name)


def check_keys(name: str, given: object) -> None:
    """Refuse what is no collection of state keys; one text would be taken for its letters.

    Raises:
        ConfigError: it is something else.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigError(f"{name} must be a list of state keys, not {given!r}.", path=name)


def check_validation(validate: object) -> Validation:
    """Return what was given as ``validate``.

    Raises:
        ConfigError: it is none of ``off``, ``warn`` and ``error``.
    """
    known: tuple[Validation, ...] = ("off", "warn", "error")
    for word in known:
        if validate == word:
            return word
    raise ConfigError(
        f"validate is 'off', 'warn' or 'error', not {validate!r}.",
        path="validate",
        hint=suggest(validate, known).strip() if isinstance(validate, str) else "",
    )


def tool_pool(given: Iterable[Tool | Callable[..., Any]] | None) -> dict[str, Tool]:
    """Return the tools of a run by name; typed functions are made into tools.

    Raises:
        ConfigError: two of them have one name.
    """
    if not given:
        return {}
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ConfigError(
            f"tools must be a list of tools and functions, not {type(given).__name__}.",
            path="tools",
        )
    from teff.tool import FunctionTool, Tool  # loaded where there are tools

    pool: dict[str, Tool] = {}
    for tool in given:
        if not (isinstance(tool, Tool) or callable(tool)):
            raise ConfigError(
                f"tools must be a list of tools and functions; {tool!r} is neither.", path="tools"
            )
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
