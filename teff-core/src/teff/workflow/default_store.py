"""Where runs are recorded while nobody says where: ``.teff/runs.db``."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DEFAULT_PATH", "make_default_folder"]

#: The SQLite file, from the folder of the workflow file; for commands, from the current one.
DEFAULT_PATH = Path(".teff", "runs.db")


def make_default_folder(folder: Path) -> Path:
    """Make the folder ``.teff`` within ``folder``, and return the path of the SQLite file in it.

    What a run was told is private: others cannot look into the folder, and git ignores it.

    Raises:
        OSError: it cannot be made.
    """
    path = folder / DEFAULT_PATH
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.parent.joinpath(".gitignore").write_text("*\n", encoding="utf-8")
    return path
