"""`python -m nostr_client` is `nostr-client`."""

from __future__ import annotations

from nostr_client.cli import main

main()
