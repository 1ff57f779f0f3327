"""The agent publishes cards: what changed, once, over restarts and kills, by a key of its own."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from agent.config import InvalidConfig, parse
from agent.config.model import AssertionsSection, IdentitySection
from agent.service.process.secrets import make_card_signer, make_signer
from nostr_client.cli.app import cli
from nostr_client.codecs.keys import KeySigner
from nostr_client.options import ConnectionOptions
from nostr_client.store.sqlite import SqliteStore
from nostr_client.watch import Watch
from tests.agent.service.kit import an_agent, config_text, eventually
from tests.cards import ME, PROVIDER, Takes, cards, key_file, made, sent
from tests.faulty_relay import FaultyRelay
from tests.nats_cluster import free_ports
from tests.running import start

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from agent.api import schema
    from tests.agent.service.kit import Running
    from tests.faulty_relay import Peer

IDENTITY = KeySigner(bytes([4]) * 32)
FANS = [KeySigner(bytes([n]) * 32) for n in range(20, 25)]


NOTE = made(ME, 1)
LISTS = [made(fan, 3, ("p", ME.pubkey)) for fan in FANS]
MINE = made(ME, 3, *(("p", fan.pubkey) for fan in FANS))


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    async with await SqliteStore.open(tmp_path / "store.db") as opened:
        await opened.save([NOTE, MINE, *LISTS])
    for name, signer in (("cards.key", PROVIDER), ("identity.key", IDENTITY)):
        key_file(tmp_path / name, signer)
    return tmp_path


def section(folder: Path, more: str, key: str = "cards.key") -> str:
    return f"""
[identity]
key_file = "{folder / "identity.key"}"
[assertions]
key_file = "{folder / key}"
{more}
"""


@pytest.mark.parametrize("whose", ["cards", "identity"])
async def test_a_stop_ends_a_command_that_prints_no_key(tmp_path: Path, whose: str) -> None:
    """With the programs that it started: one of them would keep its pipe open."""
    began = tmp_path / "began"
    hangs = f"sleep 600 & echo $! > {began}.new; mv {began}.new {began}; wait"
    command = ("sh", "-c", hangs)
    if whose == "cards":
        section = AssertionsSection(key_command=command)
        asked = make_card_signer(section, None, ConnectionOptions())
    else:
        asked = make_signer(IdentitySection(key_command=command))
    task = asyncio.ensure_future(asked)

    async def is_hanging() -> bool:
        return began.exists()

    async def is_ended() -> bool:
        return not is_running(int(began.read_text()))

    await eventually(is_hanging)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(is_ended)


def is_running(pid: int) -> bool:
    """Whether a process is neither gone nor dead and unread by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def tags(card: Mapping[str, Any], name: str) -> list[list[str]]:
    return [tag[1:] for tag in card["tags"] if tag[0] == name]


async def ran(agent: Running) -> schema.Assertions:
    """The result of one more run, which begins after this."""
    before = (await agent.client.assertions()).ran_at
    await agent.client.run_assertions()

    async def done() -> bool:
        found = await agent.client.assertions()
        return not found.running and found.ran_at != before

    await eventually(done)
    return await agent.client.assertions()


async def test_follows_and_a_list_get_cards_and_nothing_is_sent_twice(folder: Path) -> None:
    named = f'followed_by = "{ME.pubkey}"\nsubjects = ["{ME.npub}"]'
    async with FaultyRelay(Takes()) as relay:
        more = section(folder, named)
        async with an_agent(folder, [relay.url], more) as agent:
            first = await ran(agent)
            assert first.report is not None
            assert (first.on, first.pubkey, first.why) == (True, PROVIDER.pubkey, "")
            assert sum(len(tags(one, "followers")) for one in cards(relay)) == len(FANS) + 1
            again = await ran(agent)
            assert again.report is not None
            assert (again.report.signed, again.report.unchanged) == (0, len(FANS) + 1)
            delivery = again.report.relays[relay.url]
            assert (delivery.left, delivery.error) == (0, "")
        for _ in range(3):
            async with an_agent(folder, [relay.url], more) as agent:
                report = (await ran(agent)).report
                assert report is not None
                assert report.signed == 0
        assert len(cards(relay)) == len({one["id"] for one in cards(relay)}) == len(FANS) + 1
        mine = next(one for one in cards(relay) if tags(one, "d") == [[ME.pubkey]])
        assert tags(mine, "followers") == [[str(len(FANS))]]
        assert {one["pubkey"] for one in sent(relay)} == {PROVIDER.pubkey}


