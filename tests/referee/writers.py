"""Outside producers: idempotent, with every codec, in tiny and in large batches."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

import confluent_kafka

from tests.referee.clients import END_SECONDS_MAX, LIBRDKAFKA, Client
from tests.referee.content import IMPATIENT, make_content
from tests.referee.history import Partition
from tests.referee.ledger import Ledger
from tests.referee.modes import State

PATIENCE_MS: Final = 140_000
"""How long a producer tries: longer than any fault, so that nearly every outcome is known."""
IMPATIENCE_MS: Final = 3_000
"""Of the producer that gives up, so that some outcomes are unknown."""
WAITING_MAX: Final = 1_500
"""Records of a producer without outcome; above it, it gets no more."""
METADATA_SECONDS: Final = 5.0
IN_FLIGHT_MAX: Final = 5
"""Produce requests on their way to a broker of ours."""
IN_FLIGHT_MAX_TO_KAFKA: Final = 1
"""To Apache Kafka. With more, librdkafka begins a new epoch when the second request is refused
because the first failed, and writes twice what other partitions hold already (its issue 4953)."""
KEPT_WHOLE: Final = (State.PLAIN, State.TRANSACTIONAL, State.GROWN)

Partitions = Callable[[str], int]
"""How many partitions a topic of the producer's cluster has now."""


def burst_size(randomly: random.Random) -> int:
    """Records that are given to a producer at once: mostly a tiny batch, sometimes a large one."""
    kind = randomly.random()
    if kind < 0.6:
        return randomly.randint(1, 3)
    return randomly.randint(10, 60) if kind < 0.93 else randomly.randint(150, 500)


def tiny_burst_size(randomly: random.Random) -> int:
    """Mostly one record: a cleaner leaves whole batches, and does not only make holes in them."""
    return randomly.choice((1, 1, 1, 2, 3))


def producer_settings(
    bootstrap: str,
    codec: str,
    linger_ms: int,
    timeout_ms: int,
    in_flight_max: int = IN_FLIGHT_MAX,
) -> dict[str, Any]:
    """Settings of an idempotent producer."""
    return {
        **LIBRDKAFKA,
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "compression.type": codec,
        "linger.ms": linger_ms,
        "message.timeout.ms": timeout_ms,
        "max.in.flight.requests.per.connection": in_flight_max,
    }


class Outbox:
    """Gives records to a producer, and its delivery reports to the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        cluster: str,
        name: str,
        randomly: random.Random,
        prefix: str = "",
    ) -> None:
        """`prefix` comes before the states in the names of topics."""
        self._ledger = ledger
        self._prefix = prefix
        self._cluster = cluster
        self._name = name
        self._random = randomly
        self._numbers = itertools.count()

    def produce(
        self, producer: Any, kind: str, state: State, partition: int, transaction: int | None = None
    ) -> None:
        """Produce one record that fits to a state; its identity names the kind of producer.

        Raises BufferError, KafkaException."""
        identity = f"{self._cluster}.{self._name}.{kind}.{next(self._numbers)}"
        now_ms = time.time_ns() // 1_000_000
        content = make_content(state, self._cluster, identity, now_ms, self._random)
        topic = self._prefix + str(state)
        at = Partition(self._cluster, topic, partition)
        self._ledger.send(identity, at, content, transaction)
        try:
            producer.produce(
                topic,
                key=content.key,
                value=content.value,
                headers=list(content.headers),
                timestamp=content.timestamp_ms,
                partition=partition,
                on_delivery=partial(self._report, identity),
            )
        except (BufferError, confluent_kafka.KafkaException):
            self._ledger.take_back(identity)
            raise

    def _report(self, identity: str, error: Any, message: Any) -> None:
        if error is None:
            self._ledger.acknowledge(identity, message.offset())
        else:
            self._ledger.lose_track(identity)


class Writer(Client):
    """Writes bursts into the topics of a cluster through several producers."""

    def __init__(
        self,
        ledger: Ledger,
        cluster: str,
        bootstrap: str,
        states: Sequence[State],
        codecs: Sequence[str],
        records_per_second: float,
        seed: str,
        prefix: str = "",
        burst: Callable[[random.Random], int] = burst_size,
        kept_whole: Collection[State] = KEPT_WHOLE,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> None:
        """`kept_whole` are the topics that keep every record until the end."""
        super().__init__(f"writer-{cluster}-{seed}")
        self._kept_whole = kept_whole
        self._in_flight_max = in_flight_max
        self._burst_size = burst
        self._prefix = prefix
        self._servers = bootstrap
        self._states = states
        self._codecs = codecs
        self._pause_seconds = 1.0 / records_per_second
        self._random = random.Random(seed)
        self._outbox = Outbox(ledger, cluster, f"w{seed}", self._random, prefix)
        self._counts: dict[str, int] = {}
        self._counted_at = 0.0

    def work(self) -> None:
        producers = self._producers()
        while not self.stopping.is_set():
            kind, producer = self._random.choice(producers)
            states = self._states_kept_whole() if kind == IMPATIENT else self._states
            size = self._burst_size(self._random)
            sent = self._burst(producer, kind, self._random.choice(states), size)
            for _, each in producers:
                each.poll(0)
            self.pause(self._pause_seconds * max(sent, 1))
        deadline = time.monotonic() + END_SECONDS_MAX
        for _, producer in producers:
            producer.flush(max(0.0, deadline - time.monotonic()))
        left = sum(len(producer) for _, producer in producers)
        if left:
            raise RuntimeError(
                f"{left} records have no outcome {END_SECONDS_MAX:.0f} s after the end"
            )

    def _states_kept_whole(self) -> Sequence[State]:
        """Topics that keep every record: what is written twice can be told there."""
        return [state for state in self._states if state in self._kept_whole]

    def _producers(self) -> list[tuple[str, Any]]:
        """Producers with their kinds: patient ones by codec, and one that gives up."""
        lingers = itertools.cycle((0, 5, 100))
        kinds = [(codec, codec, next(lingers), PATIENCE_MS) for codec in self._codecs]
        if self._states_kept_whole():
            kinds.append((IMPATIENT, self._random.choice(self._codecs), 5, IMPATIENCE_MS))
        return [
            (
                kind,
                confluent_kafka.Producer(
                    producer_settings(self._servers, codec, linger_ms, timeout, self._in_flight_max)
                ),
            )
            for kind, codec, linger_ms, timeout in kinds
        ]

    def _burst(self, producer: Any, kind: str, state: State, size: int) -> int:
        partitions = self._partitions(producer, self._prefix + str(state))
        if not partitions or len(producer) > WAITING_MAX:
            return 0
        partition = self._random.randrange(partitions)
        for sent in range(size):
            try:
                self._outbox.produce(producer, kind, state, partition)
            except (BufferError, confluent_kafka.KafkaException):
                return sent  # the producer is full, or does not know a new partition yet
        return size

    def _partitions(self, producer: Any, topic: str) -> int:
        """How many partitions the topic has, as the cluster said some seconds ago; 0 unknown."""
        if time.monotonic() > self._counted_at + METADATA_SECONDS:
            self._counted_at = time.monotonic()
            try:
                found = producer.list_topics(timeout=2.0).topics
            except confluent_kafka.KafkaException:
                found = {}
            for name, metadata in found.items():
                self._counts[name] = max(self._counts.get(name, 0), len(metadata.partitions))
        return self._counts.get(topic, 0)
