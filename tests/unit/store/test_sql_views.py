"""Each view equals what plain Python computes from the same events, claims and watches."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.codecs import nip19
from nostr_client.codecs.kinds import REPOST
from nostr_client.codecs.private_kinds import is_private
from nostr_client.codecs.zaps import read_zap
from nostr_client.count.claims.book import CLAIMS, ClaimBook
from nostr_client.count.figures import Figure, Within
from nostr_client.count.merge import Claim, ClaimStatus, Method
from nostr_client.count.queries import followers, reactions, replies, reposts
from nostr_client.count.remembering import asked_of
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.store.sql.query import SqlReader
from nostr_client.store.sql.views import VIEWS
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.files.jsonl import import_jsonl
from nostr_client.watch import WATCHES, Point, Watch, WatchRepository
from nostr_client.watch.points import put as put_points
from tests.conformance.store_events import NOW, make
from tests.conftest import shared_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nostr_client.codecs.event import Event
    from nostr_client.count.queries import Query

AT = 1_780_000_000
HEX = set("0123456789abcdef")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sql") / "s.db"


@pytest.fixture(scope="module")
async def held(path: Path) -> list[Event]:
    """The events that the store of all shared ones shows at AT, by Python's own rules."""
    lines = shared_path("data/events.jsonl")
    async with await SqliteStore.open(path, clock=lambda: AT) as store:
        with lines.open("rb") as file:
            await import_jsonl(store, file)
        message = make(4, 4, content="private")
        await store.save(
            [
                make(1, tags=(("t", "a\x00b"), ("empty",)), content="n\x00l"),
                message,
                make(2, 6, tags=(("e", message.event.id),), content=message.event.to_json()),
                make(3, 5050, tags=(("encrypted",), ("t", "x"))),
                make(3, 5051, tags=(("t", "x"),)),
            ]
        )
        return [event async for event in store.export([])]


@pytest.fixture(scope="module")
def public(held: list[Event]) -> list[Event]:
    return [event for event in held if not is_private(event)]


def rows(path: Path, view: str) -> list[dict[str, Any]]:
    """All rows of a view."""
    found = SqlReader(rows=10**7, seconds=120, now=lambda: AT).ask(path, f"SELECT * FROM {view}")
    assert not found.cut
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def iso(at: float | None) -> str | None:
    if at is None or at > 253_402_300_799:
        return None
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def same(found: Iterable[dict[str, Any]], wanted: Iterable[dict[str, Any]]) -> None:
    """Equal rows, in any order."""
    one, other = (
        sorted(json.dumps(row, sort_keys=True) for row in some) for some in (found, wanted)
    )
    assert one == other
    assert one


def test_every_view_has_the_columns_that_it_documents_and_its_key_is_one(
    path: Path, held: list[Event]
) -> None:
    for view in VIEWS:
        found = SqlReader(rows=10**7, seconds=120, now=lambda: AT).ask(
            path, f"SELECT * FROM {view.name}"
        )
        assert found.columns == tuple(column.name for column in view.columns)
        places = [found.columns.index(name) for name in view.key]
        keys = [tuple(row[place] for place in places) for row in found.rows]
        assert len(keys) == len(set(keys)), view.name


def test_events(path: Path, public: list[Event]) -> None:
    wanted = [
        {
            "id": one.id, "pubkey": one.pubkey, "kind": one.kind, "created_at": iso(one.created_at),
            "created_ts": one.created_at, "content": one.content, "sig": one.sig,
        }
        for one in public
    ]  # fmt: skip
    found = rows(path, "events")
    tags = {row["id"]: json.loads(row.pop("tags")) for row in found}
    expiry = {row["id"]: row.pop("expires_at") for row in found}
    same(found, wanted)
    assert tags == {one.id: [list(tag) for tag in one.tags] for one in public}
    for one in public:
        value = one.first_tag("expiration")
        if value is None:
            assert expiry[one.id] is None
        elif value.isascii() and value.isdigit():
            assert expiry[one.id] == iso(int(value))


def test_tags(path: Path, public: list[Event]) -> None:
    wanted = [
        {
            "event_id": one.id, "position": position, "name": _shown(tag[0]),
            "value": _shown(tag[1]) if len(tag) > 1 else None,
            "tag": [_shown(part) for part in tag], "kind": one.kind, "pubkey": one.pubkey,
            "created_ts": one.created_at,
        }
        for one in public
        for position, tag in enumerate(one.tags)
    ]  # fmt: skip
    found = rows(path, "tags")
    same([row | {"tag": json.loads(row["tag"])} for row in found], wanted)


