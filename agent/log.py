"""Writes the agent's log: one line for each event, as key=value or JSON, on stderr.

Values are ids, names, numbers and reasons. Foreign text is cut and escaped. Secret keys and event
contents are never logged. Lines about one relay are limited, so that a failing relay cannot fill a
disk: dropped lines are counted, and the next line that is written has their number as `left_out`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from agent.api.schema import LogLine
from nostr_client.errors import clip, without_secret_keys
from nostr_client.network.pacing import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}

BURST: Final = 5
"""Lines about one relay and one event that are written in a burst."""

REFILL_S: Final = 60.0
"""Seconds after which one more may come."""

KEPT: Final = 1000
"""Newest lines in memory, for the API."""

MOST_RATIONS: Final = 5000

_BARE: Final = re.compile(r"[A-Za-z0-9_./:@%+,\[\]{}*<>~-]+")


class Log:
    """The log of one agent. `listeners` get each line that is written."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        level: str = "info",
        style: str = "auto",
        out: TextIO | None = None,
    ) -> None:
        self.listeners: list[Callable[[LogLine], None]] = []
        self.lines: deque[LogLine] = deque(maxlen=KEPT)
        self.n = 0
        self.dropped = 0
        """Lines that were dropped because their relay had too many."""
        self._now = now
        self._out = out or sys.stderr
        self._rations: dict[tuple[str, str], _Ration] = {}
        self.configure(level, style)

    def configure(self, level: str, style: str) -> None:
        """Set level and style; both may change while the agent runs."""
        self._level = LEVELS[level]
        text = style == "text" or (style == "auto" and self._out.isatty())
        self._render = _as_text if text else _as_json

    def debug(self, event: str, **fields: Any) -> None:
        self.write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self.write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self.write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self.write("error", event, fields)

    def write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """Write one line; `fields["relay"]` rations it, as does the logger of a library."""
        if LEVELS[level] < self._level:
            return
        at = self._now()
        source = fields.get("relay") or fields.get("logger")
        if source is not None:
            left_out = self._ration(event, str(source), at)
            if left_out is None:
                self.dropped += 1
                return
            if left_out:
                fields = {**fields, "left_out": left_out}
        self.n += 1
        clean = {key: _clean(value) for key, value in fields.items() if value is not None}
        line = LogLine(n=self.n, at=round(at, 3), level=level, event=event, fields=clean)
        self.lines.append(line)
        self._print(line)
        for listener in self.listeners:
            listener(line)

    def _ration(self, event: str, relay: str, at: float) -> int | None:
        """How many lines were dropped before this one; None if this one must be dropped too."""
        if len(self._rations) > MOST_RATIONS:
            self._rations.clear()
        ration = self._rations.setdefault((event, relay), _Ration(at))
        return ration.take(at)

    def _print(self, line: LogLine) -> None:
        try:
            self._out.write(self._render(line) + "\n")
            self._out.flush()
        except (OSError, ValueError):  # stderr is closed
            self.dropped += 1


class _Ration:
    """The lines of one event and one relay."""

    __slots__ = ("_bucket", "_left_out")

    def __init__(self, at: float) -> None:
        self._bucket = TokenBucket(1 / REFILL_S, BURST, now=at)
        self._left_out = 0

    def take(self, at: float) -> int | None:
        if not self._bucket.allow(at):
            self._left_out += 1
            return None
        left_out, self._left_out = self._left_out, 0
        return left_out


class LogHandler(logging.Handler):
    """Writes what libraries log, cut and without the values of their tracebacks."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        fields: dict[str, Any] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = f"{record.exc_info[0].__name__}: {record.exc_info[1]}"
        self._log.write(level, "log", fields)


def _clean(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return without_secret_keys(clip(str(value)))


def _as_json(line: LogLine) -> str:
    at = datetime.fromtimestamp(line.at, UTC).isoformat(timespec="milliseconds")
    head = {"time": at, "level": line.level, "event": line.event}
    return json.dumps(head | line.fields, ensure_ascii=False, separators=(",", ":"))


def _as_text(line: LogLine) -> str:
    at = datetime.fromtimestamp(line.at).strftime("%H:%M:%S")
    words = [f"{key}={_quoted(value)}" for key, value in line.fields.items()]
    return " ".join([at, f"{line.level:7}", line.event, *words])


def _quoted(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, (bool, type(None))) else str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
