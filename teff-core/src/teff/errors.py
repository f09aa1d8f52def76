"""Every exception that Teff raises.

The tree::

    TeffError
    ├── ConfigError (KeyError, ValueError)   a wrong option, name, edge or file
    ├── StateError (TypeError, ValueError)   a value or an update that the state cannot take
    ├── WorkflowError (RuntimeError)         a run that cannot go on
    ├── GraphInterrupt                       a run that waits for a person
    ├── LimitReached (RuntimeError)          a bound of ``Limits``, where it is asked to raise
    ├── ProviderError                        a model call that failed
    │   ├── IncompleteStream                 … because the stream ended too early
    │   └── TruncatedOutput                  … because the answer was cut off
    ├── ContextLimitError (ValueError)       a conversation that is too long for its bound
    ├── StructuredOutputError (ValueError)   an answer that does not fit its schema
    ├── ToolError                            a tool that failed
    ├── CheckpointError
    │   ├── RunLocked, LeaseLost, GraphChanged, CheckpointCorrupt, RunFinished
    └── PluginError
        ├── PluginLoadError
        └── AmbiguousName

``NodeError`` is not raised: it is the value that an error edge's target finds in the state.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


__all__ = [
    "AmbiguousName",
    "CheckpointCorrupt",
    "CheckpointError",
    "ConfigError",
    "ContextLimitError",
    "GraphChanged",
    "GraphInterrupt",
    "IncompleteStream",
    "LeaseLost",
    "LimitReached",
    "NodeError",
    "PluginError",
    "PluginLoadError",
    "ProviderError",
    "RunFinished",
    "RunLocked",
    "StateError",
    "StructuredOutputError",
    "TeffError",
    "ToolError",
    "TruncatedOutput",
    "WorkflowError",
    "error_text",
    "suggest",
]


def suggest(name: str, known: Iterable[object]) -> str:
    """Say which known name was probably meant, as the end of a sentence.

    Returns ``" Did you mean 'max_rounds'?"`` where a name is near enough, else the list of the
    known names when it is short, else ``""``.

    >>> suggest("max_rund", ["max_rounds", "system"])
    " Did you mean 'max_rounds'?"
    """
    # What is no text is nobody's name; who asks is about to say something else about it.
    names = sorted({candidate for candidate in known if isinstance(candidate, str)})
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if not near:
        folded = {candidate.casefold(): candidate for candidate in names}
        near = [folded[name.casefold()]] if name.casefold() in folded else []
    if near:
        return f" Did you mean {near[0]!r}?"
    if names and len(names) <= 12:
        return f" Known: {', '.join(names)}."
    return ""


def error_text(error: BaseException) -> str:
    """Return the text of an exception; where its ``__str__`` fails, words that say so.

    >>> error_text(ValueError("no such row"))
    'no such row'
    """
    try:
        return str(error)
    except Exception as failure:
        return f"(its text cannot be told: __str__ raised {type(failure).__name__})"


class TeffError(Exception):
    """The root of every exception that Teff raises on purpose."""


class ConfigError(TeffError, KeyError, ValueError):
    """A wrong option, name, edge, condition, template or file, found before the first step.

    It is a ``KeyError`` and a ``ValueError`` too, and prints without the quotes of ``KeyError``.

    Attributes:
        path: where in the configuration, for example ``"steps[2].supervisor.max_rounds"``; or "".
        file: the workflow file, or "".
        line, column: the place in the file, counted from 1, or None.
        hint: the way out, as a sentence, or "".
    """

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        file: str = "",
        line: int | None = None,
        column: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.file = file
        self.line = line
        self.column = column
        self.hint = hint

    def __str__(self) -> str:
        place = self.file
        if self.line is not None:
            place += f":{self.line}" if place else f"line {self.line}"
            if self.column is not None:
                place += f":{self.column}"
        where = f"{place}: " if place else ""
        return f"{where}{self.message}{' ' + self.hint if self.hint else ''}"


class StateError(TeffError, TypeError, ValueError):
    """A value that the state cannot take, or an update that a key's reducer refuses."""


class WorkflowError(TeffError, RuntimeError):
    """A run that cannot go on: a command to an unknown node, a wrong use of a finished run."""


class NodeError:
    """What an error edge's target finds in the state under ``error``.

    ``to_state()`` gives the JSON form: ``node``, ``path``, ``type`` and ``message``, all text.
    """

    __slots__ = ("message", "node", "path", "type")

    def __init__(self, *, node: str, path: str, type: str, message: str) -> None:
        self.node = node
        self.path = path
        self.type = type
        self.message = message

    @classmethod
    def from_exception(cls, error: BaseException, *, node: str, path: str) -> NodeError:
        """Describe an exception that a node raised."""
        return cls(node=node, path=path, type=type(error).__name__, message=error_text(error))

    def to_state(self) -> dict[str, str]:
        """Return the JSON form that goes into the state."""
        return {"node": self.node, "path": self.path, "type": self.type, "message": self.message}

    def __repr__(self) -> str:
        return f"NodeError(node={self.node!r}, type={self.type!r}, message={self.message!r})"


