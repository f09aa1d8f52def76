"""``checkpoint``: where a workflow file wants its runs kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, cast

import attrs

from teff.checkpoint import Checkpointer
from teff.errors import ConfigError
from teff.plugins import catalogue
from teff.schema.annotations import Field, class_fields, function_parameters, is_class_with_fields
from teff.workflow.default_store import make_default_folder
from teff.workflow.options import read_options
from teff.workflow.part import Part

__all__ = ["Store", "read_checkpoint"]

_PATH = "path"
#: The options that are places in the file system, where their types do not say so.
_PLACES = (_PATH, "folder")
#: What ``checkpoint`` stands for while it names no type.
_DEFAULT_TYPE = "sqlite"
#: What `sqlite3` takes for a database without a file.
_IN_MEMORY = ":memory:"


@attrs.frozen
class Store:
    """A checkpointer that is not made yet: nothing is opened before it is asked for.

    With ``has_default_path``, its file is in the folder ``.teff`` beside the workflow file.
    """

    factory: Any
    options: Mapping[str, Any]
    _part: Part = attrs.field(repr=False, eq=False)
    has_default_path: bool = False

    def open(self) -> Checkpointer:
        """Make the checkpointer.

        Raises:
            ConfigError: it refuses its options; with the place in the file.
        """
        options = dict(self.options)
        try:
            if self.has_default_path:
                options[_PATH] = make_default_folder(self._part.place.source.folder)
            return cast("Checkpointer", self.factory(**options))
        except ConfigError as error:
            raise self._part.located(error) from error.__cause__
        except (TypeError, ValueError, OSError) as error:
            raise self._part.error(f"the checkpointer cannot be made: {error}.") from error


def read_checkpoint(part: Part) -> Store:
    """Read ``checkpoint``: a type, and the options of the checkpointer of that type.

    Without a type it is ``sqlite``, whose ``path`` may be left out, too: see `DEFAULT_PATH`. A
    relative ``path`` starts from the folder of the file.

    Raises:
        ConfigError: an unknown type, an unknown or a missing option, or one of a wrong type.
    """
    if isinstance(part.value, str):
        message = "'checkpoint' must be a mapping, not text."
        raise part.error(message, f"Write `checkpoint: {{type: {part.value}}}`.")
    has_type = "type" in part.entries()
    name = part["type"].text() if has_type else _DEFAULT_TYPE
    with (part["type"] if has_type else part).errors_here():
        factory: Any = catalogue().load("teff.checkpointers", name)
    fields = {field.name: field for field in _fields(factory)}
    what = f"checkpoint {name!r}"
    options = read_options(
        part.without(["type"]), {name: field.type for name, field in fields.items()}, what=what
    )
    has_default_path = name == _DEFAULT_TYPE and _PATH not in options
    for missing in (field.name for field in fields.values() if field.required):
        if missing not in options and not (missing == _PATH and has_default_path):
            raise part.error(f"{what}: the option {missing!r} is missing.")
    for option, value in options.items():
        if isinstance(value, PurePath) or (option in _PLACES and isinstance(value, str)):
            options[option] = _from_folder(part, value)
    return Store(factory, options, part, has_default_path=has_default_path)


def _fields(factory: Any) -> tuple[Field, ...]:
    if is_class_with_fields(factory):
        return class_fields(factory)
    if isinstance(factory, type):
        own = factory.__init__ is not object.__init__  # type: ignore[misc]  # looked at, not called
        return function_parameters(factory.__init__)[1:] if own else ()  # type: ignore[misc]
    return function_parameters(factory)


def _from_folder(part: Part, value: str | PurePath) -> str | PurePath:
    if str(value) == _IN_MEMORY:
        return value
    return type(value)(part.place.source.folder / value)
