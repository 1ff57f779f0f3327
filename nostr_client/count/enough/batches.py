"""Count in batches of relays, until those left would add little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nostr_client.count.enough.bounds import FINEST, FINEST_BY_OTHERS, LEAST_QUESTIONS, RelayPicker
from nostr_client.count.overlaps import sketch_of
from nostr_client.count.remembering import merge_input
from nostr_client.errors import InvalidInput
from nostr_client.network.outbox.evidence import TURN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.count.asking import CountOptions
    from nostr_client.count.enough.bounds import Unasked
    from nostr_client.count.merge import Claim, Figure, Merged
    from nostr_client.count.procedure import CountEngine
    from nostr_client.count.queries import Query
    from nostr_client.count.result import CountResult
    from nostr_client.network.relay import Relay


async def count_enough(
    counter: CountEngine,
    query: Query,
    relays: Sequence[tuple[str, Relay]],
    options: CountOptions,
    line: float,
) -> CountResult:
    """Ask relays, given as (the user's spelling, relay), until enough of them were asked.

    `line`: the share of all people below which the rest is not asked, such as 0.1. Each batch has
    the deadline of a count. Earlier answers come from the counter's book, and so does what orders
    relays that seem to add alike; a relay without any is asked. The number is a lower bound if a
    relay was not asked. A relay whose earlier answer the trust tests leave out of the number is not
    asked while that answer is kept, and bounds nothing. A line below 5 % needs the answers of all
    relays to 20 other questions of the last month. Raises InvalidInput if the line is finer than
    these measure, for a question without registers, and without stored claims; StoreError. Safe to
    cancel.
    """
    others = await counter.other_questions(query)
    _check(counter, query, line, others.with_all([relay.url for _, relay in relays]))
    earlier = await counter.earlier_claims(query, [relay.url for _, relay in relays])
    known = {url: _people(claim, query) for url, claim in earlier.items()}
    order = await counter.ranked(query, [relay.url for _, relay in relays])
    excluded = _excluded(counter, query, earlier)
    if len(excluded) == len(order):
        excluded = set()
    order = [url for url in order if url not in excluded]
    said = {url: people for url in order if (people := known.get(url)) is not None}
    chooser = RelayPicker(
        said,
        [url for url in order if url not in said],
        line,
        others=others,
        turn=counter.has_turn(TURN),
    )
    by_url = {relay.url: (name, relay) for name, relay in relays}
    claims: dict[str, Claim] = {}
    instead: dict[str, Claim] = {}
    while batch := chooser.next():
        asked = [by_url[url] for url in batch]
        found, stood_in = await counter.ask(
            query, asked, options, beside=[by_url[url][1] for url in claims]
        )
        claims.update(found)
        instead.update(stood_in)
        used = claims | instead
        lying = _excluded(counter, query, earlier | used)
        for url, claim in used.items():
            chooser.answered(url, None if url in lying else _people(claim, query))
    ordered = [(url, claims[url]) for url in by_url if url in claims]
    result = counter.result(query, *merge_input(ordered, instead))
    left = msgspec.structs.replace(chooser.left, excluded=tuple(sorted(excluded)))
    return _with_left(result, left)


def _check(counter: CountEngine, query: Query, line: float, questions: int) -> None:
    """Raise InvalidInput for what cannot be promised; `questions`: others with all relays."""
    finest = FINEST if questions < LEAST_QUESTIONS else FINEST_BY_OTHERS
    if not 0 < line < 1:
        raise InvalidInput(f"the line is a share between 0 and 1, such as 0.1 for 10 %, not {line}")
    if line < FINEST_BY_OTHERS:
        raise InvalidInput(
            f"no line below {FINEST_BY_OTHERS:.0%} can be promised: leave it out, and all relays"
            " are asked"
        )
    if line < finest:
        raise InvalidInput(
            f"registers of one question cannot measure a finer line than {FINEST:.0%}, as they are"
            f" off by 4 to 6.5 % themselves. A finer one needs {LEAST_QUESTIONS} other questions of"
            f" this kind that all these relays answered in the last 30 days, and the store has"
            f" {questions}: leave the line out, and all relays are asked"
        )
    if not query.by_registers:
        raise InvalidInput("registers decide what is enough: this question has none")
    if counter.book is None:
        raise InvalidInput("earlier answers of relays decide what is enough: give a store")


def _excluded(counter: CountEngine, query: Query, claims: Mapping[str, Claim]) -> set[str]:
    """Return the relays, by normalised URL, whose registers the trust tests do not believe."""
    parts = counter.result(query, list(claims.values())).merged.parts
    used = {part.relay for part in parts if "registers" in part.used}
    return {
        url
        for url, claim in claims.items()
        if claim.answered
        and claim.reading is None
        and claim.registers is not None
        and claim.relay not in used
    }


def _people(claim: Claim, query: Query) -> bytes | None:
    return sketch_of(claim, query.offset) if claim.answered else None


def _with_left(result: CountResult, left: Unasked) -> CountResult:
    """Return the result with the relays that were not asked; its numbers are lower bounds then."""
    if not left.relays:
        return msgspec.structs.replace(result, unasked=left)
    merged: Merged = msgspec.structs.replace(
        result.merged,
        authors=_at_least(result.merged.authors),
        events=_at_least(result.merged.events),
    )
    return msgspec.structs.replace(result, merged=merged, unasked=left)


def _at_least(figure: Figure | None) -> Figure | None:
    if figure is None:
        return None
    return msgspec.structs.replace(figure, high=None, exact=False, lower_bound=True, as_said=False)
