"""A relay of a world: it holds events by its own plain rules, and answers as its behaviours say.

Nothing here is the product's but the sketch and the negentropy responder.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from nostr_client.negentropy.reconcile import Responder
from nostr_client.negentropy.storage import seal
from tests.worlds.items import Item, Made, known, made, matches, note_id
from tests.worlds.repeats import Attempt, Finished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.worlds.behaviours import Behaviour

LIMIT = 500
"""Events of a page of a plain relay."""


class SimRelay:
    """See the module. `step` is the step of the world that is under way; `now` gives its time."""

    def __init__(
        self,
        url: str,
        behaviours: Sequence[Behaviour],
        items: Iterable[Item],
        latency: float,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.url = url
        self.behaviours = tuple(behaviours)
        self.latency = latency
        self.step = 0
        self.now = now
        self.refused_at = 0.0
        self.held: dict[str, Made] = {}
        self._versions: dict[tuple[int, str, str], Made] = {}
        """The newest event of each address that it ever took."""
        self.gone: set[str] = set()
        self.spent: Counter[Behaviour] = Counter()
        self.sent_by_id: defaultdict[str, list[Attempt]] = defaultdict(list)
        """When each id was sent for a REQ that named it."""
        self.sent: set[str] = set()
        """Ids that were sent since the client last knew nothing."""
        self.published: defaultdict[str, list[Attempt]] = defaultdict(list)
        """When each id came as EVENT, and what it was answered."""
        self.named: set[str] = set()
        """Ids that it named in NIP-77 sessions; what it refused to compare it did not name."""
        self.finished = Finished()
        self.asked: Counter[str] = Counter()
        """Messages of each verb."""
        self._lines: list[SimLine] = []
        self._library = {note_id(): made(Item("note", 10_000, -1_000_000))}
        for item in items:
            self.take(made(item))
        self.first_ids = sorted(self.held)
        """What it held at first."""
        self.first_newest = [one.id for one in self.matching({})]

    # What it holds.

    def take(self, one: Made) -> None:
        """Keep an event by the rules of NIP-01 and NIP-09."""
        if one.id in self.gone or one.id in self.held:
            return
        if one.address is not None and one.valid:
            other = self._versions.get(one.address)
            if other is not None and other.id in self.held:
                if (other.created_at, one.id) >= (one.created_at, other.id):
                    return
                del self.held[other.id]
            self._versions[one.address] = one
        self.held[one.id] = one
        if one.kind == 5 and one.valid:
            self._delete(one)

    def _delete(self, one: Made) -> None:
        for tag in one.tags:
            if tag[0] == "e":
                target = self.held.get(tag[1])
                if target is None or target.pubkey == one.pubkey:
                    self.gone.add(tag[1])
                    self.held.pop(tag[1], None)

    def lose(self, one: Made) -> None:
        """Lose an event, as if it never was."""
        self.held.pop(one.id, None)

    def served(self) -> list[Made]:
        """What it holds and sends."""
        return [o for o in self.held.values() if all(b.serves(self, o) for b in self.behaviours)]

    def matching(self, asked: Any, *, hidden: bool = False) -> list[Made]:
        """What matches, newest first; `hidden`: that too which it never sends."""
        held = self.held.values() if hidden else self.served()
        found = [one for one in held if one.kind == 30_023 or matches(asked, one)]
        if "ids" in asked:
            found = [one for one in found if one.id in asked["ids"]]
            found += [one for key, one in self._library.items() if key in asked["ids"]]
        return sorted(found, key=lambda one: (-one.created_at, one.id))

    # The wire (`wire.Host`).

    @property
    def reachable(self) -> bool:
        """Whether a connection can be made now."""
        return not any(b.is_away(self) for b in self.behaviours)

    @property
    def answers(self) -> bool:
        """Whether it is there and not silent in this step."""
        return self.reachable and not any(b.is_silent(self) for b in self.behaviours)

    def document(self) -> dict[str, object] | None:
        """It has no NIP-11 document."""
        return None

    def open(self, send: Callable[[str], None], cut: Callable[[], None]) -> SimLine:
        """Take a connection."""
        line = SimLine(self, send, cut)
        self._lines.append(line)
        return line

    def closed(self, line: SimLine) -> None:
        """A connection is gone."""
        if line in self._lines:
            self._lines.remove(line)

    def notice(self, text: str) -> None:
        """Send a NOTICE to everybody."""
        for line in self._lines:
            line.say("NOTICE", text)

    def hear(self, one: Made) -> None:
        """Take a new event and send it to whoever listens."""
        self.take(one)
        if one.id in self.held and self.answers:
            for line in self._lines:
                line.announce(one)

    def sends_of(self, message: list[Any]) -> int | None:
        """How many events of an answer come, and never its end; None: it is answered."""
        found = (one.sends_of(self, message) for one in self.behaviours)
        return next((sends for sends in found if sends is not None), None)

    def was_asked(self, ids: set[str]) -> None:
        """Note that the client has asked for events that it was told are accepted."""
        for key in ids & self.published.keys():
            self.published[key][-1].missed |= self.published[key][-1].dropped

    def refusal(self, verb: str) -> str | None:
        """Why a message is refused, if it is."""
        for one in self.behaviours:
            reason = one.refusal(self, verb)
            if reason is not None:
                return reason
        return None

    def page(self, asked: Any) -> tuple[list[Made], bool, int]:
        """What a filter is answered with, whether that is all, and the limit that was asked."""
        found = self.matching(asked)
        for one in self.behaviours:
            found = one.order(asked, found)
        caps = [c for b in self.behaviours if (c := b.cap()) is not None]
        limit = asked.get("limit", LIMIT)
        page = found[: min([limit, LIMIT, *caps])]
        for one in self.behaviours:
            page = one.arranged(page)
        return page, len(page) == len(found), limit

    def count(self, asked: Any) -> dict[str, Any] | None:
        """The answer to a COUNT."""
        found = [o for o in self.matching(asked, hidden=True) if o.valid and matches(asked, o)]
        bodies = (b.count(self, asked, found) for b in self.behaviours)
        body = next((one for one in bodies if one is not None), None)
        if body is None:
            return None
        for one in self.behaviours:
            body = one.recounted(self, asked, body)
        return body

    def listing(self, asked: Any) -> list[tuple[int, str]] | None:
        """Time and id of everything that NIP-77 compares."""
        found = self.matching({k: v for k, v in asked.items() if k != "limit"}, hidden=True)
        listings = (b.listing(self, found) for b in self.behaviours)
        ids = next((one for one in listings if one is not None), None)
        if ids is None:
            return None
        for one in self.behaviours:
            ids = one.listed(self, ids)
        return ids

    def frame(self, one: Made) -> str:
        """The JSON of an event as it is sent."""
        texts = (b.frame(self, one) for b in self.behaviours)
        return next((text for text in texts if text is not None), one.text)


class SimLine:
    """One connection of a relay (`wire.Line`)."""

    def __init__(
        self, relay: SimRelay, send: Callable[[str], None], cut: Callable[[], None]
    ) -> None:
        self._relay = relay
        self._send = send
        self._cut = cut
        self._gone = False
        self._open: dict[str, list[Any]] = {}
        self._engines: dict[str, Responder] = {}
        self._unread: dict[str, Attempt] = {}
        """What was answered by frames that the client has not read yet."""
        self._verbs: dict[str, Callable[[list[Any]], None]] = {
            "REQ": self._req,
            "COUNT": self._count,
            "EVENT": self._event,
            "CLOSE": lambda message: self._forget(self._open, message[1]),
            "NEG-OPEN": self._neg_open,
            "NEG-MSG": self._neg_message,
            "NEG-CLOSE": lambda message: self._forget(self._engines, message[1]),
        }

    def receive(self, text: str) -> None:
        """Take a frame of the client."""
        message = json.loads(text)
        self._relay.asked[message[0]] += 1
        if self._gone or not self._relay.answers:
            return
        sends = self._relay.sends_of(message)
        if sends is not None:
            self._begin(message, sends)
            return
        handler = self._verbs.get(message[0])
        if handler is None:
            self.say("NOTICE", "ERROR: bad msg: unknown cmd")
        else:
            handler(message)

    def _begin(self, message: list[Any], sends: int) -> None:
        """Send the first events of an answer, and nothing more."""
        if message[0] == "REQ":
            pages = [self._relay.page(asked)[0] for asked in message[2:]]
            for one in [one for page in pages for one in page][:sends]:
                self._give(message[1], one)

    def was_read(self, text: str) -> None:
        """The client has read a frame."""
        answered = self._unread.pop(text, None)
        if answered is not None:
            answered.read = True

    def close(self) -> None:
        """The connection is gone."""
        self._relay.closed(self)

    def say(self, *parts: Any) -> str:
        """Send a frame, which is given back."""
        text = json.dumps(parts, separators=(",", ":"))
        self._send(text)
        return text

    def announce(self, one: Made) -> None:
        """Send a new event to the subscriptions that it matches."""
        for sub_id, filters in self._open.items():
            if any(matches(asked, one) for asked in filters):
                self._give(sub_id, one)

    @staticmethod
    def _forget(book: dict[str, Any], key: str) -> None:
        book.pop(key, None)

    def _give(self, sub_id: str, one: Made) -> None:
        self._relay.sent.add(one.id)
        self._send(f'["EVENT",{json.dumps(sub_id)},{self._relay.frame(one)}]')

    def _req(self, message: list[Any]) -> None:
        _, sub_id, *filters = message
        reason = self._relay.refusal("REQ")
        if reason is not None:
            self.say("CLOSED", sub_id, reason)
            return
        self._open[sub_id] = filters
        self._relay.finished.asked(self._relay.step, filters)
        pages = [self._relay.page(asked) for asked in filters]
        events = {one.id: one for page, _, _ in pages for one in page}
        for one in events.values():
            if any("ids" in asked for asked in filters):
                self._note_sent(one)
            self._give(sub_id, one)
        self._relay.was_asked({key for asked in filters for key in asked.get("ids", ())})
        whole = all(complete for _, complete, _ in pages)
        limit = max(limit for _, _, limit in pages)
        hints = (
            b.hints(sent=len(events), limit=limit, whole=whole) for b in self._relay.behaviours
        )
        hint = next((hint for hint in hints if hint), [])
        if hint == [["finish"]] and len(filters) == 1 and len(events) < limit:
            self._relay.finished.ended(filters[0])
        self.say("EOSE", sub_id, *hint)

    def _note_sent(self, one: Made) -> None:
        """Note an event that was asked for. A page of a few shows nobody which frame was not read,
        so that such an event counts once in each step."""
        attempts = self._relay.sent_by_id[one.id]
        is_readable = self._relay.frame(one) == one.text
        if is_readable or not attempts or attempts[-1].step != self._relay.step:
            attempts.append(self._attempt())

    def _count(self, message: list[Any]) -> None:
        _, query_id, *filters = message
        reason = self._relay.refusal("COUNT")
        body = self._relay.count(filters[0]) if reason is None else None
        if body is None:
            self.say("CLOSED", query_id, reason or "unsupported: no COUNT here")
        else:
            self.say("COUNT", query_id, body)

    def _event(self, message: list[Any]) -> None:
        relay, key = self._relay, message[1]["id"]
        if any(one.chokes(key) for one in relay.behaviours):
            relay.published[key].append(self._attempt())
            self._gone = True
            self._cut()
            return
        reason = relay.refusal("EVENT")
        dropped = reason is None and key not in relay.held
        dropped = dropped and any(one.drops(key) for one in relay.behaviours)
        if dropped:
            taken, answer = True, ""
        else:
            taken, answer = self._take(key) if reason is None else (False, reason)
        attempt = self._attempt()
        attempt.taken, attempt.answer, attempt.dropped = taken, answer, dropped
        relay.published[key].append(attempt)
        self._unread[self.say("OK", key, taken, answer)] = attempt

    def _attempt(self) -> Attempt:
        return Attempt(self._relay.now(), self._relay.step)

    def _take(self, key: str) -> tuple[bool, str]:
        """Keep an event; whether it is held, and the message of the OK."""
        relay = self._relay
        has, one = key in relay.held, known(key)
        if not has and one is not None:
            relay.hear(one)
        accepted = key in relay.held
        refusal = "deleted: its author asked" if key in relay.gone else "replaced: have a newer one"
        return accepted, "duplicate: have it" if has else "" if accepted else refusal

    def _neg_open(self, message: list[Any]) -> None:
        _, sub_id, asked, first = message
        reason = self._relay.refusal("NEG-OPEN")
        if reason is not None:
            self.say("NEG-ERR", sub_id, reason)
            return
        ids = self._relay.listing(asked)
        if ids is None:
            self.say("NOTICE", "ERROR: bad msg: unknown cmd")
            return
        bounds = (b.too_many(len(ids)) for b in self._relay.behaviours)
        most = next((bound for bound in bounds if bound is not None), None)
        if most is not None:
            self.say("NEG-ERR", sub_id, "blocked: too many query results", most)
            return
        self._relay.named |= {key for _, key in ids}
        engine = Responder(seal([(at, bytes.fromhex(key)) for at, key in ids]), frame_limit=0)
        self._engines[sub_id] = engine
        self._reconcile(sub_id, engine, first)

    def _neg_message(self, message: list[Any]) -> None:
        _, sub_id, text = message
        engine = self._engines.get(sub_id)
        if engine is None:
            self.say("NEG-ERR", sub_id, "closed: unknown subscription handle")
        else:
            self._reconcile(sub_id, engine, text)

    def _reconcile(self, sub_id: str, engine: Responder, text: str) -> None:
        self.say("NEG-MSG", sub_id, engine.reconcile(bytes.fromhex(text)).hex())
