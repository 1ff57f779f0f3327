"""Runs the steps of `data/counters.json` against a CounterStore and normalises what comes out.

The steps, their arguments and the normalisation are those that the file's `about` names.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Any, Protocol

from nostr_client.counters.base import Ack, CounterStore, Message, NoStream, Outgoing
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.rules import add_text, format_integer
from nostr_client.errors import CounterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Outcome = dict[str, Any]


class Driver(Protocol):
    """A backend under the runner: the store, and what the protocol leaves to each backend."""

    store: CounterStore

    async def create(self, config: dict[str, Any]) -> Outcome: ...
    async def update(self, config: dict[str, Any]) -> Outcome: ...
    async def publish(self, message: Outgoing) -> Outcome: ...
    async def start_batch(self, batch_id: str, message: Outgoing) -> Outcome: ...
    async def settle(self, stream: str) -> None: ...
    async def sleep(self, seconds: float) -> None: ...
    async def restore(self, step: dict[str, Any]) -> Outcome: ...


def expand(value: Any) -> Any:
    """`$rep:PREFIX,UNIT,COUNT,SUFFIX` stands for PREFIX + UNIT*COUNT + SUFFIX."""
    if isinstance(value, str) and value.startswith("$rep:"):
        prefix, unit, count, suffix = value.removeprefix("$rep:").split(",")
        return prefix + unit * int(count) + suffix
    if isinstance(value, list):
        return [expand(item) for item in value]
    if isinstance(value, dict):
        return {key: expand(item) for key, item in value.items()}
    return value


def shorten(value: Any) -> Any:
    """A string of more than 300 characters becomes its length and hash."""
    if isinstance(value, str) and len(value) > 300:
        digest = hashlib.sha256(value.encode()).hexdigest()
        return {"$long": {"len": len(value), "sha256": digest}}
    if isinstance(value, list):
        return [shorten(item) for item in value]
    if isinstance(value, dict):
        return {key: shorten(item) for key, item in value.items()}
    return value


def outgoing(step: dict[str, Any]) -> Outgoing:
    headers = tuple((name, value) for name, value in step.get("headers") or ())
    return Outgoing(step["subject"], headers, (step.get("body") or "").encode())


def ack_outcome(ack: Ack) -> Outcome:
    found: Outcome = {"stream": ack.stream, "seq": ack.seq}
    if ack.val is not None:
        found["val"] = format_integer(ack.val)
    if ack.duplicate:
        found["duplicate"] = True
    return {"ack": found}


def error_outcome(error: CounterError) -> Outcome:
    """An error as the server's JSON gives it."""
    found = {"code": error.status, "err_code": error.code, "description": error.description}
    return {"error": found}


