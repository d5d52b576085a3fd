"""Positions move to another cluster: no record twice, none left out, or a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.model import TopicPartition
from spark_global.source.maps import MappedPartition
from spark_global.source.provenance import FormerCopies, MapRuns
from spark_global.streaming.positions import CheckpointError, StreamPositions
from spark_global.streaming.translation import (
    Destination,
    IdentifiedMap,
    SourceId,
    source_position,
    translate_positions,
)

HERE, THERE = TopicPartition("jfk.f", 0), TopicPartition("copy.f", 0)


def identified(
    at: TopicPartition, runs: MapRuns, *, topic: str = "f", partition: int = 0
) -> IdentifiedMap:
    mapped = MappedPartition(
        link=at.topic,
        source_topic=topic,
        aggregate_topic=at.topic,
        partition=at.partition,
        runs=runs,
    )
    return IdentifiedMap(SourceId("jfk", topic, "id", partition), mapped)


def held(offset: int, at: TopicPartition = HERE) -> StreamPositions:
    return StreamPositions(cluster_id="x", topic_ids={at.topic: "i"}, offsets={at: offset})


def aggregate(*maps: IdentifiedMap) -> Destination:
    return Destination(cluster_id="y", topic_ids={"copy.f": "c", "g": "d"}, maps=maps)


SOURCE = Destination(cluster_id="jfk", topic_ids={"f": "s"}, maps=None)


def copied(places: list[int], *, source_next: int, base: int = 0) -> MapRuns:
    """A map whose copies of these source offsets are consecutive from `base` on."""
    return MapRuns.of(
        [(source, base + index, 1) for index, source in enumerate(places)], source_next=source_next
    )


@given(st.data())
def test_no_record_twice_and_none_left_out(data: st.DataObject) -> None:
    born = data.draw(st.integers(0, 30))
    kept = data.draw(st.sets(st.integers(0, max(born - 1, 0))) if born else st.just(set()))
    here = copied(sorted(kept), source_next=born)
    there = copied(list(range(born)), source_next=born, base=7)
    offset = data.draw(st.integers(0, len(kept)))
    read = sorted(kept)[:offset]
    maps = [identified(HERE, here)]

    at_source = translate_positions(held(offset), maps, SOURCE)
    (position,) = at_source.offsets.values()
    assert all(source < position for source in read)
    assert all(source >= position for source in sorted(kept)[offset:])

    moved = translate_positions(held(offset), maps, aggregate(identified(THERE, there)))
    (position,) = moved.offsets.values()
    assert moved.cluster_id == "y"
    assert all(7 + source < position for source in read)
    assert all(7 + source >= position for source in sorted(kept)[offset:])


def test_a_position_lies_after_the_last_record_that_was_read() -> None:
    runs = MapRuns.of([(100, 10, 5), (200, 15, 5)])
    assert [source_position(runs, at) for at in (0, 10, 11, 15, 16, 20)] == [
        *(100, 100, 101),
        *(105, 201, 205),
    ]


def test_what_cannot_be_proved_is_refused() -> None:
    here = identified(HERE, copied(list(range(10)), source_next=10))
    behind = identified(THERE, copied(list(range(4)), source_next=4))
    other = identified(THERE, copied([0], source_next=1), topic="other")
    for maps, to, said in (
        ([], SOURCE, "no link has published an offset map"),
        ([identified(HERE, copied([0], source_next=1))], SOURCE, "reaches offset 1.* read to 5"),
        (
            [here],
            Destination(cluster_id="lga", topic_ids={}, maps=None),
            "copy of f in cluster jfk",
        ),
        ([here], Destination(cluster_id="jfk", topic_ids={}, maps=None), "topic f does not exist"),
        ([here], aggregate(behind), "below 4, and the stream has read to 5; wait for the link"),
        ([here], aggregate(), "0 links copy f-0 of cluster jfk"),
        ([here], aggregate(here, identified(THERE, here.mapped.runs)), "2 links copy f-0"),
    ):
        with pytest.raises(CheckpointError, match=said):
            translate_positions(held(5), maps, to)
    whole = identified(THERE, copied(list(range(10)), source_next=10))
    with pytest.raises(CheckpointError, match=r"copy\.f-0: several links merge there"):
        translate_positions(held(5), [here], aggregate(whole, other))


def test_a_position_among_the_copies_of_a_topic_that_is_gone_is_refused() -> None:
    """The topic that was re-created begins at the aggregate's offset 4."""
    former = FormerCopies(topic_id="old", runs=copied([7, 8, 9], source_next=10), end=4)
    present = identified(HERE, copied(list(range(5)), source_next=5, base=4))
    maps = [replace(present, mapped=replace(present.mapped, former=(former,)))]
    there = identified(THERE, copied(list(range(5)), source_next=5))
    for to in (SOURCE, aggregate(there)):
        for offset in (0, 2):
            with pytest.raises(CheckpointError, match=r"re-created.*read to offset 3 first"):
                translate_positions(held(offset), maps, to)
        for offset, position in ((3, 0), (4, 0), (6, 2)):
            assert [*translate_positions(held(offset), maps, to).offsets.values()] == [position]


def test_a_partition_of_which_nothing_was_read_begins_there_too() -> None:
    assert translate_positions(held(0), [], aggregate()).offsets == {}
