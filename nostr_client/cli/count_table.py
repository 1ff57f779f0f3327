"""A count for people: a table of what each relay said, and the merged line below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from nostr_client import hll, nip19
from nostr_client.cli.output import console, plain_table
from nostr_client.display import plural, said
from nostr_client.errors import clip
from nostr_client.merge import Claim, Figure, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table

    from nostr_client.count.result import CountResult
    from nostr_client.count.verified import VerifiedZaps

UNITS = {Unit.AUTHORS: "distinct authors", Unit.EVENTS: "events"}
MOST_WALLETS = 5
"""Wallets of which it is said why they are not known; --json has all."""

_STYLES = {"ok": "green"} | dict.fromkeys(
    ("refused", "auth_required", "unsupported", "held_back"), "yellow"
)


def show(
    result: CountResult, out: Console | None = None, names: Mapping[str, str] | None = None
) -> None:
    """Print the table, its relays called by `names`, and the merged line on stdout."""
    out = out or console()
    out.print(table(result, names))
    out.print(merged_line(result), style="bold", soft_wrap=True)
    for line in second_lines(result):
        out.print(line, soft_wrap=True)


def table(result: CountResult, names: Mapping[str, str] | None = None) -> Table:
    """One row a relay, called by `names`; foreign text is shown without control characters."""
    shown = plain_table()
    shown.add_column("relay", no_wrap=True)
    shown.add_column("count", justify="right")
    shown.add_column("hll", justify="right")
    shown.add_column("method")
    shown.add_column("read", justify="right")
    shown.add_column("ms", justify="right")
    shown.add_column("status")
    shown.add_column("warning", overflow="fold")
    for claim in result.relays:
        shown.add_row(*_row(claim, (names or {}).get(claim.relay, claim.relay)))
    return shown


def _row(claim: Claim, name: str) -> list[Text]:
    people = "" if claim.registers is None else f"{_estimate(claim.registers)}"
    latency = "" if claim.latency_ms is None else f"{claim.latency_ms:.0f}"
    cells = [
        clip(name, 60),
        _count_cell(claim),
        people,
        str(claim.method or ""),
        size(claim.bytes_read) if claim.bytes_read else "",
        latency,
    ]
    status = Text(str(claim.status), style=_STYLES.get(claim.status, "red"))
    warning = Text("; ".join(clip(w, 160) for w in claim.warnings), style="dim")
    return [*(Text(cell) for cell in cells), status, warning]


def _count_cell(claim: Claim) -> str:
    if claim.count is None:
        return ""
    sign = "≥" if claim.limited else "~" if claim.approximate else ""
    return f"{sign}{claim.count:,}"


def _estimate(registers: bytes) -> str:
    estimate = hll.estimate(registers)
    return f"~{estimate:,.0f}" if estimate < 1e15 else "full"


def size(octets: int) -> str:
    """A number of bytes for people."""
    if octets < 1000:
        return f"{octets} B"
    return f"{octets / 1e3:.0f} kB" if octets < 1e6 else f"{octets / 1e6:.1f} MB"


def merged_line(result: CountResult) -> str:
    """The answer in one line."""
    name = result.query.name if result.query.name != "filter" else "matching"
    asked = len(result.relays)
    heard = f"{result.answered} of {plural(asked, 'relay')} answered"
    if result.merged.figure is None:
        return f"{name}: not known ({heard})"
    return f"{name}: {said(result.merged.figure)} {UNITS[result.unit]} ({heard})"


def second_lines(result: CountResult) -> list[str]:
    """The other unit where it says something else, the amount, the contents, what is not known."""
    lines = []
    if result.unit is Unit.AUTHORS and result.events not in (None, result.authors):
        assert result.events is not None
        lines.append(f"events: {said(result.events)}")
    if result.unit is Unit.EVENTS and result.authors not in (None, result.events):
        assert result.authors is not None
        if any("registers" in part.used for part in result.merged.parts):
            lines.append(f"distinct authors, as registers tell: {said(result.authors)}")
    amount = result.merged.amount
    if amount is not None:
        lines.append(f"amount: {_sats(amount)}, as receipts claim")
    if result.verified is not None:
        lines += _verified(result.verified)
    if result.contents is not None:
        split = (f"{clip(label, 64)} {n:,}" for label, n in result.contents.items())
        lines.append(f"of the events read: {', '.join(split) or 'none'}")
    if result.note is not None:
        lines.append(f"note: {result.note}")
    return lines


def _verified(found: VerifiedZaps) -> list[str]:
    """What the wallets signed, and which of them are not known: that is no zero."""
    if found.receipts is None or found.amount is None:
        lines = ["signed by the recipient's wallet: not known"]
    else:
        sats = f"{_sats(found.amount)} in {plural(found.receipts.value, 'receipt')}"
        lines = [f"signed by the recipient's wallet: {sats}"]
    for wallet in found.unknown[:MOST_WALLETS]:
        host = f" at {clip(wallet.host, 60)}" if wallet.host else ""
        name = nip19.PublicKey(wallet.recipient).encode()
        lines.append(f"wallet of {name}{host}: {wallet.status}: {clip(wallet.reason, 160)}")
    if len(found.unknown) > MOST_WALLETS:
        more = len(found.unknown) - MOST_WALLETS
        lines.append(f"{plural(more, 'more wallet is', 'more wallets are')} not known")
    return lines


def _sats(amount: Figure) -> str:
    """Millisats in sats; some of the sum may not count where its low end is below it."""
    value, low = (f"{msats / 1000:,.0f} sats" for msats in (amount.value, amount.low))
    if amount.exact:
        return value
    return f"at least {value}" if amount.low == amount.value else f"{value}, at least {low}"
