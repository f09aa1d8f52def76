"""``teff providers``: the provider types that are installed, and the models of one of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import attrs
import click

from teff.cli.exit_codes import FAILED, FINISHED, WRONG_USE
from teff.cli.messages import harmless, show_error
from teff.errors import ConfigError, ProviderError
from teff.plugins import PluginEntry, catalogue
from teff.provider import ListsModels, ModelInfo, ProviderRegistry

__all__ = ["command"]


@click.command("providers")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--base-url", metavar="URL", help="The address of the server; it needs NAME.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(name: str | None, base_url: str | None, as_json: bool) -> int:
    """List the provider types that are installed, or the models of the one called NAME.

    Without NAME nothing is loaded, and no server is asked. With it, the command ends with 1 where
    the server cannot be asked, and with 2 for a name that is not there.
    """
    if name is None:
        if base_url is not None:
            raise click.UsageError("--base-url needs the NAME of a provider")
        _show_types(as_json)
        return FINISHED
    return _show_models(name, base_url, as_json)


def _show_types(as_json: bool) -> None:
    entries = catalogue().entries("teff.providers")
    if as_json:
        click.echo(json.dumps([attrs.asdict(entry) for entry in entries], indent=2))
    elif entries:
        _show_table([_row(entry) for entry in entries])
    else:
        click.echo("No providers are installed. For example: pip install teff-providers-ollama")


def _row(entry: PluginEntry) -> Sequence[str]:
    state = f"{entry.state}: {entry.error}" if entry.error else entry.state
    return (entry.name, f"{entry.distribution} {entry.version}".strip(), state)


def _show_models(name: str, base_url: str | None, as_json: bool) -> int:
    try:
        models = asyncio.run(_models(name, base_url))
    except ProviderError as error:
        show_error(str(error))
        # As for a run: an address with nothing there is a wrong one.
        return WRONG_USE if error.status == 404 else FAILED
    if models is None:
        show_error(f"the provider {name!r} has no list of models.")
        return WRONG_USE
    if as_json:
        click.echo(json.dumps([attrs.asdict(model) for model in models], indent=2))
    elif models:
        _show_table([(model.name, model.details) for model in models])
    else:
        click.echo(f"The server of {name!r} has no models.")
    return FINISHED


async def _models(name: str, base_url: str | None) -> Sequence[ModelInfo] | None:
    """Return the models of a provider, or None where it has no list of them."""
    registry = ProviderRegistry()
    try:
        try:
            provider = registry.derive(name, {"base_url": base_url})
        except ConfigError as error:
            if name not in registry.names() and "Did you mean" not in error.message:
                error.hint = error.hint or "To see what is installed: teff providers"
            raise
        return await provider.models() if isinstance(provider, ListsModels) else None
    finally:
        await registry.aclose()


def _show_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo(harmless("  ".join(cells).rstrip()))
