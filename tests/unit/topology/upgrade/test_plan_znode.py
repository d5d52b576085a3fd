"""Levels of formats, as far as ZooKeepers say them."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator

import pytest

from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.upgrade.plan_znode import read_levels

CLUSTERS = ("ewr", "jfk", "lga")
ANSWER_S = 60.0


class NodesWithoutMajority:
    """ZooKeeper nodes that accept connections and serve none, until every one has a session's."""

    def __init__(self) -> None:
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in CLUSTERS]
        self._everyone = threading.Barrier(len(CLUSTERS))
        self._open: list[bool] = []
        for listener in self._listeners:
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    @property
    def places(self) -> dict[str, ZooKeeperAccess]:
        ports = (each.getsockname()[1] for each in self._listeners)
        return {
            name: ZooKeeperAccess(connect=f"127.0.0.1:{port}/{name}")
            for name, port in zip(CLUSTERS, ports, strict=True)
        }

    @property
    def were_asked_together(self) -> bool:
        """Whether all waited for an answer at the same time."""
        first = self._open[: len(CLUSTERS)]
        return len(first) == len(CLUSTERS) and all(first)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._everyone.abort()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            # The first connection only asks whether the node may serve.
            if connection.recv(4) != b"srvr":
                try:
                    self._everyone.wait(ANSWER_S)
                except threading.BrokenBarrierError:
                    return
                self._open.append(is_open(connection))
            connection.close()


def is_open(connection: socket.socket) -> bool:
    """Whether the client has not given up."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return not poll.poll(0)


@pytest.fixture
def nodes() -> Iterator[NodesWithoutMajority]:
    found = NodesWithoutMajority()
    yield found
    found.close()


def test_zookeepers_that_wait_for_other_hosts_are_asked_together(
    nodes: NodesWithoutMajority,
) -> None:
    assert read_levels(nodes.places) == dict.fromkeys(CLUSTERS)
    assert nodes.were_asked_together
