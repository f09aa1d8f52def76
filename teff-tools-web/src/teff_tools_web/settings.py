"""The options of ``fetch_url``."""

from __future__ import annotations

import attrs

__all__ = ["FetchSettings"]


@attrs.frozen(kw_only=True)
class FetchSettings:
    """What a fetch may do; the defaults are meant for URLs that a model chose.

    Attributes:
        allow_private: whether addresses that are not public may be reached: this machine, the local
            network, the metadata service of a cloud.
        allowed_ports: the ports that may be reached.
        timeout: seconds for everything, redirects and reading included.
        max_bytes: how much of a page is read, counted after decompression.
        max_redirects: how many redirects are followed.
    """

    allow_private: bool = False
    allowed_ports: tuple[int, ...] = (80, 443, 8080, 8443)
    timeout: float = attrs.field(default=20.0, validator=attrs.validators.gt(0))
    max_bytes: int = attrs.field(default=2 * 1024 * 1024, validator=attrs.validators.gt(0))
    max_redirects: int = attrs.field(default=5, validator=attrs.validators.ge(0))
