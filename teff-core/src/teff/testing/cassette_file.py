"""The file of a cassette: what was asked of a provider, and what it answered, as readable JSON."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from teff.errors import ConfigError, IncompleteStream, ProviderError, TruncatedOutput
from teff.harness.journaled import WAITING_FIELDS, reply_from_json, reply_to_json
from teff.provider import Capabilities, ChatDelta, ChatReply, ChatRequest
from teff.provider.keys import MASK, names_a_secret
from teff.testing.masking import masked

__all__ = [
    "Exchange",
    "Tape",
    "canonical",
    "outcome_to_json",
    "pieces_to_json",
    "read_tape",
    "request_to_json",
    "write_tape",
]

_VERSION = 1

_ERRORS = {cls.__name__: cls for cls in (IncompleteStream, TruncatedOutput, ProviderError)}
_DETAILS = ("provider", "model", "status", "body", "retry_after", "permanent")
_EMPTY_REPLY = reply_to_json(ChatReply())


@attrs.frozen(kw_only=True)
class Exchange:
    """One request, and what came of it.

    Attributes:
        request: as `request_to_json` gives it.
        outcome: the whole reply, or the error; None where a stream was left before its end.
        pieces: the pieces of a stream, without the last one; None where the answer came at once.
    """

    request: Mapping[str, Any]
    outcome: ChatReply | ProviderError | None
    pieces: Sequence[ChatDelta] | None


@attrs.frozen(kw_only=True)
class Tape:
    """The content of a cassette: the provider that was recorded, and its exchanges in order."""

    provider: str
    capabilities: Capabilities
    exchanges: Sequence[Exchange]


def canonical(value: Any) -> str:
    """Return the JSON text that equal values share, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True)


def request_to_json(request: ChatRequest, secrets: Iterable[str]) -> dict[str, Any]:
    """Return what is asked, without secrets, and without what is left at its default."""
    fields = attrs.asdict(request)
    empty = attrs.asdict(ChatRequest(model="", messages=()))
    asked = {
        name: value
        for name, value in fields.items()
        if name not in WAITING_FIELDS and (name not in empty or _differs(value, empty[name]))
    }
    if "options" in asked:
        asked["options"] = _without_named_secrets(asked["options"])
    result: dict[str, Any] = masked(asked, secrets)
    return result


def _differs(value: Any, default: Any) -> bool:
    return bool(value) if isinstance(default, list | tuple | dict) else value != default


def _without_named_secrets(value: Any) -> Any:
    """Return options without the values of those that are named like secrets, headers mostly."""
    if isinstance(value, Mapping):
        return {
            key: MASK
            if isinstance(value[key], str) and names_a_secret(str(key))
            else _without_named_secrets(value[key])
            for key in value
        }
    return [*map(_without_named_secrets, value)] if isinstance(value, list | tuple) else value


def outcome_to_json(outcome: ChatReply | ProviderError, secrets: Iterable[str]) -> dict[str, Any]:
    """Return a reply or an error, without secrets, as an entry of an exchange."""
    if isinstance(outcome, ChatReply):
        return {"reply": masked(_filled(reply_to_json(outcome), _EMPTY_REPLY), secrets)}
    kind = next(cls.__name__ for cls in type(outcome).__mro__ if cls.__name__ in _ERRORS)
    details = {
        name: getattr(outcome, name) for name in (*_DETAILS, "partial") if hasattr(outcome, name)
    }
    empty = dict.fromkeys(("provider", "model", "body", "partial"), "")
    kept = _filled(details, {**empty, "status": None, "retry_after": None, "permanent": False})
    return {"error": masked({"type": kind, "message": str(outcome), **kept}, secrets)}


def _filled(fields: Mapping[str, Any], empty: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value != empty[name]}


