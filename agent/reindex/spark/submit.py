"""Runs under `spark-submit` on a cluster: input and output are URLs that every node sees.

Master, memory and Java are the submission's own. `docs/how-to/reindex.md` has the command.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from agent.reindex import inputs
from agent.reindex.child import Stoppable, check_stopped
from agent.reindex.protocol import INTERRUPTED, Job
from agent.reindex.reporter import Reporter
from agent.reindex.spark.job import run_job
from nostr_client.cli.parameters import UserPath
from nostr_client.errors import NostrTallyError
from nostr_client.store.index.schema import HOT

_PLACE = UserPath(path_type=str)


@click.command()
@click.option("--jsonl", type=_PLACE, multiple=True, metavar="URL")
@click.option("--parquet", type=_PLACE, multiple=True, metavar="URL")
@click.option(
    "--out",
    type=_PLACE,
    required=True,
    metavar="URL",
    help="Where tables, rejects and stages go.",
)
@click.option("--catalog", default="", metavar="NAMESPACE", help="Where tables go too.")
@click.option("--partitions", type=click.IntRange(1), default=200, show_default=True)
@click.option("--hot", type=click.IntRange(1), default=HOT, show_default=True)
@click.option("--verify", is_flag=True, help="Check every signature.")
@click.option("--strict", is_flag=True, help="End the run at a damaged file.")
@click.option("--now", type=int, help="Unix seconds at which expired events are dead.")
def main(
    jsonl: tuple[str, ...],
    parquet: tuple[str, ...],
    out: str,
    catalog: str,
    partitions: int,
    hot: int,
    verify: bool,
    strict: bool,
    now: int | None,
) -> None:
    """Rebuild the tables of archives on a cluster; prints JSON lines.

    SIGTERM ends the session, and the exit code is 130.
    """
    if bool(jsonl) == bool(parquet):
        raise click.UsageError("one of --jsonl and --parquet")
    at = int(time.time()) if now is None else now
    settings = inputs.Settings(now=at, fixed=now is not None, hot=hot, verify=verify, strict=strict)
    done = False
    with Stoppable():
        kind: inputs.Kind = "jsonl" if jsonl else "parquet"
        paths = jsonl or parquet
        _run(kind, paths, settings, out, catalog=catalog, partitions=partitions)
        done = True
    if not done:
        sys.exit(INTERRUPTED)


def _run(
    kind: inputs.Kind, paths: tuple[str, ...], settings: inputs.Settings, out: str, **given: Any
) -> None:
    try:
        job = Job(
            source=inputs.archive(kind, paths),
            settings=settings,
            engine="spark",
            work=f"{out.rstrip('/')}/work",
            out=out,
            submitted=True,
            **given,
        )
        run_job(job, Reporter(_line))
    except NostrTallyError as error:
        check_stopped()
        raise click.ClickException(str(error)) from error


def _line(line: bytes) -> None:
    check_stopped()
    click.echo(line, nl=False)


if __name__ == "__main__":
    main()
