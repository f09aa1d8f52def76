"""The JSON Schema of workflow files, for editors.

It is made from the same options and types that files are read with. What it cannot know is left to
``teff check``: names of providers, tools and steps, conditions, templates, and what a plugin takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from teff.node import default_registry
from teff.node.delegation import SubAgent
from teff.node.transform_actions import ACTIONS
from teff.runtime import Limits, Price
from teff.state.keys import KEY_OPTIONS
from teff.state.reducers import NAMED
from teff.workflow.classic import EDGE, NODE
from teff.workflow.containers import RETRY
from teff.workflow.delegation import SUB_AGENT, SUB_AGENT_WITH_SOURCE
from teff.workflow.document import KEYS, NESTED_KEYS
from teff.workflow.hooks import HOOKS
from teff.workflow.idiom import Idiom
from teff.workflow.nodes import PLAIN_TYPES
from teff.workflow.option_schema import options_schema, type_schema
from teff.workflow.options import fields_of
from teff.workflow.pieces import LEADER, ROLE
from teff.workflow.questions import CLASSIFIER, STRATEGY
from teff.workflow.steps import IDIOMS

__all__ = ["workflow_schema"]

_Schema = dict[str, Any]

_STEPS: Final[_Schema] = {"$ref": "#/$defs/steps"}
#: A text that may be written as a number or a truth value.
_TEXT: Final[_Schema] = {"type": ["string", "number", "boolean"]}
_SCALAR: Final[_Schema] = {"type": ["string", "number", "boolean", "null"]}
_REFERENCE: Final[_Schema] = {"type": "string", "pattern": r"^[^\s:]+:[^\s:]+$"}

#: What stands under the keys that hold steps, or are written in a form of their own.
_PARTS: Mapping[str, _Schema] = {
    "agents": {"type": "object", "additionalProperties": _STEPS, "minProperties": 1},
    "any_mapping": {"type": "object"},
    "branches": {
        "anyOf": [
            {"type": "array", "items": _STEPS, "minItems": 1},
            {"type": "object", "additionalProperties": _STEPS, "minProperties": 1},
        ]
    },
    "cases": {"type": "array", "items": {"$ref": "#/$defs/case"}, "minItems": 1},
    "classifier": {"$ref": "#/$defs/classifier"},
    "graph": {"$ref": "#/$defs/graph"},
    "leader": {"$ref": "#/$defs/leader"},
    "names_or_agents": {
        "anyOf": [
            {"type": "array", "items": _TEXT},
            {"type": "object", "additionalProperties": _STEPS, "minProperties": 1},
            {"type": "null"},
        ]
    },
    "node_type": {"$ref": "#/$defs/node_type"},
    "roles": {"$ref": "#/$defs/roles"},
    "routes": {"type": "array", "items": {"$ref": "#/$defs/route"}},
    "steps": _STEPS,
    "strategy": {"$ref": "#/$defs/strategy"},
    "strategy_or_name": {
        "anyOf": [type_schema(STRATEGY["strategy"]), {"$ref": "#/$defs/strategy"}]
    },
    "sub_agents": {"$ref": "#/$defs/sub_agents"},
    "text": _TEXT,
    "token_or_steps": {"anyOf": [_TEXT, _STEPS]},
    "value_or_values": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}]},
}

_ABOUT: Mapping[str, str] = {
    "name": "A name for people.",
    "description": "A description for people.",
    "include": "Other files whose steps, edges, tools and settings are added to those of this one.",
    "default_provider": "The provider of steps that name none.",
    "default_model": "The model of steps that name none.",
    "providers": "Providers with options of their own, by name.",
    "state": "The values that a run starts from, and what is known of the keys of the state.",
    "tools": "The tools of the run: names, or names with options.",
    "limits": "Bounds of a run and everything nested in it.",
    "prices": "What a million tokens cost, by model or by provider/model.",
    "checkpoint": "Where runs with an id are recorded.",
    "hooks": "Functions that are told of every node.",
    "steps": "What is done, one step after the other.",
    "edges": "The ways between steps that have an id and a type.",
}


def workflow_schema() -> _Schema:
    """Return the JSON Schema (2020-12) of workflow files.

    >>> schema = workflow_schema()
    >>> "llm" in schema["$defs"]["step"]["properties"]
    True
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Teff workflow",
        **_document(KEYS),
        "anyOf": [{"required": ["steps"]}, {"required": ["include"]}],
        "$defs": {**_definitions(), "graph": {**_document(NESTED_KEYS), "required": ["steps"]}},
    }


def _document(keys: Iterable[str]) -> _Schema:
    """Return the schema of a whole file, or of a graph inside of a step."""
    node = {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1}
    step = {"type": "array", "items": {"$ref": "#/$defs/step"}, "minItems": 1}
    typed = {
        "type": "object",
        "required": ["id", "type"],
        "properties": {"type": {"not": {"type": "object"}}},
        "not": {
            "anyOf": [{"required": [name]} for name in IDIOMS if name not in ("type", "retry")]
        },
    }
    with_types = {"properties": {"steps": {"contains": typed}}, "required": ["steps"]}
    sections = _sections()
    properties = {key: {"description": _ABOUT[key], **sections.get(key, {})} for key in keys}
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "if": {"anyOf": [{"required": ["edges"]}, with_types]},
        "then": {"properties": {"steps": node}},
        "else": {"properties": {"steps": step}},
    }


