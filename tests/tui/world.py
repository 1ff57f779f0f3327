"""What the tests' agent knows: made once, the same everywhere, with every state that pages show."""

from __future__ import annotations

import functools
import hashlib
import math

import msgspec

from agent.api import schema
from agent.api.schema import Difference, Rebuild, RebuildStage, RelayInfo
from agent.specs import CoverageSpec, SyncSpec
from nostr_client import hll
from nostr_client.codecs.nip11 import Limitation
from nostr_client.count import queries
from nostr_client.count.merge import Claim, ClaimStatus, Method, Reading, merge_claims
from nostr_client.count.overlaps import overlaps_of
from nostr_client.count.result import CountResult
from nostr_client.counters.shown import CounterMove, StreamMoves
from nostr_client.sync.coverage_report import HeldKind, KnownKind, RelayCoverage
from nostr_client.sync.report import SyncStatus
from nostr_client.watch.definition import Watch
from nostr_client.watch.digest import Newcomers, UnfinishedSync, WatchDigest, low_coverage

NOW = 1_764_300_000.0  # 2025-11-28 03:20 UTC
PUBKEY = "82341f882b6eabcd2ba7f1ef90aad961cf074af15b9ef44a09f9d2a8fbfbe6a2"
NPUB = "npub1sg6plzptd64u62a878hep2kev88swjh3tw00gjsfl8f237lmu63q0uf63m"
EVENT = "b1" * 32
DAMUS, NOS, PRIMAL = "wss://relay.damus.io", "wss://nos.lol", "wss://relay.primal.net"
SLOW, LIAR, GONE = "wss://slow.example.com", "wss://liar.example.net", "wss://gone.example.org"
URLS = (DAMUS, NOS, PRIMAL, SLOW, LIAR, GONE)


def estimate(value: int, part: float = 0.05) -> schema.Figure:
    low, high = int(value * (1 - part)), int(value * (1 + part))
    return schema.Figure(value=value, low=low, high=high, exact=False, lower_bound=False)


def exact(value: int) -> schema.Figure:
    return schema.Figure(value=value, low=value, high=value, exact=True, lower_bound=False)


def at_least(value: int) -> schema.Figure:
    return schema.Figure(value=value, low=value, high=None, exact=False, lower_bound=True)


def watch(
    name: str, query: str, figure: schema.Figure | None, age: float = 12, **more: object
) -> schema.WatchState:
    target = NPUB if query == "followers" else EVENT
    spec = Watch(name=name, query=query, target=target)  # type-checked by the API
    told = {
        "unit": "distinct_authors",
        "updated_at": None if figure is None else NOW - age,
        "answered_at": None if figure is None else NOW - age,
        "asked": 6,
        "answered": 0 if figure is None else 5,
        "changes": {},
        "spark": (),
        **more,
    }
    return schema.WatchState(spec=spec, origin="api", figure=figure, **told)


WATCHES = (
    watch(
        "fiatjaf-followers",
        "followers",
        estimate(184_312, 0.031),
        changes={"1h": 41, "1d": 612, "1w": 4_130},
        since=NOW - 30 * 86_400,
        spark=(180, 181, 181, 182, 183, 183, 184, 184),
        warnings=(f"{LIAR}: left out of the number",),
        failing=(GONE,),
    ),
    watch(
        "launch-reactions",
        "reactions",
        exact(1_287),
        age=3,
        changes={"1h": 96, "1d": 1_287},
        since=NOW - 2 * 86_400,
        spark=(0, 12, 90, 410, 800, 1100, 1200, 1287),
    ),
    watch(
        "launch-reposts",
        "reposts",
        exact(203),
        age=3,
        changes={"1h": -2, "first": 3},
        spark=(200, 205, 203),
        since=NOW - 7_000,
    ),
    watch(
        "thread-replies",
        "replies",
        at_least(58),
        age=95,
        changes={"1h": 0},
        answered=2,
        since=NOW - 4_000,
    ),
    watch(
        "zaps-of-talk",
        "zaps",
        exact(77),
        age=8_000,
        unit="events",
        changes={"first": 76},
        spark=(1, 30, 77),
        since=NOW - 1_000,
    ),
    watch("new-one", "comments", None),
)

