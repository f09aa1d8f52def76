"""`Workflow`: what a workflow file says, ready to be checked and run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack

import attrs

from teff.checkpoint import Checkpointer, RunStore
from teff.errors import ConfigError
from teff.graph import Graph, RunOptions, TurnOptions, TurnResult
from teff.graph.check import CODES as PROBLEM_CODES
from teff.graph.check import Problem, missing_models_and_tools
from teff.graph.check.problem import Severity
from teff.messages import user
from teff.runtime import Limits, ModelDefaults, RunResult
from teff.tool import Tool
from teff.workflow.hooks import Hooks, both
from teff.workflow.part import Part
from teff.workflow.references import References
from teff.workflow.secrets import find_secrets
from teff.workflow.store import Store

__all__ = ["CODES", "Finding", "Workflow"]

#: What the code of each finding means, for programs and for the reference.
CODES: Mapping[str, str] = MappingProxyType(
    {
        "invalid-file": "The file cannot be read as a workflow.",
        "unknown-name": "A provider, model or tool that a step names is not there.",
        "models-and-tools": "A node asks a provider or model, or uses a tool, that is not there.",
        **PROBLEM_CODES,
        "secret-in-file": "A value looks like a secret that belongs into an environment variable.",
    }
)


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that is wrong with a workflow file, or looks so.

    Attributes:
        severity: ``error`` keeps the workflow from running; a ``warning`` does not.
        code: a short name of the kind, for programs; one of `CODES`.
        message: what is wrong, in a sentence.
        hint: the way out, in a sentence, or "".
        file, line, column: the place, as far as it is known.
        node: the id of the node that it is about, or "".
    """

    severity: Severity
    code: str
    message: str
    hint: str = ""
    file: str = ""
    line: int | None = None
    column: int | None = None
    node: str = ""

    @classmethod
    def of(
        cls,
        error: ConfigError,
        severity: Severity,
        code: str,
        *,
        node: str = "",
    ) -> Finding:
        """Return an error that has its place as a finding."""
        return cls(
            severity=severity,
            code=code,
            message=error.message,
            hint=error.hint,
            file=error.file,
            line=error.line,
            column=error.column,
            node=node,
        )

    def __str__(self) -> str:
        return str(
            ConfigError(
                self.message, file=self.file, line=self.line, column=self.column, hint=self.hint
            )
        )


