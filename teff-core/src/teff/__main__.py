"""``python -m teff``."""

from __future__ import annotations

import sys

from teff.cli import main

if __name__ == "__main__":
    sys.exit(main())
