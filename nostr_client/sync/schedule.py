"""Which window is next, how many sessions may be open at once, and how often one may be halved."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.sync.options import SyncOptions
    from nostr_client.sync.windows import Window


class Schedule:
    """The windows of one relay, newest first.

    One at a time until the relay has shown that it speaks NIP-77, then as many as it bears.
    """

    def __init__(self, windows: Sequence[Window], options: SyncOptions) -> None:
        self._stack = list(windows)
        self._options = options
        self._allowed = 1
        self._crowded = False
        self._halvings = 0
        self._done = 0
        self.running = 0

    @property
    def over(self) -> bool:
        """Nothing waits and nothing runs."""
        return not self._stack and not self.running

    @property
    def ready(self) -> bool:
        """One may be started."""
        return bool(self._stack) and self.running < self._allowed

    def start(self) -> Window:
        """The next window; it runs from now on."""
        self.running += 1
        return self._stack.pop()

    def end(self) -> None:
        """One that ran has ended, whatever came of it."""
        self.running -= 1

    def put(self, windows: Sequence[Window]) -> None:
        """Windows to be done, oldest first; before those that wait."""
        self._stack.extend(windows)

    def clear(self) -> list[Window]:
        """Take everything that waits."""
        taken, self._stack = self._stack, []
        return taken

    def succeeded(self) -> None:
        """A window was compared to its end."""
        self._done += 1

    def speaks(self) -> None:
        """The relay answered with negentropy: several at once, if it did not refuse that before."""
        if not self._crowded:
            self._allowed = self._options.in_flight

    def crowd(self) -> bool:
        """Too many at once for this relay: fewer; False when there was only one."""
        alone = self.running <= 1
        self._crowded = True
        self._allowed = max(1, min(self._allowed, self.running) - 1)
        return not alone

    def may_halve(self) -> bool:
        """Count one more halving; False beyond the cap."""
        self._halvings += 1
        return self._halvings <= self._options.halvings + 2 * self._done