@attrs.frozen(kw_only=True)
class Workflow:
    """A workflow that was read from a file.

    Attributes:
        name, description: for people.
        path: the file, or None where the text was given.
        base_dir: the folder that relative paths in the file start from.
        graph: the graph that its steps make; it has the providers, the defaults and the limits.
        initial: the state that a run starts from.
        tools: what its nodes may use by name.
        limits: the bounds of a run, or None.
        providers: the options of the providers that it declares, by name.
        hooks: the functions that it names, to be told of every node; imported by `run`.
    """

    name: str
    description: str
    path: Path | None
    base_dir: Path
    graph: Graph
    initial: Mapping[str, Any]
    tools: tuple[Tool, ...]
    limits: Limits | None
    providers: Mapping[str, Mapping[str, Any]]
    hooks: Hooks = attrs.field(factory=Hooks)
    _store: Store | None = attrs.field(default=None, repr=False)
    _text: str = attrs.field(default="", repr=False, eq=False)
    _opened: list[Checkpointer] = attrs.field(factory=list, init=False, repr=False, eq=False)
    _whole: Part = attrs.field(repr=False, eq=False)
    _references: References = attrs.field(repr=False, eq=False)

    @property
    def origin(self) -> dict[str, str]:
        """What a stored run remembers of its workflow: the absolute ``path``, and a ``digest``.

        The digest is of the text of the file, without those that it includes. Where the text was
        given, there is no path.
        """
        import hashlib  # needed where a run is stored

        text = self._text.encode(errors="surrogatepass")
        origin = {"digest": f"sha256:{hashlib.sha256(text).hexdigest()}"}
        if self.path is not None:
            origin["path"] = str(self.path.absolute())
        return origin

    @property
    def checkpointer(self) -> Checkpointer | None:
        """The checkpointer that the file describes, opened when it is first asked for; or None.

        Raises:
            ConfigError: it cannot be opened; with its place in the file.
        """
        if self._store is None:
            return None
        if not self._opened:
            self._opened.append(self._store.open())
        return self._opened[0]

    def start(
        self, message: str | None = None, state: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the state that a run starts from.

        Args:
            message: what a person says: it is added to ``messages`` and stands under ``input``;
                where the state has a schema, under those of the two that it declares.
            state: laid over the initial state of the file.

        Raises:
            ConfigError: there is a message, and the schema of the state declares neither.
        """
        start = {**self.initial, **(state or {})}
        if message is None:
            return start
        schema = None if self.graph.validate == "off" else self.graph.schema
        keys = [key for key in ("messages", "input") if schema is None or key in schema.keys]
        if not keys:
            raise ConfigError(
                "a message needs a place in the state, and its schema declares neither 'messages' "
                "nor 'input'.",
                file=self._whole.file,
            )
        if "messages" in keys:
            start["messages"] = [*start.get("messages", ()), user(message)]
        if "input" in keys:
            start["input"] = message
        return start

    async def run(
        self,
        message: str | None = None,
        state: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run the workflow and return the final state; see `teff.graph.Graph.run`.

        Args:
            message, state: see `start`.
            **options: those of `Graph.run`. ``tools`` are added to those of the file, and ``hooks``
                are called after those of the file. With a ``checkpoint_id`` and no
                ``checkpointer``, the run is recorded where the file says; it remembers its
                `origin` under ``workflow`` beside what ``about`` says. Without message and state,
                a run that is recorded goes on.

        Raises:
            ConfigError: with the place in the file, where it is about a step.
            GraphInterrupt, LimitReached, Exception: as `Graph.run`.
        """
        if "resume" in options and (message is not None or state):
            raise ConfigError("resume= goes on with the stored state; leave out message and state.")
        if options.get("checkpoint_id") and options.get("checkpointer") is None:
            checkpointer = self.checkpointer
            if checkpointer is not None:
                options["checkpointer"] = checkpointer
        self._add_own(options)
        if options.get("checkpointer") is not None:
            options["about"] = {"workflow": self.origin, **options.get("about", {})}
        # A run that goes on has its state; a new one begins with that of the file.
        goes_on = "resume" in options or (
            message is None and not state and await _is_recorded(options)
        )
        start = None if goes_on else self.start(message, state)
        with self._places():
            return await self.graph.run(start, **options)

    async def turn(
        self,
        message: Any,
        *,
        checkpoint_id: str,
        checkpointer: Checkpointer | None = None,
        state: Mapping[str, Any] | None = None,
        messages_key: str = "messages",
        transient_keys: Iterable[str] = (),
        **options: Unpack[TurnOptions],
    ) -> TurnResult:
        """Take one message of a chat with the workflow; see `teff.graph.Graph.turn`.

        Args:
            message: what the user said, or the answer to an open question.
            checkpoint_id: which chat.
            checkpointer: where the chat is; by default, where the file says.
            state: laid over the initial state of the file, where the chat begins.
            messages_key, transient_keys: as for `Graph.turn`.
            **options: those of a turn; ``tools`` and ``hooks`` as in `run`.

        Raises:
            ConfigError: neither is given nor does the file say where chats are recorded; or, with
                the place in the file, something about a step.
            RunLocked, LimitReached, Exception: as `Graph.turn`.
        """
        store = checkpointer if checkpointer is not None else self.checkpointer
        if store is None:
            raise ConfigError(
                "a chat needs a checkpointer: give one, or add a `checkpoint` section to the file.",
                file=self._whole.file,
            )
        options["about"] = {"workflow": self.origin, **options.get("about", {})}
        self._add_own(options)
        with self._places():
            return await self.graph.turn(
                message,
                checkpointer=store,
                checkpoint_id=checkpoint_id,
                state={**self.initial, **(state or {})},
                messages_key=messages_key,
                transient_keys=transient_keys,
                **options,
            )

    def _add_own(self, options: RunOptions | TurnOptions) -> None:
        """Put the tools and the hooks of the file before those of a run."""
        options["tools"] = [*self.tools, *options.get("tools", ())]
        if self.hooks.references:
            options["hooks"] = both(self.hooks.resolve(), options.get("hooks"))

    @contextmanager
    def _places(self) -> Iterator[None]:
        """Give an error about a step its place in the file."""
        try:
            yield
        except ConfigError as error:
            place = self._located(error)
            if error.line is None and place.line is not None:
                error.file, error.line, error.column = place.file, place.line, place.column
            raise

    def check(
        self,
        *,
        known_keys: Iterable[str] = ("messages", "input"),
        default_provider: str | None = None,
        default_model: str | None = None,
    ) -> list[Finding]:
        """Return everything that looks wrong, without running anything.

        Args:
            known_keys: state keys that a run brings beside the initial ones.
            default_provider, default_model: what a run puts in place of those of the file.
        """
        return list(self._findings({*known_keys, *self.initial}, default_provider, default_model))

    def place_of(self, node_id: str) -> tuple[str, int | None, int | None]:
        """Return where the step stands that made a node: the file, the line and the column.

        Where that is not known, it is the file alone; line and column then are None.
        """
        part = self._references.part_of(node_id, self.graph)
        if part is None:
            return (self._whole.file, None, None)
        return (part.file, part.place.line, part.place.column)

    def hide(self, message: str) -> str:
        """Return a message without the values of environment variables that the file names."""
        return self._whole.environment.hide(message)

    def _findings(
        self, known_keys: set[str], provider: str | None, model: str | None
    ) -> Iterator[Finding]:
        defaults = ModelDefaults(provider=provider, model=model).filled_from(self.graph.defaults)
        tools = {tool.name: tool for tool in self.tools}
        wrong_names = [*self._references.problems(defaults, tools)]
        yield from (Finding.of(error, "error", "unknown-name") for error in wrong_names)
        if not wrong_names:
            undeclared = self.graph.undeclared_providers
            missing = missing_models_and_tools(self.graph, tools, defaults, undeclared=undeclared)
            yield from (
                Finding.of(self._located(error), "error", "models-and-tools", node=error.path)
                for error in missing
            )
        edges = self._whole["edges"].elements() if "edges" in self._whole else []
        for problem in self.graph.check(known_keys=known_keys):
            error = self._placed(problem, edges)
            yield Finding.of(error, problem.severity, problem.code, node=problem.node)
        for part, kind in find_secrets(self._whole):
            error = part.error(
                f"{part.path} holds what looks like {kind}.",
                "Put it into an environment variable, and write ${NAME} here.",
            )
            yield Finding.of(error, "warning", "secret-in-file")

    def _placed(self, problem: Problem, edges: Sequence[Part]) -> ConfigError:
        """Give a problem the place of its edge, or of the innermost step that is known."""
        if problem.edge is not None and not problem.within and edges:
            edge = edges[problem.edge]
            return (edge.find("condition") or edge).error(problem.message, problem.hint)
        graph: Graph | None = self.graph
        part: Part | None = None
        for name in (problem.node, *problem.within):
            if graph is None:
                break
            part = self._references.part_of(name, graph) or part
            graph = getattr(graph.nodes.get(name), "graph", None)
        if part is None:
            return self._located(problem.as_error())
        return part.error(problem.message, problem.hint)

    def _located(self, error: ConfigError) -> ConfigError:
        return self._references.located(error, self._whole, self.graph)


async def _is_recorded(options: RunOptions) -> bool:
    """Return whether there is anything of the run in its store."""
    store = options.get("checkpointer")
    if store is None or not options.get("checkpoint_id"):
        return False
    run_id, owner = options["checkpoint_id"], options.get("owner", "default")
    if isinstance(store, RunStore):
        summary = await store.get(run_id, owner=owner)
        return summary is not None and summary.records > 0
    return bool(await store.load(run_id, owner=owner))
