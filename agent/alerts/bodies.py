"""Builds what each receiver of an alert gets: JSON, or the text that a chat service shows.

The text is one line, that of a digest has several. Each service reads some characters of it as its
markup; those are escaped as its documentation says, so that the name of a watch stays what it is.
A text ends below the limit of its service, and says what it leaves out.

Sources: https://docs.ntfy.sh/publish/,
https://api.slack.com/messaging/webhooks and https://api.slack.com/reference/surfaces/formatting,
https://matrix-org.github.io/matrix-hookshot/latest/setup/webhooks.html,
https://discord.com/developers/docs/resources/webhook#execute-webhook.
"""

from __future__ import annotations

import html
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from agent.alerts.conditions import LIES, Sample
from agent.api.schema import WatchState
from nostr_client.codecs.display import age, percent, plural, said, unit_noun
from nostr_client.errors import clip
from nostr_client.watch.digest import Digest
from nostr_client.watch.people import newest_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.api.schema import Figure, Person, WatchState
    from nostr_client.sync.coverage_report import CoverageRun, RelayCoverage
    from nostr_client.watch.definition import BodyFormat
    from nostr_client.watch.moved import Change

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

COVERAGE: Final = "coverage:"
DIGEST: Final = "digest:"
"""What the digest is stored under; no name has a colon."""

_MOST_RELAYS: Final = 5
"""Relays named in a text; the JSON has all."""

_MOST_PEOPLE: Final = 3
"""People of a text: it is one line."""

MOST_LISTED: Final = 20
"""People of the JSON."""

MOST_CHANGED: Final = 200
"""Watches that changed, of the JSON of a digest."""

_LINE: Final = 300
"""Characters of one line of a digest's text."""

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]()#+!|~>-])")


class TextLimit(NamedTuple):
    """The largest text that a service shows as a message, and how the service measures a text.

    `size` of a text is the sum of the sizes of its characters.
    """

    most: int
    size: Callable[[str], int]

    def cut(self, text: str) -> str:
        """Return the text; of one that is too large as much as fits, with an ellipsis."""
        if self.size(text) <= self.most:
            return text
        ends = accumulate(map(self.size, text), initial=self.size("…"))
        return f"{text[: sum(end <= self.most for end in ends) - 1]}…"

    def fitting(self, lines: Sequence[str], command: str) -> str:
        """Return the first lines that fit, how many more there are, and how to read these."""
        lines = [clip(line, _LINE) for line in lines]
        ends = [*accumulate(self.size(line) + 1 for line in lines)]
        if not ends or ends[-1] - 1 <= self.most:
            return "\n".join(lines)
        room = self.most - self.size(_left_out(len(lines), command))
        shown = sum(end <= room for end in ends)
        return "\n".join([*lines[:shown], _left_out(len(lines) - shown, command)])


def _left_out(number: int, command: str) -> str:
    return f"and {plural(number, 'more line')}: {command}"


def _markdown(text: str) -> str:
    """Return a text whose characters Markdown does not read as its marks."""
    return _MARKDOWN.sub(r"\\\1", text)


MESSAGE: Final = TextLimit(3_500, lambda text: len(text.encode()))
"""ntfy makes a file of a message above 4,096 bytes; the others show more."""

