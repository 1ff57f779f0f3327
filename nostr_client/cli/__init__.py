"""`nostr-client`: the SDK on the command line. stdout is data, stderr is talk."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `nostr-client` with the arguments of this process, and exit with its code."""
    from nostr_client.cli.app import run

    sys.exit(run())
