"""`heliograph spark serve`: a view as a topic, each row once. Shell.

Spark's checkpoint says which rows a batch has, and a batch that runs again has the same. The lanes
recognise it by their positions in the cluster that is written to.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicMetadata
from local_cluster.wire.errors import ErrorCode, KafkaError
from spark_global.kept.telling import Say, await_query, say_nothing, telling
from spark_global.materialize import (
    Materialization,
    streaming_rows,
    triggered,
)
from spark_global.serving.clients import last_position
from spark_global.serving.lanes import ServedTopic, write_lane
from spark_global.serving.positions import Batch, is_new
from spark_global.serving.records import as_records
from spark_global.session import LOCAL_MASTER, SparkStartError, open_session
from spark_global.sql import explain_error
from spark_global.stream_sql import topics_of_query
from spark_global.streamable import UnknownViewError, find_view
from spark_global.values.not_decodable import SchemaFileError
from spark_global.views import Aggregate, follow_streams

LANES: Final = 4
"""Default of the transactions of a batch; fixed when a name is first served."""
RECORDS_MAX: Final = 100_000
"""Default of the most records of a batch, which lies in few transactions."""
TOPIC_SECONDS_MAX: Final = 30.0
"""Seconds for a new topic to have leaders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What to serve, and where."""

    rows: Materialization
    """The view, and how it is read; its path is the checkpoint."""
    target: ServedTopic
    lanes: int = LANES


class OwnInputError(ValueError):
    """The view would read what it writes."""


def check_no_loop(aggregate: Aggregate, topic: str, target: ServedTopic) -> None:
    """Refuse a topic that the view of `topic` reads. Raises OwnInputError. Pure."""
    copies = {f"{link.source}.{topic}" for link in aggregate.links}
    inputs = {
        aggregate.bootstrap: {topic, *copies},
        **{link.bootstrap: {topic} for link in aggregate.links if link.bootstrap is not None},
    }
    if target.topic in inputs.get(target.cluster.bootstrap, ()):
        raise OwnInputError(
            f"the view reads topic {target.topic} of {target.cluster.bootstrap}, so it would read "
            "its own records; name another topic"
        )


def start_serving(session: SparkSession, aggregate: Aggregate, wanted: Serving) -> StreamingQuery:
    """Start the query that serves a view.

    Raises KafkaError, UnknownViewError, SchemaFileError and OwnInputError.
    """
    for topic in _topics(aggregate, wanted.rows):
        check_no_loop(aggregate, topic, wanted.target)
    lanes = asyncio.run(prepare_topics(wanted.target, wanted.lanes))
    frame = streaming_rows(session, aggregate, wanted.rows)
    if wanted.rows.group is not None:
        follow_streams(session, aggregate)
    query_id: Future[str] = Future()
    is_checked = False

    def write(rows: DataFrame, number: int) -> None:
        nonlocal is_checked
        batch = Batch(query_id.result(), number, lanes)
        if not is_checked:
            check_positions(wanted.target, batch)
            is_checked = True
        write_batch(rows, batch, wanted.target)

    writer = (
        frame.writeStream.queryName(f"serve {wanted.rows.view}")
        .option("checkpointLocation", wanted.rows.path)
        .foreachBatch(write)
    )
    query = triggered(writer, wanted.rows).start()
    query_id.set_result(str(query.id))
    return query


def _topics(aggregate: Aggregate, rows: Materialization) -> list[str]:
    if rows.query is not None:
        return topics_of_query(aggregate, rows.query, rows.decoding)
    return [find_view(aggregate, rows.view, rows.decoding).topic]


def check_positions(target: ServedTopic, batch: Batch) -> None:
    """Refuse a query that must not write, before it fences the lanes of the one that may.

    Raises ServedByAnotherError, BrokenPositionError and KafkaException.
    """
    for lane in range(batch.lanes):
        is_new(last_position(target.cluster, target.positions_topic, lane), batch)


def write_batch(rows: DataFrame, batch: Batch, target: ServedTopic) -> int:
    """Write the rows that no lane has written yet; return how many."""
    task = functools.partial(write_lane, target=target, batch=batch)
    done = as_records(rows, batch.lanes).mapInArrow(task, "lane int, records long").collect()
    return sum(int(each["records"]) for each in done)


async def prepare_topics(target: ServedTopic, lanes: int) -> int:
    """Create the topic of positions if it is missing; return the number of lanes.

    Raises KafkaError, also if the topic to serve does not exist.
    """
    name = target.positions_topic
    async with target.cluster.client() as client:
        if await _topic(client, target.topic) is None:
            raise KafkaError(
                ErrorCode.unknown_topic_or_partition,
                f"topic {target.topic} does not exist at {target.cluster.bootstrap}; create it "
                "first, with the partitions that its readers need",
            )
        found = await _topic(client, name)
        if found is None:
            new = NewTopic(
                name=name,
                partitions=lanes,
                configs={"cleanup.policy": "compact", "segment.ms": "3600000"},
            )
            error = (await client.create_topics([new]))[name]
            if error is not None and error.code != ErrorCode.topic_already_exists:
                raise error
            patiently = AsyncRetrying(
                stop=stop_after_delay(TOPIC_SECONDS_MAX),
                wait=wait_fixed(0.2),
                retry=retry_if_result(lambda topic: topic is None),
                retry_error_callback=lambda state: None,
            )
            found = await patiently(_topic, client, name)
    if found is None:
        raise KafkaError(ErrorCode.leader_not_available, f"topic {name} has no leaders yet")
    return len(found.partitions)


async def _topic(client: KafkaClient, name: str) -> TopicMetadata | None:
    """Return a topic all of whose partitions have leaders."""
    topic = (await client.metadata([name])).topics.get(name)
    if topic is None or topic.error or not topic.partitions:
        return None
    return topic if all(each.leader >= 0 for each in topic.partitions.values()) else None


_REFUSALS: Final[tuple[type[Exception], ...]] = (
    PySparkException,
    KafkaError,
    OwnInputError,
    SchemaFileError,
    UnknownViewError,
)


def run_serving(
    aggregate: Aggregate,
    wanted: Serving,
    *,
    master: str = LOCAL_MASTER,
    conf: Mapping[str, str] | None = None,
    say: Say = say_nothing,
) -> str | None:
    """Serve a view until Ctrl-C or, with `stops_at_end`, its end; return what went wrong.

    `say` gets lines about its batches.
    """
    try:
        with open_session(master, settings=conf) as session:
            try:
                query = start_serving(session, aggregate, wanted)
                with telling(wanted.rows.view, say) as lines:
                    await_query(query, lines)
            except _REFUSALS as error:
                return f"{wanted.rows.view} of {aggregate.name}: {explain_error(error)}"
    except SparkStartError as error:
        return str(error)
    return None
