"""The options of a run that `teff run`, `teff resume` and `teff chat` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import click

from teff.cli.duration import read_duration
from teff.errors import ConfigError
from teff.graph import RunOptions
from teff.provider import ProviderRegistry
from teff.runtime import Limits
from teff.workflow import Workflow

__all__ = ["read_run_options", "takes_json", "takes_run_options", "takes_state"]

_RUN_OPTIONS = (
    click.option("--provider", metavar="NAME", help="Replaces default_provider."),
    click.option("--model", metavar="NAME", help="Replaces default_model."),
    click.option("--base-url", metavar="URL", help="The address of the default provider."),
    click.option("--max-steps", type=int, metavar="N", help="Stop after N steps."),
    click.option("--max-model-calls", type=int, metavar="N", help="Stop after N model calls."),
    click.option("--max-tool-calls", type=int, metavar="N", help="Stop after N calls of tools."),
    click.option("--max-tokens", type=int, metavar="N", help="Stop after N tokens."),
    click.option(
        "--max-cost", type=float, metavar="N", help="Stop at this cost, by the file's prices."
    ),
    click.option(
        "--deadline",
        callback=read_duration,
        metavar="SECONDS",
        help="Stop after this time: 60, 60s, 2m, 1h.",
    ),
)
_STATE = (
    click.option(
        "--input",
        "inputs",
        metavar="KEY=VALUE",
        multiple=True,
        help="A value of the state: JSON, or else text. May be given several times.",
    ),
    click.option("--state", "state_file", metavar="FILE.json", help="Values of the state."),
)
_JSON = (
    click.option("--json", "as_json", is_flag=True, help="Standard output is one JSON object."),
    click.option("--traceback", "show_traceback", is_flag=True, help="Show where the run failed."),
)


def takes_run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take models and bounds in place of those of the file."""
    return _with(_RUN_OPTIONS, function)


def takes_state(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take values of the state."""
    return _with(_STATE, function)


def takes_json(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command report to a program, and show where a run failed."""
    return _with(_JSON, function)


def _with(
    options: tuple[Callable[..., Any], ...], function: Callable[..., Any]
) -> Callable[..., Any]:
    for option in reversed(options):
        function = option(function)
    return function


def read_run_options(workflow: Workflow, given: Mapping[str, Any]) -> RunOptions:
    """Return the options that a command was given, and what a stored run remembers of them.

    Raises:
        click.UsageError: there is no provider for the address.
        ConfigError: a wrong bound, or an address that the provider does not take.
    """
    options: RunOptions = {}
    if given["provider"]:
        options["default_provider"] = given["provider"]
    if given["model"]:
        options["default_model"] = given["model"]
    provider = given["provider"] or workflow.graph.defaults.provider
    registry = ProviderRegistry(workflow.providers)
    if given["base_url"]:
        if not provider:
            raise click.UsageError(
                "--base-url needs a provider: give --provider, or default_provider in the file."
            )
        declared = workflow.providers.get(provider, {"type": provider})
        registry.register(provider, {**declared, "base_url": given["base_url"]}, replace=True)
        options["providers"] = registry
    if provider and (given["provider"] or given["base_url"]):
        try:
            registry.check(provider)
        except ConfigError as error:
            if given["base_url"] and "unknown option 'base_url'" in error.message:
                raise ConfigError(f"--base-url does not suit provider {provider!r}.") from error
            raise
    options.update(_limits(workflow, given))
    if about := _remembered(given):
        options["about"] = about
    return options


def _remembered(given: Mapping[str, Any]) -> dict[str, str]:
    """Return what a stored run remembers, so that it goes on with the same models."""
    about = {name: given[name] for name in ("provider", "model", "base_url") if given[name]}
    if "@" in about.get("base_url", ""):
        del about["base_url"]  # whoever has a password in it gives it again
    return about


def _limits(workflow: Workflow, given: Mapping[str, Any]) -> RunOptions:
    """Return the bounds of the command line, laid over those of the file."""
    bounds = {name: given[name] for name in Limits.names() if given[name] is not None}
    if not bounds:
        return {}
    try:
        return {"limits": attrs.evolve(workflow.limits or Limits(), **bounds)}
    except ConfigError as error:
        message = error.message
        for name in bounds:
            message = message.replace(f"limit {name} ", f"--{name.replace('_', '-')} ")
        message = message.replace(", or None for no limit", "")
        raise ConfigError(message, hint=error.hint) from error
