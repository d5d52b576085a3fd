"""Produces the flights to the datacenters with an independent client, librdkafka.

The producers are idempotent and send keyed records in big lz4 batches. The partitioner is Java's
(murmur2), so a Java producer would choose the same partitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from topology.demo.clients import ADDRESS, Connection
from topology.demo.flights import AirportFlights

TOPIC: Final = "flights"
PARTITIONS: Final = 4
TOPIC_CONFIG: Final = {"retention.ms": "-1"}
"""The records have timestamps of 2013, so any retention by time would delete them at once."""

LOG_LEVEL_WARNING: Final = 4
"""A syslog level. At lower levels librdkafka logs its clean-up on standard error."""
CREATE_TIMEOUT_S: Final = 30.0
FLUSH_TIMEOUT_S: Final = 60.0
ROUND_RECORDS: Final = 2_000
"""Records that one producer gets before the next producer's turn."""
PACED_ROUNDS_PER_SECOND: Final = 10
_PRODUCER: Final[Mapping[str, Any]] = {
    "client.id": "heliograph-demo",
    "log_level": LOG_LEVEL_WARNING,
    "enable.idempotence": True,
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 200_000,
    "partitioner": "murmur2_random",
    "delivery.timeout.ms": 60_000,
    # Only failures need a call into Python: records that left the queue were acknowledged.
    "delivery.report.only.error": True,
}

OnProgress = Callable[[str, int], None]
"""Called with (airport, records acknowledged so far)."""


class FeedError(Exception):
    """Records were not accepted, or a topic could not be created."""


def create_topic(connection: Connection) -> None:
    """Create the topic in one datacenter, if it is missing. Raises FeedError."""
    admin = AdminClient({**connection, "log_level": LOG_LEVEL_WARNING})
    topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1, config=TOPIC_CONFIG)
    created: Future[None] = admin.create_topics(
        [topic], operation_timeout=CREATE_TIMEOUT_S, request_timeout=CREATE_TIMEOUT_S
    )[TOPIC]
    try:
        created.result(CREATE_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise FeedError(f"topic {TOPIC} at {connection[ADDRESS]}: {error}") from error


def feed_airports(
    flights: Mapping[str, AirportFlights],
    connections: Mapping[str, Connection],
    on_progress: OnProgress,
    *,
    seconds: float = 0.0,
) -> int:
    """Produce every airport's flights to its own cluster, all airports at the same time.

    They are spread over `seconds`, or sent as fast as they are taken. Returns the number of
    records when all of them are acknowledged. Raises FeedError.
    """
    rounds = int(seconds * PACED_ROUNDS_PER_SECOND)
    longest = max((len(rows) for rows in flights.values()), default=0)
    round_records = -(-longest // rounds) if rounds else ROUND_RECORDS
    begun = time.monotonic()
    feeds = [_Feed(name, connections[name], rows) for name, rows in flights.items()]
    open_feeds = feeds
    try:
        done = 0
        while open_feeds:
            for feed in open_feeds:
                feed.produce_round(round_records)
                on_progress(feed.airport, feed.acknowledged)
            open_feeds = [feed for feed in open_feeds if not feed.is_produced]
            done += 1
            if rounds:
                time.sleep(max(0.0, begun + done / PACED_ROUNDS_PER_SECOND - time.monotonic()))
        for feed in feeds:
            feed.flush()
            on_progress(feed.airport, feed.acknowledged)
        return sum(feed.acknowledged for feed in feeds)
    finally:
        for feed in feeds:
            feed.abandon()


class _Feed:
    """The producer of one airport and its progress."""

    def __init__(self, airport: str, connection: Connection, flights: AirportFlights) -> None:
        self.airport = airport
        self._flights = flights
        self._next = 0
        self._failed: str | None = None
        self._producer = Producer(
            {
                **_PRODUCER,
                **connection,
                "error_cb": self._on_error,
                "on_delivery": self._on_delivery,
            }
        )

    @property
    def is_produced(self) -> bool:
        return self._next >= len(self._flights)

    @property
    def acknowledged(self) -> int:
        """Records that are neither waiting to be sent nor in flight."""
        return self._next - len(self._producer)

    def produce_round(self, records_max: int) -> None:
        produce, flights = self._producer.produce, self._flights
        end = min(self._next + records_max, len(flights))
        for index in range(self._next, end):
            try:
                produce(
                    TOPIC,
                    value=flights.values[index],
                    key=flights.keys[index],
                    timestamp=flights.timestamps_ms[index],
                )
            except BufferError:  # the queue is full: retry this record after a pause
                self._producer.poll(0.05)
                end = index
                break
        self._next = end
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        self._check()
        if left:
            raise FeedError(f"{self.airport}: {left} flights not accepted in {FLUSH_TIMEOUT_S:g} s")

    def abandon(self) -> None:
        """Drop the queued records (after `flush` there are none) and disconnect.

        An open producer would log an error for every broker that stops.
        """
        self._producer.purge()
        self._producer.close()

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed = str(error)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed = f"a flight was not accepted: {error}"

    def _check(self) -> None:
        if self._failed is not None:
            raise FeedError(f"{self.airport}: {self._failed}")