def _sections() -> dict[str, _Schema]:
    include = {"anyOf": [_TEXT, _mapping({"path": _TEXT, "prefix": _TEXT}, ["path"])]}
    bound = {"type": "integer", "minimum": 1}
    provider = {"type": "object", "properties": {"type": _TEXT, "max_parallel": bound}}
    tool = _mapping({"name": _TEXT, "config": {"type": "object"}}, ["name"])
    hook = {"anyOf": [_REFERENCE, {"type": "array", "items": _REFERENCE}]}
    return {
        **dict.fromkeys(("name", "description", "default_provider", "default_model"), _TEXT),
        "include": {"anyOf": [*include["anyOf"], {"type": "array", "items": include}]},
        "providers": {
            "anyOf": [
                {"type": "object", "additionalProperties": provider},
                {"type": "array", "items": {**provider, "required": ["name"]}},
            ]
        },
        "state": _state(),
        "tools": {"type": "array", "items": {"anyOf": [_TEXT, tool]}},
        "limits": options_schema(fields_of(Limits), [Limits]),
        "prices": {
            "type": "object",
            "additionalProperties": {
                **options_schema(fields_of(Price), [Price]),
                "required": sorted(fields_of(Price)),
            },
        },
        "checkpoint": {
            "type": "object",
            "properties": {"type": {**_TEXT, "default": "sqlite"}},
        },
        "hooks": _mapping(dict.fromkeys(HOOKS, hook)),
        "edges": {"type": "array", "items": {"$ref": "#/$defs/edge"}},
    }


def _state() -> _Schema:
    reducer = {"enum": list(NAMED)}
    key = _mapping(
        {
            **{option: {} for option in KEY_OPTIONS},
            "reducer": reducer,
            "required": {"type": "boolean"},
            "enum": {"type": "array", "minItems": 1},
        }
    )
    return {
        **_mapping(
            {
                "initial": {"type": "object"},
                "schema": {
                    "type": "object",
                    "additionalProperties": {"anyOf": [{"type": ["string", "null"]}, key]},
                },
                "reducers": {"type": "object", "additionalProperties": reducer},
                "validate": {"enum": ["off", "warn", "error"]},
            }
        ),
        "dependentRequired": {"validate": ["schema"]},
    }


def _definitions() -> dict[str, _Schema]:
    idioms = {f"idiom_{name}": _idiom(idiom) for name, idiom in IDIOMS.items()}
    types_ = _types()
    idioms["idiom_type"]["allOf"] = _options_by_type(types_)
    retry = {**RETRY, "enabled": bool}
    step = _step()
    return {
        **idioms,
        **{f"type_{name}": schema for name, schema in types_.items()},
        "case": _mapping({"value": {"type": _SCALAR["type"]}, "steps": _STEPS}, ["value", "steps"]),
        "classifier": options_schema(CLASSIFIER, ()),
        "edge": _mapping(
            {**dict.fromkeys(EDGE, _TEXT), "condition": {"type": [*_TEXT["type"], "null"]}},
            ["from", "to"],
        ),
        "leader": options_schema(LEADER, IDIOMS["supervisor"].about),
        "node": _node(types_, ["id", "type"]),
        "node_type": {"anyOf": [{"enum": default_registry.list()}, _TEXT]},
        "retry": options_schema(retry, IDIOMS["retry"].about),
        "roles": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "anyOf": [
                    options_schema(ROLE, IDIOMS["agent_step"].about),
                    {"type": "array", "items": {"$ref": "#/$defs/inner"}, "minItems": 1},
                    {"type": "null"},
                ]
            },
        },
        "route": _mapping(
            {"when": {"type": ["string", "number"]}, "goto": {"type": ["string", "number"]}},
            ["when", "goto"],
        ),
        "step": step,
        # A type that is text is a node; the idiom of that name has a mapping.
        "inner": {
            "if": {"properties": {"type": {"type": "string"}}, "required": ["type"]},
            "then": _node(types_, ["type"]),
            "else": {"$ref": "#/$defs/step"},
        },
        "steps": {
            "if": {"type": "array"},
            "then": {"items": {"$ref": "#/$defs/inner"}, "minItems": 1},
            "else": {"$ref": "#/$defs/inner"},
        },
        "strategy": _options_with(STRATEGY, {"llm": {"$ref": "#/$defs/classifier"}}),
        "sub_agents": {
            "anyOf": [
                {"type": "object", "additionalProperties": _sub_agent(), "minProperties": 1},
                {"type": "array", "items": _sub_agent(named=True), "minItems": 1},
            ]
        },
    }


