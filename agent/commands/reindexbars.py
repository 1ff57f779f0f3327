"""A bar for each stage of a rebuild on stderr; lines where that is no terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent.reindex.protocol import Stage, Talk
from nostr_client.cli.output import console, say
from nostr_client.display import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress, TaskID

    from agent.reindex.protocol import Message


@contextmanager
def bars(*, quiet: bool) -> Iterator[Callable[[Message], None]]:
    """What to call with each message, as long as the block runs."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    err = console(stderr=True)
    if quiet or not err.is_terminal:
        yield _line
        return
    columns = (
        TextColumn("{task.description:>12}"),
        BarColumn(),
        TextColumn("{task.fields[rows]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err) as shown:
        yield _Bars(shown)


class _Bars:
    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, message: Message) -> None:
        if isinstance(message, Talk):
            self._shown.console.print(message.text, markup=False)
        elif isinstance(message, Stage):
            self._stage(message)

    def _stage(self, stage: Stage) -> None:
        task = self._tasks.get(stage.name)
        if task is None:
            task = self._tasks[stage.name] = self._shown.add_task(stage.name, total=None, rows="")
        rows = plural(stage.rows, "row") if stage.rows else ""
        if stage.state in ("done", "skipped"):
            text = f"{rows} (done before)" if stage.state == "skipped" else rows
            self._shown.update(task, total=1, completed=1, rows=text)
            self._shown.stop_task(task)
        elif stage.total:
            self._shown.update(task, total=stage.total, completed=stage.done, rows=rows)
        else:
            self._shown.update(task, rows=rows or (f"{stage.done:,}" if stage.done else ""))


def _line(message: Message) -> None:
    if isinstance(message, Talk):
        say(message.text)
    elif isinstance(message, Stage) and message.state in ("done", "skipped"):
        how = "done before" if message.state == "skipped" else f"{message.seconds:.1f} s"
        say(f"{message.name}: {plural(message.rows, 'row')}, {how}")