class GraphInterrupt(TeffError):
    """A run has paused and waits for an answer.

    ``run()`` raises it with everything that is open; a node may raise it itself, with a key and a
    prompt, which is a short form of ``await ctx.interrupt(key, prompt)``.

    Attributes:
        key, prompt, node_id: of the first open question.
        interrupts: every open question, in the order in which they were asked; each has ``id``,
            ``key``, ``prompt``, ``path``, ``node_id``, ``choices`` and ``schema``.
        checkpoint_id: the id of the run, to resume it with; None without a checkpointer.
        result: the ``RunResult`` so far, or None where a node raised it.
    """

    #: A run is resumed by its root id alone; kept for code that looks for the older name.
    nested_checkpoint_id: None = None

    def __init__(
        self,
        key: str,
        prompt: str = "",
        node_id: str | None = None,
        checkpoint_id: str | None = None,
        *,
        interrupts: Sequence[Any] = (),
        result: Any = None,
    ) -> None:
        super().__init__(key, prompt)
        self.key = key
        self.prompt = prompt
        self.node_id = node_id
        self.checkpoint_id = checkpoint_id
        self.interrupts = tuple(interrupts)
        self.result = result

    def __str__(self) -> str:
        asked = f": {self.prompt}" if self.prompt else ""
        more = len(self.interrupts) - 1
        others = f" (and {more} more open questions)" if more > 0 else ""
        return f"the run waits for an answer to {self.key!r}{asked}{others}"


class LimitReached(TeffError, RuntimeError):
    """A bound of ``Limits`` ended the run, and the caller asked with ``on_limit="raise"`` to be told.

    Attributes:
        reason: the bound, for example ``"max_steps"``.
        result: the ``RunResult`` with the state so far.
    """

    def __init__(self, reason: str, *, result: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.result = result

    def __str__(self) -> str:
        return f"the run was stopped by its limit {self.reason}"


class ProviderError(TeffError):
    """A model call that failed, in the words of the server where it said any.

    Keys never appear in the message, the body or the ``repr``.

    Attributes:
        provider, model: who was asked.
        status: the HTTP status, or None where there was no reply.
        body: the server's reply, shortened to 2,000 characters, or "".
        retry_after: seconds the server asked to wait, or None.
        permanent: True where a retry of the same request cannot help.
        partial: the text that a stream had brought before it failed, or "".
        shown: True where a part of the answer was shown before, so that nobody is asked again.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        model: str = "",
        status: int | None = None,
        body: str = "",
        retry_after: float | None = None,
        permanent: bool = False,
        partial: str = "",
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status = status
        self.body = body[:2000]
        self.retry_after = retry_after
        self.permanent = permanent
        self.partial = partial
        self.shown = False


class IncompleteStream(ProviderError):
    """A stream ended before the server said that it was whole. ``partial`` holds the text so far."""


class TruncatedOutput(ProviderError):
    """An answer was cut off by the token limit where a whole one was needed. ``partial`` holds it."""


class ContextLimitError(TeffError, ValueError):
    """What a model must be sent is longer than it may be; no request was made.

    Attributes:
        tokens: how long it is, as estimated.
        limit: how long it may be.
    """

    def __init__(self, message: str, *, tokens: int = 0, limit: int = 0) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.limit = limit


class StructuredOutputError(TeffError, ValueError):
    """A model's answer did not fit the schema, after every re-ask.

    Attributes:
        schema: the JSON Schema that was asked for.
        content: the last answer.
        errors: what was wrong with it, one sentence each.
        attempts: how many answers were looked at.
    """

    def __init__(
        self, schema: Mapping[str, Any], content: str, errors: Sequence[str], attempts: int
    ) -> None:
        super().__init__(schema, content, errors, attempts)
        self.schema = schema
        self.content = content
        self.errors = list(errors)
        self.attempts = attempts

    def __str__(self) -> str:
        attempts = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        return f"the answer does not fit its schema after {attempts}: {'; '.join(self.errors)}"


class ToolError(TeffError):
    """A tool failed, or was called with arguments that it does not take. ``tool`` is its name."""

    def __init__(self, message: str, *, tool: str = "") -> None:
        super().__init__(message)
        self.tool = tool


class CheckpointError(TeffError):
    """A stored run cannot be used as asked. ``run_id`` names it."""

    def __init__(self, message: str, *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class RunLocked(CheckpointError):
    """Another run holds this id. Wait for it to end, or use another id."""


class LeaseLost(CheckpointError):
    """This run lost its lease to another one; nothing that it did since is recorded."""


class GraphChanged(CheckpointError):
    """The stored run was made by a graph that differs from this one."""


class CheckpointCorrupt(CheckpointError):
    """What was stored does not fit its checksum or its order."""


class RunFinished(CheckpointError):
    """The stored run has ended, and was started again with a different input. Use a new id."""


class PluginError(TeffError):
    """A plugin broke a rule while it ran. ``plugin`` and ``hook`` say which and where."""

    def __init__(self, message: str, *, plugin: str = "", hook: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin
        self.hook = hook


class PluginLoadError(PluginError):
    """A plugin that was named could not be loaded."""


class AmbiguousName(PluginError):
    """Two distributions offer one name; use ``distribution/name`` instead."""
