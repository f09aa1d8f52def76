"""The JSON Schema of workflow files says what reading them says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from teff.cli.schema import command
from teff.errors import ConfigError
from teff.node.transform_actions import ACTIONS
from teff.workflow import load, loads
from teff.workflow.document import KEYS
from teff.workflow.schema import workflow_schema
from teff.workflow.steps import IDIOMS
from teff.workflow.yaml import read_yaml

CORPUS = Path(__file__).parent / "corpus"
ROOT = Path(__file__).resolve().parents[3]
SCHEMA = workflow_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def corpus(name: str) -> list[Any]:
    """Return the documents of a file, each under the comment that it begins with."""
    documents = (CORPUS / f"{name}.yaml").read_text(encoding="utf-8").split("\n---\n")
    return [pytest.param(text, id=text.partition("\n")[0].strip("# ")) for text in documents]


def fits_schema(text: str) -> bool:
    written = read_yaml(text)
    assert written is not None
    return bool(VALIDATOR.is_valid(written.value))


def loader_error(text: str) -> str:
    try:
        loads(text, environment={})
    except ConfigError as error:
        return str(error)
    return ""


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("text", corpus("good"))
def test_what_is_read_fits(text):
    assert loader_error(text) == ""
    written = read_yaml(text)
    assert written is not None
    assert [error.message for error in VALIDATOR.iter_errors(written.value)] == []


@pytest.mark.parametrize("text", corpus("bad"))
def test_what_is_refused_does_not_fit(text):
    assert loader_error(text) != ""
    assert not fits_schema(text)


@pytest.mark.parametrize("text", corpus("known_to_the_loader"))
def test_what_only_reading_can_know_fits(text):
    assert loader_error(text) != ""
    assert fits_schema(text)


def test_the_corpus_shows_every_idiom_and_every_key():
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sorted(CORPUS.glob("*.yaml")))
    assert [name for name in IDIOMS if not re.search(rf"\b{name}:", texts)] == []
    assert [key for key in KEYS if not re.search(rf"^{key}:", texts, flags=re.MULTILINE)] == []


def yaml_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.yaml"))]


@pytest.mark.parametrize("path", yaml_files("examples"), ids=lambda path: path.parent.name)
def test_the_examples_fit(path):
    assert fits_schema(path.read_text(encoding="utf-8"))


def documented() -> list[Any]:
    found = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
        found += [pytest.param(text, id=f"{page.stem}-{n}") for n, text in enumerate(blocks, 1)]
    return found


@pytest.mark.parametrize("text", documented())
def test_the_documented_files_fit(text):
    assert fits_schema(text)


def each_schema(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for item in schema for found in each_schema(item)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(found for item in schema.values() for found in each_schema(item))]


def test_every_reference_leads_to_a_definition():
    targets = {schema["$ref"] for schema in each_schema(SCHEMA) if "$ref" in schema}
    assert {target.removeprefix("#/$defs/") for target in targets} <= SCHEMA["$defs"].keys()


def test_options_have_descriptions_defaults_and_bounds():
    options = SCHEMA["$defs"]["idiom_llm"]["properties"]
    assert options["prompt"]["description"].startswith("A template")
    assert options["temperature"]["minimum"] == 0
    assert options["output_key"]["default"] == "output"
    assert SCHEMA["$defs"]["idiom_transform"]["properties"]["action"]["enum"] == list(ACTIONS)
    described = [name for name, option in options.items() if option.get("description")]
    assert len(described) > len(options) * 0.8


@pytest.mark.parametrize("name", IDIOMS)
def test_the_schema_of_an_idiom_has_the_keys_that_are_read(name):
    idiom = IDIOMS[name]
    if idiom.value == "options":
        assert set(SCHEMA["$defs"][f"idiom_{name}"]["properties"]) == set(idiom.keys)


def test_the_command_prints_it():
    printed = CliRunner().invoke(command, standalone_mode=False)
    assert json.loads(printed.output) == SCHEMA


def test_a_yaml_1_1_word_is_text_for_both(tmp_path):
    text = "steps: [interrupt: {key: a, choices: [yes, no]}]"
    check: Callable[[str], bool] = fits_schema
    assert check(text)
    path = tmp_path / "flow.yaml"
    path.write_text(text)
    assert load(path).graph.nodes
