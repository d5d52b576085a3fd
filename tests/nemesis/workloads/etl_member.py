"""A member of one of the groups of `etl`, in a process of its own, so that it can be stopped.

    python -m tests.nemesis.workloads.etl_member SERVERS LEVEL NUMBER SEED

Each line of its output is a JSON object, how often something happened:

    ready    1, the first line: from now on it notices that it was stopped
    copied   records of transactions that were committed
    back     stops (SIGSTOP, then SIGCONT) after which it has committed a transaction again
    fenced   those after which it was first told that it is out, of its group or its producer's id
    hung     calls of librdkafka's that never returned
    migrated changes between the classic and the consumer protocol (KIP-848)

It ends when "end" is a line of its input. At the end of input it ends at once: its harness is gone.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from typing import Any, Final

import confluent_kafka

from tests.nemesis.workloads.transactional import (
    CALL_SECONDS_MAX,
    Fenced,
    Hung,
    TransactionalProducer,
    Undecided,
)
from tests.nemesis.workloads.workload import LIBRDKAFKA, SESSION_MS

STRATEGIES: Final = ("range", "cooperative-sticky", "static", "migrating", "migrating-static")
"""Of the groups, level by level; "static" members have a name that outlives them. "migrating"
members change between the classic protocol (range) and the consumer protocol whenever they open a
consumer: the group is upgraded and downgraded while it works. librdkafka's cooperative assignor
adds data of its own to assignments, and such a group cannot migrate, with Kafka either."""
MIGRATING: Final = "migrating"
STATIC: Final = "static"
TRANSACTION_RECORDS_MAX: Final = 25
TRANSACTION_MS: Final = 2 * SESSION_MS
"""What a stopped member leaves open keeps those who read its topic waiting. Some stops are longer:
then its id is fenced; and some shorter: then it is only its group that keeps its positions out."""
TELLING: Final = {"log_level": 7, "debug": "cgrp,consumer,topic,fetch"}
"""Into the member's log: where a consumer begins to read, and why there."""
ABORT_SHARE: Final = 0.1
LEAVE_SHARE: Final = 0.02
MIGRATING_LEAVE_SHARE: Final = 0.05
"""Members that change their protocol leave more often."""


def topic_of(level: int) -> str:
    return f"etl-{level}"


def group_of(level: int) -> str:
    """Of the members that read the topic before."""
    return f"etl-group-{level}"


def member_of(level: int, number: int) -> str:
    """Its transactional id, and its name in a static group."""
    return f"etl-{level}-{number}"