async def test_a_changed_number_is_signed_again_and_a_removed_subject_retracted(
    folder: Path,
) -> None:
    both = f'subjects = ["{ME.npub}", "{FANS[0].npub}"]'
    async with FaultyRelay(Takes()) as relay:
        async with an_agent(folder, [relay.url], section(folder, both)) as agent:
            await ran(agent)
            more = made(KeySigner(bytes([40]) * 32), 3, ("p", ME.pubkey))
            await agent.service.agent.parts.store.save([more])
            report = (await ran(agent)).report
            assert report is not None
            assert (report.signed, report.unchanged) == (1, 1)
        only = f'subjects = ["{ME.npub}"]'
        async with an_agent(folder, [relay.url], section(folder, only)) as agent:
            report = (await ran(agent)).report
            assert report is not None
            await relay.heard("EVENT", 6)
        deleted = [tag for one in sent(relay) if one["kind"] == 5 for tag in tags(one, "a")]
        assert deleted == [[f"30382:{PROVIDER.pubkey}:{FANS[0].pubkey}"]]


async def test_every_subject_of_the_store_gets_a_card(folder: Path) -> None:
    people, things = len(FANS) + 1, 1
    async with FaultyRelay(Takes()) as relay:
        every = section(folder, "all_subjects = true")
        async with an_agent(folder, [relay.url], every) as agent:
            report = (await ran(agent)).report
            assert report is not None
            assert (report.signed + report.unchanged, report.retracted) == (people + things, 0)
        assert len(cards(relay)) == people + things
        named = section(folder, f'subjects = ["{ME.npub}"]')
        async with an_agent(folder, [relay.url], named) as agent:
            report = (await ran(agent)).report
            assert report is not None
            assert (report.signed, report.unchanged) == (0, 1)
        deletions = [one for one in sent(relay) if one["kind"] == 5]
        assert len(deletions) == people + things - 1


async def test_the_number_of_a_watch_replaces_that_of_the_store(folder: Path) -> None:
    asked = FaultyRelay(events=[one.event for one in LISTS[:3]])
    named = 'watches = ["me"]'
    async with FaultyRelay(Takes()) as relay, asked:
        async with an_agent(folder, [relay.url], section(folder, named)) as agent:
            assert "no watch named" in (await ran(agent)).why
            await agent.client.add_watch(followers_of(ME, asked.url))
            await agent.until(lambda one: one.figure is not None, "me")
            report = (await ran(agent)).report
            assert report is not None
            assert (report.signed, report.withheld) == (1, {})
        (card,) = cards(relay)
        assert tags(card, "followers") == [["3"]]
        assert tags(card, "interval") == [["followers", "3", "3", "exact"]]
        assert tags(card, "relays") == [["followers", "1", "1"]]


async def test_a_watch_without_a_number_withholds_its_card_and_retracts_none(
    folder: Path,
) -> None:
    async with FaultyRelay(Takes()) as relay:
        subject = section(folder, f'subjects = ["{ME.npub}"]')
        async with an_agent(folder, [relay.url], subject) as agent:
            await ran(agent)
            await agent.client.add_watch(followers_of(ME, f"ws://127.0.0.1:{free_ports(1)[0]}"))
        watched = section(folder, 'watches = ["me"]')
        async with an_agent(folder, [relay.url], watched) as agent:
            report = (await ran(agent)).report
            assert report is not None
            assert (report.signed, report.retracted) == (0, 0)
            assert report.withheld == {"watch 'me' has no number yet: run it first": 1}
        assert len(cards(relay)) == 1


def followers_of(who: KeySigner, url: str) -> Watch:
    return Watch(name="me", query="followers", target=who.pubkey, relays=(url,), live=False)


async def test_a_relay_that_is_down_or_refuses_is_reported_and_gets_the_same_events(
    folder: Path,
) -> None:
    behaviour = Takes("blocked: not here")
    named = f'subjects = ["{ME.npub}"]'
    async with FaultyRelay(behaviour) as relay:
        async with an_agent(folder, [relay.url], section(folder, named)) as agent:
            refused = (await ran(agent)).report
            assert refused is not None
            assert refused.relays[relay.url].left == 3
            assert "blocked: not here" in refused.relays[relay.url].refused
            behaviour.refuses = ""
            taken = (await ran(agent)).report
            assert taken is not None
            assert (taken.signed, taken.relays[relay.url].left) == (0, 0)
        assert len({one["id"] for one in sent(relay)}) == 3


class WantsAuth(Takes):
    async def on_connect(self, peer: Peer) -> None:
        await peer.send("AUTH", "challenge")


