"""Alerts on their way: each channel by itself and once, and what each service gets."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest
from aiohttp import web

from agent.alerts import outbox
from agent.alerts.outbox import Delivery
from agent.api.client import ApiError
from nostr_client.store.file.database import Database
from nostr_client.watch.definition import AlertSpec, Watch
from tests.agent.service.kit import Running, an_agent, eventually
from tests.faulty_relay import FaultyRelay
from tests.worlds import NOTE, TARGET, follow, reaction, signer

if TYPE_CHECKING:
    from pathlib import Path


class Taken(NamedTuple):
    """A request as a receiver got it."""

    path: str
    kind: str
    body: bytes


class Receiver:
    """Takes POSTs on a port of its own; while `status` is no 2xx it takes none of them."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.tried = 0
        self.taken: list[Taken] = []
        self.url = ""

    async def __aenter__(self) -> Receiver:
        self._runner = web.ServerRunner(web.Server(self._take))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.BaseRequest) -> web.Response:
        self.tried += 1
        if self.status < 300:
            kind = request.headers["Content-Type"]
            self.taken.append(Taken(request.path, kind, await request.read()))
        return web.Response(status=self.status)


def watch_text(alerts: list[dict[str, Any]], name: str = "my_followers") -> str:
    """A watch with alerts, as TOML."""
    lines = [
        "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in one.items()) + "}"
        for one in alerts
    ]
    return f"""
[[watches]]
name = "{name}"
query = "followers"
target = "{TARGET}"
interval = "1h"
alerts = [{", ".join(lines)}]
"""


def appends(path: Path) -> list[str]:
    """A command that appends what it gets to a file."""
    code = f"import sys; open({str(path)!r}, 'ab').write(sys.stdin.buffer.read())"
    return [sys.executable, "-c", code]


async def waiting(agent: Running) -> list[Delivery]:
    return await agent.service.agent.parts.store.database.read(outbox.waiting)


async def left_waiting(folder: Path, one: Delivery) -> None:
    """Put a delivery into the store of an agent that has ended."""
    async with an_agent(folder):
        pass
    async with await Database.open(folder / "store.db") as database:
        await database.write(lambda c: outbox.put(c, one))


async def test_a_webhook_that_fails_repeats_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried again in one run, and by the runs that follow: the command ran once."""
    monkeypatch.setattr("agent.alerts.dispatcher.DELAYS_S", (0.0, 0.01, 0.01, 3600.0))
    out = tmp_path / "out"
    async with Receiver(500) as hook, FaultyRelay(events=[follow(1)]) as relay:
        alert = {"when": ">= 1", "webhook": hook.url, "command": appends(out)}
        more = watch_text([alert])
        async with an_agent(tmp_path, [relay.url], more):

            async def tried() -> bool:
                return hook.tried == 3 and out.exists() and out.read_bytes().endswith(b"\n")

            await eventually(tried)
        hook.status = 200
        monkeypatch.setattr("agent.alerts.dispatcher.DELAYS_S", (0.0, 0.0, 0.0, 0.0))
        async with an_agent(tmp_path, [relay.url], more) as agent:

            async def served() -> bool:
                return bool(hook.taken) and not await waiting(agent)

            await eventually(served)
        async with an_agent(tmp_path, [relay.url], more) as agent:
            await agent.client.recount("my_followers")
            await agent.until(lambda w: w.answered == 1, "my_followers")
    assert hook.tried == 4
    (told,) = map(json.loads, out.read_bytes().splitlines())
    (posted,) = hook.taken
    assert json.loads(posted.body) == told
    assert posted.body.endswith(b"}\n")


async def test_a_command_that_fails_repeats_no_webhook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.alerts.dispatcher.DELAYS_S", (0.0, 0.01, 0.01))
    async with Receiver() as hook, FaultyRelay(events=[follow(1)]) as relay:
        alert = {"when": ">= 1", "webhook": hook.url, "command": [sys.executable, "-c", "1/0"]}
        async with an_agent(tmp_path, [relay.url], watch_text([alert])) as agent:
            alerts = agent.service.agent.alerts

            async def settled() -> bool:
                counted = (alerts.delivered, alerts.failed, alerts.given_up)
                return counted == (1, 3, 1) and not await waiting(agent)

            await eventually(settled)
            given_up = [
                line.fields
                for line in agent.service.agent.log.lines
                if line.event == "alert_given_up"
            ]
    assert len(hook.taken) == 1
    assert [fields["channel"] for fields in given_up] == ["command"]
    assert "ended with 1" in given_up[0]["why"]


async def test_an_agent_that_is_killed_between_two_channels_repeats_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves: the row of the channel that was not served yet, and no other."""
    out = tmp_path / "out"
    async with Receiver() as hook, FaultyRelay(events=[follow(1)]) as relay:
        alert = {"when": ">= 1", "webhook": hook.url, "command": appends(out)}
        more = watch_text([alert])
        ran: list[str] = []

        async def dies(command: tuple[str, ...], body: bytes) -> None:
            ran.append(command[0])
            await asyncio.sleep(3600)

        with monkeypatch.context() as patch:
            patch.setattr("agent.alerts.dispatcher._run", dies)
            async with an_agent(tmp_path, [relay.url], more) as agent:

                async def one_is_left() -> bool:
                    left = [one.channel for one in await waiting(agent)]
                    return bool(ran) and left == ["command"]

                await eventually(one_is_left)
                monkeypatch.setattr("agent.service.run.ALERTS_S", 0.0)
        async with an_agent(tmp_path, [relay.url], more) as agent:

            async def served() -> bool:
                return not await waiting(agent)

            await eventually(served)
    assert len(hook.taken) == 1
    assert out.read_bytes() == hook.taken[0].body


