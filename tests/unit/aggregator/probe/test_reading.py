"""The copies that the reader assigns to aiokafka's consumer, and their offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import aiokafka

from aggregator.probe.link_probe import LinkProbe
from aggregator.probe.reading import CREATE_TIME, ProbeReader
from aggregator.probe.record import encode_probe_record
from aggregator.probe.settings import ProbeSettings
from local_cluster.client.auth.security import PLAINTEXT
from local_cluster.client.model import TopicPartition
from tests.unit.aggregator.probe.test_link_probe import merged_probes, prefixed_probes


@dataclass
class FakeConsumer:
    """Records assignments and seeks."""

    assigned: set[aiokafka.TopicPartition] = field(default_factory=set)
    assignments: int = 0
    sought: dict[aiokafka.TopicPartition, int] = field(default_factory=dict)

    def assignment(self) -> set[aiokafka.TopicPartition]:
        return self.assigned

    def assign(self, partitions: Iterable[aiokafka.TopicPartition]) -> None:
        self.assigned, self.sought = set(partitions), {}
        self.assignments += 1

    def seek(self, at: aiokafka.TopicPartition, offset: int) -> None:
        self.sought[at] = offset


def reader_of(
    probes: dict[str, LinkProbe], problems: dict[TopicPartition, str | None]
) -> tuple[ProbeReader, dict[str, float]]:
    """Return a reader, and the list of latencies that it reports."""
    latencies: dict[str, float] = {}
    reader = ProbeReader(
        "-",
        PLAINTEXT,
        ProbeSettings(),
        why_unreadable=lambda at: problems.get(at, "the aggregate has no such topic yet"),
        on_latency=latencies.__setitem__,
        monotonic_ms=lambda: 5.0,
    )
    reader.follow(probes.values())
    return reader, latencies


def fetched(probe: LinkProbe, offset: int) -> Any:
    record = probe.next_record(0.0, 1)
    return aiokafka.ConsumerRecord(
        probe.copy,
        0,
        offset,
        record.sent_at_ms,
        CREATE_TIME,
        record.link.encode(),
        encode_probe_record(record),
        None,
        0,
        0,
        (),
    )


def test_a_copy_without_a_leader_is_taken_from_the_consumer_and_gone_on_with_later() -> None:
    """Otherwise the consumer would request metadata without a pause until there is a leader."""
    probes = prefixed_probes()
    east, west = probes.values()
    at_east, at_west = TopicPartition(east.copy, 0), TopicPartition(west.copy, 0)
    problems: dict[TopicPartition, str | None] = {at_east: None}
    reader, latencies = reader_of(probes, problems)
    consumer = FakeConsumer()
    reader._assign(consumer)
    assert consumer.assigned == {aiokafka.TopicPartition(east.copy, 0)}
    assert (east.read_problem, west.read_problem) == (None, "the aggregate has no such topic yet")

    reader._take(at_east, [fetched(east, 7), fetched(east, 8)])
    assert (east.ledger.received, latencies) == (2, {"east-nyc": 5.0})
    problems |= {at_east: "the partition has no leader", at_west: None}
    reader._assign(consumer)
    assert consumer.assigned == {aiokafka.TopicPartition(west.copy, 0)}
    assert east.read_problem == "the partition has no leader"

    problems[at_east] = None
    reader._assign(consumer)
    reader._assign(consumer)
    assert consumer.sought == {aiokafka.TopicPartition(east.copy, 0): 9}
    assert consumer.assignments == 3, "assigned anew only where something has changed"
    reader._take(at_east, [fetched(east, 9)])
    assert east.read_problem is None


def test_a_copy_that_links_share_is_assigned_once_and_read_for_each() -> None:
    probes = merged_probes()
    east, west = probes.values()
    copy = TopicPartition(east.copy, 0)
    reader, latencies = reader_of(probes, {copy: None})
    consumer = FakeConsumer()
    reader._assign(consumer)
    assert consumer.assigned == {aiokafka.TopicPartition(east.copy, 0)}
    reader._take(copy, [fetched(east, 0), fetched(west, 1), fetched(east, 2)])
    assert (east.ledger.received, west.ledger.received) == (2, 1)
    assert latencies.keys() == {"east-nyc", "west-nyc"}


def test_a_copy_that_stays_is_gone_on_with_and_one_that_leaves_is_not_read_any_more() -> None:
    east, west = prefixed_probes().values()
    at_east, at_west = TopicPartition(east.copy, 0), TopicPartition(west.copy, 0)
    reader, _ = reader_of({"west-nyc": west}, {at_east: None, at_west: None})
    consumer = FakeConsumer()
    reader._assign(consumer)
    reader._take(at_west, [fetched(west, 4)])

    reader.follow([east, west])
    reader._assign(consumer)
    assert consumer.assigned == {aiokafka.TopicPartition(*each) for each in (at_east, at_west)}
    assert consumer.sought == {aiokafka.TopicPartition(west.copy, 0): 5}

    reader.follow([east])
    reader._take(at_west, [fetched(west, 5)])  # it was under way
    assert west.ledger.received == 1
    reader._assign(consumer)
    assert consumer.assigned == {aiokafka.TopicPartition(*at_east)}
