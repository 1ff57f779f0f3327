"""`python -m agent`: the same as `nostr-agent`."""

from __future__ import annotations

from agent.cli import main

if __name__ == "__main__":
    main()
