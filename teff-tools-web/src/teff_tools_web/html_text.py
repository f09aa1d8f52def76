"""HTML to readable text, in time that grows with the length of the page and nothing else.

The parser of the standard library takes minutes for 60 KB of ``<a <a <a``, and a page that a model
fetches may be hostile. So tags are only found here, not understood: text needs no more.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator

__all__ = ["html_to_text"]

#: A comment, a declaration, or a tag with its name; any other "<" is text.
_MARKUP = re.compile(r"<(?:[!?]|(/?[a-zA-Z][^\s/>]{0,40}))")
_END_OR_QUOTE = re.compile(r">|=\s*([\"'])")

#: Nothing inside is markup, up to the end tag.
_RAW = frozenset({"script", "style", "title", "textarea", "noscript", "iframe", "xmp"})
#: What stands in them is not the text of the page.
_DROPPED = frozenset(
    {"nav", "footer", "aside", "form", "template", "svg", "math", "canvas", "select", "button"}
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_BLOCKS = frozenset(
    {
        *("address", "article", "blockquote", "body", "dd", "div", "dl", "dt", "fieldset"),
        *("figcaption", "figure", "header", "hr", "main", "ol", "p", "pre", "section", "table"),
        *("tbody", "thead", "ul", *_HEADINGS),
    }
)
_LINES = {"br": "\n", "li": "\n- ", "tr": "\n", "td": " | ", "th": " | "}


def html_to_text(page: str) -> tuple[str, str]:
    r"""Return the title and the text of an HTML page, without scripts, menus and forms.

    Headings begin with ``#``, items of lists with ``-``; paragraphs are a blank line apart.

    >>> html_to_text("<title>A</title><script>x()</script><h1>B</h1><p>c &amp; d")
    ('A', '# B\n\nc & d')
    """
    text = _Text()
    for tag, content in _tokens(page):
        if not tag:
            text.add(content)
        elif tag == "title":
            text.title = text.title or " ".join(_unescape(content).split())
        elif tag not in _RAW:
            text.tag(tag)
    return text.title, text.finish()


def _tokens(page: str) -> Iterator[tuple[str, str]]:
    """Give ``("", text)``, ``("p", "")`` and ``("/p", "")``; raw elements with their content.

    Each step moves forward, and what is never closed ends the page: hence the linear time.
    """
    position = 0
    while markup := _MARKUP.search(page, position):
        start = markup.start()
        yield "", page[position:start]
        if page.startswith(("<!", "<?"), start):
            position = _after(page, "-->" if page.startswith("<!--", start) else ">", start + 2)
            continue
        tag = markup[1].lower()
        position = _after_tag(page, markup.end())
        if tag in _RAW:
            end = re.compile(f"</{tag}", re.IGNORECASE).search(page, position)
            close = end.start() if end else len(page)
            yield tag, page[position:close]
            position = _after(page, ">", close)
        else:
            yield tag, ""
    yield "", page[position:]


def _after(page: str, mark: str, position: int) -> int:
    found = page.find(mark, position)
    return len(page) if found < 0 else found + len(mark)


def _after_tag(page: str, position: int) -> int:
    """Return where a tag ends; a ``>`` inside of a quoted value does not end it."""
    while found := _END_OR_QUOTE.search(page, position):
        if not found[1]:
            return found.end()
        position = _after(page, found[1], found.end())
    return len(page)


class _Text:
    """Collects the text of a page, block by block."""

    def __init__(self) -> None:
        self.title = ""
        self._blocks: list[str] = []
        self._pieces: list[str] = []
        self._dropped: Counter[str] = Counter()
        self._preformatted = False

    def add(self, content: str) -> None:
        if self._dropped or not content:
            return
        text = _unescape(content)
        if not self._preformatted:
            text = re.sub(r"\s+", " ", text)
        self._pieces.append(text)

    def tag(self, tag: str) -> None:
        name, is_end = tag.removeprefix("/"), tag.startswith("/")
        if name in _DROPPED:
            self._drop(name, is_end=is_end)
        elif name in ("main", "article") and not is_end:
            self._dropped.clear()  # a menu that was never closed must not swallow the page
        if name in _BLOCKS:
            self._end_block()
            self._preformatted = name == "pre" and not is_end
            if name in _HEADINGS and not is_end and not self._dropped:
                self._pieces.append(_HEADINGS[name])
        elif name in _LINES and not is_end and not self._dropped:
            self._pieces.append(_LINES[name])

    def _drop(self, name: str, *, is_end: bool) -> None:
        if not is_end:
            self._end_block()
            self._dropped[name] += 1
        elif self._dropped[name] > 1:
            self._dropped[name] -= 1
        else:
            del self._dropped[name]

    def _end_block(self) -> None:
        joined = "".join(self._pieces)
        lines = joined.split("\n")
        if not self._preformatted:
            lines = [line.strip().removeprefix("| ") for line in lines]
        block = "\n".join(line for line in lines if line.strip(" -#|") or self._preformatted)
        if block.strip():
            self._blocks.append(block.strip("\n"))
        self._pieces.clear()

    def finish(self) -> str:
        self._end_block()
        return "\n\n".join(self._blocks)


def _unescape(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a number of thousands of digits
        return text
