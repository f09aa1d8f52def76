"""Workflow files with one thing changed: read or refused in a sentence, and never more than the schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teff.errors import TeffError
from teff.workflow import loads
from teff.workflow.schema import workflow_schema
from teff.workflow.yaml import read_yaml

CORPUS = Path(__file__).parent / "corpus"
VALIDATOR = jsonschema.Draft202012Validator(workflow_schema())


def documents() -> list[Any]:
    texts = (CORPUS / "good.yaml").read_text(encoding="utf-8").split("\n---\n")
    written = [read_yaml(text) for text in texts]
    return [document.value for document in written if document is not None]


DOCUMENTS = documents()
VALUES = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.5, "", "x", "yes", "a=1", "x >", "STOP"]
) | (st.sampled_from([[], ["x"], [1], {}, {"x": 1}, {"llm": {}}, [{"llm": {}}], {"type": "gate"}]))
KEYS = st.sampled_from(
    [
        "id",
        "key",
        "steps",
        "when",
        "retry",
        "type",
        "config",
        "llm",
        "prompt",
        "x",
        "edges",
        "until",
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to everything in a value."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [path, *(found for key, item in inner for found in places(item, (*path, key)))]


@st.composite
def changed(draw: st.DrawFn) -> Any:
    document = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    *path, last = draw(st.sampled_from(places(document)[1:]))
    holder = document
    for key in path:
        holder = holder[key]
    match draw(st.sampled_from(["replace", "remove", "rename", "add"])):
        case "replace":
            holder[last] = draw(VALUES)
        case "remove":
            del holder[last]
        case "rename" if isinstance(holder, dict):
            holder[draw(KEYS)] = holder.pop(last)
        case "add" if isinstance(holder, dict):
            holder[draw(KEYS)] = draw(VALUES)
    return document


@given(changed())
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_a_changed_file_is_read_or_refused_and_what_is_read_fits_the_schema(document):
    text = json.dumps(document)
    wrong = ""
    try:
        loads(text, environment={})
    except TeffError as error:
        wrong = str(error)
    if wrong:
        assert wrong.startswith("<text>")
    else:
        assert [error.message for error in VALIDATOR.iter_errors(document)] == []
