"""`ModelNode` and `AssistantNode`: the options of nodes that ask a model, and that let it use tools."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from teff.errors import ConfigError
from teff.harness import (
    CacheOption,
    Fallback,
    Harness,
    HarnessSettings,
    ModelCallback,
    TokenCallback,
    UseTools,
    cache_of,
    checked_fallbacks,
    named_tools,
    offered_tools,
    tools_in_scope,
)
from teff.memory import MemoryConfig, memory_text
from teff.messages import Message, last_user_message
from teff.node.base import Node, options
from teff.node.skilled import SkilledNode
from teff.prompt import compile_template
from teff.provider import ChatReply, ToolSpec
from teff.runtime import ExecContext
from teff.schema.options import missing_fields, structure_fields
from teff.tool import Tool

__all__ = ["AssistantNode", "ModelNode", "Overlay", "StopCondition"]

#: Says of a reply whether a loop of tool calls ends with it; a plain or an async function.
StopCondition: TypeAlias = Callable[[ChatReply], Awaitable[bool] | bool]


def _at_least(lowest: float) -> Any:
    return attrs.validators.optional(attrs.validators.ge(lowest))


def _is_cache(node: object, field: attrs.Attribute[Any], value: CacheOption) -> None:
    try:
        cache_of(value)
    except ConfigError as error:
        told = error.message.partition(": ")[2].rstrip(".")
        raise ValueError(f"'cache' {told}") from error


def _are_statuses(node: object, field: attrs.Attribute[Any], value: Sequence[int] | None) -> None:
    for status in value or ():
        if not 400 <= status <= 599:
            raise ValueError(f"'retry_on' holds {status}, which is no HTTP status of a failure")


def _as_fallbacks(given: Sequence[Fallback] | str | None) -> tuple[Fallback, ...]:
    try:
        return checked_fallbacks(given)
    except ConfigError as error:
        told = f"{error.message.partition(': ')[2]} {error.hint}".rstrip(".")
        raise ValueError(f"'fallbacks' {told}") from error


@options
class ModelNode(Node):
    """A node that asks a model; the base of `LLM`, `ReActAgent` and `Supervisor`.

    Args:
        model: the model's name; the flow's ``default_model`` where it is empty.
        provider: the provider's name; the flow's ``default_provider`` where it is empty.
        temperature, max_tokens: None leaves them to the server.
        timeout: seconds for a call, for a stream between two events; the provider's where it is
            None.
        deadline: seconds for a whole call, a stream too, however lively it is, with its retries and
            fallbacks; None sets no end.
        http_max_retries: how often a call that failed for a passing reason is tried again.
        max_retry_wait: seconds that are waited at most where the server says how long; beyond,
            there is no further try.
        retry_on: the HTTP statuses that pass; None is 408, 409, 429 and every 5xx.
        fallbacks: what is asked in turn where the model fails before it has shown anything:
            ``"model"`` of the same provider, ``"provider/model"``, or a mapping with both.
        cache: keep answers and ask no question twice: true for the length of this process, the
            path of a file, or a `teff.harness.ReplyCache`.
        max_parallel: how many calls of one provider run at once.
        max_context_tokens, max_context_messages: how much of the conversation is sent: whole
            exchanges, the newest, and the system text always; tokens are estimated.
        on_llm: hears of each answer: provider, model, tokens of the prompt and of the answer,
            milliseconds; a plain or an async function.
        base_url, api_key_env, chat_path, auth_header, auth_prefix: replace those of the provider
            for this node.
        provider_options: settings of the provider, sent as they are.
    """

    model: str = ""
    provider: str = ""
    temperature: float | None = attrs.field(default=None, validator=_at_least(0))
    max_tokens: int | None = attrs.field(default=None, validator=_at_least(1))
    timeout: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    deadline: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    http_max_retries: int = attrs.field(default=2, validator=attrs.validators.ge(0))
    max_retry_wait: float = attrs.field(default=120.0, validator=attrs.validators.ge(0))
    retry_on: Sequence[int] | None = attrs.field(default=None, validator=_are_statuses)
    fallbacks: Sequence[Fallback] = attrs.field(default=(), converter=_as_fallbacks)
    cache: CacheOption = attrs.field(default=None, validator=_is_cache)
    max_parallel: int | None = attrs.field(default=None, validator=_at_least(1))
    max_context_tokens: int | None = attrs.field(default=None, validator=_at_least(1))
    max_context_messages: int | None = attrs.field(default=None, validator=_at_least(1))
    on_llm: ModelCallback | None = None
    base_url: str = ""
    api_key_env: str = ""
    chat_path: str = ""
    auth_header: str = ""
    auth_prefix: str | None = None
    provider_options: Mapping[str, Any] = attrs.field(factory=dict)

    def harness(self, ctx: ExecContext) -> Harness:
        """Return the harness for the calls of one step.

        Raises:
            ConfigError: no provider or model is named, here or as a default, or it is unknown.
        """
        return Harness.for_step(
            ctx,
            provider=self.provider,
            model=self.model,
            **self.harness_settings(),
        )

    def harness_settings(self) -> HarnessSettings:
        """Return how the model is asked, from the options of this node."""
        overrides = {
            name: value
            for name in ("base_url", "api_key_env", "chat_path", "auth_header", "auth_prefix")
            if (value := getattr(self, name)) not in ("", None)
        }
        return HarnessSettings(
            overrides=overrides,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            timeout=self.timeout,
            deadline=self.deadline,
            max_retries=self.http_max_retries,
            max_retry_wait=self.max_retry_wait,
            retry_on=self.retry_on,
            fallbacks=self.fallbacks,
            cache=self.cache,
            max_parallel=self.max_parallel,
            max_context_tokens=self.max_context_tokens,
            max_context_messages=self.max_context_messages,
            on_llm=self.on_llm,
            options=self.provider_options,
        )

    def asks_model(self) -> tuple[str | None, str | None] | None:
        """Return the provider and the model that are named here."""
        return self.provider or None, self.model or None

    def model_fallbacks(self) -> Iterable[Fallback]:
        """Return what is asked where that model fails."""
        return self.fallbacks


@attrs.frozen(kw_only=True)
class Overlay:
    """What is laid over the conversation for one request, and never stored.

    Attributes:
        system: the system text, or "".
        tools: what may be carried out.
        offered: what the model is told of them; ``ask_human`` too.
    """

    system: str = ""
    tools: Sequence[Tool] = ()
    offered: Sequence[ToolSpec] = ()


def _as_memory(given: MemoryConfig | Mapping[str, Any] | None) -> MemoryConfig | None:
    if not isinstance(given, Mapping):
        return given
    options: dict[str, Any] = dict(structure_fields(MemoryConfig, given, what="memory"))
    for name in missing_fields(MemoryConfig, options):
        raise ConfigError(f"memory: the option {name!r} is missing.", path=name)
    return MemoryConfig(**options)


@options
class AssistantNode(ModelNode, SkilledNode):
    """A node that asks a model which may call tools; the base of `LLM` and `ReActAgent`.

    Args:
        system: a template for the system text; laid over the request, never stored.
        use_tools: names of tools, ``"all"`` for those of the run, or None for none.
        max_tool_rounds: after so many rounds of calls the model is asked without tools.
        stream: emit ``token`` events while the answer comes, where somebody listens.
        on_token: hears each piece; a plain or an async function, which is awaited.
        skills, skill_dir, skill_mount: see `SkilledNode`; they narrow the tools and never add any
            but the one that loads skills.
        parse_text_tool_calls: read calls that the model wrote into its text, as small models do.
        stop_when: takes each reply and says whether it is the last: calls in it are not carried out.
        memory: a `MemoryConfig`, or its options: what fits the user's last words is recalled and
            laid over the request, never stored.
    """

    system: str = ""
    use_tools: UseTools = None
    max_tool_rounds: int = attrs.field(default=10, validator=attrs.validators.ge(1))
    stream: bool = True
    on_token: TokenCallback | None = None
    parse_text_tool_calls: bool = True
    stop_when: StopCondition | None = None
    memory: MemoryConfig | Mapping[str, Any] | None = attrs.field(
        default=None, converter=_as_memory
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._system = compile_template(self.system)

    def harness_settings(self) -> HarnessSettings:
        """Return how the model is asked, from the options of this node."""
        settings = super().harness_settings()
        settings["parse_text_tool_calls"] = self.parse_text_tool_calls
        return settings

    async def overlay(
        self,
        ctx: ExecContext,
        state: Mapping[str, Any],
        messages: Sequence[Message | Mapping[str, Any]],
    ) -> Overlay:
        """Return what is laid over the request of one visit: the one place where that is decided.

        Args:
            ctx: of the visit.
            state: for the templates.
            messages: what is asked; memories are looked up by the user's last words in it.

        Raises:
            ConfigError: an unknown tool.
            StateError: a key of the system template is missing.
        """
        tools = self._skills.narrowed(tools_in_scope(ctx, self.use_tools))
        loader = self._skills.tools()
        texts = [
            self._system.render(state, name="system", node=ctx.node_id),
            self._skills.system_text(),
            await self._recalled(ctx, state, last_user_message(messages)),
        ]
        return Overlay(
            system="\n\n".join(text for text in texts if text),
            tools=[*tools, *loader],
            offered=[
                *offered_tools(tools, self.use_tools),
                *(tool.spec() for tool in loader),
            ],
        )

    async def is_last(self, reply: ChatReply) -> bool:
        """Say whether a loop of tool calls ends with ``reply``."""
        if not reply.tool_calls or self.stop_when is None:
            return not reply.tool_calls
        says = self.stop_when(reply)
        return bool(await says if inspect.isawaitable(says) else says)

    def uses_tools(self) -> Iterable[str]:
        """Return the names of the tools that must be there."""
        return named_tools(self.use_tools)

    async def _recalled(self, ctx: ExecContext, state: Mapping[str, Any], asked: str) -> str:
        """Return what memory holds for the user's last words."""
        memory = self.memory
        if not isinstance(memory, MemoryConfig):
            return ""
        of_the_run = {"owner": ctx.owner, "checkpoint_id": ctx.checkpoint_id, "run_id": ctx.run_id}
        values = {name: value for name, value in of_the_run.items() if value is not None}
        # Recorded, so that a run that goes on asks what it asked before, whatever came in since.
        return await ctx.once(
            "memory",
            lambda: memory_text(memory, asked, {**state, **values}, node=ctx.node_id),
        )
