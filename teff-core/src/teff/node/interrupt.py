"""`Interrupt`: asks a person, and waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from teff.errors import ConfigError, GraphInterrupt
from teff.node.base import Node, options
from teff.prompt import compile_template
from teff.runtime import ExecContext
from teff.schema.validate import SchemaValidator

__all__ = ["GraphInterrupt", "Interrupt"]


@options
class Interrupt(Node):
    """Pause the run until a person has answered, and keep the answer under ``key``.

    ``run()`` raises `GraphInterrupt`; run again with the same ``checkpoint_id`` and
    ``resume={key: answer}``. Falsy answers are answers.

    Args:
        key: what is asked for, and the state key of the answer.
        prompt: a template for the question, see `teff.prompt`.
        choices: the only answers that are taken, or None for any.
        schema: a JSON Schema that the answer must fit.

    Raises:
        ConfigError: ``key`` is empty, there is no choice, or the schema is none; in a run, a template key is missing.
        GraphInterrupt: in a context made by hand.

    >>> import asyncio
    >>> from teff.checkpoint import MemoryCheckpointer
    >>> from teff.graph import Graph
    >>> ask = Interrupt(key="approved", prompt="Refund {amount}?", choices=["yes", "no"])
    >>> graph = Graph({"ask": ask}, edges=[], entry_point="ask")
    >>> run = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "order-7"}
    >>> try:
    ...     asyncio.run(graph.run({"amount": "5 EUR"}, **run))
    ... except GraphInterrupt as pause:
    ...     print(pause.prompt)
    Refund 5 EUR?
    >>> asyncio.run(graph.run(resume={"approved": "yes"}, **run))["approved"]
    'yes'
    """

    type = "interrupt"

    key: str = ""
    prompt: str = attrs.field(
        default="", validator=lambda self, _, prompt: self._compile_prompt(prompt)
    )
    choices: Sequence[Any] | None = None
    schema: Mapping[str, Any] | None = None

    def __attrs_post_init__(self) -> None:
        what = self._described(self.id)
        if not self.key:
            raise ConfigError(
                f"{what}: the option 'key' is missing or empty; it names what is asked for, and "
                "the state key of the answer.",
                path="key",
            )
        if self.choices is not None and not self.choices:
            raise ConfigError(
                f"{what}: 'choices' is empty, so no answer would be taken; leave it out to take any.",
                path="choices",
            )
        if self.schema is not None:
            SchemaValidator(self.schema, what=f"{what}: 'schema'")

    def _compile_prompt(self, prompt: str) -> None:
        self._prompt = compile_template(prompt)

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Ask; return the answer under ``key``."""
        prompt = self._prompt.render(state, name="prompt", node=ctx.node_id or self.id or "")
        answer = await ctx.interrupt(self.key, prompt, choices=self.choices, schema=self.schema)
        return {self.key: answer}

    def reads(self) -> Iterable[str]:
        """Return the keys that the prompt cannot do without."""
        return self._prompt.root_keys

    def writes(self) -> Iterable[str]:
        """Return the key of the answer."""
        return [self.key]

    def bounds_rounds(self) -> bool:
        """Say yes: each round waits for a person."""
        return True