def _sub_agent(*, named: bool = False) -> _Schema:
    """Return the schema of an agent that tasks are given to: a role, or something else that runs."""
    name, said = ({"name": _TEXT}, ["name"]) if named else ({}, [])
    about = IDIOMS["agent_step"].about
    of_all = [SubAgent, *about]
    runs: dict[str, _Schema] = {
        "steps": _STEPS,
        "node": _STEPS,
        "file": _TEXT,
        "graph": {"$ref": "#/$defs/graph"},
        "role": options_schema(ROLE, about, ["system"]),
    }
    role = options_schema(SUB_AGENT, [*about, SubAgent], ["description", "system", *said])
    others = [
        (source, options_schema(fields, of_all, ["description", source, *said]))
        for source, fields in SUB_AGENT_WITH_SOURCE.items()
    ]
    return {
        "anyOf": [
            {**role, "properties": {**name, **role["properties"]}},
            *(
                {**schema, "properties": {**name, source: runs[source], **schema["properties"]}}
                for source, schema in others
            ),
        ]
    }


def _options_with(fields: Mapping[str, Any], parts: Mapping[str, _Schema]) -> _Schema:
    schema: _Schema = options_schema(fields, ())
    return {**schema, "properties": {**schema["properties"], **parts}}


def _idiom(idiom: Idiom, *, without: Iterable[str] = ()) -> _Schema:
    """Return the schema of what stands under an idiom."""
    if idiom.value == "text":
        return _TEXT
    if idiom.value == "steps":
        return _STEPS
    schema: _Schema = options_schema(idiom.fields, idiom.about, idiom.needed)
    properties = {**schema["properties"]}
    for name, kind in idiom.parts.items():
        said = properties.get(name, {})
        properties[name] = {**_PARTS[kind], **{k: said[k] for k in said if k == "description"}}
    if "action" in properties and "template" in properties:
        properties["action"] = {**properties["action"], "enum": list(ACTIONS)}
    for name in without:
        properties.pop(name, None)
    schema["properties"] = properties
    choices = [name for name in ("step", "node", "steps", "graph", "file") if name in idiom.parts]
    if "body" not in idiom.parts and "cases" not in idiom.parts and len(choices) > 1:
        schema["oneOf"] = [{"required": [name]} for name in choices]
    elif not idiom.needed:
        schema["type"] = ["object", "null"]  # `append_assistant:` and no more
    return schema


def _step() -> _Schema:
    """Return the schema of a step: one idiom, with what may stand beside it."""
    names = [name for name in IDIOMS if name != "retry"]
    ref = {name: {"$ref": f"#/$defs/idiom_{name}"} for name in IDIOMS}
    retried = {"properties": {"retry": {"$ref": "#/$defs/retry"}}}
    alone = {"properties": {"retry": ref["retry"]}, "propertyNames": {"enum": ["retry", "when"]}}
    never = [name for name, idiom in IDIOMS.items() if idiom.when == "never"]
    pieces = [name for name, idiom in IDIOMS.items() if idiom.make is None]
    return {
        "type": "object",
        "properties": {**ref, "retry": {}, "when": _TEXT},
        "additionalProperties": False,
        "oneOf": [
            *({"required": [name], **retried} for name in names),
            {"required": ["retry"], **alone},
        ],
        "allOf": [_not_beside("when", never), _not_beside("retry", pieces)],
    }


def _not_beside(key: str, names: Iterable[str]) -> _Schema:
    return {
        "if": {"required": [key]},
        "then": {"not": {"anyOf": [{"required": [name]} for name in names]}},
    }


def _types() -> dict[str, _Schema]:
    """Return the schemas of the options of node types, by the name of the type."""
    schemas: dict[str, _Schema] = {}
    for idiom in IDIOMS.values():
        cls = idiom.about[0] if idiom.about else None
        kind = getattr(cls, "type", "")
        if idiom.make is not None and isinstance(cls, type) and kind:
            schemas[kind] = _idiom(idiom, without=("id", *idiom.piece_keys))
    for kind, cls in PLAIN_TYPES.items():
        schemas[kind] = options_schema(fields_of(cls, without=["id"]), [cls])
    return schemas


def _node(types: Mapping[str, _Schema], needed: list[str]) -> _Schema:
    """Return the schema of a step that has a type, whose options stand under ``config``."""
    options = {
        "id": _TEXT,
        "type": {"$ref": "#/$defs/node_type"},
        "config": {"type": "object"},
        "retry": {"$ref": "#/$defs/retry"},
    }
    return {
        **_mapping({key: options[key] for key in NODE}, needed),
        "allOf": _options_by_type(types),
    }


def _options_by_type(types: Mapping[str, _Schema]) -> list[_Schema]:
    """Return what ``config`` holds for each type of which that is known."""
    return [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {
                "properties": {"config": {"$ref": f"#/$defs/type_{name}"}},
                **({"required": ["config"]} if _needs_options(schema) else {}),
            },
        }
        for name, schema in types.items()
    ]


def _needs_options(schema: _Schema) -> bool:
    return "oneOf" in schema or bool(schema.get("required"))


def _mapping(properties: Mapping[str, Any], required: Iterable[str] = ()) -> _Schema:
    """Return the schema of a mapping with these keys and no others."""
    schema: _Schema = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    required = list(required)
    return {**schema, "required": required} if required else schema
