"""`python -m tui` is `nostr-tui`."""

from __future__ import annotations

from tui.cli import main

if __name__ == "__main__":
    main()
