"""The child process of a rebuild: one job on stdin, JSON lines on stdout, gone when it is done.

It ends with its parent: stdin stays open as long as that lives. SIGTERM ends it with 130, and
nothing half is left.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import msgspec

from agent.reindex.protocol import INTERRUPTED, Failed, read_job
from agent.reindex.reporter import Reporter
from nostr_client.errors import NostrTallyError

if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

    from agent.reindex.protocol import Job


class Cancelled(BaseException):
    """Somebody asked to stop; no handler of errors holds it up."""


def main() -> int:
    """Do the job; the exit code: 0 done, 1 failed, 2 wrong input, 130 cancelled."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    reporter = Reporter(_line)
    try:
        job = read_job(sys.stdin.buffer.readline())
        threading.Thread(target=_end_with_parent, daemon=True).start()
        run(job, reporter)
    except (Cancelled, KeyboardInterrupt):
        return INTERRUPTED
    except NostrTallyError as error:
        code = 2 if isinstance(error, ValueError) else 1
        reporter.send(Failed(str(error), code))
        return code
    except (OSError, msgspec.MsgspecError) as error:
        reporter.send(Failed(f"{type(error).__name__}: {error}"))
        return 1
    return 0


def run(job: Job, reporter: Reporter) -> None:
    """Do the job by its engine."""
    if job.engine == "spark":
        from agent.reindex.spark.job import run_job
    else:
        from agent.reindex.single import run_job
    run_job(job, reporter)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: cleaning up is not cut short
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Cancelled


def _line(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _end_with_parent() -> None:
    """Whoever started this holds the other end of stdin: its end is a request to stop."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