RELAYS = tuple(
    schema.RelayState(
        url=url,
        status="connected" if url != GONE else "disconnected",
        latency_ms=None if url == GONE else latency,
        success_rate=0.0 if url == GONE else rate,
        attempts=40,
        bytes_sent=48_211 + latency * 10,
        bytes_received=3_481_227 // (n + 1),
        last_error="connection refused" if url == GONE else "",
        notices=("too many concurrent REQs",) if url == SLOW else (),
        capabilities=schema.Capabilities(count=count, hll=sketch, negentropy=neg, auth=None),
        tasks=6,
        failing=6 if url == GONE else 0,
        trusted=url == NOS,
    )
    for n, (url, latency, rate, count, sketch, neg) in enumerate(
        (
            (DAMUS, 87, 0.998, True, True, True),
            (NOS, 41, 1.0, True, True, True),
            (PRIMAL, 132, 0.981, False, False, False),
            (SLOW, 2310, 0.744, True, False, None),
            (LIAR, 55, 1.0, True, True, False),
            (GONE, 0, 0.0, None, None, None),
        )
    )
)

SYNCS = (
    schema.Sync(
        spec=SyncSpec(name="mine", filters=({"authors": [PUBKEY]},), direction="both"),
        origin="file",
        running=True,
        started_at=NOW - 30,
        relays=(
            schema.RelayReport(
                relay=NOS,
                status=SyncStatus.PARTIAL,
                need=4_000,
                have=1_000,
                downloaded=2_400,
                uploaded=600,
                bytes_sent=120_000,
                bytes_received=1_900_000,
                rounds=14,
                windows=3,
                compared=52_000,
            ),
            schema.RelayReport(
                relay=PRIMAL,
                status=SyncStatus.UNSUPPORTED,
                reason="read by paging",
                need=80,
                downloaded=80,
                bytes_sent=900,
                bytes_received=50_000,
                windows=1,
                compared=80,
            ),
        ),
    ),
    schema.Sync(
        spec=SyncSpec(name="notes", filters=({"kinds": [1]},), interval="6h"),
        origin="api",
        started_at=NOW - 4_000,
        ended_at=NOW - 3_700,
        outcome="complete",
        relays=(
            schema.RelayReport(
                relay=DAMUS,
                status=SyncStatus.COMPLETE,
                need=310,
                downloaded=310,
                bytes_sent=20_000,
                bytes_received=400_000,
                rounds=9,
                windows=4,
                compared=90_000,
            ),
        ),
    ),
    schema.Sync(spec=SyncSpec(name="old", filters=({"kinds": [3]},)), origin="api", outcome=""),
)

CLAIMS = (
    schema.WeighedClaim(
        relay=NOS,
        status="ok",
        method="hll",
        count=176_920,
        estimate=178_010.4,
        latency_ms=41.2,
        asked_at=NOW - 12,
        answered_at=NOW - 12,
        used=("registers", "count"),
        share=0.966,
    ),
    schema.WeighedClaim(
        relay=DAMUS,
        status="ok",
        method="hll",
        count=161_202,
        estimate=160_771.0,
        latency_ms=87.0,
        asked_at=NOW - 12,
        answered_at=NOW - 12,
        used=("registers", "count"),
        share=0.873,
    ),
    schema.WeighedClaim(
        relay=PRIMAL,
        status="ok",
        method="events",
        count=12_400,
        estimate=12_533.0,
        events_read=12_400,
        bytes_read=9_200_000,
        last_read=int(NOW) - 600,
        latency_ms=910.0,
        asked_at=NOW - 12,
        answered_at=NOW - 11,
        used=("events",),
        share=0.067,
    ),
    schema.WeighedClaim(
        relay=SLOW,
        status="ok",
        method="count",
        count=90_000,
        approximate=True,
        latency_ms=2310.0,
        asked_at=NOW - 14,
        answered_at=NOW - 12,
        warnings=("no registers: a lower bound alone",),
    ),
    schema.WeighedClaim(
        relay=LIAR,
        status="ok",
        method="hll",
        count=9_000_000,
        estimate=8_912_000.0,
        latency_ms=55.0,
        asked_at=NOW - 12,
        answered_at=NOW - 12,
        warnings=("left out of the number",),
        reasons=("the registers are of a shape that no people make",),
        excluded=True,
    ),
    schema.WeighedClaim(relay=GONE, status="unreachable", reasons=("no answer: unreachable",)),
)


