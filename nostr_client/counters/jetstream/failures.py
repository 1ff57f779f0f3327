"""What a nats-server and nats-py say went wrong, as errors of this package."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import nats.errors

from nostr_client.counters.base import NoStream
from nostr_client.errors import (
    CounterError,
    DeadlineExceeded,
    InvalidInput,
    NetworkError,
    ProtocolError,
    clip,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def api_error(error: object, url: str, about: str) -> CounterError:
    """The error object of an answer as an error; raises ProtocolError where it is none."""
    if not isinstance(error, dict):
        raise ProtocolError("an error without a code", relay=url)
    code, status = error.get("err_code", 0), error.get("code", 0)
    description = error.get("description", "")
    if not isinstance(code, int) or not isinstance(status, int):
        raise ProtocolError("an error without a code", relay=url)
    if code == 10059:
        return NoStream(about)
    return CounterError(clip(str(description)), code=code, status=status, about=about)


COUNTED: Final = "the message may have been counted: repeat it with the same message id"
"""The doubt after a message whose acknowledgement was lost."""

DONE: Final = "the server may have done it"
"""The doubt after a call that changes a stream and whose answer was lost."""

_NOT_SENT: Final = (
    nats.errors.ConnectionClosedError,
    nats.errors.ConnectionDrainingError,
    nats.errors.OutboundBufferLimitError,
)


@contextmanager
def mapped(url: str, subject: str = "", doubt: str = "") -> Iterator[None]:
    """Turn nats-py's errors into this package's.

    `doubt` says what may have happened where the request was sent and its answer was lost.
    """
    lost = f"; {doubt}" if doubt else ""
    try:
        yield
    except nats.errors.NoRespondersError as error:
        raise NoStream(subject) from error
    except nats.errors.TimeoutError as error:
        raise DeadlineExceeded(f"no answer from nats-server in time{lost}", relay=url) from error
    except (nats.errors.BadSubjectError, nats.errors.BadHeaderError) as error:
        raise InvalidInput(f"cannot be sent: {error}") from error
    except nats.errors.MaxPayloadError as error:
        raise CounterError("message size exceeds maximum allowed", code=10054) from error
    except _NOT_SENT as error:
        raise NetworkError(clip(str(error)), relay=url) from error
    except (nats.errors.Error, OSError) as error:
        text = clip(str(error) or type(error).__name__)
        raise NetworkError(f"{text}{lost}", relay=url) from error
