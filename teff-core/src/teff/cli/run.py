"""``teff run``: run a workflow, show it live, and say how it ended."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import attrs
import click

from teff.cli.conversation import needs_message
from teff.cli.duration import read_duration
from teff.cli.ending import exit_code, show_end
from teff.cli.execute import execute
from teff.cli.files import one_file, takes_file
from teff.cli.inputs import read_input, read_state
from teff.cli.live import Live, outermost
from teff.cli.messages import say, show_warning
from teff.cli.report import Place, json_report
from teff.errors import ConfigError, TeffError
from teff.graph import RunOptions
from teff.provider import ProviderRegistry
from teff.runtime import Limits
from teff.workflow import Workflow, load

__all__ = ["command"]

#: More warnings than these would hide the answer.
_SHOWN_WARNINGS = 3


@click.command("run")
@takes_file
@click.option("--message", "-m", metavar="TEXT", help="What you say to the workflow.")
@click.option(
    "--input",
    "inputs",
    metavar="KEY=VALUE",
    multiple=True,
    help="A value of the state: JSON, or else text. May be given several times.",
)
@click.option("--state", "state_file", metavar="FILE.json", help="Values of the state.")
@click.option("--provider", metavar="NAME", help="Replaces default_provider.")
@click.option("--model", metavar="NAME", help="Replaces default_model.")
@click.option("--base-url", metavar="URL", help="The address of the default provider.")
@click.option("--max-steps", type=int, metavar="N", help="Stop after N steps.")
@click.option("--max-model-calls", type=int, metavar="N", help="Stop after N model calls.")
@click.option("--max-tool-calls", type=int, metavar="N", help="Stop after N calls of tools.")
@click.option("--max-tokens", type=int, metavar="N", help="Stop after N tokens.")
@click.option(
    "--max-cost", type=float, metavar="N", help="Stop at this cost, by the file's prices."
)
@click.option(
    "--deadline",
    callback=read_duration,
    metavar="SECONDS",
    help="Stop after this time: 60, 60s, 2m, 1h.",
)
@click.option("--json", "as_json", is_flag=True, help="Standard output is one JSON object.")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where the run failed.")
@click.pass_context
def command(ctx: click.Context, /, argument: str | None, option: str | None, **given: Any) -> int:
    """Run the workflow in FILE.

    The answer goes to standard output, everything else to standard error. Ends with 0 when the run
    has finished, 1 when it failed, 2 for wrong use or a bad workflow, 3 when it waits for an answer,
    4 when a bound stopped it, 130 when it was interrupted.
    """
    file = one_file(argument, option)
    live = Live(show_answer=not given["as_json"])
    workflow: Workflow | None = None
    error: BaseException | None
    try:
        workflow = load(file)
        state = {**read_state(given["state_file"]), **dict(map(read_input, given["inputs"]))}
        options = _run_options(workflow, given)
        _check(workflow, state, given)
    except TeffError as wrong:
        error = wrong
    else:
        error = execute(
            workflow,
            live,
            message=given["message"],
            state=state,
            options=options,
            wait_for_threads=not ctx.find_root().obj,
        )
    if live.output_error is None:
        _report(workflow, live, error, given)
    if live.output_error is not None:
        raise live.output_error
    return exit_code(live, error)


def _report(
    workflow: Workflow | None, live: Live, error: BaseException | None, given: Mapping[str, Any]
) -> None:
    """Say how the run ended; a workflow that could not be read says for itself where."""

    def hide(message: str) -> str:
        return message if workflow is None else workflow.hide(message)

    place: Place = ("", None, None)
    if workflow is not None and live.failed_path:
        place = workflow.place_of(outermost(live.failed_path))
    described = ":".join(str(part) for part in place if part)
    show_end(live, error, place=described, hide=hide, show_answer=not given["as_json"])
    if given["as_json"]:
        click.echo(json_report(live, error, place=place, hide=hide))
    if given["show_traceback"] and error is not None:
        say(hide("".join(traceback.format_exception(error))))


def _check(workflow: Workflow, state: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Show warnings, and refuse a workflow that has errors.

    Raises:
        ConfigError: the first error, and how many more there are; or nobody said anything to a
            workflow that waits for it.
    """
    findings = workflow.check(
        known_keys=["messages", "input", *state],
        default_provider=given["provider"],
        default_model=given["model"],
    )
    warnings = [finding for finding in findings if finding.severity == "warning"]
    for finding in warnings[:_SHOWN_WARNINGS]:
        show_warning(str(finding))
    if (unseen := len(warnings) - _SHOWN_WARNINGS) > 0:
        show_warning(f"{unseen} more; teff check {workflow.path or ''} shows them all.")
    has_messages = given["message"] is not None or "messages" in {**workflow.initial, **state}
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        first, more = errors[0], len(errors) - 1
        raise ConfigError(
            first.message,
            file=first.file,
            line=first.line,
            column=first.column,
            hint=f"{first.hint} (and {more} more: teff check {first.file})" if more else first.hint,
        )
    if not has_messages and needs_message(workflow.graph.nodes.values()):
        raise ConfigError('this workflow needs a message: --message "…"')


def _run_options(workflow: Workflow, given: dict[str, Any]) -> RunOptions:
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
    return options


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