def _shown(text: str) -> str:
    return text.replace("\x00", "\ufffd")


def test_authors(path: Path, public: list[Event]) -> None:
    theirs: dict[str, list[Event]] = defaultdict(list)
    for one in public:
        theirs[one.pubkey].append(one)
    wanted = []
    for pubkey, events in theirs.items():
        about: object = {}
        for one in (one for one in events if one.kind == 0):
            try:
                about = json.loads(one.content)
            except ValueError:
                about = {}
        fields = about if isinstance(about, dict) else {}
        texts = {
            name: fields[name] if isinstance(fields.get(name), str) else None
            for name in ("name", "display_name", "nip05")
        }
        times = [one.created_at for one in events]
        wanted.append(
            {"pubkey": pubkey, "npub": nip19.PublicKey(pubkey).encode(), "events": len(events),
             "first_at": iso(min(times)), "last_at": iso(max(times))} | texts
        )  # fmt: skip
    same(rows(path, "authors"), wanted)


def test_followers(path: Path, public: list[Event]) -> None:
    wanted = [
        {"followed": key, "follower": one.pubkey, "event_id": one.id,
         "created_at": iso(one.created_at), "created_ts": one.created_at}
        for one in public
        if one.kind == 3
        for key in {tag[1] for tag in one.tags if len(tag) > 1 and tag[0] == "p"}
        if len(key) == 64 and set(key) <= HEX
    ]  # fmt: skip
    same(rows(path, "followers"), wanted)


@pytest.mark.parametrize(
    ("view", "make_query"),
    [
        ("followers", followers),
        ("reactions", reactions),
        ("reposts", reposts),
        ("replies", replies),
    ],
)
def test_a_view_has_for_each_target_the_events_that_a_count_holds(
    path: Path, public: list[Event], view: str, make_query: Any
) -> None:
    """The canonical question, judged by the counting code itself, for every target there is."""
    kinds = {"followers": (3,), "reactions": (7,), "reposts": (6, 16), "replies": (1,)}[view]
    about: dict[str, list[Event]] = defaultdict(list)
    for one in (one for one in public if one.kind in kinds):
        for value in {tag[1] for tag in one.tags if len(tag) > 1 and tag[0] in "pea"}:
            about[value].append(one)
    target = "followed" if view == "followers" else "target"
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows(path, view):
        found[row[target]].add(row["event_id"])
    checked = 0
    for value, events in about.items():
        try:
            query: Query = make_query(value)
        except ValueError:
            continue
        if query.target != value:  # another spelling of an address
            continue
        matching = (one for one in events if any(f.matches(one) for f in query.filters))
        wanted = {one.id for one in matching if query.hold(one) is not None}
        assert found.get(value, set()) == wanted, value
        checked += bool(wanted)
    assert checked


def test_reactions_and_replies_say_what_they_are(path: Path, public: list[Event]) -> None:
    by_id = {one.id: one for one in public}
    for row in rows(path, "reactions"):
        text = by_id[row["event_id"]].content.strip() or "+"
        assert row["reaction"].isprintable()
        assert row["reaction"] == text or len(text.encode()) > 64 or not text.isprintable()
    assert {row["place"] for row in rows(path, "replies")} == {"direct", "thread"}


def test_zaps(path: Path, public: list[Event]) -> None:
    receipts = [(one, read_zap(one)) for one in public if one.kind == 9735]
    wanted = [
        {"target": zap.about, "sender": zap.sender, "receiver": zap.receiver, "msats": zap.amount,
         "wallet": one.pubkey, "event_id": one.id, "created_at": iso(one.created_at),
         "created_ts": one.created_at}
        for one, zap in receipts
        if zap is not None
    ]  # fmt: skip
    same(rows(path, "zaps"), wanted)


def test_private_kinds_are_in_no_view_unless_named(path: Path, held: list[Event]) -> None:
    private = [one for one in held if is_private(one)]
    assert private
    select = "SELECT id FROM events"
    shown = {row[0] for row in SqlReader(rows=10**7, now=lambda: AT).ask(path, select).rows}
    everything = SqlReader(rows=10**7, now=lambda: AT, private=None).ask(path, select).rows
    assert not shown & {one.id for one in private}
    assert {row[0] for row in everything} == {one.id for one in held}
    for kind in {one.kind for one in private}:
        asking = SqlReader(rows=10**7, now=lambda: AT, private={kind})
        named = {row[0] for row in asking.ask(path, select).rows}
        wanted = {one.id for one in private if one.kind == kind}
        assert named - shown == (set() if kind == REPOST else wanted), "named reposts hold others"
    (tagged,) = (
        SqlReader(now=lambda: AT).ask(path, "SELECT count(DISTINCT event_id) FROM tags").rows[0]
    )
    assert tagged == sum(1 for one in held if one.tags and not is_private(one))


