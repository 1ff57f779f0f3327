"""Runs PyPI nostr-relay in its own environment, on a port that the system gives.

Usage: run_nostr_relay.py FOLDER [PUBKEY]; prints `LISTENING ws://...` when it serves. Data and
configuration lie in FOLDER. With a public key, only its owner may save or query, after AUTH.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

import nostr_relay
import uvicorn
import yaml
from alembic import config as alembic
from nostr_relay.storage import get_storage
from nostr_relay.web import create_app


def configuration(folder: Path, url: str, auth: bool) -> Path:
    """Write the configuration: no age and size rules, as the shared events are old and large."""
    settings = {
        "relay_name": "python relay",
        "storage": {
            "sqlalchemy.url": f"sqlite+aiosqlite:///{folder / 'nostr.sqlite3'}",
            "validators": ["nostr_relay.validators.is_signed"],
        },
        "authentication": {
            "enabled": auth,
            "relay_urls": [url],
            "actions": {"save": "w" if auth else "a", "query": "w" if auth else "a"},
        },
        "max_limit": 6000,
        "subscription_limit": 32,
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(settings), "utf-8")
    return path


async def let_write(pubkey: str) -> None:
    """Give the writer's role to a public key."""
    async with get_storage() as storage:
        await storage.set_auth_roles(pubkey, "w")


def main() -> None:
    folder = Path(sys.argv[1])
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
    path = configuration(folder, url, auth=len(sys.argv) > 2)
    os.chdir(folder)
    app = create_app(str(path))
    migrations = Path(nostr_relay.__file__).with_name("alembic.ini")
    alembic.main([f"-c{migrations}", "upgrade", "head"])
    if len(sys.argv) > 2:
        asyncio.run(let_write(sys.argv[2]))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    print("LISTENING", url, flush=True)  # noqa: T201  (the protocol of tests.peers.servers)
    server.run(sockets=[listener])


main()
