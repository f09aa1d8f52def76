"""When a failed model call is tried again, and after how long."""

from __future__ import annotations

import random
from collections.abc import Collection

import attrs

from teff.errors import ProviderError

__all__ = ["RetryPolicy"]

#: Client errors that pass: request timeout, conflict, too many requests.
_PASSING = frozenset({408, 409, 429})


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How often, and how patiently.

    A call that failed is tried again after a connection error, 408, 409, 429 and every 5xx, unless
    the provider says that it is permanent. What the server asks for in ``Retry-After`` is kept to;
    where it asks for more than ``max_wait`` there is no further try. Else the wait doubles from half
    a second, up to 8 seconds, with up to a quarter taken off by chance, so that many clients do not
    come back at once.

    Source: the retry rules of the official OpenAI client,
    https://github.com/openai/openai-python (``_base_client.py``).

    Args:
        max_retries: tries after the first one.
        max_wait: seconds that are waited at most on a server's word.
        statuses: the HTTP statuses that pass, in place of those above, whatever the provider says
            of them; None keeps those above.
    """

    max_retries: int = 2
    max_wait: float = 120.0
    statuses: Collection[int] | None = None

    def wait_before_retry(self, error: ProviderError, attempt: int) -> float | None:
        """Return the seconds to wait before another try, or None where there is none.

        Args:
            error: what the last try failed with.
            attempt: the number of tries so far, from 1.
        """
        if attempt > self.max_retries or not self._passes(error):
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.max_wait else None
        patience: float = min(8.0, 0.5 * 2.0 ** (attempt - 1))
        return patience * (1.0 - 0.25 * random.random())

    def _passes(self, error: ProviderError) -> bool:
        status = error.status
        named = self.statuses is not None and status in self.statuses
        # Of 429 a quota that is used up is permanent, and who names 429 does not mean it.
        if error.permanent and (not named or status == 429):
            return False
        if status is None or self.statuses is not None:
            return status is None or named
        return status in _PASSING or status >= 500
