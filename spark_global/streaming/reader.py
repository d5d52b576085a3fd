"""The stream reader that Spark calls: on the driver for positions and splits, in tasks to read.

Spark gives it one process of its own on the driver, which lives as long as the query. The calls
come one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from local_cluster.client.model import TopicPartition
from spark_global.source.options import ReadOptions
from spark_global.source.record_reading import read_records
from spark_global.source.splits import Split
from spark_global.source.stated import StatedRows, stated_rows
from spark_global.streaming.completeness import CompletenessFollower
from spark_global.streaming.planner import StreamPlanner
from spark_global.streaming.positions import (
    COMPLETE,
    DATACENTERS,
    GROUP,
    NOTHING_JOINED,
    StreamPositions,
)
from spark_global.streaming.progress import Progress
from spark_global.streaming.publishing import publish_positions
from spark_global.streaming.sharing import Limits

WAIT_SECONDS: Final = 1.0
"""Seconds between two looks for the map of records that hold others back."""
_MS_PER_SECOND: Final = 1_000


class HeliographStreamReader(DataSourceStreamReader):
    """Reads the records of an aggregate as a stream.

    Everything that a reader needs between two calls is made at the first one, because Spark also
    pickles readers into tasks.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._driver: _Driver | None = None

    # -- on the driver ----------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        return dict(NOTHING_JOINED)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return one of the limits of the options; `latestOffset` applies both."""
        if self._options.max_records_per_trigger is not None:
            return ReadMaxRows(self._options.max_records_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; `start` itself if there is nothing to read."""
        limits = Limits()
        if not isinstance(limit, ReadAllAvailable):
            limits = Limits(
                records_max=self._options.max_records_per_trigger,
                bytes_max=self._options.max_bytes_per_trigger,
            )
        return self._on_driver().advance(start, limits)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix where the query ends: at what can be read now."""
        self._on_driver().fix_target()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the last stable offsets that the last call of `latestOffset` saw.

        Besides the offsets there are what `listener.py` needs: datacenters and group.
        """
        return self._on_driver().latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        splits: list[InputPartition] = list(self._on_driver().splits(start, end))
        if self._options.completeness_rows:
            splits.append(StatedRows(stated_rows(end.get(COMPLETE, {}), self._options)))
        return splits

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _on_driver(self) -> _Driver:
        if self._driver is None:
            self._driver = _Driver(self._options)
        return self._driver

    # -- in tasks ---------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, StatedRows):
            yield partition.rows
            return
        assert isinstance(partition, Split), partition
        yield from read_records(partition.ranges, self._options)


# Spark asks by isinstance; the reader has one base class all the same.
SupportsTriggerAvailableNow.register(HeliographStreamReader)


class _Driver:
    """The planner and its event loop, which runs only during a call."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        self._planner = StreamPlanner(options)
        self._completeness = (
            CompletenessFollower(self._planner, options) if options.carry_completeness else None
        )
        self._target: Mapping[TopicPartition, int] | None = None
        self._end = StreamPositions(topic_ids={}, offsets={})
        self._is_published = False

    def fix_target(self) -> None:
        self._target = self._runner.run(self._planner.target_ends())
        if self._completeness is not None:
            # Statements first, then the ends; the first look was for the links.
            self._runner.run(self._completeness.poll())
            self._target = self._runner.run(self._planner.target_ends())
            self._completeness.note()

    def advance(self, start: dict[str, Any], limits: Limits) -> dict[str, Any]:
        held = StreamPositions.decode(start)
        if self._options.group is not None and not self._is_published:
            # All before `start` is done. A kill may have come before the listener said so.
            unknown = Progress(at_ms=round(time.time() * _MS_PER_SECOND)).encode()
            notes = {at.topic: unknown for at in held.offsets}
            publishing = publish_positions(self._options.cluster, self._options.group, held, notes)
            self._runner.run(publishing)
            self._is_published = True
        # A query with a fixed end has noted what is complete there; more would never end.
        follower = self._completeness if self._target is None else None
        if follower is not None:
            self._runner.run(follower.poll())
        self._end = self._plan(held, limits, is_first_batch=not start)
        while self._end == held and self._waits_for_maps():
            time.sleep(WAIT_SECONDS)
            self._end = self._plan(held, limits, is_first_batch=not start)
        if follower is not None:
            follower.note()
        end = self._end.encode()
        if self._completeness is not None:
            end |= self._completeness.carried(start, self._end)
        return start if end == start else end

    def _plan(
        self, held: StreamPositions, limits: Limits, *, is_first_batch: bool
    ) -> StreamPositions:
        return self._runner.run(
            self._planner.advance(held, limits, self._target, is_first_batch=is_first_batch)
        )

    def _waits_for_maps(self) -> bool:
        """Return whether a query with a fixed end would end before it, for want of a map."""
        return (
            self._target is not None
            and self._planner.is_waiting
            and any(self._end.offsets.get(at, 0) < end for at, end in self._target.items())
        )

    def latest(self) -> dict[str, Any] | None:
        stable = self._planner.stable_ends
        offsets = {at: stable.get(at, offset) for at, offset in self._end.offsets.items()}
        if not offsets:
            return None
        ends = StreamPositions(
            cluster_id=self._end.cluster_id, topic_ids=self._end.topic_ids, offsets=offsets
        )
        named = {DATACENTERS: self._planner.datacenters}
        return ends.encode() | named | ({GROUP: self._options.group} if self._options.group else {})

    def splits(self, start: dict[str, Any], end: dict[str, Any]) -> list[Split]:
        positions = StreamPositions.decode(start), StreamPositions.decode(end)
        return self._runner.run(self._planner.splits(*positions))

    def close(self) -> None:
        if self._completeness is not None:
            self._runner.run(self._completeness.close())
        self._runner.run(self._planner.close())
        self._runner.close()
