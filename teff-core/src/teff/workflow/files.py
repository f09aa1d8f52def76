"""Reading the text of a workflow file, and saying what is there where it is not."""

from __future__ import annotations

from pathlib import Path

from teff.errors import ConfigError, suggest
from teff.workflow.yaml import MAX_CHARACTERS

__all__ = ["read_text"]


def read_text(path: Path) -> str:
    """Return the content of a workflow file.

    Raises:
        ConfigError: it cannot be read, is no file, too large, or not UTF-8.
    """
    file = str(path)
    try:
        if path.is_dir():
            raise ConfigError(
                f"{file} is a folder, not a workflow file.", hint=_files_in(path, path.name)
            )
        if path.stat().st_size > 4 * MAX_CHARACTERS:
            raise ConfigError(
                f"the file is larger than a workflow file may be ({4 * MAX_CHARACTERS:,} bytes).",
                file=file,
            )
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {file}.", hint=_files_in(path.parent, path.name)
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(
            "the file is not UTF-8.", file=file, line=line, hint="Save it as UTF-8."
        ) from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None


def _files_in(folder: Path, name: str) -> str:
    try:
        names = [entry.name for entry in folder.iterdir() if entry.suffix in (".yaml", ".yml")]
    except OSError:
        return ""
    return suggest(name, names).strip().replace("Known:", "Workflow files there:")
