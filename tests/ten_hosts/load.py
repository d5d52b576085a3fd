"""Outside clients at work all the time: librdkafka's producers and consumer groups."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import confluent_kafka

from tests.referee.clients import END_SECONDS_MAX, LIBRDKAFKA, Client
from tests.ten_hosts.layout import AGGREGATE, DATACENTERS, PARTITIONS, TOPIC, Layout
from tests.ten_hosts.ledger import Ledger, Place

DELIVERY_TIMEOUT_MS: Final = 3_600_000
"""Longer than any step, so that the outcome of every record is known."""
WAITING_MAX: Final = 2_000
"""Records of a producer without outcome; above it, it gets no more."""
COMMIT_SECONDS: Final = 1.0
BOARDS: Final = "boards"
"""The group that reads the copies of every datacenter at the aggregate."""
DESK: Final = "desk"
"""The group in each datacenter."""
MEMBERS: Final = 2
"""Members of the group at the aggregate."""


class Producer(Client):
    """An idempotent producer of one datacenter, acks=all, at a steady rate."""

    def __init__(self, datacenter: str, bootstrap: str, ledger: Ledger, rate: float) -> None:
        super().__init__(f"producer-{datacenter}")
        self._datacenter = datacenter
        self._ledger = ledger
        self._pause_s = 1.0 / rate
        self._settings = {
            **LIBRDKAFKA,
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
        }

    def work(self) -> None:
        producer = confluent_kafka.Producer(self._settings)
        for number in itertools.count():
            if self.stopping.is_set():
                break
            if len(producer) < WAITING_MAX:
                self._produce(producer, number)
            producer.poll(0)
            self.pause(self._pause_s)
        producer.flush(END_SECONDS_MAX)
        if len(producer):
            raise RuntimeError(f"{len(producer)} records have no outcome at the end")

    def _produce(self, producer: Any, number: int) -> None:
        identity = f"{self._datacenter}-{number:07d}"
        self._ledger.send(identity)
        producer.produce(
            TOPIC,
            key=f"{number % 100:02d}",
            value=identity,
            partition=number % PARTITIONS,
            on_delivery=partial(self._report, identity),
        )

    def _report(self, identity: str, error: Any, message: Any) -> None:
        if error is None:
            offset = -1 if message.offset() is None else message.offset()
            self._ledger.acknowledge(identity, Place(message.partition(), offset))
        else:
            self._ledger.give_up(identity)


class Consumer(Client):
    """A member of a group, which commits what it has noted."""

    def __init__(
        self,
        name: str,
        group: str,
        bootstrap: str,
        topics: Sequence[str],
        ledgers: Mapping[str, Ledger],
    ) -> None:
        super().__init__(name)
        self._group = group
        self._topics = list(topics)
        self._ledgers = ledgers
        self._settings = {
            **LIBRDKAFKA,
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }

    def work(self) -> None:
        consumer = confluent_kafka.Consumer(self._settings)
        consumer.subscribe(self._topics)
        committed_at = time.monotonic()
        try:
            while not self.stopping.is_set():
                for message in consumer.consume(500, timeout=0.2):
                    if message.error() is None:
                        self._note((message.value() or b"").decode())
                if time.monotonic() > committed_at + COMMIT_SECONDS:
                    committed_at = time.monotonic()
                    consumer.commit(asynchronous=True)
        finally:
            consumer.close()

    def _note(self, identity: str) -> None:
        self._ledgers[identity.split("-")[0]].consume(self._group, identity)


class Load:
    """Producers and consumers in every datacenter, and a group at the aggregate."""

    def __init__(self, layout: Layout, rate: float) -> None:
        self.ledgers = {name: Ledger() for name in DATACENTERS}
        self.is_producing = True
        copies = [f"{name}.{TOPIC}" for name in DATACENTERS]
        self._producers = [
            Producer(name, layout.bootstrap(name), self.ledgers[name], rate) for name in DATACENTERS
        ]
        self._consumers = [
            Consumer(f"desk-{name}", DESK, layout.bootstrap(name), [TOPIC], self.ledgers)
            for name in DATACENTERS
        ]
        aggregate = layout.bootstrap(AGGREGATE)
        self._consumers += [
            Consumer(f"boards-{index}", BOARDS, aggregate, copies, self.ledgers)
            for index in range(MEMBERS)
        ]

    def start(self) -> None:
        """Start all clients."""
        for client in (*self._consumers, *self._producers):
            client.start()

    def counts(self) -> dict[str, int]:
        """Return how many records of each datacenter are acknowledged."""
        return {name: len(each.acknowledged) for name, each in self.ledgers.items()}

    def told(self) -> dict[str, frozenset[str]]:
        """Return the records of each datacenter that are acknowledged by now."""
        return {name: each.told() for name, each in self.ledgers.items()}

    def missing(self, wanted: Mapping[str, frozenset[str]]) -> dict[str, int]:
        """Return how many of some records of each datacenter a group has not got yet."""
        return {
            name: max(each.missing(group, wanted[name]) for group in (BOARDS, DESK))
            for name, each in self.ledgers.items()
        }

    def silences(self) -> dict[str, float]:
        """Return the longest time without an acknowledgement since the last call."""
        return {name: each.silence() for name, each in self.ledgers.items()}

    def stop_producing(self) -> None:
        """Let every record have its outcome. Raises RuntimeError where a producer failed."""
        self.is_producing = False
        _end(self._producers)

    def stop_consuming(self) -> None:
        """Raises RuntimeError where a consumer failed."""
        _end(self._consumers)


def _end(clients: Sequence[Client]) -> None:
    for each in clients:
        each.stopping.set()
    for each in clients:
        each.join_well()