class Member:
    """One consumer and one transactional producer, opened again when either has ended."""

    def __init__(self, servers: str, level: int, number: int, randomly: random.Random) -> None:
        self.stopping = threading.Event()
        self._servers = servers
        self._level = level
        self._name = member_of(level, number)
        self._random = randomly
        self._stops = 0
        self._stops_told = 0
        """Of the stops: it has committed something since."""
        self._is_fenced = False
        self._strategy = STRATEGIES[level - 1]
        self._is_consumer = False
        """Whether it uses the consumer protocol."""

    def continued(self, *_: object) -> None:
        """SIGCONT: it was stopped until now."""
        self._stops += 1
        self._is_fenced = False
        os.write(2, f"%7|{time.time():.3f}|CONTINUED| {self._name}\n".encode())

    def work(self) -> None:
        """Until `stopping` is set."""
        leave_share = MIGRATING_LEAVE_SHARE if self._is_migrating else LEAVE_SHARE
        while not self.stopping.is_set():
            consumer = self._consumer()
            producer = TransactionalProducer(
                self._servers, self._name, self.stopping, transaction_ms=TRANSACTION_MS
            )
            try:
                producer.open()
                consumer.subscribe([topic_of(self._level - 1)], on_lost=self._fenced)
                while not self.stopping.is_set() and self._random.random() > leave_share:
                    self._copy(consumer, producer)
            except Hung:
                tell(hung=1)
            except Fenced:
                self._fenced()
                self.stopping.wait(0.2)
            except Undecided:
                return
            finally:
                consumer.close()
            if self._is_migrating:
                self._is_consumer = not self._is_consumer
                tell(migrated=1)

    @property
    def _is_migrating(self) -> bool:
        return self._strategy.startswith(MIGRATING)

    def _consumer(self) -> Any:
        config: dict[str, Any] = {
            **LIBRDKAFKA,
            **TELLING,
            "bootstrap.servers": self._servers,
            "group.id": group_of(self._level),
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if self._is_consumer:
            config["group.protocol"] = "consumer"  # its timeouts are the broker's
        else:
            is_named = self._strategy in ("range", "cooperative-sticky")
            config |= {
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 1_000,
                "partition.assignment.strategy": self._strategy if is_named else "range",
            }
        if self._strategy.endswith(STATIC):
            config["group.instance.id"] = self._name
        return confluent_kafka.Consumer(config)

    def _copy(self, consumer: Any, producer: TransactionalProducer) -> None:
        """One transaction, or nothing where nothing is there."""
        stops = self._stops
        messages = [
            message
            for message in consumer.consume(TRANSACTION_RECORDS_MAX, 0.2)
            if message.error() is None
        ]
        if not messages:
            return
        producer.begin()
        for message in messages:
            producer.producer.produce(
                topic_of(self._level), value=message.value(), partition=message.partition()
            )
        positions = {message.partition(): message.offset() + 1 for message in messages}
        if self._send_positions(consumer, producer, positions) and (
            self._random.random() > ABORT_SHARE
        ):
            if producer.commit():
                self._committed(len(messages), stops)
                return
        else:
            producer.abort()
        self._go_back(consumer)

    def _send_positions(
        self, consumer: Any, producer: TransactionalProducer, positions: dict[int, int]
    ) -> bool:
        """Whether they are part of the transaction; false where that is to be aborted."""
        topic = topic_of(self._level - 1)
        wanted = [confluent_kafka.TopicPartition(topic, p, at) for p, at in positions.items()]
        group = consumer.consumer_group_metadata()
        return producer.settled(
            lambda seconds: producer.producer.send_offsets_to_transaction(wanted, group, seconds)
        )

    def _go_back(self, consumer: Any) -> None:
        """To what is committed, as after every abort."""
        while not self.stopping.is_set():
            try:
                for at in consumer.committed(consumer.assignment(), CALL_SECONDS_MAX):
                    if at.error is not None:
                        raise confluent_kafka.KafkaException(at.error)
                    at.offset = max(at.offset, 0)
                    consumer.seek(at)
            except confluent_kafka.KafkaException:
                self.stopping.wait(0.1)
            else:
                return

    def _committed(self, records: int, stops: int) -> None:
        """`stops`: how many there were before the transaction; one within it was not noticed."""
        back = stops - self._stops_told
        self._stops_told += back
        tell(copied=records, back=back)

    def _fenced(self, *_: object) -> None:
        """Its group, or its producer's id, belongs to others; told once for a stop."""
        if self._stops > self._stops_told and not self._is_fenced:
            self._is_fenced = True
            tell(fenced=1)


def tell(**counts: int) -> None:
    print(json.dumps(counts), flush=True)


def _listen(stopping: threading.Event) -> None:
    if sys.stdin.readline() == "end\n":
        stopping.set()
        sys.stdin.readline()
    os._exit(0)


def main() -> None:
    servers, level, number, seed = sys.argv[1:]
    member = Member(servers, int(level), int(number), random.Random(int(seed)))
    signal.signal(signal.SIGCONT, member.continued)
    threading.Thread(target=_listen, args=(member.stopping,), daemon=True).start()
    tell(ready=1)
    code = 0
    try:
        member.work()
    except BaseException:  # noqa: BLE001 - told by the exit code
        traceback.print_exc()
        code = 1
    # At an ordinary end a call of librdkafka's that never returns would be waited for.
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
