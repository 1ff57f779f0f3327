"""`make screenshots` takes pictures of the terminal application over the running demonstration.

It writes an SVG of each page, and a PNG of `nostr-tui --serve` in Chromium, into docs/assets. The
pages of coverages and overlaps, and the first page in four sizes, show what the tests' agent knows:
nobody of the demonstration writes much. `python scripts/screenshots.py sizes` writes only the
sizes, and `python scripts/screenshots.py matrices` only the two pages.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.tui.backend import Recorded, served
from tests.tui.chromium import browsing
from tests.tui.driving import ALL_SIZES, Driver, driving
from tui.browser import serve
from tui.embedded_agent import DEMO, embedded_agent

if TYPE_CHECKING:
    from tui.embedded_agent import EmbeddedAgent

TARGET: Final = Path(__file__).parents[1] / "docs" / "assets"
WIDTH: Final = 140
PATIENCE_S: Final = 120
PICTURES: Final = {
    "overview": (26, ("1",)),
    "watch": (36, ("1", "home", "enter", "h")),
    "relays": (20, ("2", "home", "down")),
    "syncs": (16, ("3",)),
    "counters": (22, ("4",)),
}
"""Height in lines, so that each picture is full, and the keys that open the page."""

MATRICES: Final = {"coverage": (18, ("v",)), "overlap": (22, ("enter", "o", "down", "down"))}
"""The same, of pages over the tests' agent."""


async def main() -> None:
    """Wait until the demonstration has something to show, and take the pictures."""
    TARGET.mkdir(parents=True, exist_ok=True)
    await matrices()
    await sizes()
    async with embedded_agent(DEMO) as one:
        await one.place()
        for name, (height, keys) in PICTURES.items():
            size = (WIDTH, height)
            async with driving(one.locate, size, now=time.time, patience=PATIENCE_S) as tui:
                await tui.until(lambda tui=tui: _has_lived(tui))
                await tui.press(*keys)
                (TARGET / f"tui-{name}.svg").write_text(plain(await tui.picture()), "utf-8")
        (TARGET / "tui-browser.png").write_bytes(await _browser(one))


async def matrices() -> None:
    """Take the pictures of the heat maps: relays by kinds, and relays by relays."""
    with served() as api:
        api.use(Recorded())
        for name, (height, keys) in MATRICES.items():
            async with driving(api.api.url, (WIDTH, height), toasts=False) as tui:
                await tui.press(*keys)
                (TARGET / f"tui-{name}.svg").write_text(plain(await tui.picture()), "utf-8")


async def sizes() -> None:
    """Take the pictures of the first page in the sizes that the tests compare."""
    with served() as api:
        api.use(Recorded())
        async with driving(api.api.url, ALL_SIZES[0], toasts=False) as tui:
            for width, height in ALL_SIZES:
                await tui.pilot.resize_terminal(width, height)
                await tui.until(lambda size=(width, height): tui.app.size == size)
                await tui.settled()
                path = TARGET / f"tui-{width}x{height}.svg"
                path.write_text(plain(await tui.picture()), "utf-8")


def _has_lived(tui: Driver) -> bool:
    model = tui.app.model
    counted = [one for one in model.watches.values() if one.spark and one.answered >= 6]
    return len(counted) == 5 and all(one.outcome for one in model.syncs.values())


async def _browser(one: EmbeddedAgent) -> bytes:
    api, token_file = await one.place()
    command = [sys.executable, "-m", "tui", "--api", api, "--token-file", str(token_file)]
    address, until = asyncio.Queue[str](), asyncio.Event()
    serving = asyncio.create_task(serve(command, 0, address.put_nowait, until))
    with tempfile.TemporaryDirectory() as folder:
        async with browsing(Path(folder), await address.get()) as page:
            await page.until("document.body.classList.contains('-first-byte')")
            await asyncio.sleep(6)
            await page.evaluate("document.querySelector('textarea').focus()")
            await page.key("\r")
            await asyncio.sleep(4)
            picture = await page.picture()
    until.set()
    await serving
    return picture


def plain(svg: str) -> str:
    """Return the picture without foreign fonts: every viewer has one of fixed width."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code", "monospace").replace("font-family: arial", "font-family: Arial")


if __name__ == "__main__":
    parts = {"sizes": sizes, "matrices": matrices}
    asyncio.run(parts.get("".join(sys.argv[1:]), main)())
