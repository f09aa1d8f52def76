"""`Workflow`: what a workflow file says, ready to be checked and run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Unpack

import attrs

from teff.errors import ConfigError, TeffError
from teff.graph import Graph, RunOptions
from teff.graph.check import check_models_and_tools
from teff.messages import user
from teff.runtime import Limits, ModelDefaults, RunResult
from teff.tool import Tool
from teff.workflow.part import Part
from teff.workflow.references import References

__all__ = ["Finding", "Workflow"]


@attrs.frozen(kw_only=True)
class Finding:
    """One thing that is wrong with a workflow file, or looks so.

    Attributes:
        severity: ``error`` keeps the workflow from running; a ``warning`` does not.
        code: a short name of the kind, for programs.
        message: what is wrong, in a sentence.
        hint: the way out, in a sentence, or "".
        file, line, column: the place, as far as it is known.
    """

    severity: Literal["error", "warning"]
    code: str
    message: str
    hint: str = ""
    file: str = ""
    line: int | None = None
    column: int | None = None

    @classmethod
    def of(cls, error: ConfigError, severity: Literal["error", "warning"], code: str) -> Finding:
        """Return an error that has its place as a finding."""
        return cls(
            severity=severity,
            code=code,
            message=error.message,
            hint=error.hint,
            file=error.file,
            line=error.line,
            column=error.column,
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
    _whole: Part = attrs.field(repr=False, eq=False)
    _references: References = attrs.field(repr=False, eq=False)

    def start(
        self, message: str | None = None, state: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the state that a run starts from.

        Args:
            message: what a person says: it is added to ``messages`` and stands under ``input``.
            state: laid over the initial state of the file.
        """
        start = {**self.initial, **(state or {})}
        if message is not None:
            start["messages"] = [*start.get("messages", ()), user(message)]
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
            **options: those of `Graph.run`; ``tools`` are added to those of the file.

        Raises:
            ConfigError: with the place in the file, where it is about a step.
            GraphInterrupt, LimitReached, Exception: as `Graph.run`.
        """
        options["tools"] = [*self.tools, *options.get("tools", ())]
        if "resume" in options and (message is not None or state):
            raise ConfigError("resume= goes on with the stored state; leave out message and state.")
        # A run that goes on has its state; a new one begins with that of the file.
        start = None if "resume" in options else self.start(message, state)
        try:
            return await self.graph.run(start, **options)
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
            try:
                check_models_and_tools(
                    self.graph, tools, defaults, undeclared=self.graph.undeclared_providers
                )
            except ConfigError as error:
                yield Finding.of(self._located(error), "error", "models-and-tools")
            except TeffError as error:
                yield Finding.of(
                    self._whole.unplaced(ConfigError(str(error))), "error", "models-and-tools"
                )
        for problem in self.graph.check(known_keys=known_keys):
            yield Finding.of(self._located(problem.as_error()), problem.severity, problem.code)

    def _located(self, error: ConfigError) -> ConfigError:
        return self._references.located(error, self._whole, self.graph)
