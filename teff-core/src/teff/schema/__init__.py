"""Annotated types at work: options into classes, types into JSON Schema, arguments into calls."""

from __future__ import annotations

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
