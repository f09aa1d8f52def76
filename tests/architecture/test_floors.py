"""Nothing in ``teff`` imports upward: rooms stand on floors, and a module uses only what is below.

On one floor a room may use those to its left. Imports inside functions count too; what stands
under ``TYPE_CHECKING`` does not, for it is never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "teff-core" / "src"

FLOORS = (
    ("lazy", "errors", "messages", "paths", "schema"),
    ("state", "conditions", "prompt"),
    ("plugins",),
    ("checkpoint", "provider", "tool", "skill", "memory"),
    ("runtime",),
    ("harness",),
    ("node",),
    ("graph",),
    ("flow",),
    ("workflow",),
    ("strategies", "cli", "testing"),
)
RANK = {room: rank for rank, room in enumerate(room for floor in FLOORS for room in floor)}
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}

# Modules that stand beside the rooms and belong to one: older import paths, and `python -m teff`.
PART_OF = {"stream": "runtime", "trace": "runtime", "__main__": "cli"}


def violations(source: Path) -> list[str]:
    """Return a line for every import in ``source/teff`` that breaks the rule."""
    found = []
    for path in sorted(source.glob("teff/**/*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        package = path.relative_to(source).parent.parts
        room = room_of(path.relative_to(source).with_suffix("").parts)
        where = path.relative_to(source)
        if room is None:
            found.append(f"{where}:1: is in no room; give it a place in FLOORS")
            continue
        for line, target in imports(tree, package):
            if problem := judge(room, target):
                found.append(f"{where}:{line}: {problem}")
    return found


def room_of(module: tuple[str, ...]) -> str | None:
    """Return the room of ``("teff", "node", "llm")``; "" for ``teff`` itself; None for neither."""
    if module in {("teff",), ("teff", "__init__")}:
        return ""
    name = PART_OF.get(module[1], module[1])
    return name if name in RANK else None


def judge(room: str, target: tuple[str, ...]) -> str:
    """Say what is wrong with an import of ``target`` from ``room``, or ""."""
    name = ".".join(target)
    if target[0] != "teff":
        return ""
    if room == "":
        loads_names = target[:2] == ("teff", "lazy")
        return "" if loads_names else f"imports {name}: `import teff` must load nothing else"
    if target == ("teff", "__version__"):
        return ""
    if target == ("teff",):
        return "" if room in FLOORS[-1] else "imports teff, which offers what is above"
    other = room_of(target)
    if not other:
        return f"imports {name}, which is no room: name the room it comes from"
    if RANK[other] <= RANK[room]:
        return ""
    if FLOOR[other] == FLOOR[room]:
        return f"imports {name}: {other!r} stands right of {room!r} on floor {FLOOR[room]}"
    return (
        f"imports {name} upward: {other!r} is on floor {FLOOR[other]}, "
        f"{room!r} on floor {FLOOR[room]}"
    )


def imports(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield line and dotted name of all that the module imports when it runs."""
    for node in executed(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            names = [(alias.name,) for alias in node.names] if module == ("teff",) else [()]
            yield from ((node.lineno, (*module, *name)) for name in names)
        elif isinstance(node, ast.Call) and called_name(node) in {"import_module", "__import__"}:
            texts = [argument for argument in node.args[:1] if isinstance(argument, ast.Constant)]
            yield from ((node.lineno, tuple(str(text.value).split("."))) for text in texts)


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every node but those under ``if TYPE_CHECKING:``."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test).split("."):
            for otherwise in child.orelse:
                yield from executed(otherwise)
        else:
            yield from executed(child)


def called_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def test_nothing_imports_upward() -> None:
    found = violations(SOURCE)
    assert not found, "\n" + "\n".join(found)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small sound tree that each test breaks in one place."""
    write(tmp_path, "__init__", "from typing import TYPE_CHECKING\n__version__ = '1'\n")
    write(tmp_path, "errors", "import json\n")
    write(tmp_path, "node/llm", "from teff.errors import TeffError\nfrom . import other\n")
    return tmp_path


def write(source: Path, module: str, text: str) -> None:
    path = source / "teff" / f"{module}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_sound_tree_has_no_violation(house: Path) -> None:
    assert violations(house) == []


@pytest.mark.parametrize(
    "line",
    [
        "from teff.graph.graph import Graph",
        "import teff.graph",
        "from teff import graph",
        "from ..graph import Graph",
        "import importlib; importlib.import_module('teff.graph')",
        "__import__('teff.graph.edge')",
        "from teff.graph import Graph as Hidden, Edge",
    ],
)
def test_an_upward_import_is_reported_with_file_line_and_floors(house: Path, line: str) -> None:
    write(house, "node/map", f"import json\n\n\ndef late() -> None:\n    {line}\n")
    (found,) = violations(house)
    assert found.startswith("teff/node/map.py:5: imports teff.graph")
    assert found.endswith("upward: 'graph' is on floor 7, 'node' on floor 6")


def test_rooms_of_one_floor_may_only_look_left(house: Path) -> None:
    write(house, "conditions/parse", "from teff.state import is_filled\n")
    assert violations(house) == []
    write(house, "state/frozen", "from teff.prompt import render_template\n")
    (found,) = violations(house)
    assert found == (
        "teff/state/frozen.py:1: imports teff.prompt: 'prompt' stands right of 'state' on floor 1"
    )


def test_type_checking_is_exempt_but_its_else_is_not(house: Path) -> None:
    guarded = "import typing\nif typing.TYPE_CHECKING:\n    from teff.flow import Flow\n"
    write(house, "prompt", guarded)
    assert violations(house) == []
    write(house, "prompt", f"{guarded}else:\n    from teff.flow import Flow\n")
    assert [line.partition(" imports")[0] for line in violations(house)] == ["teff/prompt.py:5:"]


def test_the_public_package_may_be_named_but_loads_no_room(house: Path) -> None:
    write(house, "cli/version", "import teff\n")
    write(house, "provider/http", "from teff import __version__\n")
    write(house, "__init__", "if TYPE_CHECKING:\n    from teff.flow import Flow as Flow\n")
    assert violations(house) == []
    write(house, "__init__", "from teff.errors import TeffError\n")
    (found,) = violations(house)
    assert found == "teff/__init__.py:1: imports teff.errors: `import teff` must load nothing else"


def test_names_of_the_public_package_are_imported_from_their_rooms(house: Path) -> None:
    write(house, "workflow/load", "from teff import Flow\n")
    (found,) = violations(house)
    assert found == (
        "teff/workflow/load.py:1: imports teff.Flow, which is no room: name the room it comes from"
    )


def test_older_import_paths_belong_to_the_room_they_show(house: Path) -> None:
    write(house, "stream", "from teff.runtime.events import StreamEvent\n")
    write(house, "trace", "from teff.node import Node\n")
    write(house, "tool/base", "from teff.stream import StreamEvent\n")
    assert [line.partition(" imports")[0] for line in violations(house)] == [
        "teff/tool/base.py:1:",
        "teff/trace.py:1:",
    ]


def test_a_module_outside_every_room_is_reported(house: Path) -> None:
    write(house, "helpers", "")
    assert violations(house) == ["teff/helpers.py:1: is in no room; give it a place in FLOORS"]
