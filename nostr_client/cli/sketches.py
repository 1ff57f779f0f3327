"""`nostr-client hll`: compute HyperLogLog registers (NIP-45) by hand, to study them."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import click

from nostr_client import hll
from nostr_client.cli.entry import CommandGroup
from nostr_client.cli.output import json_option, print_json, say
from nostr_client.cli.parameters import UserPath
from nostr_client.codecs.display import plural
from nostr_client.errors import InvalidEvent, InvalidFilter, InvalidInput

registers_argument = click.argument("registers", metavar="HEX")


@click.group(name="hll", cls=CommandGroup)
def sketches() -> None:
    """Compute HyperLogLog registers of NIP-45: 256 bytes, as 512 hex digits."""


@sketches.command()
@click.argument("filter", metavar="FILTER")
def offset(filter: str) -> None:
    """Print the offset of FILTER, JSON: which byte of a key names its register."""
    from nostr_client.codecs.typed import filter_of

    found = hll.offset(filter_of(filter).to_dict())
    if found is None:
        raise InvalidFilter("NIP-45 defines no offset for this filter: it needs a tag attribute")
    click.echo(found)


@sketches.command("from-events")
@click.argument("offset", type=click.IntRange(8, 23))
@click.argument(
    "file",
    metavar="[FILE]",
    type=UserPath(path_type=Path, exists=True, allow_dash=True),
    default="-",
)
def from_events(offset: int, file: Path) -> None:
    """Print the registers of the authors of events in FILE or stdin.

    The formats are those of `nostr-client store import`: JSON lines, plain or compressed by gzip or
    zstd, Parquet and folders of it, and SQLite. Nothing is verified, as only authors count. Exit
    code 1 if a line is not an event.
    """
    from nostr_client.sync.files.event_files import events_of

    registers, broken = bytearray(hll.EMPTY), 0
    for event in events_of(file):
        if isinstance(event, InvalidEvent):
            broken += 1
        else:
            hll.add(registers, event.pubkey, offset)
    click.echo(hll.to_hex(registers))
    if broken:
        say(f"nostr-client: hll: {plural(broken, 'line')} without an event")
        click.get_current_context().exit(1)


@sketches.command()
@click.argument("registers", metavar="[HEX]...", nargs=-1)
def merge(registers: tuple[str, ...]) -> None:
    """Print the union of registers of one offset; by default of those on stdin, one a line."""
    given = registers or sys.stdin.read().split()
    click.echo(hll.to_hex(hll.merge(*map(_read, given)) if given else hll.EMPTY))


@sketches.command()
@registers_argument
@json_option
def estimate(registers: str, as_json: bool) -> None:
    """Print the number of people that registers estimate, and its 95 % interval."""
    found = hll.estimate(_read(registers))
    low, high = hll.interval(found)
    if as_json:
        print_json({"estimate": _finite(found), "low": low, "high": _finite(high)})
    else:
        click.echo(_people(found, (low, high)))


@sketches.command()
@click.argument("a", metavar="HEX")
@click.argument("b", metavar="HEX")
@json_option
def overlap(a: str, b: str, as_json: bool) -> None:
    """Print how many people two sets of registers of one offset share, with 95 % intervals.

    The union is the estimate of the merged registers.
    """
    from nostr_client.hll.overlap import overlap_intervals

    one, other = _read(a), _read(b)
    found, ranges = hll.overlap(one, other), overlap_intervals(one, other)._asdict()
    if as_json:
        numbers = {name: _finite(value) for name, value in found._asdict().items()}
        intervals = {
            name: {"low": low, "high": _finite(high)} for name, (low, high) in ranges.items()
        }
        print_json({**numbers, "intervals": intervals})
        return
    for name in ("union", "intersection", "only_a", "only_b"):
        click.echo(f"{name.replace('_', ' ')}: {_people(getattr(found, name), ranges[name])}")
    low, high = ranges["jaccard"]
    click.echo(f"jaccard: {found.jaccard:.3f} ({low:.3f} to {high:.3f})")
    if math.isinf(found.union) and hll.EMPTY not in (one, other):
        say("nostr-client: hll: the shared part is unknown: one sketch is saturated")
    elif found.noise:
        say("nostr-client: hll: the shared part is too small to distinguish from zero")


def _people(number: float, between: tuple[float, float]) -> str:
    low, high = between
    if math.isinf(high):
        known = f"at least {low:,.0f}" if low else "any number"
        return f"more than registers can count, {known}" if math.isinf(number) and low else known
    return f"{number:,.0f} ({low:,.0f} to {high:,.0f})"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _read(text: str) -> bytes:
    found, warnings = hll.from_hex(text)
    for warning in warnings if found is not None else ():
        say(f"nostr-client: {warning}")
    if found is None:
        raise InvalidInput(warnings[0] if warnings else "hll: no registers")
    return found
