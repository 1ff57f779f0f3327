"""`nostr-client`: the SDK on the command line. stdout is data, stderr is talk.

Arguments, options and the environment enter; tables or JSON lines and an exit code leave. Start
with `app`, the tree of commands, and `entry`, which runs every program. A command has a module of
its name; `place` chooses between a store's file and the agent that holds it.
"""

from __future__ import annotations

from nostr_client.cli.gc_tuning import run_to_exit


def main() -> None:
    """Run `nostr-client` with the arguments of this process, and exit with its code."""
    run_to_exit(_run)


def _run() -> int:
    from nostr_client.cli.app import run

    return run()
