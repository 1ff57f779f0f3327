"""The tutorial, typed in as it stands, on ports that are free."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.nats_cluster import free_ports

ROOT = Path(__file__).parents[1]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
WAIT = "until (echo > /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do :; done"


def script() -> str:
    """Its commands but the set-up, each block after the other, with a wait for the relays."""
    blocks = re.findall(r"^```console\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)
    assert "pip install" in blocks[0]
    served = next(i for i, block in enumerate(blocks) if "nostr-agent relay" in block)
    waits = "\n".join(WAIT.format(port=port) for port in (4901, 4902))
    text = "\n".join([*blocks[1 : served + 1], waits, *blocks[served + 1 :]])
    for old, new in zip(("4901", "4902"), free_ports(2), strict=True):
        text = text.replace(old, str(new))
    return f"set -e; set -m; trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{text}"


async def test_the_tutorial(tmp_path: Path) -> None:
    folders = {name: str(tmp_path) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        script(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=tmp_path,
        env=os.environ | folders | {"PATH": path},
    )
    async with asyncio.timeout(110):
        said, _ = await process.communicate()
    text = said.decode()
    assert process.returncode == 0, text
    assert re.search(r"^reactions: (about )?[12] ", text, re.MULTILINE), text
    assert not (tmp_path / "tutorial").exists()
