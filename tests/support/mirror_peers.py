"""Both sides of a mirror, of any kind: our broker, Apache Kafka 4.4, Kafka 2.8.2 with ZooKeeper.

A pair is written "own->kafka". `kafka-2.7` is a 2.8.2 whose protocol between brokers is that of
2.7, so that its topics have no ids, as in any older release.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import running_kafka
from tests.support.kafka_in_zookeeper_mode import OLDEST_VERSION, ZooKeeperModeBroker
from tests.support.quiet_ports import quiet_port

_OLD_CONFIG: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}


class Peer(Protocol):
    """A cluster of one broker, on the same port over restarts."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def log_dir(self) -> Path:
        """Where its partitions' directories are."""
        ...

    async def start(self) -> None:
        """Start and wait until it answers."""
        ...

    async def kill(self) -> None:
        """kill -9 and wait."""
        ...


Peers = tuple[Peer, Peer]


def pair(kinds: str, *, long: bool = False) -> Any:
    """A pair as a parameter of a fixture, with the marks that it needs."""
    marks = [pytest.mark.oracle] if "kafka" in kinds else []
    return pytest.param(kinds, marks=[*marks, *([pytest.mark.long] if long else [])])


@contextlib.asynccontextmanager
async def running_peers(
    kinds: str, zookeeper: str, directory: Path, config: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Peer, Peer]]:
    """Source and target, started; killed at the end. `config` is for brokers of both sides."""
    source_kind, target_kind = kinds.split("->")
    async with (
        _running_peer(source_kind, zookeeper, directory / "source", "source", config) as source,
        _running_peer(target_kind, zookeeper, directory / "target", "target", config) as target,
    ):
        yield source, target


@contextlib.asynccontextmanager
async def _running_peer(
    kind: str,
    zookeeper: str,
    directory: Path,
    side: str,
    config: Mapping[str, str] | None = None,
) -> AsyncIterator[Peer]:
    if kind == "own":
        async with running_broker(zookeeper, directory, cluster=side, config=config) as ours:
            yield ours
    elif kind == "kafka":
        async with running_kafka(directory, config) as kafka:
            yield kafka
    else:
        protocol = {"kafka-2.8": "2.8", "kafka-2.7": "2.7"}[kind]
        old = ZooKeeperModeBroker(
            directory,
            quiet_port(),
            f"{zookeeper}/{side}{uuid.uuid4().hex[:8]}",
            version=OLDEST_VERSION,
            config={**_OLD_CONFIG, **(config or {}), "inter.broker.protocol.version": protocol},
        )
        try:
            await old.start()
            yield old
        finally:
            await old.kill()
