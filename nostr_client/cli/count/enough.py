"""`nostr-client count --enough`: the option, and the output about relays that were not asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from nostr_client.codecs.display import percent_at_most, plural
from nostr_client.errors import clip

if TYPE_CHECKING:
    from nostr_client.count.enough.bounds import Unasked

    _FloatType = click.ParamType[float]
else:
    _FloatType = click.ParamType  # generic since click 8.2

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN: Final = 10
"""Most relays in a line; `--json` has all."""


class _Part(_FloatType):
    """A share, given as `10%` or `0.1`."""

    name = "part"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value).strip()
        bare = text.removesuffix("%").rstrip()
        try:
            number = float(bare)
        except ValueError:
            self.fail(f"{text!r} is not a share: write for instance 10% or 0.1", param, ctx)
        part = number / 100 if text.endswith("%") else number
        if not 0 < part < 1:
            hint = f"{bare}%" if 1 <= number < 100 and part == number else "for instance 10% or 0.1"
            self.fail(f"{text!r} is not between 0% and 100%: write {hint}", param, ctx)
        return part


enough_option: Callable[[F], F] = click.option(
    "--enough",
    type=_Part(),
    metavar="PART",
    help="Ask relays in the order of what they added before; stop when the rest add less than this "
    "share of all people, such as 10% or 0.1. Needs --store.",
)
"""`--enough`, a share from 0 to 1, or None."""


def unasked_lines(left: Unasked) -> list[str]:
    """Return lines about the relays that were not asked."""
    lines = []
    if left.known:
        together = "adds" if len(left.known) == 1 else "together add"
        lines.append(
            f"not asked: {plural(len(left.known), 'relay')}, which {together} {_bounds(left)}: "
            f"{_listed(left.known)}"
        )
    if left.never:
        lines.append(f"not asked, and no earlier answer shows what they add: {_listed(left.never)}")
    if left.excluded:
        lines.append(f"not asked, as their earlier answers look false: {_listed(left.excluded)}")
    return lines


def _bounds(left: Unasked) -> str:
    """Return what relays add at most: of people whom two relays give, and of all people."""
    confirmed, every = percent_at_most(left.confirmed_high), percent_at_most(left.high)
    return (
        f"at most {confirmed} of the people whom two relays give, and at most {every} if people"
        " whom one relay alone gives count too"
    )


def _listed(relays: tuple[str, ...]) -> str:
    more = f", and {len(relays) - _SHOWN} more" if len(relays) > _SHOWN else ""
    return ", ".join(clip(one, 60) for one in relays[:_SHOWN]) + more
