"""Polls until when the datacenters of a table are complete, and what a batch has read.

Shell over `sightings.py` and `origins.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import KafkaError
from spark_global.cut.statements import StatementReader, Statements
from spark_global.kept.origins import read_offsets
from spark_global.kept.said import SourceRange, Through
from spark_global.kept.sightings import Sighting, Sightings, sightings_of
from spark_global.source.options import ReadOptions
from spark_global.streaming.planner import StreamPlanner
from spark_global.streaming.positions import StreamPositions

NO_SIGHTINGS: Final[Mapping[str, Sighting]] = MappingProxyType({})


class Completeness:
    """What the mirrors of one aggregate have stated."""

    def __init__(self, planner: StreamPlanner, statements: StatementReader) -> None:
        self._planner = planner
        self._statements = statements
        self._sightings = Sightings()

    async def close(self) -> None:
        await self._statements.close()

    async def poll(self) -> Statements:
        """Read what is stated; the planner must read the ends of partitions after it."""
        survey = self._planner.survey
        links = () if survey is None else survey.options.links
        return await self._statements.poll([link.name for link in links if link.name is not None])

    async def look(self) -> Mapping[TopicPartition, int]:
        """Read the statements and then the ends; note both, and return the ends.

        Raises KafkaError.
        """
        if self._planner.survey is None:
            await self._planner.known_ends()  # which links there are
        statements = await self.poll()
        ends = await self._planner.known_ends()
        self.note(statements)
        return ends

    def note(self, statements: Statements, also: Mapping[str, Sighting] = NO_SIGHTINGS) -> None:
        """Note statements together with the ends that the planner has read after them.

        `also` are sightings of other datacenters.
        """
        survey = self._planner.survey
        assert survey is not None, "the planner has just looked"
        partitions = {
            name: sorted(survey.metadata.topics[name].partitions) for name in survey.topics
        }
        found = sightings_of(survey.topics, partitions, survey.stable_ends, statements, survey.maps)
        self._sightings.add({**found, **also})

    def reached(self, positions: StreamPositions) -> Mapping[str, Through]:
        """Return the newest statement about each datacenter that holds at these positions."""
        return self._sightings.reached(positions)


class BatchesOfQuery:
    """What the batches of a query have read, and until when a table is complete after them.

    One call at a time.
    """

    def __init__(self, options: ReadOptions) -> None:
        """`options` are those of the query's stream."""
        self._runner = asyncio.Runner()
        self._planner = StreamPlanner(options)
        self._completeness = Completeness(self._planner, StatementReader(options.maps))

    def complete_at(self, positions: StreamPositions) -> Mapping[str, Through]:
        """Return the newest statement about each datacenter that holds at the end of a batch.

        Statements that were read before count if the aggregate does not answer.
        """
        with contextlib.suppress(KafkaError):
            self._runner.run(self._completeness.look())
        return self._completeness.reached(positions)

    def read_between(self, start: StreamPositions, end: StreamPositions) -> list[SourceRange]:
        """Return the source offsets of a batch. Raises KafkaError and CheckpointError."""
        splits = self._runner.run(self._planner.splits(start, end))
        return list(read_offsets(one for split in splits for one in split.ranges))
