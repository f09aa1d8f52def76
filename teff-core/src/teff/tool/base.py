"""What a tool is: a name, a description, a schema, and a function behind them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar

import attrs

from teff.errors import ConfigError, ToolError
from teff.provider.protocol import ToolSpec
from teff.schema.annotations import INJECTED, Field, function_parameters, injected_names
from teff.schema.arguments import structure_arguments
from teff.schema.docstring import read_docstring
from teff.schema.from_types import json_schema_from_signature
from teff.tool.threads import run_in_thread

__all__ = ["FunctionTool", "Tool"]

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[\w.-]{1,64}")


class Tool:
    """Something that a model can call.

    A subclass writes ``run`` (which may block: it runs in a thread) or ``async def arun`` with one
    annotated parameter for each argument; the JSON Schema and the reading of arguments come from
    that signature. A parameter ``__state__`` receives the state and ``__ctx__`` the execution
    context; the model sees neither.

    >>> class Weather(Tool):
    ...     description = "Say what the weather is."
    ...
    ...     def run(self, city: str, days: int = 1) -> str:
    ...         return f"rain in {city} for {days} days"
    >>> Weather().spec().schema["required"]
    ['city']

    Attributes:
        name: how the model calls it; the class's name in lower case by default.
        description: what the model is told; by default the docstring of the class, or of the
            method, up to its first section.
        schema: a JSON Schema of the arguments, in place of the derived one. With it, the method
            may take ``**kwargs``; the arguments are then only checked for names.
    """

    name: str = ""
    description: str = ""
    schema: Mapping[str, Any] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        parent = cls.__mro__[1]
        if cls.name in ("", parent.__name__.lower()):
            cls.name = cls.__name__.lower()
        if "description" not in vars(cls) and vars(cls).get("__doc__"):
            cls.description = read_docstring(cls.__doc__ or "").summary

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work. Override this, with named parameters, or `arun`."""
        raise ToolError(f"{type(self).__name__} has neither run nor arun: write one of them")

    async def arun(self, *args: Any, **kwargs: Any) -> Any:
        """Do the work without blocking. Override this, with named parameters, or `run`."""
        raise ToolError(f"{type(self).__name__} has neither run nor arun: write one of them")

    def spec(self) -> ToolSpec:
        """Return what a model is told.

        Raises:
            ConfigError: the signature cannot be told to a model; the message says why.
        """
        return self._spec

    async def call(
        self, arguments: Mapping[str, Any], *, state: Any = None, ctx: Any = None
    ) -> object:
        """Run the tool with a model's arguments, and return what it returns.

        Args:
            arguments: as the model sent them; they are read strictly by the types of the
                parameters.
            state: what ``__state__`` receives, where the tool declares it.
            ctx: what ``__ctx__`` receives, where the tool declares it.

        Raises:
            ToolError: the arguments do not fit, in words for the model; the tool was not run.
            Exception: whatever the tool raises.
        """
        return await self.invoke(self.read(arguments), state=state, ctx=ctx)

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a model's arguments as the types of the parameters; the first half of `call`.

        Raises:
            ToolError: they do not fit, in words for the model.
        """
        if not self._work.is_open:
            return structure_arguments(self._fields, arguments, tool=self.name)
        schema = self.schema or {}
        known = schema.get("properties", {})
        problems = [
            f"{name!r} is missing." for name in schema.get("required", ()) if name not in arguments
        ]
        is_closed = schema.get("additionalProperties") is False
        problems += [
            f"{name!r} is no parameter."
            for name in arguments
            if name in INJECTED or (is_closed and name not in known)
        ]
        if problems:
            raise ToolError(" ".join(problems), tool=self.name)
        return dict(arguments)

    async def invoke(
        self, values: Mapping[str, Any], *, state: Any = None, ctx: Any = None
    ) -> object:
        """Run the tool with arguments that `read` gave; the second half of `call`.

        What is not async runs in a thread.
        """
        work = self._work
        injectable = dict(zip(INJECTED, (state, ctx), strict=True))
        given = {**values, **{name: injectable[name] for name in work.injected}}
        if work.is_async:
            return await work.function(**given)
        result = await run_in_thread(work.function, given)
        return await result if inspect.isawaitable(result) else result

    def _implementation(self) -> Callable[..., Any]:
        cls = type(self)
        if cls.arun is not Tool.arun:
            return self.arun
        if cls.run is not Tool.run:
            return self.run
        raise ConfigError(f"the tool {self.name!r} ({cls.__name__}) has neither `run` nor `arun`.")

    @functools.cached_property
    def _work(self) -> _Work:
        return _Work.of(self._implementation(), self)

    @functools.cached_property
    def _fields(self) -> tuple[Field, ...]:
        return function_parameters(self._work.function)

    @functools.cached_property
    def _spec(self) -> ToolSpec:
        description = self.description
        if not description:
            # Not inspect.getdoc: it would find the docstring of Tool.run.
            description = read_docstring(self._work.function.__doc__ or "").summary
        schema = self.schema
        if schema is None:
            schema = json_schema_from_signature(self._work.function)
        return ToolSpec(name=self.name, description=description, schema=schema)


@attrs.frozen(kw_only=True)
class _Work:
    """How a tool's function is called."""

    function: Callable[..., Any]
    is_async: bool
    injected: frozenset[str]
    is_open: bool

    @classmethod
    def of(cls, function: Callable[..., Any], tool: Tool) -> _Work:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(
                f"the tool {tool.name!r} yields, and a tool gives one result.",
                hint="Collect the parts and return them.",
            )
        parameters = inspect.signature(function).parameters
        kinds = {parameter.kind for parameter in parameters.values()}
        is_open = tool.schema is not None and inspect.Parameter.VAR_KEYWORD in kinds
        return cls(
            function=function,
            is_async=inspect.iscoroutinefunction(inspect.unwrap(function)),
            injected=frozenset(INJECTED).intersection(parameters)
            if is_open
            else injected_names(function),
            is_open=is_open,
        )


class FunctionTool(Tool, Generic[P, R]):
    """A function as a tool; it is still called like the function itself.

    >>> def add(a: int, b: int) -> int:
    ...     return a + b
    >>> FunctionTool(add)(1, 2)
    3

    Args:
        function: a typed function, sync or async.
        name: how the model calls it; the function's name by default.
        description: what the model is told; the docstring up to its first section by default.
        schema: a JSON Schema of the arguments, in place of the derived one.

    Raises:
        ConfigError: the name is no tool name, or the function takes ``*args`` or ``**kwargs``.
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str = "",
        description: str = "",
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = check_tool_name(name or getattr(function, "__name__", ""))
        self.description = description
        self.schema = schema
        first = next(iter(inspect.signature(function).parameters), "")
        if first in ("self", "cls"):
            raise ConfigError(
                f"the tool {self.name!r} is a method without its object.",
                hint="Decorate a function, or write a subclass of Tool.",
            )
        _ = self._work  # a signature that no model could be told is refused here, not in a run

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: no reading of arguments, no thread."""
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"FunctionTool({self.name!r})"

    def _implementation(self) -> Callable[..., Any]:
        return self.__wrapped__


def check_tool_name(name: str) -> str:
    """Return a tool's name, or refuse one that providers would.

    Raises:
        ConfigError: it is empty, longer than 64 characters, or has other characters than letters,
            digits, ``_``, ``-`` and ``.``.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is no name for a tool.",
            path="name",
            hint="Use letters, digits, '_', '-' and '.', at most 64 of them.",
        )
    return name
