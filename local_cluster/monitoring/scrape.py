"""All metrics of a broker at one moment, as text for Prometheus or as families for a push.

Guarantees: no step holds the event loop for long, whatever the number of partitions, topics and
groups (sliced.py). Samples of one metric stand together, as the format requires. A scrape waits for
other brokers at most twice `end_offsets.RESPONSE_WAIT_MS_MAX`.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from local_cluster.monitoring import broker_families as of_broker
from local_cluster.monitoring import group_rows, partition_rows, request_rows, topic_rows
from local_cluster.monitoring.confluent_names import (
    Names,
    named_families,
    named_head,
    named_lines,
)
from local_cluster.monitoring.lag.end_offsets import EndOffsets
from local_cluster.monitoring.lag.unread_times import UnreadTimes
from local_cluster.monitoring.loop_monitor import LoopMonitor
from local_cluster.monitoring.monitored import MonitoredBroker
from local_cluster.monitoring.partition_rows import Row
from local_cluster.monitoring.process_stats import process_families
from local_cluster.monitoring.quota_families import quota_families
from local_cluster.monitoring.request_rows import RecentTimes
from local_cluster.monitoring.rights_families import rights_families
from local_cluster.monitoring.sliced import Slices
from local_cluster.prometheus_text import Family, Head, Sample, gauge, render_family

LINES_PER_PIECE: Final = 200
"""Lines that are joined at once."""
CHUNK_BYTES: Final = 64 * 1024
"""Bytes that are encoded and handed to the socket at once."""

Columns = tuple[Sequence[Head], list[list[str]]]
"""Metrics, and the lines of each."""


class Scraper:
    """Collects the metrics of one broker."""

    def __init__(
        self,
        broker: MonitoredBroker,
        ends: EndOffsets,
        unread: UnreadTimes,
        times: RecentTimes,
        loop: LoopMonitor,
        is_serving: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._is_serving = is_serving
        self._ends = ends
        self._unread = unread
        self._times = times
        self._loop = loop
        self._turn = asyncio.Lock()

    async def text(self, names: Names = Names.usual) -> AsyncIterator[bytes]:
        """Yield the exposition in chunks. Two scrapes at once wait for each other."""
        slices = Slices()
        async with self._turn:
            families, tables = await self._collect(slices)
        chunk: list[str] = []
        chunk_bytes = 0
        async for piece in slices.over(_pieces(families, tables, names)):
            chunk.append(piece)
            chunk_bytes += len(piece)
            if chunk_bytes >= CHUNK_BYTES:
                yield "".join(chunk).encode()
                chunk, chunk_bytes = [], 0
        yield "".join(chunk).encode()

    async def families(self) -> list[Family]:
        """Return the metrics of the broker as a whole, without partitions, topics and groups."""
        slices = Slices()
        async with self._turn:
            families, tables = await self._collect(slices)
        async for _ in slices.over(_pieces((), tables)):
            pass
        return families

    async def _collect(self, slices: Slices) -> tuple[list[Family], list[Columns]]:
        broker = self._broker
        replicas, cluster = partition_rows.ReplicaCounts(), of_broker.ClusterCounts()
        groups, transactions = group_rows.GroupCounts(), Counter[str]()
        ends = await self._ends.find(group_rows.committed_partitions(broker.groups), slices)
        unread = await self._unread.find(broker.groups, ends, slices)
        now_ms = broker.clock.now_ms()
        tables: list[Columns] = []
        for heads, rows in (
            (partition_rows.HEADS, partition_rows.partition_rows(broker, replicas)),
            (topic_rows.HEADS, topic_rows.topic_rows(broker, replicas)),
            (group_rows.HEADS, group_rows.group_rows(broker.groups, ends, unread, now_ms, groups)),
            (request_rows.HEADS, self._times.rows()),
        ):
            tables.append(await _table(heads, rows, slices))
        pushed: dict[Head, list[str]] = {}
        async for _ in slices.over(broker.client_metrics.write(pushed)):
            pass
        tables.append((tuple(pushed), list(pushed.values())))
        counting = itertools.chain(
            of_broker.count_cluster(broker, cluster),
            of_broker.count_transactions(broker, transactions),
        )
        async for _ in slices.over(counting):
            pass
        _drop_deleted_topics(broker, replicas)
        log_dirs = [each.path for each in broker.log_directories.live]
        families = await asyncio.to_thread(process_families, log_dirs)
        parts = itertools.chain(
            of_broker.state_families(is_running=self._is_serving()),
            of_broker.replica_families(broker, replicas),
            of_broker.controller_families(broker, cluster),
            of_broker.connection_families(broker),
            of_broker.certificate_families(broker),
            rights_families(broker),
            quota_families(broker.quotas, broker.clock.monotonic_ms()),
            broker.client_metrics.families(),
            of_broker.log_families(broker),
            of_broker.throttle_families(broker.replicas.throttle, broker.clock.monotonic_ms()),
            of_broker.transaction_families(transactions),
            group_rows.group_families(groups),
            self._loop.families(),
            _build_info(broker),
        )
        async for family in slices.over(parts):
            families.append(family)
        return families, tables


async def _table(heads: Sequence[Head], rows: Iterable[Row], slices: Slices) -> Columns:
    columns: list[list[str]] = [[] for _ in heads]
    appends = [each.append for each in columns]
    async for row in slices.over(rows):
        for append, line in zip(appends, row, strict=True):
            if line:
                append(line)
    return heads, columns


def _pieces(
    families: Iterable[Family], tables: Iterable[Columns], names: Names = Names.usual
) -> Iterator[str]:
    """Yield the text in short pieces, and empty the columns."""
    for family in families:
        for named in named_families(family, names):
            yield render_family(named)
    for heads, columns in tables:
        for head, lines in zip(heads, columns, strict=True):
            if lines:
                yield named_head(head, names).lines()
            while lines:
                piece = "".join(lines[:LINES_PER_PIECE])
                # Freed one by one: all lines at once would hold the loop for some milliseconds.
                del lines[:LINES_PER_PIECE]
                yield named_lines(piece, head, names)


def _drop_deleted_topics(broker: MonitoredBroker, replicas: partition_rows.ReplicaCounts) -> None:
    """Forget the counters of topics that neither the metadata nor a replica here has."""
    for topic, _ in broker.replicas.traffic:
        if topic not in broker.metadata.topics and topic not in replicas.log_bytes:
            broker.replicas.traffic.drop(topic)


def _build_info(broker: MonitoredBroker) -> Iterator[Family]:
    settings = broker.settings
    yield gauge(
        "heliograph_build_info",
        "The version that runs, and which broker this is.",
        Sample(
            1,
            {
                "version": _version(),
                "cluster": settings.cluster,
                "broker": str(settings.broker_id),
            },
        ),
    )


@cache
def _version() -> str:
    try:
        return importlib.metadata.version("heliograph")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
