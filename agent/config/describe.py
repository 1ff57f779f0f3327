"""Writes the template of `nostr-agent init` and the reference page, both from the model."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import msgspec

from agent.config.check import ConfigField, fields, metas
from agent.config.model import Config

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = """\
# Configuration of nostr-agent. It runs as it stands: what begins with # shows the default.
# `nostr-agent check` says what is wrong, and where; SIGHUP makes a running agent read it again.
# Any key can be overridden: NOSTR_AGENT_STORE__PATH=… or --set store.path=…
"""

_EXAMPLES = """\

# A watch asks the same question again and again and keeps the answers:
#
# [[watches]]
# name = "my-followers"
# query = "followers"        # reactions, reposts, quotes, replies, comments, zaps, …
# target = "npub1…"
# interval = "30m"
# alerts = [{ when = "+10 % in 1d", command = ["notify-send", "followers"] }]

# A sync keeps a set of events in common with relays (NIP-77):
#
# [[syncs]]
# name = "my-notes"
# filters = [{ authors = ["…64 hex characters…"], kinds = [0, 1, 3] }]
# direction = "both"
# interval = "1h"

# A coverage compares relays by one author's events; repair sends each what it lacks:
#
# [[coverage]]
# name = "my-events"
# author = "npub1…"
# interval = "1d"
# alerts = [{ when = "< 95 % on 3 relays", command = ["notify-send", "my events"] }]

# A digest of what changed, sent once a day:
#
# [digest]
# alerts = [{ when = "08:00", webhook = "https://ntfy.sh/…", format = "ntfy" }]

# Events that are removed again when they get old:
#
# [[retention.rules]]
# older_than = "90d"
# kinds = [7, 9735]
"""


def template() -> str:
    """The commented file that `nostr-agent init` writes."""
    return _HEAD + "".join(_sections()) + _EXAMPLES


def _sections() -> Iterator[str]:
    for section in fields(Config):
        if section.struct is None or section.many:
            continue
        yield f"\n[{section.name}]\n# {_first_line(section.struct)}\n"
        for one in fields(section.struct):
            if one.struct is None:
                yield f"# {one.name} = {toml(one.default)}    # {explain(one)}\n"


def reference() -> str:
    """The reference of every key, in Markdown."""
    parts = [_REFERENCE_HEAD]
    for section in fields(Config):
        assert section.struct is not None
        name = f"[[{section.name}]]" if section.many else f"[{section.name}]"
        parts.extend(_table(name, section.name, section.struct))
    return "".join(parts)


_REFERENCE_HEAD = """\
# Configuration of the agent

<!-- Made by `nostr-agent init --reference`; a test compares. -->

The configuration is one TOML file, by default `agent.toml` in your configuration folder. The agent
takes a setting from the first of these places that has it: a flag (`--set section.key=value`), the
environment (`NOSTR_AGENT_SECTION__KEY`), the file, the default below. In paths, `~` is the home
folder. The agent refuses unknown keys. `nostr-agent init` writes a first file. `nostr-agent check`
checks every section, watch, sync and coverage, and names the first mistake of each.
"""


def _table(title: str, path: str, struct: type[msgspec.Struct]) -> Iterator[str]:
    yield f"\n## `{title}`\n\n{_first_line(struct)}\n\n"
    yield "| Key | Type | Default | |\n|---|---|---|---|\n"
    inner = []
    for one in fields(struct):
        default = "" if one.default is msgspec.NODEFAULT else f"`{_short(one.default)}`"
        if one.struct is not None:
            inner.append(one)
        kind = "tables" if one.struct else type_text(one.type)
        yield f"| `{one.name}` | {kind} | {default} | {_escaped(explain(one))} |\n"
    for one in inner:
        assert one.struct is not None
        yield from _table(f"[[{path}.{one.name}]]", f"{path}.{one.name}", one.struct)


def explain(one: ConfigField) -> str:
    """What a key is for, with the form and the bounds of its value."""
    found = metas(one.type)
    text = next((m.description for m in reversed(found) if m.description), "")
    bounds = [
        f"{word} {getattr(meta, name)}"
        for name, word in (("ge", "at least"), ("le", "at most"))
        for meta in found
        if getattr(meta, name) is not None
    ]
    return f"{text} ({', '.join(bounds)})" if bounds else text


def type_text(kind: Any) -> str:
    """A type in words."""
    while hasattr(kind, "__metadata__"):
        if any(meta.pattern and "ms|s|m" in meta.pattern for meta in metas(kind)):
            return "duration"
        kind = kind.__origin__
    if get_origin(kind) is Literal:
        return ", ".join(f"`{one}`" for one in get_args(kind))
    if get_origin(kind) is tuple:
        return f"array of {type_text(get_args(kind)[0])}"
    args = [one for one in get_args(kind) if one is not type(None)]
    if args and get_origin(kind) is not dict:
        return type_text(args[0])
    names = {str: "string", int: "integer", bool: "boolean"}
    return names.get(kind, "table")


def toml(value: Any) -> str:
    """A default as TOML writes it."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, msgspec.Struct):
        pairs = (f"{name} = {toml(v)}" for name, v in msgspec.structs.asdict(value).items())
        return "{ " + ", ".join(pairs) + " }"
    return json.dumps(value, ensure_ascii=False)


def _short(value: Any) -> str:
    return "unset" if value is None else toml(value).replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _first_line(struct: type[msgspec.Struct]) -> str:
    return (inspect.getdoc(struct) or "").split("\n", 1)[0]
