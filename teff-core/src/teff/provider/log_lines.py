"""Keeps keys out of the log lines of httpx and httpcore.

They log no header that is sent, but what servers say: their status line and headers, which may repeat
the key, and the user and password of a SOCKS proxy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from teff.provider.keys import RecentSecrets, mask

__all__ = ["hide_in_logs"]

#: A filter counts for the lines of a logger itself, and not for those of the loggers below it.
_LOGGERS = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
)


class _Masking(logging.Filter):
    """Masks secrets in the lines that it is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets = RecentSecrets()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        masked = mask(text, self.secrets)
        if masked != text:
            record.msg, record.args = masked, ()
        return True


_masking = _Masking()


def hide_in_logs(secrets: Iterable[str]) -> None:
    """Show none of ``secrets`` in what httpx and httpcore log from now on."""
    _masking.secrets.add(secrets)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_masking)
