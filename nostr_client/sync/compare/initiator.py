"""Run our side of one NIP-77 session without I/O: take the relay's frames, return their meaning."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs import reasons
from nostr_client.codecs.display import plural
from nostr_client.codecs.messages import Closed, NegErr, NegMsg, Notice
from nostr_client.codecs.reasons import Reason
from nostr_client.errors import NegentropyError, clip
from nostr_client.negentropy.matching import Ids
from nostr_client.negentropy.reconcile import Initiator

if TYPE_CHECKING:
    from nostr_client.negentropy.storage import Storage

_SPEAKS_OF_NEG: Final = re.compile(r"\bneg(?:entropy\b|[ -](?:open|msg|err|requests?)\b)", re.I)
_NEG_CROWD: Final = re.compile(
    r"\btoo many\b.{0,30}\b(?:neg|session|subscription)|sessions? are", re.I
)
_TOO_OLD: Final = re.compile(r"\btoo old\b", re.I)
_ROUND_WORTH: Final = 2
"""New ids that allow a session one more round.

An honest session brings more, except at its start.
"""


class RefusalKind(Enum):
    """Reaction that a refusal requires."""

    OVERFLOW = auto()  # more records than the relay accepts, so use a smaller window
    TOO_OLD = auto()  # read these events by REQ
    RESTART = auto()  # the relay forgot the session
    BUSY = auto()  # slow down, or run fewer sessions at once
    NOT_FOUND = auto()  # the relay does not have the filter event
    AUTH = auto()
    UNSUPPORTED = auto()  # the relay says that it has no NIP-77
    SILENT = auto()  # no answer at all: it may have no NIP-77
    DENIED = auto()  # not this filter, or not for this key
    INVALID = auto()  # the relay cannot read the filter, so do not send it again unchanged
    FAULT = auto()  # a fault of the relay, of the client, or of the message
    BROKEN = auto()  # the answer is not negentropy, so do not try again
    LOST = auto()  # the connection broke


class Refusal(msgspec.Struct, frozen=True):
    """The session is over without a result. `most`: most records that the relay compares.

    `by_neg_err`: the refusal came as NEG-ERR, which proves that the relay supports NIP-77.
    """

    kind: RefusalKind
    reason: str
    most: int | None = None
    by_neg_err: bool = False


class Suspicion(msgspec.Struct, frozen=True):
    """A NOTICE that names no session. The session may be over.

    `sure`: the NOTICE is about negentropy, or about an act of the client such as too many requests.
    Otherwise the NOTICE may be about anything.
    """

    kind: RefusalKind
    reason: str
    sure: bool = True


class LearnedIds(msgspec.Struct, frozen=True):
    """Result of one round. `message` is sent next, or None if the session is complete."""

    have: Ids
    need: Ids
    message: bytes | None


Frame = NegMsg | NegErr | Closed | Notice

RoundResult = LearnedIds | Refusal | Suspicion | None


class InitiatorSession:
    """Our side of a session. `first()` returns the first message, and `hear` takes each frame.

    `patience`: rounds without new ids. Pass the number of new ids to `credit`.
    """

    def __init__(self, storage: Storage, *, frame_bytes: int, patience: int) -> None:
        self._engine = Initiator(storage, frame_limit=frame_bytes)
        self._patience = patience
        self._credit = 0
        self.begun = False
        """Whether the relay has answered with negentropy."""

    @property
    def rounds(self) -> int:
        return self._engine.rounds

    def first(self) -> bytes:
        """Return the message of NEG-OPEN."""
        return self._engine.initiate()

    def credit(self, fresh: int) -> None:
        """Count the ids of the last round that were new."""
        self._credit += fresh // _ROUND_WORTH

    def hear(self, frame: Frame) -> RoundResult:
        """Return the meaning of a frame, or None if the frame is not about this session."""
        if isinstance(frame, NegMsg):
            return self._message(frame.message)
        return no_message(frame, self.begun)

    def _message(self, message: bytes) -> LearnedIds | Refusal:
        self.begun = True
        if self.rounds >= self._patience + self._credit:
            return Refusal(
                RefusalKind.BROKEN, f"does not converge within {plural(self.rounds, 'round')}"
            )
        try:
            round_ = self._engine.reconcile(message)
        except NegentropyError as error:
            return Refusal(RefusalKind.BROKEN, clip(str(error)))
        return LearnedIds(round_.have, round_.need, round_.message)


def no_message(frame: NegErr | Closed | Notice, begun: bool) -> Refusal | Suspicion | None:
    """Return the meaning of a frame other than NEG-MSG. `begun`: negentropy came before."""
    if isinstance(frame, Notice):
        return _notice(frame.message, begun)
    if isinstance(frame, NegErr):
        said = refusal(frame.reason, most=frame.max_records, overflow=frame.overflow)
        return msgspec.structs.replace(said, by_neg_err=said.kind is not RefusalKind.UNSUPPORTED)
    return refusal(frame.message or "closed: without a reason")


def _notice(text: str, begun: bool) -> Refusal | Suspicion | None:
    said = clip(text)
    if begun:
        about = _SPEAKS_OF_NEG.search(text) or reasons.classify(text) is Reason.TOO_MANY
        return Suspicion(RefusalKind.FAULT, said) if about else None
    if reasons.means_neg_unsupported(text):
        return Refusal(RefusalKind.UNSUPPORTED, said)
    found = refusal(text)
    if found.kind in _AT_ONCE and (
        _SPEAKS_OF_NEG.search(text) or found.kind is RefusalKind.OVERFLOW
    ):
        return found
    if reasons.classify(text) is Reason.TOO_MANY:
        return Refusal(RefusalKind.BUSY, said)
    sure = found.kind is not RefusalKind.FAULT or bool(_SPEAKS_OF_NEG.search(text))
    return Suspicion(found.kind, said, sure)


_AT_ONCE: Final = (
    RefusalKind.OVERFLOW,
    RefusalKind.TOO_OLD,
    RefusalKind.BUSY,
    RefusalKind.AUTH,
    RefusalKind.UNSUPPORTED,
    RefusalKind.DENIED,
    RefusalKind.INVALID,
)
"""Possible meanings of a NOTICE about negentropy that comes instead of the first answer."""

_KINDS: Final = {
    Reason.CLOSED: RefusalKind.RESTART,
    Reason.RATE_LIMITED: RefusalKind.BUSY,
    Reason.TOO_MANY: RefusalKind.BUSY,
    Reason.FILTER_NOT_FOUND: RefusalKind.NOT_FOUND,
    Reason.AUTH_REQUIRED: RefusalKind.AUTH,
    Reason.UNSUPPORTED: RefusalKind.UNSUPPORTED,
    Reason.RESTRICTED: RefusalKind.DENIED,
    Reason.BLOCKED: RefusalKind.DENIED,
    Reason.FILTER_INVALID: RefusalKind.INVALID,
    Reason.INVALID: RefusalKind.INVALID,
}


def refusal(reason: str, *, most: int | None = None, overflow: bool | None = None) -> Refusal:
    """Return the refusal for the reason of NEG-ERR or CLOSED."""
    if overflow if overflow is not None else reasons.is_overflow(reason):
        kind = RefusalKind.TOO_OLD if _TOO_OLD.search(reason) else RefusalKind.OVERFLOW
        return Refusal(kind, clip(reason), most or reasons.max_records(reason))
    if _NEG_CROWD.search(reason):
        return Refusal(RefusalKind.BUSY, clip(reason))
    kind = _KINDS.get(reasons.classify(reason), RefusalKind.FAULT)
    if kind in (RefusalKind.FAULT, RefusalKind.INVALID) and reasons.means_neg_unsupported(reason):
        kind = RefusalKind.UNSUPPORTED
    return Refusal(kind, clip(reason))
