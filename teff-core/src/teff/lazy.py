"""Names of a package whose modules are loaded when the names are first asked for (PEP 562)."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["lazy_names"]


def lazy_names(
    package: str, names: dict[str, object], homes: Mapping[str, Iterable[str]]
) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package.

    Args:
        package: its name, ``__name__``.
        names: its names, ``globals()``; what was loaded is put there.
        homes: from modules to the names that they have.
    """
    home_of = {name: home for home, offered in homes.items() for name in offered}

    def load(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = names[name] = getattr(import_module(home), name)
        return value

    return load
