"""Use an installed distribution as its user does first: import it and load what it offers.

Run by the Python of the environment it is installed in: ``python -I load_installed.py NAME``.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

__all__ = ["main"]


def main(name: str) -> None:
    """Import the package of distribution ``name`` and load each of its entry points."""
    package = "teff" if name == "teff-core" else name.replace("-", "_")
    module = importlib.import_module(package)
    installed = distribution(name)
    assert module.__version__ == installed.version
    assert Path(str(module.__file__)).is_relative_to(sysconfig.get_path("purelib"))
    for entry in installed.entry_points:
        print(f"{entry.group}: {entry.name} = {entry.load()!r}")


if __name__ == "__main__":
    main(sys.argv[1])
