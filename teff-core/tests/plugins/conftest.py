"""A folder of small installed distributions, written for one test."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from teff.plugins import Catalogue
from teff.plugins.scan import installed_entries


class Site:
    """What pip leaves behind: modules, and a ``dist-info`` folder for each distribution."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, name: str = "lib") -> Path:
        path = self.root / name
        path.mkdir(exist_ok=True)
        return path

    def install(
        self,
        distribution: str,
        entry_points: Mapping[str, Mapping[str, str]],
        *,
        version: str = "1.0",
        modules: Mapping[str, str] | None = None,
        folder: str = "lib",
    ) -> Path:
        lib = self.folder(folder)
        info = lib / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        lines = []
        for group, names in entry_points.items():
            lines.append(f"[{group}]")
            lines.extend(f"{name} = {target}" for name, target in names.items())
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        for module, source in (modules or {}).items():
            (lib / f"{module}.py").write_text(textwrap.dedent(source))
        return info

    def catalogue(self, *folders: str) -> Catalogue:
        path = [str(self.folder(name)) for name in folders or ("lib",)]
        return Catalogue(entry_points=lambda: installed_entries(path))


@pytest.fixture(autouse=True)
def _nothing_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEFF_PLUGINS", raising=False)
    monkeypatch.delenv("TEFF_DISABLE_PLUGINS", raising=False)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    site = Site(tmp_path)
    monkeypatch.syspath_prepend(str(site.folder()))
    before = set(sys.modules)
    yield site
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
