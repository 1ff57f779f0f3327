"""Agents that source an agent which lies: nothing outside its own entries, and it is told."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.agent.service.kit import an_agent, config_text, eventually
from tests.agent.service.test_fleet import link, stream, until_state, until_value, value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from tests.agent.service.kit import Running


@asynccontextmanager
async def lying(answer: Callable[[dict[str, str]], bytes]) -> AsyncIterator[str]:
    """An agent that answers what `answer` makes of the query, with whatever it likes."""

    async def handle(request: web.BaseRequest) -> web.Response:
        body = answer(dict(request.query))
        return web.Response(body=body, content_type="application/json")

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def said(messages: list[dict[str, Any]], last: int, **changes: Any) -> bytes:
    found = {
        "store": "liar",
        "epoch": "e",
        "stream": "app",
        "first_seq": 1,
        "last_seq": last,
        "messages": messages,
        **changes,
    }
    return json.dumps(found).encode()


def message(seq: int, subject: str, value: str | None) -> dict[str, Any]:
    return {"seq": seq, "subject": subject, "value": value, "ts": 0}


def config(folder: Path, liars: Mapping[str, str], honest: str) -> str:
    lines = [stream("app", "mine.>"), stream("total")]
    for name, url in liars.items():
        lines.append(source(name, url, folder / "token", "lie.*"))
    lines.append(source("honest", honest, folder.parent / "honest" / "token", "true.*"))
    return config_text(folder, (), "".join(lines))


def source(name: str, url: str, token: Path, src: str) -> str:
    return f"""
[[counters.sources]]
name = "{name}"
stream = "total"
of = "app"
agent = "{url}"
token_file = "{token}"
transforms = [{{ src = "{src}", dest = "sum.$1" }}]
interval = "100ms"
most_subjects = 20
"""


LIARS: dict[str, tuple[Callable[[dict[str, str]], bytes], str]] = {
    "long": (lambda q: b"x" * 20_000_000, "more than"),
    "deep": (lambda q: b"[" * 100_000, "cannot be read"),
    "nothing": (lambda q: b"{}", "cannot be read"),
    "more": (lambda q: said([], 5, more=True), "sends none"),
    "descending": (
        lambda q: said([message(2, "lie.a", "1"), message(1, "lie.a", "1")], 5, lineage=[]),
        "ascend",
    ),
    "above": (lambda q: said([message(9, "lie.a", "1")], 5), "above"),
    "else": (lambda q: said([], 5, stream="else"), "another stream"),
    "lineage": (lambda q: said([], 5, lineage=[["x"]]), "lineage"),
}


async def test_what_cannot_be_is_told_and_others_go_on(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        urls = {
            name: await stack.enter_async_context(lying(answer))
            for name, (answer, _) in LIARS.items()
        }
        honest, folder = await beside(stack, tmp_path)
        top = await stack.enter_async_context(
            an_agent(folder, text=config(folder, urls, honest.service.api.url))
        )
        for name, (_, why) in LIARS.items():
            assert why in (await until_state(top.client, name, "failing")).why
        await until_value(top.client, "total", "sum.hits", "5")


async def beside(stack: AsyncExitStack, tmp_path: Path) -> tuple[Running, Path]:
    """An honest agent that counted 5, and the folder of one that sources it too."""
    folders = tmp_path / "honest", tmp_path / "top"
    for folder in folders:
        await asyncio.to_thread(folder.mkdir)
    text = config_text(folders[0], (), stream("app", "true.>"))
    honest = await stack.enter_async_context(an_agent(folders[0], text=text))
    await honest.client.add("app", "true.hits", "5")
    return honest, folders[1]


async def test_lies_stay_in_the_entries_of_the_liar(tmp_path: Path) -> None:
    turns = 0

    def answer(query: dict[str, str]) -> bytes:
        """Huge values, thousands of subjects, foreign ones, and values that fall."""
        nonlocal turns
        turns += 1
        after = int(query["after"])
        lies = [
            message(after + 1, "lie.huge", "9" * 1_000_000),
            message(after + 2, "mine.hits", "100"),
            message(after + 3, "true.hits", "100"),
            message(after + 4, "sum.hits", "100"),
            message(after + 5, "lie.hits", str(-turns)),
            message(after + 6, "lie.\u0000", "1"),
            message(after + 7, "lie.none", None),
            message(after + 8, "lie.poison", "1e5"),
            *(message(after + 9 + n, f"lie.{after}n{n}", "1") for n in range(500)),
        ]
        return said(lies, after + 10_000, more=True)

    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(lying(answer))
        honest, folder = await beside(stack, tmp_path)
        top = await stack.enter_async_context(
            an_agent(folder, text=config(folder, {"liar": url}, honest.service.api.url))
        )
        await top.client.add("app", "mine.hits", "7")

        async def parked() -> bool:
            found = await link(top.client, "liar")
            return found.parked > 0 and found.subjects == 20 and found.left_out > 500

        await eventually(parked)

        async def brought() -> bool:
            counters = (await top.client.counters("total", "sum.hits")).counters
            return bool(counters) and counters[0].sources.get("honest") == {"true.hits": "5"}

        await eventually(brought)
        (counter,) = (await top.client.counters("total", "sum.hits")).counters
        assert set(counter.sources) == {"honest", "liar"}
        assert counter.local == "0"
        assert await value(top.client, "app", "mine.hits") == "7"
        found = await link(top.client, "liar")
        for subject in ("lie.huge", "lie.none", "lie.poison"):
            assert any(subject in problem for problem in found.problems)
        subjects = {one.subject for one in (await top.client.counters("total")).counters}
        assert len(subjects) <= 21
        async with asyncio.timeout(5):  # it still answers at once
            assert (await top.client.status()).ready
