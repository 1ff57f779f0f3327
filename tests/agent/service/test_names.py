"""A name of the file and of something added: what was added stays, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from agent.api.client import ApiError
from agent.cli import run
from agent.config.load import draft
from agent.specs import SyncSpec
from nostr_client.errors import InvalidInput
from nostr_client.watch import WatchRepository, repository
from nostr_client.watch.definition import Watch
from tests.agent.service.kit import an_agent, config_text
from tests.faulty_relay import FaultyRelay
from tests.worlds import TARGET, follow

if TYPE_CHECKING:
    from pathlib import Path

WATCH = Watch(name="dup", query="followers", target=TARGET, interval="1h")
SYNC = SyncSpec(name="same", filters=({"kinds": [3]},))
IN_FILE = """
[[watches]]
name = "dup"
filters = [{ kinds = [7] }]
[[syncs]]
name = "same"
filters = [{ kinds = [7] }]
[[watches]]
name = "fine"
filters = [{ kinds = [7] }]
"""


async def test_names_of_earlier_versions_are_told_in_words(tmp_path: Path) -> None:
    odd = Watch(name="x y", query="followers", target=TARGET)
    async with await WatchRepository.open(tmp_path / "store.db") as book:
        with pytest.raises(InvalidInput, match="'x y'"):
            await book.add(odd)
        await book.database.write(lambda c: repository.put(c, odd))
    async with an_agent(tmp_path) as agent:
        said = agent.log.getvalue()
        assert "1 to 64 letters" in said
        assert "x y" in said
        assert "regex" not in said
        with pytest.raises(ApiError, match="1 to 64 letters"):
            await agent.client.watch("x y")


async def test_the_file_takes_no_name_of_what_was_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.toml"
    async with FaultyRelay(events=[follow(i) for i in range(3)]) as relay:
        text = config_text(tmp_path, [relay.url], IN_FILE)
        file.write_text(text)
        async with an_agent(tmp_path, [relay.url]) as agent:
            await agent.client.add_watch(WATCH)
            await agent.client.add_sync(SYNC)
            await agent.until(lambda w: w.figure is not None, "dup")
            refused = await agent.service.reload(lambda: draft(text, str(file)))
            assert [one.split(": ")[1] for one in refused.mistakes] == [
                "watches[0].name",
                "syncs[0].name",
            ]
            assert "nostr-client watch remove dup" in refused.mistakes[0]
            assert [w.spec for w in (await agent.client.watches()).watches] == [WATCH]
            assert await asyncio.to_thread(run, ["check", "-c", str(file), "--json"]) == 2
            mistakes = json.loads(capsys.readouterr().out)["mistakes"]
            told = [f"{one['where']}: {one['key']}: {one['why']}" for one in mistakes]
            assert told == [*refused.mistakes]
            assert [one["key"] for one in mistakes] == ["watches[0].name", "syncs[0].name"]
            assert mistakes[0]["where"] == str(file)
        async with an_agent(tmp_path, text=text) as agent:
            found = {w.spec.name: w.origin for w in (await agent.client.watches()).watches}
            assert found == {"dup": "api", "fine": "file"}
            assert (await agent.client.sync("same")).spec == SYNC
            kept = [p.value for p in (await agent.client.history("dup")).points]
            assert set(kept) == {3}
            reasons = " ".join((await agent.client.status()).reasons)
            assert "the watch dup of the configuration is left out" in reasons
            assert "the sync same of the configuration is left out" in reasons
            assert agent.log.getvalue().count('"name_taken"') == 2
            await agent.client.remove_watch("dup")
            await agent.client.remove_sync("same")
            assert (await agent.client.watch("dup")).origin == "file"
            assert (await agent.client.sync("same")).origin == "file"
            assert "left out" not in " ".join((await agent.client.status()).reasons)
        assert await asyncio.to_thread(run, ["check", "-c", str(file)]) == 0
        async with an_agent(tmp_path, text=text) as agent:
            assert "name_taken" not in agent.log.getvalue()
