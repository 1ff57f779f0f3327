"""The entry for `spark-submit` on a cluster: input and output are URLs that every node sees.

Master, memory and Java are the submission's own. `docs/how-to/reindex.md` has the command.
"""

from __future__ import annotations

import sys
import time

import click

from agent.reindex import inputs
from agent.reindex.child import Cancelled
from agent.reindex.protocol import Job
from agent.reindex.reporter import Reporter
from agent.reindex.spark.job import run_job
from nostr_client.errors import NostrTallyError
from nostr_client.store.index_schema import HOT


@click.command()
@click.option("--jsonl", multiple=True, metavar="URL")
@click.option("--parquet", multiple=True, metavar="URL")
@click.option("--out", required=True, metavar="URL", help="Where tables, rejects and stages go.")
@click.option("--partitions", type=click.IntRange(1), default=200, show_default=True)
@click.option("--hot", type=click.IntRange(1), default=HOT, show_default=True)
@click.option("--verify", is_flag=True, help="Check every signature.")
@click.option("--now", type=int, help="Unix seconds at which expired events are dead.")
def main(
    jsonl: tuple[str, ...],
    parquet: tuple[str, ...],
    out: str,
    partitions: int,
    hot: int,
    verify: bool,
    now: int | None,
) -> None:
    """Rebuild the tables of archives on a cluster; prints JSON lines."""
    if bool(jsonl) == bool(parquet):
        raise click.UsageError("one of --jsonl and --parquet")
    reporter = Reporter(lambda line: click.echo(line, nl=False))
    try:
        source = inputs.archive("jsonl" if jsonl else "parquet", jsonl or parquet)
        at = int(time.time()) if now is None else now
        run_job(
            Job(
                source=source,
                settings=inputs.Settings(now=at, fixed=now is not None, hot=hot, verify=verify),
                engine="spark",
                work=f"{out.rstrip('/')}/work",
                out=out,
                partitions=partitions,
                submitted=True,
            ),
            reporter,
        )
    except NostrTallyError as error:
        raise click.ClickException(str(error)) from error
    except Cancelled:
        sys.exit(130)


if __name__ == "__main__":
    main()
