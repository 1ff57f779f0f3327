"""The progress of a sync on stderr: a line for each relay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from nostr_client.display import plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.console import Console

    from nostr_client.sync.report import RelayReport

_MEAN_BYTES = 700
"""Size of an event where none was downloaded yet to tell."""


class SyncBars:
    """A context manager; `update` takes the relays' numbers so far. Shown on a terminal alone."""

    def __init__(self, console: Console, *, shown: bool) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._shown = shown and console.is_terminal
        self._tasks: list[int] = []
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[told]}"),
            console=console,
            disable=not self._shown,
        )

    def update(self, relays: Sequence[RelayReport]) -> None:
        """Take the numbers so far."""
        if not self._shown:
            return
        for index, one in enumerate(relays):
            if index >= len(self._tasks):
                self._tasks.append(self._progress.add_task(one.relay, told="", total=None))
            self._progress.update(
                self._progress.tasks[self._tasks[index]].id,
                completed=one.downloaded + one.uploaded,
                total=(one.need + one.have) or None,
                told=told(one),
            )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()


def told(one: RelayReport) -> str:
    """One relay's numbers in a line."""
    return (
        f"{plural(one.rounds, 'round')}, need {one.need:,}, have {one.have:,}, "
        f"down {one.downloaded:,}, up {one.uploaded:,}, saved {saved_bytes(one):,} bytes"
    )


def saved_bytes(one: RelayReport) -> int:
    """About how many bytes a transfer of everything compared would have cost more."""
    full = one.compared * _MEAN_BYTES
    return max(0, full - one.bytes_sent - one.bytes_received)
