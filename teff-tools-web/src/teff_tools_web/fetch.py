"""One page from the web: checked at every hop, read within bounds, and made readable."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import httpx

from teff.errors import ToolError
from teff.tool.threads import run_in_thread
from teff_tools_web.body import Body, decode_text, is_binary, is_readable
from teff_tools_web.html_text import html_to_text
from teff_tools_web.settings import FetchSettings
from teff_tools_web.target import Resolver, Target, find_target, read_url

__all__ = ["Page", "fetch_page"]

_REDIRECTS = (301, 302, 303, 307, 308)
_CONNECT_SECONDS = 5.0
_HEADERS = {
    "User-Agent": "teff-tools-web",
    "Accept": "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
}


@attrs.frozen(kw_only=True)
class Page:
    """What a URL led to.

    Attributes:
        url: where the text came from, after every redirect.
        text: readable text; HTML without its tags, scripts and menus.
        title: of an HTML page, or "".
        cut: why the text is not whole, as the end of a sentence; "" where it is.
    """

    url: str
    text: str
    title: str = ""
    cut: str = ""


@attrs.define
class _Download:
    """What has arrived so far, so that it is there when the time is over."""

    url: str = ""
    content_type: str = ""
    charset: str = ""
    body: Body = attrs.field(factory=Body)


async def fetch_page(
    url: str,
    settings: FetchSettings | None = None,
    *,
    resolve: Resolver | None = None,
    tls: ssl.SSLContext | None = None,
) -> Page:
    """Fetch a page.

    Each host is looked up once, every address that it has is checked, and the connection goes to
    one of those; a redirect is checked in the same way. No cookies, no credentials, no proxies.

    Args:
        url: of http or https.
        settings: what is allowed.
        resolve: looks up a host, in place of the operating system.
        tls: how servers are verified; against the system's or certifi's authorities by default.

    Raises:
        ToolError: it was refused, is not there, takes too long, or is nothing to read; the message
            is for the model.
    """
    settings = settings or FetchSettings()
    download = _Download()
    try:
        async with asyncio.timeout(settings.timeout):
            await _follow(download, url, settings, resolve=resolve, tls=tls or _default_tls())
    except TimeoutError:
        seconds = f"{settings.timeout:g} s"
        if not download.body.data:
            raise ToolError(f"fetching {url[:200]!r} took longer than {seconds}") from None
        download.body.cut = f"the rest did not come within {seconds}"
    return await _read_page(download)


async def _follow(
    download: _Download,
    text: str,
    settings: FetchSettings,
    *,
    resolve: Resolver | None,
    tls: ssl.SSLContext,
) -> None:
    url = read_url(text)
    for hop in range(settings.max_redirects + 1):
        try:
            target = await find_target(url, settings, resolve=resolve)
        except ToolError as refusal:
            raise ToolError(f"redirect {hop}: {refusal}" if hop else str(refusal)) from None
        async with _request(target, tls) as response:
            location = response.headers.get("location", "")
            if response.status_code not in _REDIRECTS or not location:
                await _read_response(download, response, target, settings.max_bytes)
                return
        url = read_url(location, base=url)
    raise ToolError(f"{text[:200]!r} has too many redirects: more than {settings.max_redirects}")


async def _read_response(
    download: _Download, response: httpx.Response, target: Target, max_bytes: int
) -> None:
    if not response.is_success:
        status = f"{response.status_code} {response.reason_phrase}".strip()
        raise ToolError(f"{target.url} answered {status}")
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not is_readable(content_type):
        raise ToolError(
            f"{target.url} is {content_type[:80]}; only text, HTML, XML and JSON can be read"
        )
    download.url = str(target.url)
    download.content_type = content_type
    download.charset = response.charset_encoding or ""
    try:
        await download.body.read(response, max_bytes)
    except httpx.HTTPError:
        if not download.body.data:
            raise
        download.body.cut = "the server broke off before its end"


@asynccontextmanager
async def _request(target: Target, tls: ssl.SSLContext) -> AsyncIterator[httpx.Response]:
    """Ask one of the target's addresses for its page, and nobody else.

    The URL that is requested holds the address, so that nothing looks the host up again; the host
    stands in the header and is what the certificate is verified for.
    """
    timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS).as_dict()
    # The bare transport: a client would add cookies, and reads redirects itself.
    async with httpx.AsyncHTTPTransport(verify=tls, trust_env=False) as transport:
        for number, address in enumerate(target.addresses, start=1):
            request = httpx.Request(
                "GET",
                target.url.copy_with(host=address),
                headers={"Host": target.url.netloc.decode("ascii"), **_HEADERS},
                extensions={"sni_hostname": target.host, "timeout": timeout},
            )
            try:
                response = await transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if number < len(target.addresses):
                    continue
                raise _unreachable(target, error) from error
            except httpx.HTTPError as error:
                raise _unreachable(target, error) from error
            try:
                yield response
            except httpx.HTTPError as error:
                raise _unreachable(target, error) from error
            finally:
                await response.aclose()
            return


def _unreachable(target: Target, error: Exception) -> ToolError:
    return ToolError(f"{target.url} cannot be reached: {str(error) or type(error).__name__}")


@functools.cache
def _default_tls() -> ssl.SSLContext:
    # Reading the authorities takes tens of milliseconds, so it is done once. SSL_CERT_FILE counts:
    # it is the machine's owner who sets it.
    return httpx.create_ssl_context()


async def _read_page(download: _Download) -> Page:
    data = bytes(download.body.data)
    if is_binary(data, download.charset):
        raise ToolError(f"{download.url} is binary data; only text can be read")
    # Decoding and reading megabytes takes a while; the event loop goes on meanwhile.
    title, text = await run_in_thread(
        _readable, {"data": data, "charset": download.charset, "kind": download.content_type}
    )
    return Page(url=download.url, text=text, title=title, cut=download.body.cut)


def _readable(data: bytes, charset: str, kind: str) -> tuple[str, str]:
    text = decode_text(data, charset)
    start = text[:500].lstrip().lower()
    if "html" in kind or (not kind and start.startswith(("<!doctype html", "<html"))):
        return html_to_text(text)
    return "", text.strip()