def header_map(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in message.headers:
        if name == "Nats-Time-Stamp":
            continue
        value = value.lstrip(" ")
        shown: Any = value
        if name == "Nats-Counter-Sources":
            shown = _parsed(value)
        elif name == "Nats-Stream-Source":
            shown = " ".join(value.split(" ")[:5])
        if name in found:
            before = found[name] if isinstance(found[name], list) else [found[name]]
            shown = [*before, shown]
        found[name] = shown
    return found


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def message_outcome(message: Message) -> Outcome:
    return {
        "seq": message.seq,
        "subject": message.subject,
        "headers": header_map(message),
        "body": message.body.decode(),
    }


def headless(message: Message) -> Outcome:
    found = message_outcome(message)
    del found["headers"]
    return found


class Runner:
    """One case: its steps in order, each with an outcome."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.store = driver.store

    async def run(self, step: dict[str, Any]) -> Outcome:
        step = expand({key: value for key, value in step.items() if key != "expect"})
        operation: Callable[[dict[str, Any]], Awaitable[Outcome]] = getattr(self, step["op"])
        try:
            return shorten(await operation(step))
        except NoStream:
            return {"no_responders": True}
        except CounterError as error:
            return error_outcome(error)

    async def create_stream(self, step: dict[str, Any]) -> Outcome:
        return await self.driver.create(step["config"])

    async def update_stream(self, step: dict[str, Any]) -> Outcome:
        return await self.driver.update(step["config"])

    async def delete_stream(self, step: dict[str, Any]) -> Outcome:
        await self.store.delete_stream(step["stream"])
        return {"ok": True}

    async def publish(self, step: dict[str, Any]) -> Outcome:
        return await self.driver.publish(outgoing(step))

    async def publish_batch(self, step: dict[str, Any]) -> Outcome:
        messages = [outgoing(message) for message in step["messages"]]
        ack = await self.store.publish_batch(messages, step["batch_id"])
        found = {"stream": ack.stream, "seq": ack.seq, "batch": ack.batch, "count": ack.count}
        return {"ack": found}

    async def batch_start_only(self, step: dict[str, Any]) -> Outcome:
        return await self.driver.start_batch(step["batch_id"], outgoing(step["message"]))

    async def get_last(self, step: dict[str, Any]) -> Outcome:
        message = await self.store.last_message(step["stream"], step["subject"])
        return {"msg": message_outcome(message)}

    async def get_msg(self, step: dict[str, Any]) -> Outcome:
        return {"msg": message_outcome(await self.store.message(step["stream"], step["seq"]))}

    async def get_multi(self, step: dict[str, Any]) -> Outcome:
        upto = step.get("up_to_seq")
        found = await self.store.last_messages(step["stream"], step["subjects"], up_to_seq=upto)
        if not found:
            return {"error": {"code": 404, "description": "No Results"}}
        return {"msgs": [headless(message) for message in found]}

    async def _messages(self, stream: str) -> list[Message]:
        return [message async for message in self.store.messages(stream)]

    async def dump(self, step: dict[str, Any]) -> Outcome:
        state = (await self.store.stream_info(step["stream"])).state
        found = [message_outcome(m) for m in await self._messages(step["stream"])]
        return {"msgs": found, "first_seq": state.first_seq, "last_seq": state.last_seq}

    async def summary(self, step: dict[str, Any]) -> Outcome:
        every = await self._messages(step["stream"])
        found = [message_outcome(m) for m in every if m.subject == step["subject"]]
        total = "0"
        for message in found:
            total = add_text(total, message["headers"]["Nats-Incr"])
        newest = found[-1]
        return {
            "messages": len(found),
            "val": json.loads(newest["body"])["val"],
            "incr_sum": total,
            "sources": newest["headers"].get("Nats-Counter-Sources", {}),
        }

    async def state(self, step: dict[str, Any]) -> Outcome:
        state = (await self.store.stream_info(step["stream"])).state
        names = ("messages", "first_seq", "last_seq")
        return {name: getattr(state, name) for name in names}

    async def purge(self, step: dict[str, Any]) -> Outcome:
        purged = await self.store.purge(
            step["stream"],
            filter=step.get("filter", ""),
            seq=step.get("seq", 0),
            keep=step.get("keep", 0),
        )
        return {"ok": True, "purged": purged}

    async def delete_msg(self, step: dict[str, Any]) -> Outcome:
        await self.store.delete_message(step["stream"], step["seq"])
        return {"ok": True}

    async def settle(self, step: dict[str, Any]) -> Outcome:
        await self.driver.settle(step["stream"])
        return {}

    async def sleep(self, step: dict[str, Any]) -> Outcome:
        await self.driver.sleep(step["seconds"])
        return {}

    async def collect_republish(self, step: dict[str, Any]) -> Outcome:
        feed = await self.store.subscribe(step["subject"])
        published = await self.driver.publish(outgoing(step["publish"]))
        message = await asyncio.wait_for(anext(feed), 10)
        found = message_outcome(message)
        del found["seq"]
        return {"publish": published, "republished": [found]}

    async def restore_plain_as_counter(self, step: dict[str, Any]) -> Outcome:
        return await self.driver.restore(step)


def created(required_api_level: int | None) -> Outcome:
    level = {"required_api_level": str(required_api_level)} if required_api_level else {}
    return {"ok": True, **level}


async def run_case(driver: Driver, steps: Sequence[dict[str, Any]]) -> list[Outcome]:
    runner = Runner(driver)
    return [await runner.run(step) for step in steps]


def config_of(config: dict[str, Any]) -> StreamConfig:
    return StreamConfig.from_api(config)
