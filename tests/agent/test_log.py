"""The log: its two forms, what never gets into it, and that no relay can fill a disk with it."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from agent.log import BURST, KEPT, REFILL_S, Log, LogHandler

if TYPE_CHECKING:
    from agent.api.schema import LogLine


class Now:
    def __init__(self) -> None:
        self.at = 1_700_000_000.0

    def __call__(self) -> float:
        return self.at


def new_log(style: str = "json", level: str = "info") -> tuple[Log, io.StringIO, Now]:
    out, now = io.StringIO(), Now()
    return Log(now, level=level, style=style, out=out), out, now


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_json_lines() -> None:
    log, out, _ = new_log()
    log.info("started", store="/tmp/x y", n=3, gone=None)
    assert lines(out) == [
        {
            "time": "2023-11-14T22:13:20.000+00:00",
            "level": "info",
            "event": "started",
            "store": "/tmp/x y",
            "n": 3,
        }
    ]


def test_text_lines_quote_what_needs_it() -> None:
    log, out, _ = new_log("text")
    log.warning("no_answer", relay="wss://a.example", why='says "no"', ok=True)
    assert out.getvalue().endswith(
        'warning no_answer relay=wss://a.example why="says \\"no\\"" ok=true\n'
    )


def test_foreign_text_is_cut_and_made_visible() -> None:
    log, out, _ = new_log()
    log.info("x", why="a\nb\x1b[31m" + "é" * 10_000)
    (line,) = lines(out)
    assert len(line["why"].encode()) < 600
    assert "\\x0a" in line["why"]
    assert "\x1b" not in line["why"]
    assert out.getvalue().count("\n") == 1


def test_secrets_never_get_in() -> None:
    log, out, _ = new_log()
    log.error("x", why="bad nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5 here")
    assert "nsec1vl" not in out.getvalue()
    assert "nsec1..." in out.getvalue()


def test_one_relay_gets_a_few_lines_and_what_was_left_out_is_told() -> None:
    log, out, now = new_log()
    for _ in range(1000):
        log.warning("no_answer", relay="wss://a.example")
    log.warning("no_answer", relay="wss://b.example")
    log.warning("other", relay="wss://a.example")
    assert len(lines(out)) == BURST + 2
    assert log.dropped == 1000 - BURST
    now.at += REFILL_S
    log.warning("no_answer", relay="wss://a.example")
    assert lines(out)[-1]["left_out"] == 1000 - BURST


def test_a_month_of_a_broken_relay_is_bounded() -> None:
    log, out, now = new_log()
    for _ in range(30 * 24 * 60):
        now.at += 60
        for _ in range(3):
            log.warning("no_answer", relay="wss://a.example")
    assert len(lines(out)) <= 30 * 24 * 60 + BURST


def test_thousands_of_relays_take_no_memory_for_ever() -> None:
    log, _, _ = new_log()
    for n in range(20_000):
        log.warning("no_answer", relay=f"wss://{n}.example")
    assert len(log.lines) == KEPT
    assert len(log._rations) < 6000


def test_levels() -> None:
    log, out, _ = new_log(level="warning")
    log.info("quiet")
    log.error("loud")
    assert [line["event"] for line in lines(out)] == ["loud"]
    log.configure("debug", "json")
    log.debug("fine")
    assert lines(out)[-1]["event"] == "fine"


def test_listeners_get_each_line() -> None:
    log, _, _ = new_log()
    heard: list[LogLine] = []
    log.listeners.append(heard.append)
    log.info("a", x=1)
    assert [(one.n, one.event, one.fields) for one in heard] == [(1, "a", {"x": 1})]


def test_what_libraries_log_comes_in() -> None:
    log, out, _ = new_log()
    handler = LogHandler(log)
    logger = logging.getLogger("tests.some.library")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        raise ValueError("secret nsec1qqqqqqqq")
    except ValueError:
        logger.exception("it broke")
    finally:
        logger.removeHandler(handler)
    (line,) = lines(out)
    assert line["logger"] == "tests.some.library"
    assert line["error"] == "ValueError: secret nsec1..."


@pytest.mark.parametrize("broken", [OSError, ValueError])
def test_a_stderr_that_is_gone_stops_nothing(broken: type[Exception]) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise broken("gone")

    log = Log(Now(), style="json", out=Gone())
    log.info("x")
    assert log.dropped == 1
    assert log.lines[-1].event == "x"
