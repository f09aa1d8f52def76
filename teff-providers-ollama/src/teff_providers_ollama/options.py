"""What can be set for a model of Ollama, checked here because the server checks none of it.

Ollama logs an option that it does not know, and goes on without it: ``max_tokens``, which is called
``num_predict`` there, would bound nothing.

Sources: ``Options``, ``Runner`` and ``ChatRequest`` in
https://github.com/ollama/ollama/blob/main/api/types.go and https://docs.ollama.com/modelfile
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Literal

from teff.errors import ConfigError, suggest

__all__ = [
    "EXTRA",
    "FIELDS",
    "LEVELS",
    "OPTIONS",
    "Thinking",
    "check_extra_options",
    "check_keep_alive",
    "check_options",
    "check_thinking",
]

#: Whether, or how much, a model reasons before it answers.
Thinking = bool | Literal["low", "medium", "high", "max"]

LEVELS = ("low", "medium", "high", "max")

#: Under this name stand options that are newer than the tables here; they are sent unchecked.
EXTRA = "extra_options"

_WHOLE, _NUMBER, _TRUTH, _TEXTS = "a whole number", "a number", "true or false", "a list of texts"
_COUNT = "a whole number of at least 1"

#: The options of a model, with what each of them takes.
OPTIONS = {
    # Of loading; another value than last time loads the model anew.
    "main_gpu": _WHOLE,
    "num_batch": _COUNT,
    "num_ctx": _COUNT,
    "num_gpu": _WHOLE,
    "num_thread": _WHOLE,
    "use_mmap": _TRUTH,
    # Of answering.
    "draft_num_predict": _WHOLE,
    "frequency_penalty": _NUMBER,
    "min_p": _NUMBER,
    "num_keep": _WHOLE,
    "num_predict": _WHOLE,
    "presence_penalty": _NUMBER,
    "repeat_last_n": _WHOLE,
    "repeat_penalty": _NUMBER,
    "seed": _WHOLE,
    "stop": _TEXTS,
    "temperature": _NUMBER,
    "top_k": _WHOLE,
    "top_p": _NUMBER,
    "typical_p": _NUMBER,
    # Of older servers.
    "embedding_only": _TRUTH,
    "f16_kv": _TRUTH,
    "logits_all": _TRUTH,
    "low_vram": _TRUTH,
    "mirostat": _WHOLE,
    "mirostat_eta": _NUMBER,
    "mirostat_tau": _NUMBER,
    "numa": _TRUTH,
    "penalize_newline": _TRUTH,
    "tfs_z": _NUMBER,
    "use_mlock": _TRUTH,
    "vocab_only": _TRUTH,
}

#: Fields of a request that stand beside its options.
FIELDS = {
    "format": "'json' or a JSON Schema",
    "keep_alive": "a duration",
    "logprobs": _TRUTH,
    "shift": _TRUTH,
    "think": "true, false or a level",
    "top_logprobs": _WHOLE,
    "truncate": _TRUTH,
}

#: What other servers call them.
_NAMES_ELSEWHERE = {
    "batch_size": "num_batch",
    "context": "num_ctx",
    "context_length": "num_ctx",
    "context_size": "num_ctx",
    "context_window": "num_ctx",
    "ctx_size": "num_ctx",
    "gpu_layers": "num_gpu",
    "json_schema": "format",
    "max_completion_tokens": "num_predict",
    "max_context": "num_ctx",
    "max_new_tokens": "num_predict",
    "max_output_tokens": "num_predict",
    "max_tokens": "num_predict",
    "n_ctx": "num_ctx",
    "n_gpu_layers": "num_gpu",
    "n_predict": "num_predict",
    "n_threads": "num_thread",
    "random_seed": "seed",
    "reasoning": "think",
    "reasoning_effort": "think",
    "repetition_penalty": "repeat_penalty",
    "response_format": "format",
    "stop_sequences": "stop",
    "thinking": "think",
    "threads": "num_thread",
}

#: Go's durations: https://pkg.go.dev/time#ParseDuration
_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)


def check_options(
    options: Mapping[Any, Any],
    *,
    provider: str,
    under: str = "options",
    known: Mapping[str, str] = OPTIONS,
) -> None:
    """Raise where one of ``options`` is not known, or its value is not what it takes.

    None is the value of an option that is left to the server.

    Args:
        options: as they are sent.
        provider: the provider's name, for messages.
        under: the name that they stand under.
        known: the names, with what each of them takes.

    Raises:
        ConfigError: see above; its ``path`` is the name of the option, after that of ``under``.
    """
    where = f"provider {provider!r}: {under}"
    _check_mapping(options, where)
    for name, value in options.items():
        if name not in known:
            raise ConfigError(
                f"{where}: Ollama knows no option {name!r}, and would ignore it.",
                path=f"{under}.{name}",
                hint=f"{_right_name(name, known)}What is newer than Teff goes into {EXTRA}.",
            )
        if value is not None:
            try:
                _check_value(name, value, known[name], where)
            except ConfigError as error:
                error.path = f"{under}.{name}"
                raise


def check_extra_options(options: object, *, provider: str) -> None:
    """Raise `ConfigError` where ``options`` is no mapping with texts as names."""
    _check_mapping(options, f"provider {provider!r}: {EXTRA}")


def check_thinking(think: object, *, where: str) -> None:
    """Raise `ConfigError` where ``think`` is neither a truth value nor one of `LEVELS`."""
    if isinstance(think, bool) or (isinstance(think, str) and think in LEVELS):
        return
    hint = suggest(think, LEVELS).strip() if isinstance(think, str) else ""
    if think in ("true", "false"):
        hint = "Write it without quotes."
    raise ConfigError(
        f"{where}: think is true, false, {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, not {think!r}.",
        path="think",
        hint=hint if "Known" not in hint else "",
    )


def check_keep_alive(duration: object, *, where: str) -> None:
    """Raise `ConfigError` where ``duration`` is neither seconds nor a text with units.

    Numbers are seconds, those below 0 for ever; texts look like ``"5m"`` or ``"1h30m"``.
    """
    if _is_number(duration) or (isinstance(duration, str) and _DURATION.fullmatch(duration)):
        return
    hint = 'Write seconds as a number, or a text with units such as "5m" or "1h30m".'
    if isinstance(duration, str) and re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", duration):
        hint = f'Write the number {duration} for seconds, or a text with a unit: "{duration}s".'
    raise ConfigError(
        f"{where}: keep_alive is no duration that Ollama takes: {duration!r}.",
        path="keep_alive",
        hint=hint,
    )


def _check_mapping(options: object, where: str) -> None:
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise ConfigError(f"{where}: a mapping from names to values is needed, not {options!r}.")


def _right_name(name: str, known: Mapping[str, str]) -> str:
    """Say what was probably meant, with a space behind it, or ``""``."""
    if name == "options":
        return "Write them side by side, without 'options' above them. "
    near = get_close_matches(name.lower(), [*known, *FIELDS, *_NAMES_ELSEWHERE], n=1)
    meant = _NAMES_ELSEWHERE.get(near[0], near[0]) if near else ""
    if meant in known:
        return f"Did you mean {meant!r}? "
    if meant in FIELDS:
        return f"Set {meant} for the provider itself, or in a node's provider_options. "
    return ""


def _check_value(name: str, value: object, kind: str, where: str) -> None:
    if name == "think":
        check_thinking(value, where=where)
    elif name == "keep_alive":
        check_keep_alive(value, where=where)
    elif not _FITS.get(kind, _is_format)(value):
        raise ConfigError(f"{where}: {name} is {kind}, not {value!r}.", path=name)


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return value.is_integer() if isinstance(value, float) else _is_number(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and _is_whole(value) and value >= 1


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _is_format(value: object) -> bool:
    return value == "json" or isinstance(value, Mapping)


_FITS: Mapping[str, Callable[[object], bool]] = {
    _WHOLE: _is_whole,
    _COUNT: _is_count,
    _NUMBER: _is_number,
    _TRUTH: _is_truth,
    _TEXTS: _is_texts,
}
