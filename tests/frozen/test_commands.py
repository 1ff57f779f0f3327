"""Exit codes and the keys of `--json` of every command, run in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.api.client import AgentClient
from agent.cli import run as nostr_agent
from nostr_client.cli.app import run as nostr_client
from nostr_client.cli.entry import run_async
from tests.agent.service.kit import an_agent
from tests.commands import COMMANDS
from tests.docs.world import NOTE, World, world
from tests.frozen.elsewhere import elsewhere
from tests.frozen.shape import printed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

PROGRAMS = {"nostr-client": nostr_client, "nostr-agent": nostr_agent}

OF_RELAYS = (
    "nostr-client key gen --json",
    "nostr-client key show --key-file {home}/key --json",
    "nostr-client key show --key-file {home}/nothing --json",
    "nostr-client encode npub npub1…",
    "nostr-client encode note note1…",
    "nostr-client encode nprofile npub1…",
    "nostr-client encode nevent note1…",
    "nostr-client encode naddr naddr1…",
    "nostr-client decode nsec1nothing",
    "nostr-client hll offset {{\"kinds\":[3]}}",
    "nostr-client hll from-events 16 {home}/note.json",
    "nostr-client hll merge 00",
    "nostr-client hll estimate 00 --json",
    "nostr-client hll overlap 00 00 --json",
    "nostr-client relay show {one} --json",
    "nostr-client relay show {gone} --json",
    "nostr-client relay check {one} --json",
    "nostr-client relay check {gone} --json",
    "nostr-client coverage npub1… --relays {one} --json",
    "nostr-client count followers npub1… -r {one} -r {two} --json",
    "nostr-client count --filter {{\"kinds\":[7]}} -r {one} --json",
    "nostr-client count followers npub1… -r {gone} --json",
    "nostr-client count followers npub1… --json",
    "nostr-client req --kind 7 -r {one}",
    "nostr-client publish {home}/note.json -r {one} --json",
    "nostr-client publish {home}/note.json -r {gone} --json",
    "nostr-client publish {home}/nothing -r {one} --json",
    "nostr-client sync run -r {one} --filter {{\"kinds\":[3]}} --dry-run --print-missing --json",
    "nostr-client sync run -r {one} --filter {{\"kinds\":[3]}} --json",
    "nostr-client sync run -r {one} --filter {{\"nothing\":1}} --json",
    "nostr-client sync memory --json",
    "nostr-client mirror {one} {two} --filter {{\"kinds\":[7]}} --include-others --json",
    "nostr-client assertions fields --json",
    "nostr-client assertions publish --all -r {one} --json",
    "nostr-client assertions retract npub1… -r {one} --json",
    "nostr-client watch add w followers npub1… -r {one} --json",
    "nostr-client watch add w followers npub1… -r {one} --json",
    "nostr-client relay rank --json",
    "nostr-client watch run --once --json",
    "nostr-client relay rank --json",
    "nostr-client relay rank followers npub1… --json",
    "nostr-client watch list --json",
    "nostr-client watch show w --json",
    "nostr-client watch show x --json",
    "nostr-client watch history w --json",
    "nostr-client watch people w --since 0 --json",
    "nostr-client digest --json",
    "nostr-client watch set w followers npub1… -r {two} --json",
    "nostr-client watch remove w --json",
    "nostr-client watch remove w --json",
)  # fmt: skip

OF_THE_STORE = (
    "nostr-client store import {home}/note.json --json",
    "nostr-client store import {home}/nothing --json",
    "nostr-client store count --json",
    "nostr-client store show --json",
    "nostr-client store query --kind 1",
    "nostr-client store export",
    "nostr-client store verify --json",
    "nostr-client store sql VALUES(1) --json",
    "nostr-client store sql PRAGMA --json",
    "nostr-client count followers npub1… --store {home}/none.db --json",
    "nostr-client counter get a.b --json",
    "nostr-client counter stream add S --subject a.> --json",
    "nostr-client counter stream add S --subject a.> --json",
    "nostr-client counter stream add T --subject b.> --json",
    "nostr-client counter add a.b 3 --msg-id one --json",
    "nostr-client counter add a.b 3 --msg-id one --json",
    "nostr-client counter add a.b x --json",
    "nostr-client counter add c.d 1 --json",
    "nostr-client counter get a.b --json",
    "nostr-client counter get a.> --json",
    "nostr-client counter history a.b --json",
    "nostr-client counter recount a.b --json",
    "nostr-client counter watch a.b --lines 1 --json",
    "nostr-client counter source add T S --transform a.*=b.{{{{wildcard(1)}}}} --json",
    "nostr-client counter source remove T S --json",
    "nostr-client counter stream set S --keep-changes 10 --json",
    "nostr-client counter stream show S --json",
    "nostr-client counter stream show X --json",
    "nostr-client counter stream list --json",
    "nostr-client counter reset a.b --json",
    "nostr-client counter remove a.b --json",
    "nostr-client counter stream remove S --json",
    "nostr-agent archive export {home}/all.jsonl --store {store} --json",
    "nostr-agent archive import {home}/all.jsonl --store {store} --json",
    "nostr-agent archive import {home}/nothing --store {store} --json",
    "nostr-agent backup {home}/backup.db --store {store} --json",
    "nostr-agent backup {home}/backup.db --store {store} --json",
    "nostr-agent restore {home}/backup.db --store {home}/other.db --json",
    "nostr-agent restore {home}/backup.db --store {home}/other.db --json",
    "nostr-agent reindex --store {store} --engine reference --check --json",
    "nostr-agent reindex --store {store} --engine reference --json",
    "nostr-client store hot --json",
    "nostr-agent reindex --jsonl {home}/all.jsonl --out {home}/t --engine reference --json",
    "nostr-agent init -c {home}/agent.toml --json",
    "nostr-agent init -c {home}/agent.toml --json",
    "nostr-agent check -c {home}/agent.toml --json",
    "nostr-agent check --set relay.nothing=1 --json",
    "nostr-agent install-service --print --json",
    "nostr-agent status --json",
    "nostr-agent run --set relay.nothing=1",
)

OF_THE_AGENT = (
    "nostr-agent status --json",
    "nostr-agent reload --json",
    "nostr-client watch add f followers npub1… --json",
    "nostr-client watch add f followers npub1… --json",
    "nostr-client watch list --json",
    "nostr-client watch show w --json",
    "nostr-client watch show x --json",
    "nostr-client watch history w --json",
    "nostr-client watch people w --since 0 --json",
    "nostr-client digest --json",
    "nostr-client watch run w --once --json",
    "nostr-client watch set f zaps npub1… --json",
    "nostr-client watch remove f --json",
    "nostr-client watch remove w --json",
    'nostr-client sync add s --filter {{"kinds":[1]}} --interval 1d --json',
    "nostr-client sync add s --filter nothing --json",
    "nostr-client sync list --json",
    "nostr-client sync show s --json",
    "nostr-client sync cancel x --json",
    "nostr-client sync remove s --json",
    "nostr-client sync run s --json",
    "nostr-client relay list --json",
    "nostr-client assertions status --json",
    "nostr-client counter add app.x 2 --json",
    "nostr-client counter get app.> --json",
    "nostr-client counter history app.x --json",
    "nostr-client counter recount app.x --json",
    "nostr-client counter reset app.x --json",
    "nostr-client counter link list --json",
    "nostr-client counter link run x --json",
    "nostr-client counter link confirm x --json",
    "nostr-agent retention show --json",
    "nostr-agent retention run --json",
    "nostr-agent logs --newest 1 --json",
)

NOT_RUN = {
    "nostr-agent demo": "its own test reads its JSON",
    "nostr-agent run": "stays; its logs are pinned by tests of the service",
    "nostr-agent relay": "stays; its output is pinned by tests of the relay",
}

CONFIGURATION = """
[[watches]]
name = "w"
query = "followers"
target = "{npub}"
"""


@pytest.fixture
def there(tmp_path: Path) -> Iterator[World]:
    """Two relays, and the home of an empty account."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "key").write_text("01" * 32, "ascii")
    (home / "key").chmod(0o600)
    (home / "note.json").write_text(NOTE.event.to_json(), "utf-8")
    with elsewhere(world(home)) as made:
        yield made


