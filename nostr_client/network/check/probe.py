"""Send single requests to one relay, frame by frame, within a budget of messages.

`Relay` corrects the mistakes of relays. A check must see these mistakes, so the probe reads frames
itself. Exchanges run one after the other. The probe connects again if the relay drops the
connection.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from nostr_client.codecs import messages as wire
from nostr_client.codecs.display import plural
from nostr_client.codecs.keys import VerifiedEvent, verify_many
from nostr_client.codecs.reasons import Reason, classify
from nostr_client.errors import MalformedMessage, NegentropyError, NetworkError, RelayError, clip
from nostr_client.negentropy.reconcile import Initiator
from nostr_client.network.access.budget import admitted
from nostr_client.network.check.answers import (
    CountExchange,
    Exchange,
    ExchangeEnd,
    NegExchange,
    ReqExchange,
)
from nostr_client.protocol.auth import auth_template

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import Signer
    from nostr_client.negentropy.storage import Storage
    from nostr_client.network.access.budget import Budget
    from nostr_client.network.transport import Transport, WebSocket

MOST: Final = 200
"""Most messages of one check, which include connections and the document."""

_MOST_FRAMES: Final = 5_000
"""Most frames of one exchange: ten times the largest page that is requested."""

_MOST_ROUNDS: Final = 24
"""Most rounds of a NIP-77 session over some thousands of ids. A correct relay needs four."""

_CONNECTIONS: Final = 8
"""Most connections of one check. A relay that drops more connections cannot be checked."""

_FRAME: Final = 50_000
"""Bytes of our negentropy messages before hex, as in a sync."""

AnswerT = TypeVar("AnswerT", bound=Exchange)


class CheckSpent(Exception):
    """Raised if the check has spent its budget of messages."""


class _Frame(NamedTuple):
    """One frame.

    `message` is None if it is invalid. `label` is the message type that the relay wrote.
    """

    message: wire.RelayMessage | None
    label: str
    text: str


class RawExchange(NamedTuple):
    """Frames that arrived for one message. `final` is the frame that ended the exchange."""

    frames: list[_Frame]
    end: ExchangeEnd
    reason: str
    final: _Frame | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(
            clip(one.message.message) for one in self.frames if isinstance(one.message, wire.Notice)
        )

    @property
    def malformed(self) -> tuple[str, ...]:
        return tuple(one.text for one in self.frames if one.message is None)

    def about(self) -> dict[str, Any]:
        """Return the fields that every answer has."""
        label = "" if self.final is None else self.final.label
        return {
            "end": self.end,
            "reason": clip(self.reason),
            "label": label,
            "notices": self.notices,
            "malformed": self.malformed,
        }


class Probe:
    """Sends requests to `address`, as the module describes. Close it last.

    `wait`: seconds of silence that end an exchange. `signer` answers AUTH if the relay requires
    AUTH. With None, nothing answers AUTH. `now` returns Unix seconds.
    """

    def __init__(
        self,
        address: str,
        transport: Transport,
        *,
        budget: Budget | None,
        wait: float,
        now: Callable[[], float],
        signer: Signer | None = None,
        most: int = MOST,
    ) -> None:
        self.address = address
        self.asked = 0
        self.date: tuple[float, float] | None = None
        """The relay's clock in the handshake, and the local clock, both in Unix seconds."""
        self.challenge: str | None = None
        self.strays: list[str] = []
        """Ids of events that belong to no request."""
        self.signer = signer
        self.wanted_auth = False
        """Whether the relay refused something until AUTH."""
        self.authenticated = False
        self._transport = transport
        self._budget = budget
        self._wait = wait
        self._now = now
        self._most = most
        self._socket: WebSocket | None = None
        self._connections = 0
        self._ids = itertools.count(1)
        self._ended: str | None = None

    def now(self) -> int:
        """Return Unix seconds."""
        return int(self._now())

    # Lifetime.

    async def connect(self) -> None:
        """Connect if no connection is open. Raises NetworkError, CheckSpent."""
        if self._socket is not None:
            return
        if self._connections >= _CONNECTIONS:
            raise CheckSpent("the relay drops every connection")
        await self._admit()
        self._connections += 1
        self.challenge, self.authenticated = None, False
        socket = await self._transport.connect(self.address)
        self._socket = socket
        if socket.date is not None:
            self.date = socket.date, self._now()

    async def reconnect(self, address: str | None = None) -> None:
        """Connect again, to `address` if it is given. Raises NetworkError, CheckSpent."""
        await self.close()
        self.address = address or self.address
        await self.connect()

    async def close(self) -> None:
        """Close the connection."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def document(self, accept: str) -> bytes:
        """Fetch the NIP-11 document. Raises NetworkError, ProtocolError, CheckSpent."""
        await self._admit()
        return await self._transport.get_document(self.address, accept=accept)

    # Exchanges.

    async def read(self, *filters: Filter, sub_id: str = "") -> ReqExchange:
        """Ask for stored events. Raises NetworkError, CheckSpent. Safe to cancel."""
        sub_id = sub_id or self._new_id("r")
        raw = await self._authorized(wire.Req(sub_id, filters).to_json(), sub_id, wire.Eose)
        if raw.end is ExchangeEnd.ANSWERED:
            await self._send(wire.Close(sub_id).to_json())
        events = self._events(raw, sub_id)
        return ReqExchange(
            filters=filters,
            events=tuple(events),
            forged=await _forged(events),
            hint=raw.final.message.hint
            if raw.final is not None and isinstance(raw.final.message, wire.Eose)
            else None,
            **raw.about(),
        )

    async def count(self, *filters: Filter) -> CountExchange:
        """Ask for a count. Raises NetworkError, CheckSpent. Safe to cancel."""
        return await self._count(filters, [one.to_dict() for one in filters])

    async def count_raw(self, filter: dict[str, object]) -> CountExchange:
        """Ask for a count with any JSON as the filter. Raises NetworkError, CheckSpent."""
        return await self._count((), [filter])

    async def _count(self, filters: tuple[Filter, ...], asked: Sequence[object]) -> CountExchange:
        query_id = self._new_id("c")
        text = json.dumps(["COUNT", query_id, *asked], ensure_ascii=False)
        raw = await self._authorized(text, query_id, wire.CountAnswer)
        found = None if raw.final is None else raw.final.message
        if not isinstance(found, wire.CountAnswer):
            return CountExchange(filters=filters, **raw.about())
        return CountExchange(
            filters=filters,
            count=found.count,
            approximate=bool(found.approximate),
            limited=bool(found.limited),
            hll=found.hll,
            warnings=found.warnings,
            **raw.about(),
        )

    async def compare(self, filter: Filter, storage: Storage) -> NegExchange:
        """Run one NIP-77 session to its end. Raises NetworkError, CheckSpent. Safe to cancel."""
        sub_id, engine = self._new_id("n"), Initiator(storage, frame_limit=_FRAME)
        text = wire.NegOpen(sub_id, filter, engine.initiate()).to_json()
        have: set[str] = set()
        need: set[str] = set()
        first, largest = b"", 0
        while True:
            raw = await self._authorized(text, sub_id, wire.NegMsg)
            if raw.final is None or not isinstance(raw.final.message, wire.NegMsg):
                break
            message = raw.final.message
            first, largest = first or message.message, max(largest, len(raw.final.text))
            broken, sent = _turn(engine, message.message, have, need)
            if sent is None or engine.rounds >= _MOST_ROUNDS:
                broken = broken or ("" if sent is None else "it does not come to an end")
                raw = raw._replace(end=ExchangeEnd.CLOSED, reason=broken) if broken else raw
                break
            text = wire.NegMsg(sub_id, sent).to_json()
        if raw.end is ExchangeEnd.ANSWERED:
            await self._send(wire.NegClose(sub_id).to_json())
        return NegExchange(
            filter=filter,
            have=frozenset(have),
            need=frozenset(need),
            rounds=engine.rounds,
            first=first,
            largest=largest,
            **raw.about(),
        )

    async def negotiate(self, filter: Filter, hex_text: str) -> NegExchange:
        """Return the first answer to a NEG-OPEN with any text. Raises NetworkError, CheckSpent."""
        sub_id = self._new_id("n")
        text = json.dumps(["NEG-OPEN", sub_id, filter.to_dict(), hex_text])
        raw = await self._authorized(text, sub_id, wire.NegMsg)
        found = None if raw.final is None else raw.final.message
        first = found.message if isinstance(found, wire.NegMsg) else b""
        if raw.end is ExchangeEnd.ANSWERED:
            await self._send(wire.NegClose(sub_id).to_json())
        return NegExchange(filter=filter, first=first, **raw.about())

    async def read_raw(self, filter: dict[str, object]) -> Exchange:
        """Return how a REQ with any JSON as the filter ends. Raises NetworkError, CheckSpent."""
        sub_id = self._new_id("r")
        raw = await self._exchange(json.dumps(["REQ", sub_id, filter]), sub_id, wire.Eose)
        if raw.end is ExchangeEnd.ANSWERED:
            await self._send(wire.Close(sub_id).to_json())
        return Exchange(**raw.about())

    async def publish(self, event: Event) -> Exchange:
        """Publish an event.

        ANSWERED means that the relay says it has the event. Raises as `read` does.
        """
        raw = await self._authorized(wire.Publish(event).to_json(), event.id, wire.Ok)
        return Exchange(**raw.about())

    async def authenticate(self, signer: Signer) -> Exchange | None:
        """Answer the challenge.

        Return None if the relay sent none. Raises NetworkError, CheckSpent.
        """
        if self.challenge is None:
            await self._gather(lambda frame: isinstance(frame.message, wire.AuthChallenge))
        if self.challenge is None:
            return None
        signed = await signer.sign(auth_template(self.address, self.challenge, self.now()))
        text = wire.Auth(signed.event).to_json()
        raw = await self._exchange(text, signed.event.id, wire.Ok)
        self.authenticated = raw.end is ExchangeEnd.ANSWERED
        return Exchange(**raw.about())

    # Frames.

    async def _authorized(self, text: str, request_id: str, answers: type) -> RawExchange:
        """Run one exchange.

        Repeat it after AUTH if the relay requires AUTH and a signer is given.
        """
        raw = await self._exchange(text, request_id, answers)
        if classify(raw.reason) is not Reason.AUTH_REQUIRED or raw.end is ExchangeEnd.ANSWERED:
            return raw
        self.wanted_auth = True
        if self.signer is None or self.authenticated:
            return raw
        answer = await self.authenticate(self.signer)
        if answer is None or answer.end is not ExchangeEnd.ANSWERED:
            return raw
        return await self._exchange(text, request_id, answers)

    async def _exchange(self, text: str, request_id: str, answers: type) -> RawExchange:
        await self._send(text, connect=True)
        return await self._gather(lambda frame: _is_final(frame, request_id, answers), request_id)

    async def _gather(
        self, is_final: Callable[[_Frame], bool], request_id: str = ""
    ) -> RawExchange:
        """Read frames until the final one, a silence, or the end of the connection."""
        frames: list[_Frame] = []
        while len(frames) < _MOST_FRAMES:
            try:
                async with asyncio.timeout(self._wait):
                    frame = await self._receive()
            except TimeoutError:
                return self._unanswered(frames)
            except RelayError as error:
                await self.close()
                return RawExchange(frames, ExchangeEnd.DROPPED, str(error))
            self._note(frame, request_id)
            frames.append(frame)
            if is_final(frame):
                return _ended(frames, frame)
        await self.close()
        return RawExchange(
            frames,
            ExchangeEnd.DROPPED,
            f"more than {plural(_MOST_FRAMES, 'frame')} for one request",
        )

    def _unanswered(self, frames: list[_Frame]) -> RawExchange:
        notices = [one.message for one in frames if isinstance(one.message, wire.Notice)]
        if notices:
            return RawExchange(frames, ExchangeEnd.NOTICE, notices[-1].message)
        return RawExchange(frames, ExchangeEnd.SILENT, "")

    async def _receive(self) -> _Frame:
        if self._socket is None:
            raise NetworkError(self._ended or "not connected", relay=self.address)
        data = await self._socket.receive()
        if self._budget is not None:
            self._budget.carried(len(data), asyncio.get_running_loop().time())
        return _read(data)

    def _note(self, frame: _Frame, request_id: str) -> None:
        """Remember a challenge, and frames that belong to no request."""
        message = frame.message
        if isinstance(message, wire.AuthChallenge):
            self.challenge = message.challenge
        elif isinstance(message, wire.Notice | wire.Closed):
            self._heed(message.message)
        elif isinstance(message, wire.EventReceived) and message.sub_id != request_id:
            self.strays.append(message.event.id)

    def _heed(self, reason: str) -> None:
        if self._budget is not None and classify(reason) is Reason.RATE_LIMITED:
            self._budget.refused(asyncio.get_running_loop().time())

    async def _send(self, text: str, *, connect: bool = False) -> None:
        """Send one message. Connect first only if `connect` is True."""
        if connect:
            await self.connect()
        if self._socket is None:
            return
        await self._admit()
        try:
            await self._socket.send(text)
        except NetworkError as error:
            self._ended = str(error)
            await self.close()

    async def _admit(self) -> None:
        if self.asked >= self._most:
            raise CheckSpent(
                f"the check may send {plural(self._most, 'message')}, and these are spent"
            )
        self.asked += 1
        await admitted(self._budget)

    def _new_id(self, letter: str) -> str:
        return f"{letter}{next(self._ids)}"

    def _events(self, raw: RawExchange, sub_id: str) -> list[Event]:
        found = (one.message for one in raw.frames)
        return [
            one.event
            for one in found
            if isinstance(one, wire.EventReceived) and one.sub_id == sub_id
        ]


def _read(data: bytes) -> _Frame:
    text = data.decode("utf-8", "replace")
    label = ""
    with suppress(ValueError, IndexError, TypeError, RecursionError):
        label = str(json.loads(text[:200].partition(",")[0].rstrip("]") + "]")[0])
    try:
        return _Frame(wire.parse_relay_message(data), label, text)
    except MalformedMessage as error:
        return _Frame(None, label, clip(str(error)))


def _is_final(frame: _Frame, request_id: str, answers: type) -> bool:
    message = frame.message
    match message:
        case wire.Ok():
            return answers is wire.Ok and message.event_id == request_id
        case wire.Closed() | wire.NegErr() | wire.NegMsg() | wire.Eose():
            return message.sub_id == request_id
        case wire.CountAnswer():
            return message.query_id == request_id
        case _:
            return False


def _ended(frames: list[_Frame], final: _Frame) -> RawExchange:
    match final.message:
        case wire.Closed(message=reason) | wire.NegErr(reason=reason):
            return RawExchange(frames, ExchangeEnd.CLOSED, reason, final)
        case wire.Ok() as ok if not ok.holds_event:
            return RawExchange(frames, ExchangeEnd.CLOSED, ok.message, final)
        case wire.Ok(message=reason):
            return RawExchange(frames, ExchangeEnd.ANSWERED, reason, final)
        case _:
            return RawExchange(frames, ExchangeEnd.ANSWERED, "", final)


def _turn(
    engine: Initiator, message: bytes, have: set[str], need: set[str]
) -> tuple[str, bytes | None]:
    """Process one answer. Return an error or "", and the next message or None."""
    try:
        round_ = engine.reconcile(message)
    except NegentropyError as error:
        return clip(str(error)), None
    have.update(round_.have.hex())
    need.update(round_.need.hex())
    return "", round_.message


async def _forged(events: Sequence[Event]) -> frozenset[str]:
    """Return ids of the invalid events. Verifies in a thread."""
    if not events:
        return frozenset()
    results = await asyncio.to_thread(verify_many, events)
    return frozenset(
        one.id
        for one, result in zip(events, results, strict=True)
        if not isinstance(result, VerifiedEvent)
    )
