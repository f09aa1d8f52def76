"""Annotated types at work: options into classes, types into JSON Schema, arguments into calls."""

from typing import TYPE_CHECKING

from teff.lazy import lazy_names

if TYPE_CHECKING:
    from teff.schema.arguments import structure_arguments
    from teff.schema.from_types import json_schema_from_signature, json_schema_from_type
    from teff.schema.options import missing_fields, structure_fields
    from teff.schema.shape import Shape, shape_of
    from teff.schema.validate import SchemaValidator

__all__ = [
    "SchemaValidator",
    "Shape",
    "json_schema_from_signature",
    "json_schema_from_type",
    "missing_fields",
    "shape_of",
    "structure_arguments",
    "structure_fields",
]

_HOMES = {
    "teff.schema.arguments": ("structure_arguments",),
    "teff.schema.from_types": ("json_schema_from_signature", "json_schema_from_type"),
    "teff.schema.options": ("missing_fields", "structure_fields"),
    "teff.schema.shape": ("Shape", "shape_of"),
    "teff.schema.validate": ("SchemaValidator",),
}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
