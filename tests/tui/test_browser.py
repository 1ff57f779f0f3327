"""`nostr-tui --serve`: who may come in, and what a real browser shows."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import struct
import sys
import zlib
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.rights import secret_file
from tests.tui.backend import TOKEN
from tests.tui.chromium import Page, browsing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.tui.backend import Recorded, Served

ROOT = Path(__file__).parents[2]
START_S = 120.0


@asynccontextmanager
async def serving(api: Served, folder: Path) -> AsyncIterator[str]:
    """The address that the program prints, while it runs; it ends in order after the block."""
    secret_file(folder / "token", TOKEN)
    options = ("--api", api.api.url, "--token-file", str(folder / "token"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tui", "--serve", "--port", "0", *options),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_S):
            yield (await process.stdout.readline()).decode().strip()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_S):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_only_who_has_the_secret_comes_in(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    async with serving(api, tmp_path) as address, aiohttp.ClientSession() as session:
        parts = urlsplit(address)
        root = f"http://{parts.netloc}"
        assert parts.hostname == "127.0.0.1"
        secret = parse_qs(parts.query)["token"][0]
        assert secret != TOKEN
        bearer = {"Authorization": f"Bearer {secret}"}
        for given in ({"Authorization": f"Bearer {TOKEN}"}, {"Cookie": f"nostr-tui={secret}"}):
            async with session.get(root, headers=given) as answer:
                assert answer.status == 401, given
        for path in ("/", "/ws", "/static/js/textual.js", "/?token=wrong"):
            async with session.get(root + path) as answer:
                assert answer.status == 401, path
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            async with session.get(root, headers=bearer | headers) as answer:
                assert answer.status == 403, headers
        async with session.get(address, allow_redirects=False) as answer:
            folder = answer.headers["Location"]
            assert answer.status == 303
            assert len(folder) > 16
            assert secret not in folder
            cookie = answer.headers["Set-Cookie"]
            assert f"Path={folder}" in cookie
            assert cookie.startswith(f"nostr-tui-{parts.port}={secret};")
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
        for path in ("", "ws", "static/js/textual.js"):
            async with session.get(f"{root}{folder}{path}") as answer:
                assert answer.status == 401, path
        async with session.get(root, headers=bearer) as answer:
            assert answer.status == 404
        async with session.get(root + folder, headers=bearer) as answer:
            page = await answer.text()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "http://" not in page
        assert "https://" not in page
        assert TOKEN not in page
        assert secret not in page


async def test_a_page_of_another_port_gets_no_cookie(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    """Cookies know no ports: a page that anybody serves on 127.0.0.1 is sent those of its path."""
    sent: list[str] = []

    async def hear(request: web.Request) -> web.Response:
        sent.append(request.headers.get("Cookie", ""))
        return web.Response()

    other = web.Application()
    other.router.add_get("/{path:.*}", hear)
    jar = aiohttp.CookieJar(unsafe=True)  # unsafe: hosts that are addresses have cookies, too
    async with (
        serving(api, tmp_path) as address,
        TestServer(other) as server,
        aiohttp.ClientSession(cookie_jar=jar) as session,
    ):
        async with session.get(address) as answer:
            assert answer.status == 200
            assert jar.filter_cookies(answer.url)
        for path in ("/", "/ws", "/static/js/textual.js", "/%2e/x"):
            async with session.get(server.make_url(path)) as answer:
                assert answer.status == 200
        assert sent == [""] * 4


async def test_a_browser_shows_the_application_and_types_into_it(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    """A key pressed in the page reaches the agent: page, socket, process and API are all there."""
    async with serving(api, tmp_path) as address, browsing(tmp_path, address) as page:
        await page.until("document.body.classList.contains('-first-byte')")
        assert "token" not in await page.evaluate("location.href")
        assert await page.evaluate("document.activeElement.tagName") == "TEXTAREA"
        await eventually(lambda: agent.feed.streams == 1)
        await eventually(partial(pressed, page, "r", agent), every=0.5)
        assert agent.asked[0] == ("recount", "fiatjaf-followers")
        picture = await page.picture()
        assert page.errors == []
    assert len(colours(picture)) > 20
    assert await asyncio.to_thread(kept, picture)


async def test_a_page_as_narrow_as_a_phone_has_a_font_that_fits(
    tmp_path: Path, api: Served, agent: Recorded
) -> None:
    async with serving(api, tmp_path) as address, browsing(tmp_path, address) as page:
        await page.until("document.body.classList.contains('-first-byte')")
        assert await page.evaluate("document.querySelector('#terminal').dataset.fontSize") == "16"
        phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        await page.do("Emulation.setDeviceMetricsOverride", **phone)
        await page.do("Page.reload")
        narrow = "document.querySelector('#terminal')?.dataset.fontSize === '10'"
        await page.until(f"innerWidth === 390 && {narrow}")
        await page.until("document.activeElement.tagName === 'TEXTAREA'")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.errors == []


async def pressed(page: Page, key: str, agent: Recorded) -> bool:
    await page.key(key)
    return bool(agent.asked)


async def eventually(check: Callable[[], bool | Awaitable[bool]], every: float = 0.05) -> None:
    async with asyncio.timeout(START_S):
        while True:
            found = check()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(every)


def colours(png: bytes) -> set[bytes]:
    """The colours of every seventh pixel of a picture with eight bits a colour."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    size = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        data += png[at + 8 : at + 8 + length] if name == b"IDAT" else b""
        at += length + 12
    raw, line = zlib.decompress(data), width * size + 1
    assert depth == 8
    assert len(raw) == line * height
    return {raw[n : n + size] for n in range(1, len(raw) - size, 7 * size)}


def kept(picture: bytes) -> bool:
    """The picture for the documents, where somebody asks for it (`make screenshots`)."""
    path = os.environ.get("NOSTR_TUI_PICTURE")
    if path:
        Path(path).write_bytes(picture)
    return True
