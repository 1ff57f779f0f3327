"""Parse, id and signature of the shared events against nostr-sdk, and where the time goes.

Both start from the same JSON lines and end with a verified event in Python; nostr-sdk is Rust
behind a Python binding. Without the shared folder, signed events are generated.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import TYPE_CHECKING

import nostr_sdk

from bench.dataset import shared_lines
from bench.report import Report, arguments, cpu_seconds
from nostr_client.codecs import keys
from nostr_client.codecs.event import EventTemplate, has_valid_id, parse_event
from nostr_client.codecs.keys import KeySigner, VerifiedEvent, verify, verify_many
from nostr_client.codecs.messages import EventReceived, parse_relay_message

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 128
THREADS = 2
SDK = version("nostr-sdk")


def generated_lines(count: int) -> list[str]:
    """Signed events of 50 authors."""
    rand = random.Random(340)
    signers = [KeySigner.generate(rand.randbytes) for _ in range(50)]
    templates = (
        EventTemplate(kind=1, created_at=at, content=f"note {at} " * 20, tags=(("t", "bench"),))
        for at in range(count)
    )
    return [rand.choice(signers).sign_now(made).event.to_json() for made in templates]


def ours_whole(lines: list[str]) -> None:
    keys._public_key.cache_clear()  # every author is new again, as at a first meeting
    results = verify_many([parse_event(line) for line in lines])
    assert all(isinstance(result, VerifiedEvent) for result in results)


def theirs_whole(lines: list[str]) -> None:
    assert all(nostr_sdk.Event.from_json(line).verify() for line in lines)


def compare(report: Report, lines: list[str]) -> None:
    """The same work in both, in events per second of CPU."""
    frames = [EventReceived("s", parse_event(line)).to_json() for line in lines]
    theirs = [nostr_sdk.Event.from_json(line) for line in lines]
    parsed = [parse_event(line) for line in lines]

    def rate(what: str, ours: float, rival: float, at_least: float | None = None) -> None:
        n = len(lines)
        report.rate(
            what,
            n / ours,
            peer=f"nostr-sdk {SDK}",
            theirs=n / rival,
            unit="events/s",
            at_least=at_least,
        )

    rate(
        "parse + id + signature",
        cpu_seconds(lambda: ours_whole(lines)),
        cpu_seconds(lambda: theirs_whole(lines)),
        at_least=1,
    )
    rate(
        "parse",
        cpu_seconds(lambda: [parse_event(line) for line in lines]),
        cpu_seconds(lambda: [nostr_sdk.Event.from_json(line) for line in lines]),
    )
    rate(
        "parse an EVENT frame",
        cpu_seconds(lambda: [parse_relay_message(frame) for frame in frames]),
        cpu_seconds(lambda: [nostr_sdk.RelayMessage.from_json(frame) for frame in frames]),
    )
    rate(
        "id",
        cpu_seconds(lambda: [has_valid_id(event) for event in parsed]),
        cpu_seconds(lambda: [event.verify_id() for event in theirs]),
    )
    rate(
        "structure + id + signature",
        cpu_seconds(lambda: [verify(event) for event in parsed]),
        cpu_seconds(lambda: [event.verify() for event in theirs]),
    )


def threads(report: Report, lines: list[str]) -> None:
    """What worker threads gain on the clock: libsecp256k1 runs without the GIL."""
    events = [parse_event(line) for line in lines]
    chunks = [events[at : at + CHUNK] for at in range(0, len(events), CHUNK)]
    with ThreadPoolExecutor(THREADS) as pool:
        one = min(wall(lambda: [verify_many(chunk) for chunk in chunks]) for _ in range(3))
        many = min(wall(lambda: list(pool.map(verify_many, chunks))) for _ in range(3))
    report.figure(f"wall gain of {THREADS} threads, chunks of {CHUNK}", one / many, "x")
    report.note(f"The gain of threads is wall time, on {os.cpu_count()} cores.")


def wall(call: Callable[[], object]) -> float:
    """Seconds on the clock for one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Print the table and write bench/results/verify.json."""
    options = arguments(__doc__)
    report = Report("verify", options)
    count = 500 if options.quick else 5_000
    lines = shared_lines(count)
    report.note(
        f"The data are {len(lines)} real events."
        if lines
        else f"The data are {count} generated events."
    )
    lines = lines or generated_lines(count)
    compare(report, lines)
    threads(report, lines)
    report.finish()


if __name__ == "__main__":
    main()