@pytest.fixture(autouse=True)
def account(there: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in there.environment().items():
        monkeypatch.setenv(name, value)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(there.home)


def _words(line: str, there: World) -> list[str]:
    store = there.home / ".local/share/nostr-tally/store.db"
    gone = f"ws://127.0.0.1:{there.relay}"  # a port where nobody listens
    filled = line.format(one=there.one, two=there.two, gone=gone, home=there.home, store=store)
    return [there.substituted(word) for word in filled.split()]


def _run(
    lines: tuple[str, ...],
    there: World,
    capsys: pytest.CaptureFixture[str],
    after: tuple[str, ...] = (),
) -> str:
    """Each line with its exit code, and below it the keys that it printed."""
    found: list[str] = []
    for line in lines:
        words = _words(line, there)
        code = PROGRAMS[words[0]]([*words[1:], *after])
        told = capsys.readouterr()
        assert "Traceback" not in told.err, told.err
        shown = printed(told.out) if "--json" in line and told.out else []
        found += [f"{line} -> {code}", *(f"    {one}" for one in shown)]
    return "\n".join(found)


def test_commands_that_ask_relays(
    there: World, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert _run(OF_RELAYS, there, capsys) == snapshot


def test_commands_on_the_store(
    there: World, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert _run(OF_THE_STORE, there, capsys) == snapshot


async def _counted(url: str, token: str) -> bool:
    async with AgentClient(url, token) as client:
        return (await client.watch("w")).figure is not None


def test_commands_that_ask_the_agent(
    there: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    text = CONFIGURATION.format(npub=there.substituted("npub1…"))
    with elsewhere(an_agent(tmp_path, [there.one, there.two], text)) as running:
        url, token = running.service.api.url, running.service.token
        while not run_async(_counted(url, token)):
            continue
        after = ("--api", url, "--token-file", str(tmp_path / "token"))
        found = _run(OF_THE_AGENT, there, capsys, after)
    assert "\n".join(filter(_is_of_the_first_level, found.splitlines())) == snapshot


def _is_of_the_first_level(line: str) -> bool:
    """What stands below depends on what the agent has done by then; `test_http` has its types."""
    return not line.startswith("    ") or not set(line.strip()) & set(".[")


def test_every_command_is_here() -> None:
    lines = [*OF_RELAYS, *OF_THE_STORE, *OF_THE_AGENT]
    lacking = [
        name
        for name, command in COMMANDS.items()
        if any("--json" in one.opts for one in command.params)
        and name not in NOT_RUN
        and not any(f"{line} ".startswith(f"{name} ") for line in lines)
    ]
    assert lacking == []
