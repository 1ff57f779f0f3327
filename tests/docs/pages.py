"""What the commands of each page presuppose, where that is more than two relays."""

from __future__ import annotations

from typing import Final

READY: Final = {
    "nostr-agent run": '"event":"started"',
    "nostr-agent relay": "writing: ",
    "nostr-tui": "https?://",
}
"""By what a program that stays is known to be there; of the others the first character."""

NOTES: Final = "nostr-client sync run --filter '{\"kinds\":[1,3,7]}' --direction down --relay wss://one.example"
KEY: Final = "nostr-client key gen --output"
WATCH: Final = "nostr-client watch add me followers npub1… --relay wss://one.example"
PLAYED: Final = (
    "nostr-client counter stream add PLAYS --subject 'plays.>' && "
    "nostr-client counter add plays.old.song 1"
)
CERTIFICATE: Final = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    "-subj /CN=localhost -keyout key.pem -out chain.pem 2> /dev/null"
)

BEFORE: Final = {
    "docs/how-to/assertions.md": (NOTES, WATCH, f"{KEY} me.key"),
    "docs/how-to/backup.md": (NOTES, "mkdir backups"),
    "docs/how-to/count.md": (
        "nostr-client key gen --output k && nostr-client publish --key-file k --content '' "
        "--kind 3 --tag p=npub1… --json --relay wss://one.example > /dev/null && "
        "nostr-client sync run --kind 3 -r wss://one.example --store s.db",
    ),
    "docs/how-to/coverage.md": (NOTES,),
    "docs/how-to/fleet.md": ("umask 077; echo token > es.token; echo token > fr.token",),
    "docs/how-to/local-relay.md": (CERTIFICATE,),
    "docs/how-to/reindex.md": (
        NOTES,
        "nostr-client store export > more.jsonl && gzip -c more.jsonl > dump.jsonl.gz",
    ),
    "docs/how-to/reindex-cluster.md": (
        NOTES,
        "nostr-client store export > dump.jsonl",
        "python -m agent.reindex.spark.submit --jsonl dump.jsonl --out tables --partitions 2",
    ),
    "docs/how-to/sql.md": (NOTES,),
    "docs/how-to/store.md": (
        "nostr-client key gen --output k && nostr-client publish --key-file k --content hi --json "
        "--relay wss://one.example > /dev/null",
        NOTES,
        "nostr-client store export > archive.jsonl",
    ),
    "docs/how-to/trust.md": (WATCH,),
}
"""Run first: what the page says, or the one that it continues, that its reader has."""

CONFIGURED: Final = {
    "docs/how-to/assertions.md": ("docs/how-to/assertions.md", 0),
    "docs/how-to/backup.md": ("docs/how-to/fleet.md", 0),
    "docs/how-to/fleet.md": ("docs/how-to/fleet.md", 0),
    "docs/how-to/nats.md": ("docs/how-to/nats.md", 0),
    "docs/how-to/safe-at-home.md": ("docs/how-to/safe-at-home.md", 0),
}
"""Whose and which TOML block is the reader's agent.toml there."""

CODES: Final = {
    "nostr-client counter link confirm es": 1,
    "nostr-client counter link confirm nats:hub": 1,
    "nostr-client relay rank followers npub1… --indexer wss://one.example --store s.db": 3,
}
"""Other exit codes than 0, where the page says so."""

CANNOT_RUN: Final = {
    "make": "the test run itself, and the demonstration, which tests/agent/test_demo.py runs",
    "nostr-agent install-service --system": "writes into /etc, as root",
    "pipx": "installs from a registry",
    "spark-submit": "needs a cluster",
    "duckdb": "is no part of this",
    "strfry": "another relay's program",
    "uv": "installs from a registry",
    "uvx": "serves until it is stopped",
}
"""Every program that a page may mark as not run, and why."""