def pieces_to_json(pieces: Sequence[ChatDelta], secrets: Iterable[str]) -> dict[str, Any]:
    """Return the pieces of a stream, without secrets, as an entry of an exchange.

    Where a secret is spread over several pieces, these become one.
    """
    cut = [piece for piece in pieces if piece.text or piece.thinking]
    texts = [piece.text for piece in cut]
    whole = masked("".join(texts), secrets)
    if whole != "".join(masked(text, secrets) for text in texts):
        cut = [*(attrs.evolve(piece, text="") for piece in cut), ChatDelta(text=whole)]
    thoughts = [piece.thinking for piece in cut]
    whole = masked("".join(thoughts), secrets)
    if whole != "".join(masked(thought, secrets) for thought in thoughts):
        cut = [ChatDelta(thinking=whole), *(attrs.evolve(piece, thinking="") for piece in cut)]
    written = [
        _filled({"thinking": piece.thinking, "text": piece.text}, {"thinking": "", "text": ""})
        if piece.thinking
        else piece.text
        for piece in cut
        if piece.text or piece.thinking
    ]
    return {"pieces": masked(written, secrets)}


def write_tape(
    path: Path,
    *,
    provider: str,
    capabilities: Capabilities,
    exchanges: Sequence[Mapping[str, Any]],
) -> None:
    """Write a cassette in place of what was there, all of it or nothing.

    Args:
        path: where to; folders are made.
        provider: the name of the provider that was recorded.
        capabilities: what it says it can do.
        exchanges: each a ``request`` with a ``reply`` or an ``error``, and ``pieces``.
    """
    content = {
        "version": _VERSION,
        "provider": provider,
        "capabilities": attrs.asdict(capabilities),
        "exchanges": list(exchanges),
    }
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        # Half of a surrogate pair is written as the escape that JSON has for it.
        draft.write_bytes(text.encode("utf-8", "backslashreplace"))
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def read_tape(path: Path) -> Tape:
    """Read a cassette.

    Raises:
        ConfigError: there is none, it is damaged, or of another version.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"there is no cassette {path}.", hint="Record it with teff.testing.record."
        ) from None
    except ValueError as error:
        raise ConfigError(f"is no cassette: {error}", file=str(path)) from None
    version = data.get("version") if isinstance(data, dict) else None
    if version != _VERSION or isinstance(version, bool):
        what = f"version {version!r}" if version is not None else "no version"
        raise ConfigError(
            f"is a cassette of {what}, and this Teff reads version {_VERSION}.",
            file=str(path),
            hint="Record it again, or install the teff-core that wrote it.",
        )
    place = "provider"
    try:
        name = str(data["provider"])
        place = "capabilities"
        known = {field.name for field in attrs.fields(Capabilities)}
        said = {key: bool(data[place][key]) for key in data[place] if key in known}
        exchanges = []
        for number, entry in enumerate(data["exchanges"]):
            place = f"exchanges[{number}]"
            exchanges.append(_exchange(entry))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"is damaged at {place}: {type(error).__name__}: {error}",
            file=str(path),
            hint="Delete it and record it again.",
        ) from None
    return Tape(provider=name, capabilities=Capabilities(**said), exchanges=exchanges)


def _exchange(entry: Mapping[str, Any]) -> Exchange:
    pieces = entry.get("pieces")
    outcome: ChatReply | ProviderError | None = None
    if "reply" in entry:
        outcome = reply_from_json({**_EMPTY_REPLY, **entry["reply"]})
    elif "error" in entry:
        details = dict(entry["error"])
        outcome = _ERRORS[details.pop("type")](details.pop("message"), **details)
    elif pieces is None:
        raise ValueError("it has neither a reply nor an error")
    return Exchange(
        request=dict(entry["request"]),
        outcome=outcome,
        pieces=None if pieces is None else [_delta(piece) for piece in pieces],
    )


def _delta(piece: str | Mapping[str, str]) -> ChatDelta:
    if isinstance(piece, str):
        return ChatDelta(text=piece)
    return ChatDelta(text=piece.get("text", ""), thinking=piece.get("thinking", ""))
