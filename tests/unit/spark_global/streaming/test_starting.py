"""Given offsets, here or at sources, lie in their logs, or are refused by the partition's name."""

from __future__ import annotations

import pytest

from local_cluster.client.model import TopicPartition
from spark_global.links import MirrorLink
from spark_global.source.coverage import ReadTopic
from spark_global.source.maps import MappedPartition
from spark_global.source.provenance import MapRuns
from spark_global.source.splits import Origin
from spark_global.streaming.starting import given_offsets, translated_offsets

A, B = TopicPartition("jfk.a", 0), TopicPartition("jfk.a", 1)
STARTS, ENDS = {A: 5, B: 0}, {A: 9, B: 4}


@pytest.mark.parametrize(
    ("given", "offsets"),
    [
        ({}, {A: 5, B: 0}),
        ({A: 7}, {A: 7, B: 0}),
        ({A: -2, B: -1}, {A: 5, B: 4}),
        ({A: 9}, {A: 9, B: 0}),
    ],
)
def test_given_offsets(
    given: dict[TopicPartition, int], offsets: dict[TopicPartition, int]
) -> None:
    assert given_offsets(given, STARTS, ENDS) == offsets


def test_offsets_outside_of_the_log_are_refused() -> None:
    for offset in (4, 10, -3):
        with pytest.raises(ValueError, match=rf"jfk\.a-0 has the offsets \[5, 9\), not {offset}"):
            given_offsets({A: offset}, STARTS, ENDS)
    with pytest.raises(ValueError, match=r"jfk\.b-0 is none of the partitions to read"):
        given_offsets({TopicPartition("jfk.b", 0): 1}, STARTS, ENDS)


LINK = MirrorLink(source="jfk", datacenter="JFK", name="jfk-nyc")
C = TopicPartition("jfk.c", 0)
RUNS = MapRuns.of([(100, 10, 5), (110, 15, 5)], source_next=120)
"""Source offsets 105 to 109 were not copied, as those behind 114."""


def origins_of(topic: str, *links: MirrorLink) -> list[ReadTopic]:
    return [ReadTopic(topic, Origin(each.datacenter, "c"), each) for each in links]


def map_of(runs: MapRuns, link: str = "jfk-nyc") -> MappedPartition:
    return MappedPartition(
        link=link, source_topic="c", aggregate_topic="jfk.c", partition=0, runs=runs
    )


def start_at(offset: int, span: tuple[int, int] = (0, 20), runs: MapRuns = RUNS) -> int:
    """Return where a stream begins in the copy."""
    wanted = {("JFK", TopicPartition("c", 0)): offset}
    topics = {"jfk.c": origins_of("jfk.c", LINK)}
    (found,) = translated_offsets(wanted, {C: span}, topics, {C: [map_of(runs)]}).items()
    assert found[0] == C
    return found[1]


@pytest.mark.parametrize(
    ("source", "copy"),
    [(100, 10), (104, 14), (105, 15), (110, 15), (114, 19), (115, 20), (120, 20)],
)
def test_a_source_offset_is_translated(source: int, copy: int) -> None:
    assert start_at(source) == copy


def test_a_map_without_records_is_at_its_end() -> None:
    assert start_at(7, (4, 4), MapRuns.of((), source_next=9, target_next=4)) == 4


@pytest.mark.parametrize(
    ("offset", "span", "message"),
    [
        (121, (0, 20), "link jfk-nyc has copied the source offsets below 120; wait for the link"),
        (99, (0, 20), "the copy begins with source offset 100; start there"),
        (102, (13, 20), "its copy had offset 12, and retention has deleted all below 13"),
        (115, (0, 18), "its copy will have offset 20, and the log ends at 18"),
    ],
)
def test_a_source_offset_without_a_translation_is_refused(
    offset: int, span: tuple[int, int], message: str
) -> None:
    with pytest.raises(
        ValueError, match=rf"^start at JFK c-0, offset {offset}: jfk\.c-0: {message}"
    ):
        start_at(offset, span)


def test_a_source_that_is_not_read_or_not_alone_is_refused() -> None:
    wanted = {("JFK", TopicPartition("c", 0)): 100}
    for topics, spans in (({}, {}), ({"jfk.c": origins_of("jfk.c", LINK)}, {A: (0, 9)})):
        topics[A.topic] = [ReadTopic(A.topic, Origin("JFK", "a"), LINK)]
        with pytest.raises(ValueError, match=r"start at JFK c-0: no copy of it is to be read"):
            translated_offsets(wanted, spans, topics, {})
    own = {"jfk.c": origins_of("jfk.c", LINK)}
    with pytest.raises(ValueError, match=r"jfk\.c-0: 0 links have published an offset map"):
        translated_offsets(wanted, {C: (0, 20)}, own, {})
    lga = MirrorLink(source="lga", datacenter="LGA", name="lga-nyc")
    merged = {"jfk.c": origins_of("jfk.c", LINK, lga)}
    maps = {C: [map_of(RUNS), map_of(RUNS, "lga-nyc")]}
    with pytest.raises(ValueError, match=r"jfk\.c-0: several links merge there"):
        translated_offsets(wanted, {C: (0, 20)}, merged, maps)
