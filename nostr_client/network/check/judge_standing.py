"""Judge a relay's document, clock and AUTH. All functions are pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.codecs.display import plural
from nostr_client.codecs.nip11 import RelayInfo
from nostr_client.network.check.answers import ExchangeEnd
from nostr_client.network.check.findings import CheckOutcome, Finding, noted, right, untested, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nostr_client.network.check.answers import Exchange

_OFF: Final = 60.0
"""Seconds that a clock may be wrong. Relays refuse events with an error of a few minutes."""

SHOWN: Final = {45: ("count.answer", "COUNT"), 77: ("neg.answer", "negentropy")}
"""NIPs that a check covers, with the test that shows each one."""


def form(info: RelayInfo) -> Finding | None:
    """Require the right types of the document's fields."""
    if info == RelayInfo():
        return untested("document.form", "its document says nothing")
    if not info.warnings:
        return right("document.form")
    return wrong("document.form", f"Fields of its document: {', '.join(info.warnings)}.")


def nips(info: RelayInfo, found: Mapping[str, Finding]) -> Finding | None:
    """Require that the document lists the NIPs that the relay shows. `found`: findings by test."""
    false, more, tested = [], [], 0
    for nip, (test, name) in SHOWN.items():
        one = found.get(test)
        if one is None or one.outcome is CheckOutcome.NOT_TESTED:
            continue
        tested += 1
        there = one.outcome is CheckOutcome.RIGHT
        if info.supports(nip) and not there:
            false.append(f"{nip} ({name})")
        elif there and not info.supports(nip):
            more.append(f"{nip} ({name})")
    if false:
        return wrong("document.nips", f"It lists NIP-{', NIP-'.join(false)} and does not have it.")
    if not info.supported_nips:
        return untested("document.nips", "it lists no NIPs")
    if more:
        return noted("document.nips", f"It has NIP-{', NIP-'.join(more)} and does not list it.")
    if not tested:
        return untested("document.nips", "neither COUNT nor negentropy was tested")
    return right("document.nips")


def wants_auth(info: RelayInfo, wanted: bool, served: bool) -> Finding | None:
    """Require a true `auth_required`.

    `wanted`: the relay asked for AUTH. `served`: the relay served events without AUTH.
    """
    said = info.limitation.auth_required
    if said and served and not wanted:
        return wrong("document.auth", "It says `auth_required` and serves without AUTH.")
    if said is False and wanted and not served:
        return wrong("document.auth", "It says that it wants no AUTH, and serves nothing without.")
    if said is None:
        return untested("document.auth", "its document does not say `auth_required`")
    if wanted if said else served:
        return right("document.auth")
    return untested("document.auth", "it serves us no event and asks for no AUTH")


def clock(said: float, now: float) -> Finding | None:
    """Require a correct clock. Both times are Unix seconds."""
    off = said - now
    if abs(off) <= _OFF:
        return right("clock")
    way = "ahead" if off > 0 else "behind"
    return wrong("clock", f"Its clock is {plural(round(abs(off)), 'second')} {way}.")


def spelling(tried: Mapping[str, Exchange | None]) -> Finding | None:
    """Require that AUTH is accepted for each spelling of the URL.

    None in `tried` means that no challenge came.
    """
    answers = {url: one for url, one in tried.items() if one is not None}
    taken = [url for url, one in answers.items() if one.end is ExchangeEnd.ANSWERED]
    refused = [url for url in answers if url not in taken]
    if taken and refused:
        return wrong("auth.spelling", f"It takes AUTH for {taken[0]} and not for {refused[0]}.")
    silent = [one for one in answers.values() if one.end is not ExchangeEnd.CLOSED]
    if not taken and silent:
        return wrong("auth.spelling", f"AUTH gets no OK: {silent[0].in_words}.")
    if len(taken) > 1:
        return right("auth.spelling")
    why = "it refuses AUTH with this key" if answers else "it sends no challenge again"
    return untested("auth.spelling", why)
