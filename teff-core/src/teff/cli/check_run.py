"""Looking at a workflow before it is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.cli.conversation import needs_message
from teff.cli.messages import show_warning
from teff.errors import ConfigError
from teff.workflow import Workflow

__all__ = ["require_message", "require_no_errors"]

#: More warnings than these would hide the answer.
_SHOWN_WARNINGS = 3


def require_no_errors(
    workflow: Workflow,
    state: Mapping[str, Any],
    *,
    provider: str | None,
    model: str | None,
    show_warnings: bool = True,
) -> None:
    """Show warnings, and refuse a workflow that has errors.

    Args:
        workflow: the workflow.
        state: what a run is given beside its initial state.
        provider, model: what replaces the defaults of the file.
        show_warnings: whether warnings are shown; a run that goes on has what it needs.

    Raises:
        ConfigError: the first error, and how many more there are.
    """
    findings = workflow.check(
        known_keys=["messages", "input", *state], default_provider=provider, default_model=model
    )
    warnings = [finding for finding in findings if finding.severity == "warning" and show_warnings]
    for finding in warnings[:_SHOWN_WARNINGS]:
        show_warning(str(finding))
    if (unseen := len(warnings) - _SHOWN_WARNINGS) > 0:
        show_warning(f"{unseen} more; teff check {workflow.path or ''} shows them all.")
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


def require_message(workflow: Workflow, state: Mapping[str, Any]) -> None:
    """Refuse a run without a message where the workflow waits for one.

    Raises:
        ConfigError: nobody said anything.
    """
    if "messages" in {**workflow.initial, **state}:
        return
    if needs_message(workflow.graph.nodes.values()):
        raise ConfigError('this workflow needs a message: --message "…"')
