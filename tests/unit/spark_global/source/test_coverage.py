"""The topics of an aggregate with their origins, and the ranges to read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from local_cluster.client.model import TopicPartition
from spark_global.links import MirrorLink
from spark_global.source.coverage import PartitionEnds, aggregate_ranges, choose_topics
from spark_global.source.maps import MappedPartition, link_of_map_topic
from spark_global.source.options import ReadOptions
from spark_global.source.provenance import UNKNOWN_OFFSET, FormerCopies, MapRuns
from spark_global.source.splits import PartitionRange, Takes, by_source_topic

LINKS = (
    MirrorLink(name="a", source="us", datacenter="US"),
    MirrorLink(name="b", source="us.east", datacenter="US-EAST"),
)


def chosen(
    present: list[str], maps: list[MappedPartition] | None = None, **options: object
) -> dict[str, tuple[str | None, str]]:
    read = ReadOptions(**{"bootstrap": "h:1", "links": LINKS, **options})  # type: ignore[arg-type]
    topics = choose_topics(read, present, maps or [])
    return {
        name: (topic.origin.datacenter, topic.origin.topic)
        for name, found in topics.items()
        for topic in found
    }


def mapped(link: str, source_topic: str, aggregate_topic: str) -> MappedPartition:
    return MappedPartition(
        link=link,
        source_topic=source_topic,
        aggregate_topic=aggregate_topic,
        partition=0,
        runs=MapRuns.of(()),
    )


def test_the_longest_prefix_wins() -> None:
    assert chosen(["us.orders", "us.east.orders", "orders", "eu.orders"]) == {
        "us.orders": ("US", "orders"),
        "us.east.orders": ("US-EAST", "orders"),
    }


def test_a_map_proves_what_a_prefix_only_suggests() -> None:
    maps = [mapped("a", "east.orders", "us.east.orders"), mapped("b", "orders", "orders")]
    assert chosen(["us.east.orders", "orders"], maps) == {
        "us.east.orders": ("US", "east.orders"),
        "orders": ("US-EAST", "orders"),
    }


def test_a_merged_topic_is_read_once_for_each_link_and_once_for_what_no_map_has() -> None:
    maps = [
        replace(mapped("a", "orders", "orders"), runs=MapRuns.of([(0, 0, 3), (3, 5, 2)])),
        replace(mapped("b", "orders", "orders"), runs=MapRuns.of([(7, 3, 2)])),
    ]
    read = ReadOptions(bootstrap="h:1", links=LINKS)
    topics = choose_topics(read, ["orders"], maps)["orders"]
    at, ends = TopicPartition("orders", 0), PartitionEnds(0, 10)
    ranges = aggregate_ranges(read, topics, at, ends, maps)
    assert [(one.origin.datacenter, one.takes) for one in ranges] == [
        ("US", Takes.MAPPED),
        ("US-EAST", Takes.MAPPED),
        (None, Takes.UNMAPPED),
    ]
    targets = np.arange(10)
    taken = [
        [n for n in range(10) if (known[n] != UNKNOWN_OFFSET) == (one.takes is Takes.MAPPED)]
        for one in ranges
        if one.runs is not None
        for known in [one.runs.sources_of(targets)]
    ]
    assert taken == [[0, 1, 2, 5, 6], [3, 4], [7, 8, 9]]


def test_copies_of_a_topic_before_have_their_datacenter_where_links_merge() -> None:
    former = FormerCopies(topic_id="old", runs=MapRuns.of([(0, 0, 3)], target_next=3), end=5)
    present = MapRuns.of([(0, 6, 2)], source_next=2, target_next=8)
    a = replace(mapped("a", "orders", "orders"), runs=present, topic_id="new", former=(former,))
    b = replace(mapped("b", "orders", "orders"), runs=MapRuns.of([(7, 3, 2)]), topic_id="b")
    read = ReadOptions(bootstrap="h:1", links=LINKS)
    topics = choose_topics(read, ["orders"], [a, b])["orders"]
    at, ends = TopicPartition("orders", 0), PartitionEnds(0, 10)

    def taken(whole: PartitionRange) -> list[tuple[str | None, str | None, list[int]]]:
        targets = np.arange(10)
        return [
            (one.origin.datacenter, one.topic_id, targets[is_known == is_wanted].tolist())
            for one in by_source_topic(whole)
            if one.runs is not None
            for is_known in [one.runs.sources_of(targets) != UNKNOWN_OFFSET]
            for is_wanted in [one.takes is Takes.MAPPED]
        ]

    ranges = aggregate_ranges(read, topics, at, ends, [a, b])
    assert [each for whole in ranges for each in taken(whole)] == [
        ("US", "old", [0, 1, 2]),
        ("US", "new", [6, 7]),
        ("US-EAST", "b", [3, 4]),
        (None, None, [5, 8, 9]),
    ]
    # The audit compares what the sources have now.
    audit = replace(read, table="fingerprints")
    assert not any(each.former for each in aggregate_ranges(audit, topics, at, ends, [a, b]))


def test_records_without_a_map_belong_to_the_link_that_wrote_them() -> None:
    runs = MapRuns.of([(0, 0, 3)])
    a = replace(mapped("a", "orders", "orders"), runs=runs, producers=frozenset({7}))
    b = replace(mapped("b", "orders", "orders"), runs=MapRuns.of([(7, 5, 2)]))
    b = replace(b, producers=frozenset({8, 9}))
    read = ReadOptions(bootstrap="h:1", links=LINKS)
    topics = choose_topics(read, ["orders"], [a, b])["orders"]

    def unmapped(end: int) -> list[tuple[str | None, Takes, int, int, list[int]]]:
        at, ends = TopicPartition("orders", 0), PartitionEnds(0, end)
        return [
            (one.origin.datacenter, one.takes, one.start, one.end, sorted(one.producers))
            for one in aggregate_ranges(read, topics, at, ends, [a, b])
            if one.takes is not Takes.MAPPED
        ]

    assert unmapped(7) == [
        ("US", Takes.WRITTEN, 3, 5, [7]),
        ("US-EAST", Takes.WRITTEN, 3, 5, [8, 9]),
        (None, Takes.UNMAPPED, 3, 5, [7, 8, 9]),
    ]
    assert {(start, end) for _, _, start, end, _ in unmapped(10)} == {(3, 10)}
    assert unmapped(3) == [], "every record has a map"


def test_one_topic_of_all_datacenters() -> None:
    present = ["us.orders", "us.east.orders", "us.returns"]
    assert list(chosen(present, topic="orders")) == ["us.east.orders", "us.orders"]


def test_named_topics_need_no_link() -> None:
    assert chosen(["orders"], topics=("orders",), datacenter="NYC") == {"orders": ("NYC", "orders")}
    assert chosen(["orders", "x"], links=(), datacenter="NYC") == {
        "orders": ("NYC", "orders"),
        "x": ("NYC", "x"),
    }


def test_map_topics_by_their_name() -> None:
    assert link_of_map_topic("heliograph-offset-map.jfk-nyc.internal") == "jfk-nyc"
    assert link_of_map_topic("heliograph-offset-map..internal") is None
    assert link_of_map_topic("jfk.flights") is None
