"""Runs one rebuild as a child process: a job on stdin, JSON lines on stdout.

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
    from types import FrameType, TracebackType
    from typing import NoReturn

    from agent.reindex.protocol import Job


_asked = threading.Event()


class Cancelled(BaseException):
    """Somebody asked to stop; no handler of errors holds it up."""


def main() -> int:
    """Do the job; the exit code: 0 done, 1 failed, 2 wrong input, 130 cancelled."""
    with Stoppable():
        return _done(Reporter(_line))
    return INTERRUPTED


class Stoppable:
    """A block that SIGTERM and SIGINT end, by Cancelled in the main thread, once.

    Any error that would leave it after such a signal came of it: a library may turn what is raised
    amidst its work into an error of its own, as py4j does (KeyError).
    """

    def __enter__(self) -> None:
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return isinstance(error, (Cancelled, KeyboardInterrupt)) or _asked.is_set()


def _done(reporter: Reporter) -> int:
    """The job's exit code. Raises Cancelled, also where an error came of the request to stop."""
    try:
        job = read_job(sys.stdin.buffer.readline())
        threading.Thread(target=_end_with_parent, daemon=True).start()
        run(job, reporter)
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


def check_stopped() -> None:
    """Raise Cancelled in the main thread if it was: Python drops what is raised while it collects
    garbage."""
    if _asked.is_set() and threading.current_thread() is threading.main_thread():
        raise Cancelled


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    _asked.set()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: cleaning up is not cut short
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Cancelled


def _line(line: bytes) -> None:
    check_stopped()
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _end_with_parent() -> None:
    """The parent holds the other end of stdin; when it closes, this process stops."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
