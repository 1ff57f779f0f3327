"""The relays that the agent asks where nobody names one: the user's key signs nothing for them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from agent.config import parse
from agent.config.model import BUILT_IN
from agent.log import Log
from agent.service.agent import Agent
from agent.service.parts import open_parts
from nostr_client.codecs.keys import KeySigner
from nostr_client.watch.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

FIRST, *OTHERS = BUILT_IN.default
INDEXER = BUILT_IN.indexers[0]
OWN_INDEXERS = f'[relays]\nindexers = ["{INDEXER}", "wss://mine.example"]\n'
OWN_DEFAULTS = f'[relays]\ndefault = ["{FIRST}"]\n'
A_WATCH = f'[[watches]]\nname = "w"\nfilters = [{{ kinds = [1] }}]\nrelays = ["{FIRST}"]\n'
A_SYNC = f'[[syncs]]\nname = "s"\nfilters = [{{ kinds = [1] }}]\nrelays = ["{FIRST}"]\n'
A_COVERAGE = f'[[coverage]]\nname = "c"\nauthor = "{"ab" * 32}"\nrelays = ["{FIRST}"]\n'
A_STREAM = f"""[identity]
key_command = ["never", "run"]
[[counters.streams]]
name = "app"
subjects = ["app.>"]
[[counters.publish]]
stream = "app"
relays = ["{FIRST}"]
"""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", set()),
        (OWN_DEFAULTS, {FIRST}),
        (OWN_INDEXERS, {INDEXER}),
        (A_WATCH, {FIRST}),
        (A_SYNC, {FIRST}),
        (A_COVERAGE, {FIRST}),
        (A_STREAM, {FIRST}),
    ],
)
async def test_the_agent_signs_for_relays_that_the_user_names(
    tmp_path: Path, text: str, named: set[str]
) -> None:
    clock, signer = SystemClock(), KeySigner(bytes(31) + b"\x01")
    config = parse(f'[store]\npath = "{tmp_path / "store.db"}"\n{text}')
    async with open_parts(config, clock, signer) as parts:
        agent = Agent(config, parts, clock, Log(clock.wall, out=io.StringIO()))
        await agent.configure(config)
        relays = (*BUILT_IN.default, *BUILT_IN.indexers)
        signed = {url for url in relays if parts.pool.relay(url).pubkey is not None}
        assert signed == named
        assert {url for url in relays if parts.pool.is_named(url)} == named
        assert parts.pool.relay("wss://mine.example").pubkey == signer.pubkey
        await agent.linking.close()