async def test_what_expires_is_in_no_view_from_then_on(tmp_path: Path) -> None:
    event = make(tags=(("expiration", str(NOW + 10)), ("t", "x")))
    async with await SqliteStore.open(tmp_path / "s.db", clock=lambda: NOW) as store:
        await store.save([event])
    for now, number in ((NOW + 9, 1), (NOW + 10, 0)):
        for view in ("events", "tags", "authors"):
            asking = SqlReader(now=lambda now=now: now)
            found = asking.ask(tmp_path / "s.db", f"SELECT DISTINCT 1 FROM {view}")
            assert len(found.rows) == number, view


async def test_claims_watch_history_and_counters(tmp_path: Path) -> None:
    path, target = tmp_path / "s.db", "ab" * 32
    async with await SqliteStore.open(path, migrations=[CLAIMS, WATCHES]) as store:
        answer = Claim(
            relay="wss://one.example", status=ClaimStatus.OK, method=Method.COUNT, count=12,
            approximate=True, asked_at=AT - 1.5, answered_at=AT + 0.5,
        )  # fmt: skip
        refusal = Claim(relay="wss://two.example", status=ClaimStatus.REFUSED, asked_at=float(AT))
        asked = asked_of(followers(target))
        await ClaimBook(store.database).remember(
            asked, [(one.relay, one) for one in (answer, refusal)]
        )
        await WatchRepository(store.database).add(
            Watch(name="w", query="followers", target=target, relays=("wss://one.example",))
        )
        near = Within(
            key=target, depth=2, people=9, followed=3, lists=3, figure=Figure.at_least(4), at=AT + 7
        )
        points = [
            Point(at=AT, value=5, low=4, high=None, exact=False, unit="authors"),
            Point(at=AT + 60, value=6, low=6, high=6, exact=True, unit="authors", within=near),
        ]
        await store.database.write(lambda conn: put_points(conn, 1, points))
        counters = await SqliteCounterStore.over(store.database, clock=lambda: AT * 10**9)
        config = StreamConfig(name="S", subjects=("a.>",), allow_msg_counter=True)
        await counters.create_stream(config)
        stream = await counters.counters("S")
        await stream.add("a.b", 10**30)
        await stream.add("a.b", -1)
        await stream.add("a.c", 7)
        await counters.close()
    shared = {"question": "followers", "target": target, "filters": asked.filters}
    same(
        rows(path, "claims"),
        [
            shared | {"relay": "wss://one.example", "answered": 1, "status": "ok",
                      "method": "count", "count": 12, "approximate": 1, "limited": None,
                      "events_read": 0, "asked_at": iso(AT - 1.5), "answered_at": iso(AT + 0.5)},
            shared | {"relay": "wss://two.example", "answered": 0, "status": "refused",
                      "method": None, "count": None, "approximate": None, "limited": None,
                      "events_read": 0, "asked_at": iso(AT), "answered_at": None},
        ],
    )  # fmt: skip
    same(
        rows(path, "watch_history"),
        [
            {"watch": "w", "at": iso(one.at), "at_ts": one.at, "step": 1, "value": one.value,
             "low": one.low, "high": one.high, "exact": int(one.exact), "unit": one.unit,
             "least": one.least, "most": one.most, "samples": one.samples}
            for one in points
        ],
    )  # fmt: skip
    same(
        rows(path, "watch_within"),
        [
            {"watch": "w", "at": iso(AT + 60), "at_ts": AT + 60, "step": 1, "key": target,
             "depth": 2, "people": 9, "value": 4, "low": 4, "high": None, "exact": 0,
             "counted_at": iso(AT + 7), "counted_ts": AT + 7},
        ],
    )  # fmt: skip
    found = {row["subject"]: row for row in rows(path, "counters")}
    assert {subject: row["value"] for subject, row in found.items()} == {
        "a.b": str(10**30 - 1),
        "a.c": "7",
    }
    assert {row["updated_at"] for row in found.values()} == {iso(AT)}
    assert {row["stream"] for row in found.values()} == {"S"}
