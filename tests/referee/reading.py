"""Read final logs with an outside consumer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.referee.admin import Admin
from tests.referee.clients import LIBRDKAFKA
from tests.referee.content import identity_of
from tests.referee.history import Content, Log, Logged, Partition

READ_SECONDS_MAX: Final = 240.0
SETTLE_SECONDS_MAX: Final = 90.0
POLL_RECORDS_MAX: Final = 5_000


class LogUnreadable(Exception):
    """A log could not be read to its end."""


def wait_without_open_transactions(admin: Admin, places: Sequence[tuple[str, int]]) -> None:
    """Wait until no partition has an open transaction. Raises LogUnreadable."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        ends, stable = admin.ends(places), admin.ends(places, committed=True)
        open_still = [place for place in places if stable[place] < ends[place]]
        if not open_still:
            return
        if time.monotonic() > deadline:
            raise LogUnreadable(f"open transactions in {open_still} at {admin.bootstrap}")
        time.sleep(0.5)


def read_logs(
    admin: Admin, cluster: str, places: Sequence[tuple[str, int]]
) -> dict[Partition, Log]:
    """Every record of some partitions with read_committed, from start to end.

    Raises LogUnreadable. Nobody may write to them meanwhile; compaction may run.
    """
    ends = admin.ends(places)
    starts = admin.starts(places)
    records: dict[tuple[str, int], list[Logged]] = {place: [] for place in places}
    left = {place for place in places if ends[place] > starts[place]}
    consumer = confluent_kafka.Consumer(
        {
            **LIBRDKAFKA,
            "bootstrap.servers": admin.bootstrap,
            "group.id": "console-consumer-referee",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.assign([TopicPartition(*place, starts[place]) for place in left])
        deadline = time.monotonic() + READ_SECONDS_MAX
        while left:
            if time.monotonic() > deadline:
                raise LogUnreadable(f"{cluster}: {sorted(left)} not read to the end")
            message: Any
            for message in consumer.consume(POLL_RECORDS_MAX, timeout=1.0):
                place = message.topic(), message.partition()
                if message.error() is None:
                    records[place].append(_logged(message))
                elif message.error().code() != confluent_kafka.KafkaError._PARTITION_EOF:
                    raise LogUnreadable(f"{cluster}: {place}: {message.error()}")
                elif message.offset() >= ends[place]:
                    left.discard(place)
    finally:
        consumer.close()
    return {
        Partition(cluster, *place): Log(
            Partition(cluster, *place), starts[place], ends[place], tuple(records[place])
        )
        for place in places
    }


def _logged(message: Any) -> Logged:
    _, timestamp_ms = message.timestamp()
    headers = tuple((name, value) for name, value in message.headers() or ())
    content = Content(message.key(), message.value(), headers, timestamp_ms)
    return Logged(message.offset(), identity_of(content), content)