PAST = tuple(
    schema.PastClaim(
        asked_at=NOW - day * 86_400,
        status="ok",
        method="hll",
        count=176_920 - 600 * day,
        estimate=178_010.0 - 590 * day,
    )
    for day in range(40)
)

_DEEDS = (
    ("followed", 60, "Ada", {}),
    ("unfollowed", 400, None, {"keys": 3, "keys_before": 800}),
    ("follows", 900, "Bob \\x202e", {}),
    ("no longer seen", 4_000, None, {}),
    ("unfollowed", 90_000, "Cleo", {"keys": 411, "keys_before": 412}),
    ("followed", 200_000, None, {}),
)
PEOPLE = schema.People(
    since=int(NOW) - 30 * 86_400,
    people=tuple(
        schema.Person(
            act=act,
            pubkey=PUBKEY,
            at=int(NOW) - age - 20,
            seen_at=int(NOW) - age,
            event=f"{n:02x}" * 32,
            name=name,
            **more,
        )
        for n, (act, age, name, more) in enumerate(_DEEDS)
    ),
    known=12_400,
    unnamed=schema.Figure(value=171_912, low=166_198, high=177_625),
)


def digest(since: int) -> schema.Digest:
    new = Newcomers(value=612, low=301, high=1_104, registers=9, since=since - 600)
    first = WatchDigest(
        name="fiatjaf-followers",
        query="followers",
        since=since,
        asked_at=int(NOW),
        now=schema.Point(at=int(NOW), value=184_312, low=178_598, high=190_025),
        new=new,
        acts={"followed": 2, "unfollowed": 2},
        people=PEOPLE.people[:3],
        went=(GONE,),
    )
    quiet = WatchDigest(
        name="launch-reactions",
        query="reactions",
        since=since,
        asked_at=int(NOW),
        new=Newcomers(value=0, low=0, high=41, registers=0, since=since),
    )
    (mine,) = COVERAGES[:1]
    low = low_coverage(mine.spec.name, mine.run, why=mine.why)
    return schema.Digest(
        since=since,
        until=int(NOW),
        watches=(first, quiet),
        counters=(
            StreamMoves(
                stream="count",
                counters=7,
                changed=2,
                moves=(
                    CounterMove(subject="events.1", now="52113", then="52000"),
                    CounterMove(subject="events.7", now="9"),
                ),
            ),
        ),
        coverages=() if low is None else (low,),
        syncs=(UnfinishedSync(name="notes", outcome="partial", relays=(SLOW,)),),
    )


def counted(name: str, figure: schema.Figure | None) -> schema.CountReport:
    return schema.CountReport(
        query=name,
        target=PUBKEY,
        filters=({"kinds": [3], "#p": [PUBKEY]},),
        unit="distinct_authors",
        figure=figure,
        authors=figure,
        events=figure,
        corroborated=None,
        amount=None,
        relays=CLAIMS,
    )


