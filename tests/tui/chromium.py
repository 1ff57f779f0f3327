"""A headless Chromium, driven by its own protocol (CDP) over a WebSocket."""

from __future__ import annotations

import asyncio
import base64
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.conftest import require_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PATIENCE_S = 120.0


class Page:
    """One page of the browser; `errors` is what it complained about."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)

    async def do(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask the browser for something, and wait for its answer."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(PATIENCE_S):
            while True:
                told = await self._socket.receive_json()
                entry = told.get("params", {}).get("entry", {})
                if entry.get("level") == "error":
                    self.errors.append(f"{entry['text']} {entry.get('url', '')}")
                if told.get("id") == number:
                    assert "error" not in told, told
                    result: dict[str, Any] = told["result"]
                    return result

    async def evaluate(self, code: str) -> Any:
        """The value of some JavaScript."""
        told = await self.do("Runtime.evaluate", expression=code, returnByValue=True)
        return told["result"].get("value")

    async def until(self, code: str) -> None:
        """Wait until some JavaScript is true."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if await self.evaluate(code):
                    return
                await asyncio.sleep(0.1)

    async def key(self, text: str) -> None:
        """Press a key that writes a character."""
        await self.do("Input.dispatchKeyEvent", type="keyDown", text=text, key=text)
        await self.do("Input.dispatchKeyEvent", type="keyUp", key=text)

    async def picture(self) -> bytes:
        """The page as PNG."""
        told = await self.do("Page.captureScreenshot", format="png")
        return base64.b64decode(told["data"])


@asynccontextmanager
async def browsing(folder: Path, address: str, size: str = "1200,700") -> AsyncIterator[Page]:
    """A browser with one page, until the block is left."""
    profile = folder / "profile"
    process = await asyncio.create_subprocess_exec(
        *(require_tool("chromium"), "--headless", "--no-sandbox", "--disable-gpu"),
        *("--hide-scrollbars", "--remote-debugging-port=0", "--remote-allow-origins=*"),
        *(f"--user-data-dir={profile}", f"--window-size={size}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                targets = await answer.json()
            (url,) = [one["webSocketDebuggerUrl"] for one in targets if one["type"] == "page"]
            async with session.ws_connect(url, max_msg_size=0) as socket:
                page = Page(socket)
                await page.do("Log.enable")
                await page.do("Page.navigate", url=address)
                yield page
    finally:
        process.terminate()
        await process.wait()


async def _port(path: Path) -> str:
    """The port that the browser chose, once it has written it down."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return (await asyncio.to_thread(path.read_text)).splitlines()[0]
            except (FileNotFoundError, IndexError):
                await asyncio.sleep(0.05)
