"""What is sent as ``think``.

The rule: what is set counts, for the node before the provider. Where nothing is set, an answer that
is held to choices or to a schema is asked for without thinking, and else the server decides, which
lets every model think that can. A server may hold the thinking to the schema as well, which leaves
no answer or a broken one; said explicitly, it does not
(https://github.com/ollama/ollama/issues/11545, https://github.com/ollama/ollama/issues/10929).

Families that know levels only get a level instead of a truth value, which they would ignore:
``"low"`` for false, since they cannot stop thinking, and ``"medium"`` for true
(https://docs.ollama.com/capabilities/thinking).
"""

from __future__ import annotations

from teff_providers_ollama.options import Thinking

__all__ = ["thinking_to_send"]

#: Parts of the names of models that take levels, and ignore truth values.
_LEVELS_ONLY = ("gpt-oss", "gptoss")


def thinking_to_send(
    model: str, think: Thinking | None, *, held_to_format: bool
) -> Thinking | None:
    """Return what to send as ``think``, or None to leave it out.

    >>> thinking_to_send("qwen3:8b", None, held_to_format=True)
    False
    >>> thinking_to_send("gpt-oss:20b", None, held_to_format=True)
    'low'

    Args:
        model: the model's name.
        think: what is set, or None.
        held_to_format: whether the answer is held to choices or to a schema.
    """
    if think is None and held_to_format:
        think = False
    if isinstance(think, bool) and _takes_levels_only(model):
        return "medium" if think else "low"
    return think


def _takes_levels_only(model: str) -> bool:
    return any(family in model.lower() for family in _LEVELS_ONLY)