def _shown_by(relay: str, first: int, last: int, *, read: bool = False) -> Claim:
    """A relay that has the people from `first` to `last`, by registers or by a reading."""
    people = [hashlib.sha256(f"person {n}".encode()).digest() for n in range(first, last)]
    reading = Reading(authors=frozenset(people), events=frozenset(), complete=True)
    return Claim(
        relay=relay,
        status=ClaimStatus.OK,
        method=Method.EVENTS if read else Method.HLL,
        asked_at=NOW,
        count=len(people),
        registers=hll.from_pubkeys(people, QUESTION.offset or 0),
        reading=reading if read else None,
    )


QUESTION = queries.followers(PUBKEY)
OTHER, THIRD = "wss://nostr.example.io", "wss://a-relay-with-a-long-name.example.com/inbox"
COMPARED = (
    _shown_by(NOS, 0, 6_000),
    _shown_by(DAMUS, 400, 5_400),
    _shown_by(PRIMAL, 0, 800, read=True),
    _shown_by(THIRD, 600, 1_000, read=True),
    _shown_by(OTHER, 5_900, 7_900),
    msgspec.structs.replace(_shown_by(LIAR, 0, 9), registers=bytes([5] * 256), count=9_000_000),
    Claim(relay=SLOW, status=ClaimStatus.OK, method=Method.COUNT, count=90_000, asked_at=NOW),
    Claim(relay=GONE, status=ClaimStatus.UNREACHABLE, asked_at=NOW),
)


@functools.cache
def overlaps(name: str) -> schema.WatchOverlaps:
    """What the agent's own code makes of COMPARED."""
    merged = merge_claims(COMPARED, one_per_author=True)
    found = overlaps_of(CountResult(query=QUESTION, merged=merged, relays=COMPARED))
    return schema.WatchOverlaps(watch=name, overlaps=found.overlaps, uncompared=found.uncompared)


UNCOMPARED_ONLY = (schema.UncomparedRelay(relay=NOS, why="no other relay shows its people"),)


def history(name: str, figure: schema.Figure | None, since: float) -> schema.WatchHistory:
    """Five points an hour for two days, up to the figure."""
    if figure is None:
        return schema.WatchHistory(watch=name, points=())
    points = []
    for n in range(240):
        at = int(NOW) - (239 - n) * 720
        value = round(figure.value * (0.9 + 0.1 * n / 239 + 0.004 * math.sin(n / 9)))
        part = 0.0 if figure.exact else 0.02 + 0.01 * math.cos(n / 25)
        low, high = round(value * (1 - part)), round(value * (1 + part))
        if at >= since:
            points.append(schema.Point(at=at, value=value, low=low, high=high, exact=figure.exact))
    return schema.WatchHistory(watch=name, points=tuple(points))


def covered(
    relay: str, part: float | None, kinds: tuple[int, ...], undeleted: int = 0, why: str = ""
) -> RelayCoverage:
    """A relay with so large a part of every kind; None: an eighth was seen of the notes."""
    held = tuple(
        HeldKind(
            kind=kind,
            held=round(known * (0.125 * (n == 1) if part is None else part)),
            whole=part is not None,
        )
        for n, (kind, known) in enumerate(zip(kinds, KNOWN.values(), strict=True))
    )
    return RelayCoverage(relay=relay, share=part, kinds=held, undeleted=undeleted, why=why)


KNOWN = {0: 1, 1: 838, 3: 1, 5: 20, 6: 90, 7: 202, 1111: 5, 10002: 1, 30023: 4}

COVERAGES = (
    schema.CoverageState(
        spec=CoverageSpec(name="mine", author=NPUB, repair=True),
        run=schema.CoverageRun(
            at=NOW - 7_300,
            author=PUBKEY,
            kinds=tuple(KnownKind(kind=kind, known=n, stored=n) for kind, n in KNOWN.items()),
            relays=tuple(
                covered(url, part, tuple(KNOWN), undeleted, why)
                for url, part, undeleted, why in (
                    (DAMUS, 1.0, 0, ""),
                    (NOS, 0.997, 3, ""),
                    (PRIMAL, 0.6, 0, ""),
                    (SLOW, 0.96, 0, ""),
                    (LIAR, None, 0, "the budget was spent after 20,000 events"),
                    (GONE, None, 0, "connection refused"),
                )
            ),
        ),
    ),
    schema.CoverageState(spec=CoverageSpec(name="new", author=NPUB), running=True),
)