async def test_the_identity_is_not_seen_beside_the_key_of_the_cards(folder: Path) -> None:
    named = f'subjects = ["{ME.npub}"]'
    async with FaultyRelay(WantsAuth("auth-required: who are you")) as relay:
        async with an_agent(folder, [relay.url], section(folder, named)) as agent:
            await ran(agent)
        assert "EVENT" in {message[0] for message in relay.received}
        assert "AUTH" not in {message[0] for message in relay.received}


async def test_nothing_is_published_without_a_whole_store_or_with_the_wrong_key(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    named = f'subjects = ["{ME.npub}"]'
    empty = tmp_path_factory.mktemp("empty")
    async with FaultyRelay(Takes()) as relay:
        text = config_text(empty, [relay.url], section(folder, named))
        async with an_agent(empty, text=text) as agent:
            assert "the store is empty" in (await ran(agent)).why
        more = section(folder, named, key="identity.key")
        async with an_agent(folder, [relay.url], more) as agent:
            assert "cards need one of their own" in (await ran(agent)).why
            found = await agent.client.assertions()
        assert (found.report, sent(relay)) == (None, [])


async def test_a_command_prints_the_key(folder: Path) -> None:
    command = f'key_command = ["cat", "{folder / "cards.key"}"]'
    text = f'[assertions]\n{command}\nsubjects = ["{ME.npub}"]\n'
    async with FaultyRelay(Takes()) as relay:
        async with an_agent(folder, [relay.url], text) as agent:
            found = await ran(agent)
            assert (found.pubkey, found.why) == (PROVIDER.pubkey, "")
        failing = text.replace('"cat"', '"false"')
        async with an_agent(folder, [relay.url], failing) as agent:
            assert "assertions.key_command ended with 1" in (await ran(agent)).why


def test_mistakes_of_the_section_are_named() -> None:
    for more, why in (
        ('key_command = ["x"]', "a file or a command"),
        ("", "names nobody"),
        ('subjects = ["nobody"]', "subjects.0"),
        ('followed_by = "nobody"', "followed_by"),
        ('fields = ["followers"]', "no personal field"),
        ('fields = ["rank"]', "has a viewpoint"),
        ('interval = "1s"', "60 seconds at least"),
        ("step = 101", "step"),
    ):
        with pytest.raises(InvalidConfig, match=why):
            parse(f'[assertions]\nkey_file = "x"\n{more}')


@asynccontextmanager
async def a_process(config: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await start("run", "--config", str(config), module="agent", fresh=True)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_kill_in_the_middle_and_three_restarts_publish_nothing_twice(
    folder: Path,
) -> None:
    named = f'followed_by = "{ME.pubkey}"'
    total = len(FANS) + 2  # with the profile and the relay list
    behaviour = Takes(most=3)
    config = folder / "agent.toml"
    async with FaultyRelay(behaviour) as relay:
        config.write_text(config_text(folder, [relay.url], section(folder, named)))
        async with a_process(config) as process:
            await relay.heard("EVENT", total, within=60)
            process.kill()
        first = {one["id"] for one in sent(relay)}
        behaviour.left = 1_000_000
        async with an_agent(folder, text=config.read_text()) as agent:
            found = (await ran(agent)).report
            assert found is not None
            assert (found.signed, found.relays[relay.url].left) == (0, 0)
        received = len(sent(relay))
        for _ in range(2):
            async with an_agent(folder, text=config.read_text()) as agent:
                await ran(agent)
        assert {one["id"] for one in sent(relay)} == first
        assert len(first) == total
        assert len(sent(relay)) == received


async def test_the_command_shows_what_the_agent_published(folder: Path) -> None:
    named = f'subjects = ["{ME.npub}"]'
    async with FaultyRelay(Takes()) as relay:
        async with an_agent(folder, [relay.url], section(folder, named)) as agent:
            await ran(agent)
            at = ("--api", agent.client.url, "--token-file", str(folder / "token"))
            done = await called("status", "--json", "--run", *at)
            text = await called("status", *at)
        assert json.loads(done.stdout)["report"]["unchanged"] == 1
        assert "1 unchanged" in text.stdout
        assert (done.exit_code, text.exit_code) == (0, 0)
        async with an_agent(folder, [relay.url]) as agent:
            at = ("--api", agent.client.url, "--token-file", str(folder / "token"))
            off = await called("status", *at)
            assert off.exit_code == 1
            assert "publishes no cards" in off.output
            refused = await called("status", "--run", *at)
            assert "set assertions.key_file" in str(refused.exception)


async def called(*args: str) -> Any:
    return await asyncio.to_thread(CliRunner().invoke, cli, ["assertions", *args])
