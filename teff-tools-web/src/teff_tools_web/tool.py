"""The tool ``fetch_url``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from teff.errors import ConfigError, ToolError
from teff.schema import structure_fields
from teff.tool import FunctionTool
from teff_tools_web.settings import FetchSettings

__all__ = ["fetch_url", "make_fetch_url"]


def make_fetch_url(options: Mapping[str, object] | None = None) -> FunctionTool[..., Any]:
    """Make the tool ``fetch_url`` with options of its own.

    >>> make_fetch_url({"timeout": 5}).name
    'fetch_url'

    Args:
        options: the fields of `FetchSettings`.

    Raises:
        ConfigError: an unknown option, or a value that it does not take.
    """
    fields: dict[str, Any] = structure_fields(FetchSettings, options or {}, what="tool 'fetch_url'")
    try:
        settings = FetchSettings(**fields)
    except ValueError as error:
        raise ConfigError(f"tool 'fetch_url': {error}") from error

    async def fetch_url(
        url: Annotated[str, "http or https"],
        max_chars: Annotated[int, "the longest text wanted, in characters"] = 20_000,
    ) -> str:
        """Fetch a web page and return its title and its readable text."""
        from teff_tools_web.fetch import fetch_page

        if max_chars < 1:
            raise ToolError("'max_chars' must be at least 1")
        page = await fetch_page(url, settings)
        notes = [f"[Incomplete: {page.cut}.]"] if page.cut else []
        if len(page.text) > max_chars:
            notes.append(f"[Shortened: the first {max_chars} of {len(page.text)} characters.]")
        head = [*notes, *([f"Title: {page.title}"] if page.title else []), f"URL: {page.url}"]
        text = page.text[:max_chars] or "(The page has no text.)"
        return "\n".join(head) + f"\n\n{text}"

    return FunctionTool(fetch_url)


#: The tool with its default options.
fetch_url = make_fetch_url()
