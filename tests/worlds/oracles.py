"""What must hold of every result: compared with `truth`, never with what the product thinks.

- "exact" equals the truth;
- a claim of a relay that is silent now makes nothing exact;
- the proven low end is never above the truth, and an upper end of what was read never below it;
- what is not exact is no point;
- an error is never a number;
- "complete" means equal sets, after the store's rules;
- nothing is sent twice for ever, and nothing that must stay is sent at all;
- an honest relay is not left out, and not asked for a part of what it said is finished.

Where the world knows that proof was to be had, it is tallied whether the result says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.worlds import proof, truth
from tests.worlds.behaviours import Counts, LiesCount, MinedKeys, Sketches
from tests.worlds.items import known, note_id
from tests.worlds.repeats import too_soon

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.count.merge import Claim, Figure
    from nostr_client.count.result import CountResult
    from nostr_client.sync.report import SyncReport
    from tests.worlds.items import Made
    from tests.worlds.model import World
    from tests.worlds.relays import SimRelay
    from tests.worlds.repeats import Attempt
    from tests.worlds.running import Report

FEWEST = 50
"""People from which on keys mined for their zero bits must not bend an interval."""

NARROW = 0.12
"""Width of an interval over its value where three relays with most of the people count exactly;
registers alone give 0.2."""

FEW_INVENTED = 5
"""Made-up ids that a sample may miss; of the forty that a relay may name it misses not one."""

GROSS = 0.4
"""How far an interval made of registers may be off: 95 in 100 cover the truth, and all are near."""

NOBODY_MINES = 52
"""Zero bits beyond which a key is not mined but invented: such a relay may be left out."""


class Stored(NamedTuple):
    """What the store holds of the question before and after a sync."""

    before: Sequence[Made]
    after: Sequence[Made]


def count(
    world: World,
    step: int,
    relays: Sequence[SimRelay],
    result: CountResult,
    ever: Mapping[str, Mapping[str, Made]],
    answered_before: set[str],
    report: Report,
    *,
    later: bool = False,
) -> None:
    """Look at one result of a count or a watch; `later`: not the first one of a watch."""
    at = f"step {step}"
    answered = {claim.relay for claim in result.relays if claim.answered}
    failed = {claim.relay for claim in result.relays if not claim.answered}
    standing = failed & answered_before
    for claim in result.relays:
        if not claim.answered and claim.count is not None:
            report.fail("an error is a number", f"{at}: {claim.relay} has {claim.count}")
    for relay, claim in zip(relays, result.relays, strict=True):
        if claim.answered and not relay.answers:
            report.fail("an error is a number", f"{at}: {claim.relay} is silent, and has {claim}")
    if not answered and not standing and result.value is not None:
        report.fail(
            "an error is a number", f"{at}: nobody answered, and the value is {result.value}"
        )
    figure = result.merged.figure
    if answered and figure and not figure.lower_bound and all(map(_is_bare_zero, result.relays)):
        report.fail("a refusal is a number", f"{at}: {figure}, by bare zeros")
    made_up = {r.url for r in relays if _shows(r, above=NOBODY_MINES)} & {*result.merged.excluded}
    for relay in relays:
        if relay.url in result.merged.excluded and _is_honest(relay, world):
            report.fail("an honest relay is left out", f"{at}: {relay.url}")
    asked = [relay for relay in relays if relay.url in (answered | standing) - made_up]
    watched = world.steps[step].action == "watch"
    if not watched:
        _finished(world, step, relays, report)
    right = truth.of_count(
        world, asked, [one for relay in asked for one in ever[relay.url].values()]
    )
    estimated = any("registers" in part.used for part in result.merged.parts)
    mined = max(map(_shows, asked), default=0) if estimated else 0
    looked_at = [("authors", result.authors, right.authors, right.most_authors)]
    if not world.one_per_author:
        looked_at.append(("events", result.events, right.events, right.most_events))
    for name, figure, numbers, most in looked_at:
        if figure is not None:
            where = f"{at}, {name}"
            _figure(where, figure, numbers, most + mined, bool(standing), estimated, report)
    if estimated and result.authors is not None and asked:
        _covered(result.authors, right.authors, mined, asked, report)
        _narrow(world, result.authors, asked, report)
    unheard = estimated or any(map(_counts, relays))
    events, most = result.events, right.most_events
    if not any(note_id() in relay.sent for relay in relays):
        # Nobody gave the event that is zapped, so whom its zaps may pay cannot be known.
        most += truth.astray(one for relay in asked for one in ever[relay.url].values())
    if events is not None and not unheard and events.value > most + FEW_INVENTED:
        report.fail("a value above the truth", f"{at}: {result.events}, {most}")
    silent = bool(failed)
    if proof.of_count(world, asked, answered_before, silent=silent, later=later):
        report.tally["count: proof was to be had"] += 1
        report.tally["count: exact"] += result.exact
        if not result.exact:
            report.tally["count: missed, " + proof.form(asked, answered_before)] += 1


def _finished(world: World, step: int, relays: Sequence[SimRelay], report: Report) -> None:
    """Nothing is asked of a relay again that it said is all (NIP-67), and that it said rightly.

    A COUNT that is larger than what was read is a reason to ask: where a second holds more than
    the relay sends at once, or old events came late.
    """
    for relay in relays:
        odd = any(one.spoils for one in relay.behaviours) or proof.is_dense(world, relay)
        if relay.finished.again and not odd and not (step and _counts(relay)):
            report.fail("asked again after finish", f"step {step}: {relay.url}")


def _is_bare_zero(claim: Claim) -> bool:
    """Whether a relay sent nothing, or `count: 0` alone: some relays refuse so."""
    members = claim.registers is not None or claim.reading or claim.listing
    return not claim.answered or (claim.count == 0 and not members)


def _shows(relay: SimRelay, *, above: int = 0) -> int:
    """People that a relay's registers show beside its events: keys mined for ranks `above` one.

    Somebody has made these keys, so each counts once; no test can see that nobody reacted by it.
    """
    found = [b.n for b in relay.behaviours if isinstance(b, MinedKeys) and b.rank > above]
    return max(found, default=0)


def _figure(
    where: str,
    figure: Figure,
    numbers: frozenset[int],
    most: int,
    standing: bool,
    estimated: bool,
    report: Report,
) -> None:
    said = f"{where}: {figure}, the truth is {sorted(numbers)}"
    if figure.exact:
        if figure.value not in numbers:
            report.fail("not exact", said)
        if standing:
            report.fail("exact by a stand-in", said)
        return
    if figure.low == figure.high:
        report.fail("a point that is not exact", said)
    if estimated:
        if figure.low > most * (1 + GROSS) + 3:
            report.fail("estimated low end far above the truth", said)
        if figure.high is not None and figure.high < min(numbers) * (1 - GROSS) - 3:
            report.fail("estimated upper end far below the truth", said)
        return
    if figure.low > most:
        report.fail("low end above the truth", f"{said}, and never was above {most}")
    if figure.high is not None and figure.high < min(numbers):
        report.fail("upper end below the truth", said)


def _covered(
    figure: Figure,
    numbers: frozenset[int],
    mined: int,
    relays: Sequence[SimRelay],
    report: Report,
) -> None:
    """Tally whether an interval holds the truth; mined keys and a lying count must not bend it."""
    odd = {type(one) for relay in relays for one in relay.behaviours if one.spoils}
    if odd and (min(numbers) < FEWEST or len(odd) > 1 or not odd <= {MinedKeys, LiesCount}):
        return
    beside = "".join(f" beside {one.__name__}" for one in odd)
    report.tally[f"interval{beside}: estimated"] += 1
    low_enough = figure.low <= max(numbers) + mined
    high_enough = figure.high is None or figure.high >= min(numbers)
    report.tally[f"interval{beside}: covers"] += low_enough and high_enough
    if not (low_enough and high_enough):
        report.tally[f"interval{beside}: missed"] += 1


def _narrow(world: World, figure: Figure, relays: Sequence[SimRelay], report: Report) -> None:
    """Tally whether an interval is as narrow as exact counts of most people make it."""
    people = {one.pubkey for relay in relays for one in relay.held.values()}
    most = all(len(relay.held) > 0.85 * len(people) for relay in relays)
    plain = all(relay.behaviours == (Sketches(),) for relay in relays)
    if not (world.one_per_author and plain and most and len(relays) >= 3 and len(people) > 300):
        return
    report.tally["narrow: was to be had"] += 1
    if figure.high is not None and figure.high - figure.low <= NARROW * figure.value:
        report.tally["narrow: is"] += 1
    else:
        report.tally["narrow: missed"] += 1


def _is_honest(relay: SimRelay, world: World) -> bool:
    """Whether nothing that a relay says is wrong; keys that somebody mined are not its fault."""
    odd = [one for one in relay.behaviours if one.spoils]
    if not all(isinstance(one, MinedKeys) and one.rank <= NOBODY_MINES for one in odd):
        return False
    if proof.has_junk(relay, world):
        return False
    return not odd or len(relay.held) >= FEWEST


def _counts(relay: SimRelay) -> bool:
    return any(isinstance(one, Counts | Sketches) for one in relay.behaviours)


def sync(
    world: World,
    step: int,
    relays: Sequence[SimRelay],
    result: SyncReport,
    stored: Stored,
    direction: str,
    report: Report,
) -> None:
    """Look at one report of a sync.

    Relays are synced at once: what comes from one in this run is handed to the others in the next.
    """
    for relay, one in zip(relays, result.relays, strict=True):
        at = f"step {step}, {relay.url}"
        complete = str(one.status) == "complete"
        if complete:
            here = truth.missing_here(world, relay, stored.after)
            mine = [one for one in stored.before if not truth.settled(one, stored.after)]
            there = truth.missing_there(world, relay, mine) if direction == "both" else []
            named = _never_had(relay, world, stored.after)
            if here:
                report.fail("complete without", f"{at}: {len(here)} are missing here")
            if there:
                report.fail("complete without", f"{at}: {len(there)} are missing there")
            if named:
                report.fail("complete without", f"{at}: {named} ids were named and never sent")
            if not relay.answers:
                report.fail("complete without", f"{at}: the relay is silent")
        if proof.of_sync(world, relay, direction):
            report.tally["sync: proof was to be had"] += 1
            report.tally["sync: complete"] += complete
            if not complete:
                report.tally[f"sync: missed, {one.reason[:60]}"] += 1


def _never_had(relay: SimRelay, world: World, local: Sequence[Made]) -> int:
    """How many ids the relay named and names that it never sent, nor any other relay."""
    listing = relay.listing(world.wire) or []
    had = {one.id for one in relay.served()} | {one.id for one in local}
    return sum(key in relay.named and key not in had for _, key in listing)


def repeats(relays: Sequence[SimRelay], world: World, report: Report) -> None:
    """After the last step: nothing was sent again and again, or against the user's will."""
    for relay in relays:
        stays = [key for key in relay.published if (one := known(key)) and world.stays(one.item)]
        if stays:
            report.fail("what must stay was sent", f"{relay.url}: {len(stays)} events")
    lost = {c.relay for step in world.steps for c in step.changes if c.loses}
    counted = "count" in {step.action for step in world.steps}
    for i, relay in enumerate(relays):
        _repeated(relay.published, f"uploaded again: {relay.url}", report)
        if i not in lost and not counted:  # what is lost comes again; a count keeps few events
            _repeated(relay.sent_by_id, f"fetched again: {relay.url}", report)


def _repeated(attempts: Mapping[str, Sequence[Attempt]], what: str, report: Report) -> None:
    broken = [why for one in attempts.values() if (why := too_soon(one))]
    if broken:
        report.fail(what, f"{len(broken)} ids, {broken[0]}")