DISCORD: Final = TextLimit(2_000, lambda text: len(_markdown(text).encode("utf-16-le")) // 2)
"""Discord refuses a longer content, and a mark takes two of its characters."""


class AlertBody(NamedTuple):
    """The bytes that a receiver gets, which end with a newline, and their media type."""

    data: bytes
    kind: str = JSON


class Alert(NamedTuple):
    """A line that a watch or a coverage has crossed at a time, Unix seconds, or a digest that was
    due then; `id` is the alert's own.

    `people`: who did what in the time before, newest first, if that is known. `before`: the number
    from which it changed, in the time of the condition or within a day. `moved`: how far it changed
    since, if that is known.
    """

    id: str
    of: WatchState | Covered | Digest
    when: str
    at: float
    people: tuple[Person, ...] = ()
    before: Sample | None = None
    moved: Change | None = None

    @property
    def key(self) -> str:
        """The name of the watch, that of the coverage after `coverage:`, or `digest:`."""
        if isinstance(self.of, Digest):
            return DIGEST
        return self.of.key if isinstance(self.of, Covered) else self.of.spec.name


class Covered(NamedTuple):
    """A coverage by name: its newest run, and below which share a relay lacks too much."""

    name: str
    run: CoverageRun
    line: float

    @property
    def key(self) -> str:
        """Under what its lines are stored; see `Alert.key`."""
        return f"{COVERAGE}{self.name}"

    @property
    def below(self) -> list[RelayCoverage]:
        """The relays that have less, the worst first."""
        found = [one for one in self.run.relays if (one.share or 0.0) < self.line]
        return sorted(
            (one for one in found if one.share is not None), key=lambda one: one.share or 0.0
        )

    @property
    def unknown(self) -> list[str]:
        """The relays whose share is not known."""
        return [one.relay for one in self.run.relays if one.share is None]


def body_of(crossing: Alert, form: BodyFormat = "json") -> AlertBody:
    """What a receiver of this form gets."""
    if form == "json":
        return _json(_content(crossing))
    return _SERVICES[form](text_of(crossing, DISCORD if form == "discord" else MESSAGE))


def text_of(crossing: Alert, limit: TextLimit = MESSAGE) -> str:
    """One line for people, such as `followers: 1,548 distinct authors, +14 in 2h (from 1,534);
    > 1000`.

    The newest people behind it follow, by name with the key, or by key. A digest has several lines.
    """
    if isinstance(crossing.of, Digest):
        return limit.fitting(crossing.of.summary, crossing.of.command)
    return limit.cut(_line_of(crossing, crossing.of))


def _line_of(crossing: Alert, watch: WatchState | Covered) -> str:
    if isinstance(watch, Covered):
        return f"{_words(watch)}; {crossing.when}"
    noun = unit_noun(watch.unit)
    number = "no number" if watch.figure is None else number_of(watch.figure, noun)
    why = "a relay's claim is not believed" if crossing.when == LIES else crossing.when
    name, people = watch.spec.name, crossing.people
    who = f"; {newest_names(people, _MOST_PEOPLE, name)}" if people else ""
    return f"{name}: {number}{_change(crossing)}; {why}{who}"


def _change(crossing: Alert) -> str:
    """Return how the number changed and from which one, such as `, +14 in 2h (from 1,534)`.

    Of an estimate it says how many came or left, as the difference of two estimates is an error.
    """
    moved, before = crossing.moved, crossing.before
    if moved is None or before is None:
        return ""
    time = age(crossing.at - before.at)
    if moved.estimated:
        return (
            f", about {moved.value:+,} in {time}" if moved.value else f", no change seen in {time}"
        )
    text = f"{moved.value:+,}" if moved.value else "no change"
    return f", {text} in {time} (from {before.value:,})"


def _words(one: Covered) -> str:
    """A coverage in words, such as `home: 2 of 5 relays lack too many of 1,162 events`."""
    total = len(one.run.relays)
    listed = ", ".join(
        f"{clip(each.relay, 60)} has {percent(each.share or 0.0)}"
        for each in one.below[:_MOST_RELAYS]
    )
    more = ", …" if len(one.below) > _MOST_RELAYS else ""
    unknown = f"; {len(one.unknown)} not compared" if one.unknown else ""
    return (
        f"{one.name}: {len(one.below)} of {plural(total, 'relay')} lack too many of"
        f" {plural(one.run.known, 'event')} ({listed}{more}){unknown}"
    )


def number_of(figure: Figure, noun: str = "") -> str:
    """A number, what it counts (`noun` is that of one), and how far it can be trusted."""
    if figure.exact and not figure.as_said:
        return plural(figure.value, noun) if noun else f"{figure.value:,}"
    return said(figure, noun)


def _content(crossing: Alert) -> dict[str, Any]:
    watch = crossing.of
    if isinstance(watch, Digest):
        return _digest(crossing, watch)
    if isinstance(watch, Covered):
        return {
            "id": crossing.id,
            "coverage": watch.name,
            "when": crossing.when,
            "known": watch.run.known,
            "relays": len(watch.run.relays),
            "below": [{"relay": one.relay, "share": one.share} for one in watch.below],
            "unknown": watch.unknown,
            "at": crossing.at,
        }
    return {
        "id": crossing.id,
        "watch": watch.spec.name,
        "when": crossing.when,
        "value": watch.figure.value if watch.figure else None,
        "figure": watch.figure,
        "unit": watch.unit,
        "at": crossing.at,
        "change": None if crossing.moved is None else crossing.moved.value,
        "before": crossing.before,
        "people": crossing.people[:MOST_LISTED],
    }


def _digest(crossing: Alert, found: Digest) -> dict[str, Any]:
    """The digest with the watches that changed, and how many others there are."""
    changes = [one.change for one in found.watches]
    changed = sorted(
        (one for one in found.watches if one.change == "changed"), key=lambda one: one.rank
    )
    return {
        "id": crossing.id,
        "digest": msgspec.structs.replace(found, watches=tuple(changed[:MOST_CHANGED])),
        "changed": len(changed),
        "same": changes.count("same"),
        "unknown": changes.count("unknown"),
        "when": crossing.when,
        "at": crossing.at,
    }


def _json(value: object) -> AlertBody:
    return AlertBody(msgspec.json.encode(value) + b"\n")


def _ntfy(text: str) -> AlertBody:
    """The message is the body; ntfy shows it as it is."""
    return AlertBody(f"{text}\n".encode(), TEXT)


def _slack(text: str) -> AlertBody:
    """Three characters are escaped, and with `mrkdwn` false `*` and `_` are plain text."""
    return _json({"text": html.escape(text, quote=False), "mrkdwn": False})


def _matrix(text: str) -> AlertBody:
    """A generic webhook of matrix-hookshot, which reads `text` as Markdown without `html`."""
    return _json({"text": text, "html": html.escape(text, quote=False).replace("\n", "<br>")})


def _discord(text: str) -> AlertBody:
    """Content is Markdown; it mentions no user."""
    return _json({"content": _markdown(text), "allowed_mentions": {"parse": []}})


_SERVICES: Final[dict[str, Callable[[str], AlertBody]]] = {
    "ntfy": _ntfy,
    "slack": _slack,
    "matrix": _matrix,
    "discord": _discord,
}
