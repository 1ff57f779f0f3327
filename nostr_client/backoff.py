"""When to try again, and when not to. Pure: the source of randomness is an argument."""

from __future__ import annotations

import random
from enum import Enum
from typing import TYPE_CHECKING

from nostr_client.errors import (
    DeadlineExceeded,
    NetworkError,
    ProtocolError,
    RelayRefused,
    Unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nostr_client.options import ReconnectPolicy


class Step(Enum):
    """What to do after a failure."""

    RETRY = "retry"  # after the next delay
    RETRY_LATE = "retry-late"  # after the longest delay: the other side asked to be left alone
    FATAL = "fatal"  # never: the same request fails again


_GO_AWAY = 4000
"""Close code that an earlier NIP-01 gave to "do not connect again"."""

_LATE_CLOSE = frozenset({1002, 1003, 1007, 1008, 1009, 1010})
"""RFC 6455 codes that blame us: protocol, data type, encoding, policy, size, extension."""

_FATAL_PREFIXES = frozenset({"auth-required", "restricted", "blocked", "invalid", "pow", "mute"})


def delays(policy: ReconnectPolicy, rand: Callable[[], float] = random.random) -> Iterator[float]:
    """Seconds to wait before each attempt, without end, or `policy.attempts` of them.

    Full jitter above a floor: the nth lies anywhere between `first` and `first * 2^n`, at most
    `longest`. `rand` gives numbers in [0, 1).
    """
    ceiling, made = policy.first, 0
    while policy.attempts is None or made < policy.attempts:
        ceiling = min(policy.longest, ceiling * 2)
        made += 1
        yield policy.first + rand() * (ceiling - policy.first)


def judge(error: BaseException) -> Step:
    """Whether what failed may be tried again.

    Your own mistakes, an unknown command, a refusal for what you are or sent: FATAL. A policy
    close, HTTP 3xx or 4xx at the handshake, a relay that speaks no protocol: RETRY_LATE. The
    rest, a restart (1001, 1012) above all: RETRY.
    """
    match error:
        case Unsupported():
            return Step.FATAL
        case RelayRefused():
            return Step.FATAL if error.prefix in _FATAL_PREFIXES else Step.RETRY_LATE
        case ProtocolError():
            return Step.RETRY_LATE
        case NetworkError():
            return _judge_connection(error.close_code, error.http_status)
        case DeadlineExceeded() | OSError():
            return Step.RETRY
    return Step.FATAL


def _judge_connection(close_code: int | None, http_status: int | None) -> Step:
    if close_code == _GO_AWAY:
        return Step.FATAL
    blames_us = close_code in _LATE_CLOSE or 300 <= (http_status or 0) < 500
    return Step.RETRY_LATE if blames_us else Step.RETRY
