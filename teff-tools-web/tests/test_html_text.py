"""HTML to readable text."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff_tools_web.html_text import html_to_text


def text_of(page: str) -> str:
    return html_to_text(page)[1]


def test_an_ordinary_page() -> None:
    page = """<!doctype html>
    <html><head><title> A  page
    </title><style>p { color: red }</style></head>
    <body>
      <nav><a href="/">Home</a> <a href="/about">About</a></nav>
      <h1>News</h1>
      <p>First   paragraph, <b>bold</b>&nbsp;&amp; <a href="x?a>b">linked</a>.<br>Next line.</p>
      <!-- <p>hidden</p> -->
      <ul><li>one</li><li>two</li></ul>
      <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
      <script>if (a < b) document.write("<p>no</p>")</script>
      <pre>x = 1
  y = 2</pre>
      <footer>imprint</footer>
    </body></html>"""
    title, text = html_to_text(page)
    assert title == "A page"
    assert text == (
        "# News\n\n"
        "First paragraph, bold & linked.\nNext line.\n\n"
        "- one\n- two\n\n"
        "a | b\n1 | 2\n\n"
        "x = 1\n  y = 2"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("1 < 2 > 1", "1 < 2 > 1"),
        ("<P>upper</P>", "upper"),
        ("a<p>b<p>c", "a\n\nb\n\nc"),
        ("a<script>b", "a"),
        ("a<!-- b", "a"),
        ("a<b c='d", "a"),
        ("<nav>menu<main>text", "text"),
        ("<nav>a<nav>b</nav>c</nav>d", "d"),
        ("</nav>a", "a"),
        ('<a title="1 > 0">b</a>', "b"),
        ("a&#x27;b &lt;c&gt;", "a'b <c>"),
        ("&#" + "9" * 5000 + ";", "&#" + "9" * 5000 + ";"),
        ("<svg><title>icon</title></svg>a", "a"),
    ],
)
def test_odd_pages(page: str, text: str) -> None:
    assert text_of(page) == text


def test_the_first_title_counts() -> None:
    assert html_to_text("<title>page</title><svg><title>icon</title></svg>")[0] == "page"


@pytest.mark.parametrize(
    "unit",
    [
        *("<a ", "<a", "<", "</", "<!--", "<!", "<?", "<![CDATA[", "&", "&#", "<script>"),
        *("<a x='", '<a x="', "<a x='>", '<a x=">"-=', "<a =", "<nav>", "</nav>", "<pre>", "<li>"),
        *("<script></", "<title>", "= '", '<a x="<script>-&"', "<p></form>"),
    ],
)
@pytest.mark.parametrize("end", ["", ">", "'>", '">'])
def test_a_hostile_page_does_not_take_for_ever(unit: str, end: str) -> None:
    # A parser that looks again at what it has seen would need hours for these.
    page = unit * (200_000 // len(unit)) + end
    assert len(text_of(page)) <= 2 * len(page)


@given(st.text(st.sampled_from("<>/!-='\"& pabn#;"), max_size=60))
def test_anything_can_be_read(page: str) -> None:
    assert all(isinstance(part, str) for part in html_to_text(page))


@given(st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=30))
def test_escaped_text_comes_back(text: str) -> None:
    if text.strip("-#|"):
        assert text_of(f"<p>{html.escape(text)}</p>") == text
