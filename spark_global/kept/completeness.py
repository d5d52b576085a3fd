"""Polls until when the datacenters of a table are complete, and what a batch has read.

Shell over `sightings.py` and `origins.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from itertools import chain

from local_cluster.client.model import TopicPartition
from local_cluster.wire.errors import KafkaError
from spark_global.cut.statements import StatementReader, Statements
from spark_global.kept.origins import read_offsets
from spark_global.kept.said import SourceRange, Through, has_more_links
from spark_global.kept.sightings import (
    Sighting,
    Sightings,
    datacenters_of,
    sightings_of,
    sightings_without_copies,
    with_more_links,
)
from spark_global.links import MirrorLink, former_names
from spark_global.source.options import ReadOptions
from spark_global.streaming.planner import StreamPlanner
from spark_global.streaming.positions import StreamPositions


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
        names = [link.name for link in self.links if link.name is not None]
        return await self._statements.poll(names)

    async def look(self) -> Mapping[TopicPartition, int]:
        """Read the statements and then the ends; note both, and return the ends.

        Raises KafkaError.
        """
        if self._planner.survey is None:
            await self._planner.known_ends()  # which links there are
        statements = await self.poll()
        ends = await self._planner.target_ends()
        self.note(statements)
        return ends

    def note(self, statements: Statements) -> None:
        """Note statements together with the ends that the planner has read after them."""
        survey = self._planner.survey
        assert survey is not None, "the planner has just looked"
        stated = of_options(statements, survey.options)
        wanted = set(survey.options.partitions)
        partitions = {
            name: sorted(every & wanted if wanted else every)
            for name in survey.topics
            for every in [survey.metadata.topics[name].partitions.keys()]
        }
        found = sightings_of(survey.topics, partitions, survey.stable_ends, stated, survey.maps)
        more = self.without_copies(statements)
        self._sightings.add(with_more_links(found, more, datacenters_of(survey.topics)))

    def without_copies(self, statements: Statements) -> Mapping[str, Sighting]:
        """Return a sighting of each datacenter whose links state a topic without a copy of it."""
        survey = self._planner.survey
        assert survey is not None, "the planner has just looked"
        asked = survey.options
        stated = of_options(statements, asked)
        chosen = asked.topic or asked.topics or asked.source_topics or asked.aggregate_topics
        return sightings_without_copies(
            survey.topics, asked.links, stated, asked.topic, reads_all=not chosen
        )

    @property
    def links(self) -> Sequence[MirrorLink]:
        """The links of the last look."""
        survey = self._planner.survey
        return () if survey is None else survey.options.links

    def datacenters(self) -> Mapping[str, frozenset[str]]:
        """Return the datacenters with copies that the options ask for, with their links."""
        survey = self._planner.survey
        assert survey is not None, "the planner has just looked"
        asked = survey.options.datacenters
        found = {name: set[str]() for name in datacenters_of(survey.topics)}
        for each in chain.from_iterable(survey.topics.values()):
            if each.link is not None and each.link.name is not None:
                found.setdefault(each.link.datacenter, set()).add(each.link.name)
        return {name: frozenset(each) for name, each in found.items() if name in (asked or found)}

    def reached(self, positions: StreamPositions) -> Mapping[str, Through]:
        """Return the newest statement about each datacenter that holds at these positions.

        A datacenter of which a link has joined since is absent.
        """
        now = former_names(self.links)
        names: dict[str, list[str]] = {}
        for former, datacenter in now.items():
            names.setdefault(datacenter, []).append(former)
        reached = self._sightings.reached(positions)
        found = {name: each for name, each in reached.items() if name not in now}
        for name in reached.keys() & now.keys():  # seen before the links were read again
            found.setdefault(now[name], reached[name])
        links = self.datacenters()
        return {
            name: each._replace(formerly=tuple(names.get(name, ())))
            for name, each in found.items()
            if not has_more_links(each.links, links.get(name, ()))
        }


def of_options(statements: Statements, options: ReadOptions) -> Statements:
    """Return the statements about what is read. Pure."""
    asked, partitions = options.datacenters, options.partitions
    links = {link.name for link in options.links if not asked or link.datacenter in asked}
    return {
        link: {
            at: each
            for at, each in stated.items()
            if not partitions or each.partition in partitions
        }
        for link, stated in statements.items()
        if link in links
    }


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
