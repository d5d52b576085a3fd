"""Follows streaming queries: how far they are behind, and their positions as a consumer group.

Spark calls the listener after each batch, so lag tools see a batch as soon as it is done. After a
restart no batch may come for long. The source itself publishes the positions once then.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from local_cluster.client.model import TopicPartition
from spark_global.addresses import ClusterAddress
from spark_global.streaming.lag import DatacenterLag, LagHistory
from spark_global.streaming.positions import (
    DATACENTERS,
    GROUP,
    CheckpointError,
    StreamPositions,
    least_of,
)
from spark_global.streaming.progress import notes_of_topics
from spark_global.streaming.publishing import publish_positions

_MS_PER_SECOND: Final = 1_000


class ProgressListener(StreamingQueryListener):
    """The progress of every query of a session that reads one cluster.

    Register it once: `session.streams.addListener(ProgressListener(cluster))`. Queries with option
    `group` are published under that group.
    """

    def __init__(self, cluster: ClusterAddress) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._histories: dict[str, LagHistory] = {}
        self._lags: dict[str, list[DatacenterLag]] = {}

    def lag(self, query_id: str) -> list[DatacenterLag]:
        """Return how far a query was behind after its last batch; empty before the first one."""
        with self._lock:
            return list(self._lags.get(query_id, ()))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        # A query over several views has a source for each.
        found = [seen for each in progress.sources if (seen := _seen(each)) is not None]
        if not found:
            return
        positions = least_of([each.positions for each in found])
        ends = {at: end for each in found for at, end in each.ends.items()}
        datacenters = {name: dc for each in found for name, dc in each.datacenters.items()}
        seconds = datetime.fromisoformat(progress.timestamp).timestamp()
        with self._lock:
            history = self._histories.setdefault(str(progress.id), LagHistory())
            history.add(seconds, ends)
            lags = history.lag(positions.offsets, datacenters)
            self._lags[str(progress.id)] = lags
        for group in sorted({each.group for each in found if each.group is not None}):
            notes = notes_of_topics(
                lags,
                datacenters,
                query=str(progress.id),
                batch=progress.batchId,
                at_ms=round(time.time() * _MS_PER_SECOND),
            )
            asyncio.run(publish_positions(self._cluster, group, positions, notes))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._lock:
            self._histories.pop(str(event.id), None)


class _Seen(NamedTuple):
    """What a source has read, and where its partitions end."""

    positions: StreamPositions
    ends: Mapping[TopicPartition, int]
    datacenters: Mapping[str, str | None]
    group: str | None


def _seen(source: Any) -> _Seen | None:
    """Return what the progress of a source says; None if it is of another format."""
    read, ends = _document(source.endOffset), _document(source.latestOffset)
    try:
        positions, latest = StreamPositions.decode(read), StreamPositions.decode(ends)
    except CheckpointError:
        return None
    if not latest.offsets:
        return None
    return _Seen(positions, latest.offsets, ends.get(DATACENTERS, {}), ends.get(GROUP))


def _document(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
