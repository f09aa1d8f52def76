"""Settings of the tests of every distribution."""

from __future__ import annotations

try:
    from hypothesis import settings
except ImportError:  # the packaging tests run where only pytest is installed
    pass
else:
    # No test asserts time, so no example has a deadline either.
    settings.register_profile("teff", deadline=None)
    settings.load_profile("teff")
