"""Streams by Spark's Kafka connector, whose batches get their origins when they run. Shell.

The connector plans its batches by what the logs have, so a batch may hold records that no offset
map has yet. Such a batch waits for the map. So a batch that runs again has the same rows.

What the connector would do by default is not what a stream promises:

- Its pattern of topics is not anchored. Here it has `^` and `$`.
- It begins at the newest records. Here it begins at the log start, unless it is told.
- It returns aborted records. Here `read_committed` is set.
- It reads no topic that is internal. Here such topics are refused.

A link that appears later joins: with option `topic` the pattern also matches `ALIAS.TOPIC`, and the
topic's own name if nothing else has it. Records of such a topic are never passed over: a batch
fails if no link says in a minute that it is a copy. A batch also fails if a link copies into a
topic with another name. The connector reads that one only when the query starts again.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from local_cluster.client.model import TopicPartition
from spark_global.connector.jars import ConnectorRefusedError
from spark_global.connector.logins import security_options
from spark_global.connector.records import (
    FORMAT,
    refuse_internal,
    refuse_options,
    with_origins,
)
from spark_global.source.options import ReadOptions
from spark_global.streaming.planner import StreamPlanner
from spark_global.streaming.positions import CheckpointError, StreamPositions
from spark_global.windowing.files import SmallFiles

_ALIAS: Final = "[^.]+"
"""The alias of a source in the name of a copy."""
_PATTERN: Final = "subscribePattern"
_STARTS: Final = ("earliest", "latest")


class ConnectorStream:
    """A stream of an aggregate's records by the connector; one query, one call at a time.

    stream = ConnectorStream(session, options, checkpoint)
    writer = stream.frame.writeStream.option("checkpointLocation", checkpoint)
    writer.foreachBatch(lambda read, batch: keep(stream.records(read, batch)))
    """

    def __init__(self, session: SparkSession, options: ReadOptions, checkpoint: str) -> None:
        """`checkpoint` is that of the query. Raises ConnectorRefusedError and KafkaError."""
        refuse_options(options)
        self._offsets = SmallFiles(session, f"{checkpoint}/offsets")
        self._runner = asyncio.Runner()
        # As the topics, so the links: those of the options, or all.
        joins = _joins_links(options)
        self._planner = StreamPlanner(replace(options, discover_links=joins))
        self._runner.run(self._planner.known_ends())
        survey = self._planner.survey
        assert survey is not None, "it has just looked"
        topics = sorted(survey.topics)
        refuse_internal(topics)
        if not topics:
            raise ConnectorRefusedError("there is no topic to read yet")
        asked = stream_options(options, topics, survey.metadata.topics)
        self._reads = re.compile(asked[_PATTERN]) if joins else None
        reader = session.readStream.format(FORMAT)
        self.frame: DataFrame = reader.options(**asked).load()

    def records(self, read: DataFrame, batch: int) -> DataFrame:
        """Return the table `records` of a batch, which has run so far.

        Raises KafkaError if the offset map does not come to the end of the batch in a minute. A
        topic that is no copy has no map. Raises ConnectorRefusedError if there are copies in a
        topic that the connector does not read.
        """
        end = self._positions(batch)
        assert end is not None, "Spark writes the offsets of a batch before it runs"
        start = (self._positions(batch - 1) or {}) if batch else {}
        # A partition that joins is read from its log start on, or from where the options say.
        starts = {at: start.get(at, 0) for at in end}
        known = self._runner.run(self._planner.known_ends())
        self._refuse_unread(known)
        behind = [at for at, offset in end.items() if known.get(at, 0) < offset]
        if behind:
            # Aborted records and markers are in no map, so they are not waited for.
            end |= {at: max(starts[at], offset) for at, offset in _ends(read, behind).items()}
        splits = self._runner.run(
            self._planner.splits(
                StreamPositions(topic_ids={}, offsets=starts),
                StreamPositions(topic_ids={}, offsets=end),
            )
        )
        return with_origins(read, [one for split in splits for one in split.ranges])

    def _refuse_unread(self, known: Iterable[TopicPartition]) -> None:
        if self._reads is None:
            return
        unread = sorted({at.topic for at in known if not self._reads.fullmatch(at.topic)})
        if unread:
            raise ConnectorRefusedError(
                f"a link copies into {unread[0]} by now, which the running query does not read; "
                "start it again, and it reads that topic from its log start"
            )

    def _positions(self, batch: int) -> dict[TopicPartition, int] | None:
        found = self._offsets.read(str(batch))
        return None if found is None else decode_offsets(found.decode())


def _ends(read: DataFrame, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset behind the last record of each partition of a batch; 0 without records."""
    of_topics = read.where(sql.col("topic").isin(sorted({at.topic for at in partitions})))
    last = of_topics.groupBy("topic", "partition").agg(sql.max("offset").alias("last"))
    found = {TopicPartition(row.topic, row.partition): row.last + 1 for row in last.collect()}
    return {at: found.get(at, 0) for at in partitions}


def decode_offsets(text: str) -> dict[TopicPartition, int]:
    """Read a file of `offsets` in a checkpoint of the connector. Raises CheckpointError."""
    lines = text.splitlines()
    try:
        document: Mapping[str, Mapping[str, Any]] = json.loads(lines[-1])
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, offsets in document.items()
            for partition, offset in offsets.items()
        }
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint has no offsets of the connector: {error}") from error


def _joins_links(options: ReadOptions) -> bool:
    """Return whether copies of the topic that other links create later are read too."""
    return options.discover_links and options.topic is not None and not options.topics


def stream_options(
    options: ReadOptions, topics: Iterable[str], present: Collection[str]
) -> dict[str, str]:
    """Return the connector's options to read `topics`; `present` has all that the cluster has.

    Raises ConnectorRefusedError.
    """
    start = options.starting_offsets
    if start not in _STARTS or options.starting_timestamp is not None:
        raise ConnectorRefusedError(f"a stream of the connector begins at {' or '.join(_STARTS)}")
    names = [re.escape(topic) for topic in topics]
    if _joins_links(options):
        assert options.topic is not None
        names.append(_ALIAS + re.escape("." + options.topic))
        if options.topic not in present:
            names.append(re.escape(options.topic))
    found = {
        **security_options(options.security),
        "kafka.bootstrap.servers": options.bootstrap,
        "kafka.isolation.level": "read_committed",
        _PATTERN: f"^(?:{'|'.join(names)})$",
        "startingOffsets": str(start),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
    if options.max_records_per_trigger is not None:
        found["maxOffsetsPerTrigger"] = str(options.max_records_per_trigger)
    return found