def counter(subject: str, value: int, incr: int, seq: int, age: float = 4.0) -> schema.Counter:
    sources = {}
    if subject == "zaps.total":
        sources = {"ES": {"zaps.es": "1200"}, "EU": {"zaps.eu": "3121", "zaps.old": "-20"}}
    return schema.Counter(
        subject=subject,
        value=str(value),
        seq=seq,
        ts=NOW - age,
        incr=str(incr),
        local=str(value - 4301 if sources else value),
        sources=sources,
    )


COUNTERS = (
    counter("events.1", 52_113, 1, 60_001),
    counter("events.3", 8_120, 1, 60_004, 9),
    counter("events.7", 130_554, 3, 60_009, 2),
    counter("relay.nos.received", 98_411, 12, 60_010, 1),
    counter("zaps.total", 12_411, -20, 60_002, 90),
    counter("zzz.huge", 10**40 + 7, 1, 12, 9_000),
)

STREAMS = (
    schema.Stream(
        name="INGEST", subjects=("events.*",), messages=60_010, counters=6, last_seq=60_010
    ),
    schema.Stream(name="VOTES", subjects=("votes.>",), messages=3, counters=1, last_seq=3),
)

LOG = tuple(
    schema.LogLine(n=n + 1, at=NOW - 60 + 6 * n, level=level, event=event, fields=fields)
    for n, (level, event, fields) in enumerate(
        (
            ("info", "started", {"store": "/var/lib/store.db", "watches": 6}),
            ("debug", "not_listening", {"relay": GONE, "why": "connection refused"}),
            ("warning", "no_answer", {"relay": GONE, "watch": "fiatjaf-followers"}),
            ("info", "synced", {"sync": "notes", "downloaded": 310, "complete": True}),
            ("error", "alert_given_up", {"watch": "launch-reactions", "why": "HTTP 500"}),
            ("info", "hostile", {"text": "a\x1b[31mred\x07\u202e\n2"}),
        )
    )
)

ABOUT = RelayInfo(
    name="nos.lol",
    software="git+https://github.com/hoytech/strfry.git",
    version="1.0.4",
    supported_nips=(1, 2, 4, 9, 11, 22, 28, 40, 45, 70, 77),
    limitation=Limitation(max_message_length=131_072, max_subscriptions=20, max_limit=500),
)


def status() -> schema.AgentStatus:
    return schema.AgentStatus(
        version="0.1.0",
        pid=4242,
        started_at=NOW - 7_260,
        uptime=7_260.0,
        ready=True,
        reasons=(),
        config="/etc/agent.toml",
        store="/var/lib/store.db",
        relay_url="ws://127.0.0.1:4869",
        watches=len(WATCHES),
        syncs=len(SYNCS),
        relays=len(RELAYS),
        relays_connected=5,
        tasks=36,
        running=2,
        overdue=0,
    )


REBUILD = Rebuild(
    running=True,
    engine="spark",
    why="about 2,400,000 events",
    generation=3,
    found=2,
    stages=(
        RebuildStage(name="events", state="skipped", rows=2_400_000),
        RebuildStage(name="tags", state="done", rows=12_000_000, seconds=41.25),
        RebuildStage(name="registers", state="running", done=3, total=8),
    ),
    differences=(
        Difference(table="daily", key="(20300, 7)", cause="live 12, 9; rebuilt 11, 9"),
        Difference(table="tag", key="seq 12", cause="1 rows are missing"),
    ),
)
