"""`nostr-tui --serve`: the same application in a browser, for everyone who has its secret.

Each tab runs a process of its own, whose terminal textual-serve carries over a WebSocket. Who may
come in is decided as for the API: a loopback Host, no foreign Origin, a secret. The secret is of
this run alone, not the agent's token. The address that is printed has it once; a cookie takes its
place, so that it does not stay in the history. Browsers send the cookies of 127.0.0.1 to all its
ports, but only below a cookie's path: that is random too, so no page of another port gets it.
"""

from __future__ import annotations

import hmac
import secrets
import shlex
import socket
from string import Template
from typing import TYPE_CHECKING, Final

from aiohttp import web
from textual_serve.server import Server

from agent.api.guard import bearer_of, host_name, is_loopback
from nostr_client.errors import NetworkError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Sequence

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MOST_TABS: Final = 8
"""Each is a process of some 60 MB."""

CLOSE_S: Final = 5.0
LEAST_COLUMNS: Final = 60
"""Cells that a page shows side by side, on a phone too: the application needs so many."""

POLICY: Final = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self' data:; "
    "connect-src 'self' ws:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

PAGE: Final = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>nostr-tui</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="static/css/xterm.css">
<style>
@font-face { font-family: "Roboto Mono"; src: url("static/fonts/$font"); font-weight: 100 700; }
html, body { margin: 0; height: 100%; background: #0e131a; color: #d9e1ea; }
body { font-family: "Roboto Mono", monospace; }
#terminal { height: 100vh; }
#start { display: none; }
#ended { display: none; position: fixed; inset: 0; place-items: center; background: #0e131ae0; }
body.-closed #ended { display: grid; }
a { color: #5eb1ef; }
</style>
<script src="static/js/textual.js"></script>
</head>
<body>
<div id="terminal" class="textual-terminal" data-session-websocket-url="$socket"
 data-font-size="$size"></div>
<div id="start"></div>
<script src="begin.js"></script>
<div id="ended"><p>It has ended. <a href="./">Start again</a></p></div>
</body>
</html>
""")
BEGIN: Final = """\
"use strict";
const terminal = document.querySelector("#terminal");
const given = new URLSearchParams(location.search).has("fontsize");
const fitting = Math.floor(innerWidth / COLUMNS / 0.6);
if (!given) terminal.dataset.fontSize = String(Math.max(8, Math.min(16, fitting)));
const focus = () => terminal.querySelector("textarea")?.focus({ preventScroll: true });
new MutationObserver(focus).observe(terminal, { childList: true, subtree: true });
addEventListener("focus", focus);
addEventListener("click", focus);
"""
"""Gives the keys to the terminal as soon as it is there, and a narrow page a smaller font.

It runs before textual.js makes the terminal. A sign of the font is 0.6 of its size wide.
"""

FONT: Final = "RobotoMono-VariableFont_wght.ttf"


class Browser:
    """Serves the application that `command` runs, to those who know the secret.

    The cookie's name has the port: two that are served at once keep each other's.
    """

    def __init__(self, command: Sequence[str], secret: str, port: int, folder: str) -> None:
        self._secret = secret
        self._folder = f"/{folder}/"
        self._cookie = f"nostr-tui-{port}"
        self._server = Server(shlex.join(command), title="nostr-tui")
        self._tabs = 0

    def application(self) -> web.Application:
        """The routes, behind the guard: everything is below the random folder."""
        app = web.Application(middlewares=[self._guard])
        app.router.add_get(self._folder, self._page)
        app.router.add_get(f"{self._folder}begin.js", self._begin)
        app.router.add_get(f"{self._folder}ws", self._session)
        app.router.add_static(f"{self._folder}static", self._server.statics_path)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not is_loopback(host_name(request.host)):
            raise web.HTTPForbidden(text="this is served to this machine alone\n")
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"http://{request.host}":
            raise web.HTTPForbidden(text="other pages may not come in here\n")
        given = request.query.get("token", "")
        if given and request.path == "/" and self._knows(given):
            return self._welcome(given)
        given = (
            request.cookies.get(self._cookie)
            or bearer_of(request.headers.get("Authorization"))
            or ""
        )
        if not self._knows(given):
            raise web.HTTPUnauthorized(text="open the address that nostr-tui --serve printed\n")
        return await handler(request)

    def _knows(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._secret.encode())

    def _welcome(self, secret: str) -> web.Response:
        """To the page without the secret in its address, which a cookie has from now on."""
        found = web.Response(
            status=303, headers={"Location": self._folder, "Cache-Control": "no-store"}
        )
        found.set_cookie(self._cookie, secret, httponly=True, samesite="Strict", path=self._folder)
        return found

    async def _page(self, request: web.Request) -> web.Response:
        size = request.query.get("fontsize", "16")
        text = PAGE.substitute(
            socket=f"ws://{request.host}{self._folder}ws",
            size=size if size.isdecimal() else "16",
            font=FONT,
        )
        headers = {
            "Content-Security-Policy": POLICY,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _begin(self, request: web.Request) -> web.Response:
        text = BEGIN.replace("COLUMNS", str(LEAST_COLUMNS))
        return web.Response(text=text, content_type="text/javascript")

    async def _session(self, request: web.Request) -> web.StreamResponse:
        """One tab, until it is closed."""
        if self._tabs >= MOST_TABS:
            raise web.HTTPServiceUnavailable(text="there are too many tabs open\n")
        self._tabs += 1
        try:
            answer: web.StreamResponse = await self._server.handle_websocket(request)
        finally:
            self._tabs -= 1
        return answer


async def serve(
    command: Sequence[str],
    port: int,
    announce: Callable[[str], None],
    until: asyncio.Event,
) -> None:
    """Serve on loopback until the event; `announce` gets the address. Raises NetworkError."""
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise NetworkError(
            f"cannot listen on port {port}: {error.strerror}; --port 0 takes a free one"
        ) from error
    secret, port = secrets.token_urlsafe(32), listener.getsockname()[1]
    browser = Browser(command, secret, port, secrets.token_urlsafe(16))
    runner = web.AppRunner(browser.application(), access_log=None, shutdown_timeout=CLOSE_S)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        announce(f"http://127.0.0.1:{port}/?token={secret}")
        await until.wait()
    finally:
        await runner.cleanup()
