"""Nodes of one nats-server cluster on loopback: JetStream replicated over processes."""

from __future__ import annotations

import socket
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.nats_peer import NatsServer

if TYPE_CHECKING:
    from collections.abc import Iterator


def free_ports(count: int) -> list[int]:
    """Ports that are free now: each node must be told those of the others before they start."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def running_cluster(count: int) -> Iterator[list[NatsServer]]:
    """So many nodes; each keeps its ports when it is started again."""
    routes = [f"nats://127.0.0.1:{port}" for port in free_ports(count)]
    with ExitStack() as stack:
        folders = (tempfile.TemporaryDirectory(prefix="nats-") for _ in routes)
        nodes = [
            NatsServer(
                Path(stack.enter_context(folder)), "-n", f"node{n}", "--cluster_name", "counters",
                "-cluster", route, "-routes", ",".join(r for r in routes if r != route),
            )
            for n, (route, folder) in enumerate(zip(routes, folders, strict=True))
        ]  # fmt: skip
        try:
            for node in nodes:
                node.start()
            yield nodes
        finally:
            for node in nodes:
                node.kill()
