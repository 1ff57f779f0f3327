"""What to do instead when the store is being written by another process, mostly the agent."""

from __future__ import annotations

from typing import Final

import click

from nostr_client.errors import StoreLocked

_SAME: Final = {
    "count": "nostr-agent watch count NAME",
    "sync": "nostr-agent sync run NAME",
    "watch add": "nostr-agent watch add",
    "watch list": "nostr-agent watch list",
    "watch rm": "nostr-agent watch rm",
    "watch run": "nostr-agent watch count NAME",
    "watch show": "nostr-agent watch show NAME",
    "watch history": "nostr-agent watch history NAME",
    "counter add": "nostr-agent counter add",
    "counter get": "nostr-agent counter get",
    "counter history": "nostr-agent counter history",
    "counter load": "nostr-agent counter get",
    "counter recount": "nostr-agent counter recount",
    "counter reset": "nostr-agent counter reset",
    "store stats": "nostr-agent store show",
}
"""Commands that write, if only to bring an older store up to date, by what the agent has for the
same."""

_ELSE: Final = {
    "run": "it runs already, and `nostr-agent status` shows it: a second one needs another --store",
    "store import": "import into another --store, and bring that to its relay (its address: "
    "`nostr-agent status`) by `nostr-client sync --direction up --include-others`",
}
_STOP: Final = "stop it first: it has no command for this"


def with_hint(error: StoreLocked) -> StoreLocked:
    """The error, with what the running command comes to in the agent."""
    context = click.get_current_context(silent=True)
    name = context.command_path.partition(" ")[2] if context is not None else ""
    text = f"`{_SAME[name]}` does the same" if name in _SAME else _ELSE.get(name, _STOP)
    return StoreLocked(f"{error}; if that is the agent, {text}", pid=error.pid)
