"""A program whose extra is not installed says which one it is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from nostr_client.cli.entry import run_command
from nostr_client.errors import EXTRAS, MissingExtra, NetworkError, optional
from nostr_client.errors.installing import install_command
from nostr_client.network.transport import Transport
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import Watch, WatchRepository

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT = """
import sys
from importlib import import_module

lacking, module, *sys.argv[1:] = sys.argv[1:]

sys.modules[lacking] = None
import_module(module).main()
"""


@pytest.mark.parametrize(
    ("lacking", "module", "extra", "words"),
    [
        ("prometheus_client", "agent.cli", "agent", ["run", "--once"]),
        ("textual", "tui.cli", "tui", ["--serve"]),
    ],
)
def test_the_extra_is_named(
    tmp_path_factory: pytest.TempPathFactory,
    lacking: str,
    module: str,
    extra: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp(name)))
    command = [sys.executable, "-c", WITHOUT, lacking, module, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1, done.stderr
    assert f"is not installed: {install_command(extra)}" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("lacking", "module", "words"),
    [
        ("pyarrow", "agent.cli", "archive export {tmp}/out --form parquet --store {tmp}/s.db"),
        ("pyarrow", "agent.cli", "archive export {tmp}/out.zst --store {tmp}/s.db"),
        ("pyarrow", "agent.cli", "archive import {tmp}/in.zst --store {tmp}/s.db"),
        ("pyarrow", "agent.cli", "archive import {tmp}/in.parquet --store {tmp}/s.db"),
        ("pyarrow", "agent.cli", "reindex --jsonl {tmp}/in.zst --out {tmp}/t --engine spark"),
        ("nats", "nostr_client.cli", "counter get a.b --nats nats://127.0.0.1:9"),
        ("aiohttp_socks", "nostr_client.cli",
         "relay show wss://r.example --proxy socks5h://127.0.0.1:9"),
        ("matplotlib", "nostr_client.cli", "watch history w --plot {tmp}/w.png --store {tmp}/s.db"),
        ("pyarrow", "nostr_client.cli",
         "watch history w --format parquet -o {tmp}/w.parquet --store {tmp}/s.db"),
    ],
)  # fmt: skip
async def test_a_command_says_which_extra_it_lacks(
    tmp_path: Path, lacking: str, module: str, words: str
) -> None:
    await fill_with_a_watch(tmp_path / "s.db")
    for name in ("in.zst", "in.parquet"):
        (tmp_path / name).write_bytes(b"x")
    line = words.format(tmp=tmp_path, key="01" * 32).split()
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", WITHOUT, lacking, module, *line],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    (told,) = done.stderr.splitlines()
    extra = "spark" if "spark" in words else EXTRAS[lacking]
    assert f"needs {lacking}: {install_command(extra)}" in told
    assert {name for name in os.listdir(tmp_path) if name[:2] not in ("s.", "in")} == set()


async def test_a_proxy_of_the_environment_says_which_extra_it_lacks_where_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This machine is reached without it; what is not stays unreachable, and is not gone to."""
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "aiohttp_socks", None)
    monkeypatch.delitem(sys.modules, "nostr_client.network.access.proxy_connector", raising=False)
    async with Transport() as transport:
        with pytest.raises(NetworkError, match=r"a proxy needs aiohttp_socks: .*\[proxy\]"):
            await transport.connect("wss://r.example")
        with pytest.raises(NetworkError, match="onnect call failed"):
            await transport.connect("ws://127.0.0.1:9")


async def fill_with_a_watch(store: Path) -> None:
    """A store that knows the watch `w`."""
    async with await SqliteStore.open(store):
        pass
    async with await WatchRepository.open(store) as book:
        await book.add(Watch(name="w", query="followers", target="01" * 32))


def test_a_package_that_cannot_be_loaded_is_told_with_why() -> None:
    with pytest.raises(MissingExtra, match=r"zstd needs pyarrow.*\[parquet\].*wrong numpy"), \
            optional("zstd"):  # fmt: skip
        raise ImportError("wrong numpy", name="pyarrow.lib")
    with pytest.raises(ImportError, match="ours"), optional("zstd"):
        raise ImportError("ours", name="nostr_client.nothing")


def test_what_no_extra_brings_is_a_bug_of_ours() -> None:
    @click.command()
    def broken() -> None:
        raise ModuleNotFoundError("no", name="elsewhere")

    with pytest.raises(ModuleNotFoundError):
        run_command(broken, "broken", [])