async def test_the_time_of_the_next_try_outlives_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that is restarted every few minutes comes to its last try, and gives up."""
    monkeypatch.setattr("agent.alerts.dispatcher.DELAYS_S", (0.0, 3600.0))
    async with Receiver(500) as hook, FaultyRelay(events=[follow(1)]) as relay:
        more = watch_text([{"when": ">= 1", "webhook": hook.url}])
        async with an_agent(tmp_path, [relay.url], more) as agent:

            async def noted() -> bool:
                return [one.attempts for one in await waiting(agent)] == [1]

            await eventually(noted)
            (one,) = await waiting(agent)
            assert one.due == pytest.approx(one.at + 3600, abs=30)
            database = agent.service.agent.parts.store.database
            await database.write(
                lambda c: c.execute("UPDATE agent_delivery SET due = due - 3600") and None
            )
        async with an_agent(tmp_path, [relay.url], more) as agent:

            async def given_up() -> bool:
                given_up = agent.service.agent.alerts.given_up
                return given_up == 1 and not await waiting(agent)

            await eventually(given_up)
            assert hook.tried == 2


async def test_an_alert_that_is_a_day_old_is_given_up_and_said_so(tmp_path: Path) -> None:
    async with Receiver() as hook:
        more = watch_text([{"when": ">= 1", "webhook": hook.url}])
        old = Delivery(
            id="aa", channel="webhook", watch="w", line="> 1", target=hook.url, body=b"{}\n", at=1.0
        )
        await left_waiting(tmp_path, old)
        async with an_agent(tmp_path, (), more) as agent:

            async def given_up() -> bool:
                given_up = agent.service.agent.alerts.given_up
                return given_up == 1 and not await waiting(agent)

            await eventually(given_up)
            assert "older than 24 hours" in agent.log.getvalue()
    assert not hook.tried


async def test_a_command_that_the_file_does_not_name_any_more_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.alerts.dispatcher.DELAYS_S", (0.0, 0.0))
    out = tmp_path / "out"
    crossing = Delivery(
        id="aa",
        channel="command",
        watch="w",
        line="> 1",
        target=json.dumps(appends(out)),
        body=b"{}\n",
        at=2e9,
    )
    await left_waiting(tmp_path, crossing)
    async with an_agent(tmp_path) as agent:

        async def given_up() -> bool:
            return agent.service.agent.alerts.given_up == 1

        await eventually(given_up)
        assert "does not name this command" in agent.log.getvalue()
    assert not out.exists()


# What each service gets.

TEXT = "my_followers: 3 distinct authors; > 2"


def of_ntfy(taken: Taken) -> str:
    """docs.ntfy.sh/publish: the message is the body of a POST to the topic."""
    assert taken.path == "/topic"
    assert taken.kind.startswith("text/plain")
    return taken.body.decode().removesuffix("\n")


def of_slack(taken: Taken) -> str:
    """Incoming webhooks: JSON with `text`, in which &, < and > are entities."""
    found = json.loads(taken.body)
    assert taken.kind == "application/json"
    assert set(found) == {"text", "mrkdwn"}
    assert found["mrkdwn"] is False
    for entity, sign in (("&lt;", "<"), ("&gt;", ">")):
        assert sign not in found["text"]
        found["text"] = found["text"].replace(entity, sign)
    return str(found["text"].replace("&amp;", "&"))


def of_matrix(taken: Taken) -> str:
    """Generic webhooks of matrix-hookshot: `text`, and `html` beside it."""
    found = json.loads(taken.body)
    assert taken.kind == "application/json"
    assert set(found) == {"text", "html"}
    assert found["html"] == found["text"].replace(">", "&gt;")
    return str(found["text"])


def of_discord(taken: Taken) -> str:
    """Execute webhook: `content` of 2,000 characters of Markdown at most."""
    found = json.loads(taken.body)
    assert taken.kind == "application/json"
    assert set(found) == {"content", "allowed_mentions"}
    assert found["allowed_mentions"] == {"parse": []}
    assert len(found["content"]) <= 2000
    assert "\\_" in found["content"], "an underscore would begin italics"
    return str(found["content"].replace("\\", ""))


READERS = {"ntfy": of_ntfy, "slack": of_slack, "matrix": of_matrix, "discord": of_discord}


async def test_each_service_gets_its_own_form(tmp_path: Path) -> None:
    async with Receiver() as hook, FaultyRelay(events=[follow(i) for i in range(3)]) as relay:
        alerts = [
            {"when": "> 2", "webhook": f"{hook.url}/topic?of={form}", "format": form}
            for form in READERS
        ]
        async with an_agent(tmp_path, [relay.url], watch_text(alerts)):

            async def all_of_them() -> bool:
                return len(hook.taken) == len(READERS)

            await eventually(all_of_them)
    texts = [_read_by_any(taken) for taken in hook.taken]
    assert sorted(form for form, _ in texts) == sorted(READERS)
    assert {text for _, text in texts} == {TEXT}
    assert all(taken.body.endswith(b"\n") for taken in hook.taken)


def _read_by_any(taken: Taken) -> tuple[str, str]:
    """Which service reads a request, and the text that it shows; exactly one does."""
    found = []
    for form, read in READERS.items():
        try:
            found.append((form, read(taken)))
        except (AssertionError, ValueError, KeyError):
            continue
    assert len(found) == 1, (taken, found)
    return found[0]


# What is shown of webhooks, and given back.


async def test_a_webhook_may_be_given_back_as_it_is_shown(tmp_path: Path) -> None:
    hooks = ("https://hook.example/s3cret/1", "https://hook.example/s3cret/2")
    alerts = tuple(
        AlertSpec(when=when, webhook=url) for when, url in zip(("> 1", "> 2"), hooks, strict=True)
    )
    spec = Watch(name="mine", query="followers", target=TARGET, alerts=alerts)
    async with an_agent(tmp_path) as agent:
        seen = (await agent.client.add_watch(spec)).spec
        assert {one.webhook for one in seen.alerts} == {"hook.example"}
        changed = msgspec.structs.replace(seen, interval="2h")
        assert (await agent.client.change_watch(changed.name, changed)).spec == changed
        kept = agent.service.agent.engine.watches["mine"].watch
        assert kept == msgspec.structs.replace(spec, interval="2h")
        other = AlertSpec(when="> 3", webhook="hook.example")
        with pytest.raises(ApiError, match="give the whole URL"):
            await agent.client.change_watch(
                spec.name, msgspec.structs.replace(spec, alerts=(other,))
            )
        other = AlertSpec(when="> 1", webhook="other.example")
        with pytest.raises(ApiError, match="is not an http"):
            await agent.client.change_watch(
                spec.name, msgspec.structs.replace(spec, alerts=(other,))
            )


async def test_an_alert_names_nobody_of_a_relay_that_the_watch_leaves_out(tmp_path: Path) -> None:
    now, out = int(time.time()), tmp_path / "out"
    async with (
        FaultyRelay(events=[reaction(1, at=now)]) as counted,
        FaultyRelay(events=[reaction(2, at=now)]) as left_out,
    ):
        text = watch_text([{"when": ">= 1", "command": appends(out)}])
        text = text.replace("followers", "reactions").replace(TARGET, NOTE)
        text += f'excluded = ["{left_out.url}"]\n'
        async with an_agent(tmp_path, [counted.url, left_out.url], text):

            async def has_come() -> bool:
                return out.exists() and out.read_bytes().endswith(b"\n")

            await eventually(has_come)
    people = json.loads(out.read_bytes())["people"]
    assert [one["pubkey"] for one in people] == [signer(1).pubkey]
