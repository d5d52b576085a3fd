"""Until when a table is complete."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.completeness.replayed_topic import PartitionCompleteness
from mirror_maker.formats.completeness.statement import NO_HOLD
from spark_global.cut.statements import Statements
from spark_global.kept.said import Through
from spark_global.kept.sightings import (
    SIGHTINGS_MAX,
    Sighting,
    Sightings,
    sightings_of,
    sightings_without_copies,
    with_more_links,
)
from spark_global.links import MirrorLink
from spark_global.source.coverage import ReadTopic
from spark_global.source.maps import MappedPartition
from spark_global.source.provenance import MapRuns
from spark_global.source.splits import Origin
from spark_global.streaming.positions import StreamPositions


def copy(datacenter: str, topic: str) -> ReadTopic:
    link = MirrorLink(source=datacenter, datacenter=datacenter, name=f"{datacenter}-nyc")
    return ReadTopic(topic, Origin(datacenter, "a"), link)


def stated(
    partition: int, through_ms: int | None, gaps: int = 0, position: int = 0
) -> PartitionCompleteness:
    return PartitionCompleteness(
        topic="a",
        partition=partition,
        topic_id=UUID(int=1),
        generation=0,
        position=position,
        epoch=0,
        sampled_ms=through_ms,
        end=0,
        complete_through_ms=through_ms,
        proved_through_ms=None,
        gaps=gaps,
        hold=NO_HOLD,
        worker_id="w",
        written_ms=0,
        listed_ms=through_ms,
    )


def of_link(link: str, *found: PartitionCompleteness) -> Statements:
    return {link: {(each.topic, each.partition): each for each in found}}


def at(topic: str, *ends: int) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, index): end for index, end in enumerate(ends)}


def positions(offsets: dict[TopicPartition, int]) -> StreamPositions:
    return StreamPositions(topic_ids={}, offsets=offsets)


def test_a_datacenter_is_as_complete_as_its_least_partition() -> None:
    copies = {"jfk.a": [copy("jfk", "jfk.a")]}
    found = sightings_of(
        copies,
        {"jfk.a": [0, 1]},
        at("jfk.a", 10, 20),
        of_link("jfk-nyc", stated(0, 700, gaps=1), stated(1, 500, gaps=2)),
        {},
    )
    expected = Sighting(stated=Through(500, None, 3, ("jfk-nyc",)), ends=at("jfk.a", 10, 20))
    assert found == {"jfk": expected}


def test_a_partition_without_statement_or_end_leaves_its_datacenter_out() -> None:
    copies = {"jfk.a": [copy("jfk", "jfk.a")], "lga.a": [copy("lga", "lga.a")]}
    partitions = {"jfk.a": [0, 1], "lga.a": [0]}
    whole = of_link("jfk-nyc", stated(0, 1), stated(1, 2))
    ends = at("jfk.a", 10, 20) | at("lga.a", 5)
    assert list(sightings_of(copies, partitions, ends, whole, {})) == ["jfk"]
    assert not sightings_of(copies, partitions, ends, of_link("jfk-nyc", stated(0, 1)), {})
    assert not sightings_of(copies, partitions, at("jfk.a", 10), whole, {})


def test_where_links_merge_each_datacenter_has_the_partitions_of_its_link() -> None:
    copies = {"a": [copy("jfk", "a"), copy("lga", "a")]}
    statements = {
        **of_link("jfk-nyc", stated(0, 7)),
        **of_link("lga-nyc", stated(0, 9), stated(1, 8)),
    }
    found = sightings_of(copies, {"a": [0, 1]}, at("a", 10, 20), statements, {})
    assert {name: each.stated.through_ms for name, each in found.items()} == {"jfk": 7, "lga": 8}
    assert found["jfk"].ends == at("a", 10)


def test_where_links_merge_a_partition_that_is_mapped_and_not_stated_is_unknown() -> None:
    """Its worker is dead, and what the others state must not speak for it."""
    copies = {"a": [copy("jfk", "a"), copy("lga", "a")]}
    place = TopicPartition("a", 1)
    mapped = MappedPartition(
        link="lga-nyc", source_topic="a", aggregate_topic="a", partition=1, runs=MapRuns.of([])
    )
    statements = {**of_link("jfk-nyc", stated(0, 7)), **of_link("lga-nyc", stated(0, 9))}
    ends = at("a", 10, 20)
    found = sightings_of(copies, {"a": [0, 1]}, ends, statements, {place: [mapped]})
    assert list(found) == ["jfk"]
    whole = {**statements, **of_link("lga-nyc", stated(0, 9), stated(1, 8, position=5))}
    found = sightings_of(copies, {"a": [0, 1]}, ends, whole, {place: [mapped]})
    assert found["lga"] == Sighting(stated=Through(8, None, 0, ("lga-nyc",)), ends=ends)


def test_a_datacenter_is_as_complete_as_the_least_of_its_links() -> None:
    """Also if a link has no copy of the topic yet: it may be far behind its source."""
    copies = {"jfk.a": [copy("jfk", "jfk.a")]}
    links = [
        MirrorLink(source=source, datacenter=datacenter, name=f"{source}-nyc")
        for source, datacenter in (("jfk", "jfk"), ("jfk2", "jfk"), ("lga", "lga"), ("ewr", "ewr"))
    ]
    statements = {
        **of_link("jfk-nyc", stated(0, 700)),
        **of_link("jfk2-nyc", stated(0, 500, gaps=1), stated(1, 600)),
        **of_link("lga-nyc", stated(0, 900)),
    }
    ends = at("jfk.a", 10)
    found = sightings_of(copies, {"jfk.a": [0]}, ends, statements, {})
    more = sightings_without_copies(copies, links, statements, "a")
    assert more == {
        "jfk": Sighting(stated=Through(500, None, 1, ("jfk2-nyc",)), ends={}),
        "lga": Sighting(stated=Through(900, None, 0, ("lga-nyc",)), ends={}),
    }
    assert sightings_without_copies(copies, links, statements, "other") == {}
    assert with_more_links(found, more, {"jfk"}) == {
        "jfk": Sighting(stated=Through(500, None, 1, ("jfk-nyc", "jfk2-nyc")), ends=ends),
        "lga": more["lga"],
    }
    # What is unknown of its copies stays unknown.
    assert list(with_more_links({}, more, {"jfk"})) == ["lga"]


def test_a_new_topic_that_nobody_copies_yet_holds_a_read_of_all_topics_back() -> None:
    copies = {"jfk.a": [copy("jfk", "jfk.a")]}
    links = [MirrorLink(source="jfk", datacenter="jfk", name="jfk-nyc")]
    news = replace(stated(0, 400), topic="new", is_stated=False)
    statements = of_link("jfk-nyc", stated(0, 700), news)
    found = sightings_of(copies, {"jfk.a": [0]}, at("jfk.a", 10), statements, {})
    more = sightings_without_copies(copies, links, statements, None, reads_all=True)
    united = with_more_links(found, more, {"jfk"})
    assert (found["jfk"].stated.through_ms, united["jfk"].stated.through_ms) == (700, 400)
    assert sightings_without_copies(copies, links, statements, None) == {}, "it is not read"
    begun = {"jfk-nyc": {**statements["jfk-nyc"], ("new", 0): replace(news, is_stated=True)}}
    assert sightings_without_copies(copies, links, begun, None, reads_all=True) == {}


def test_the_map_says_where_the_copies_of_a_statement_end() -> None:
    """The last stable offset may come from a leader that was cut off."""
    place = TopicPartition("jfk.a", 0)
    runs = MapRuns.of([(100, 0, 10), (120, 10, 10)], source_next=140)

    def end(position: int, link: str = "jfk-nyc") -> int:
        mapped = MappedPartition(
            link=link, source_topic="a", aggregate_topic="jfk.a", partition=0, runs=runs
        )
        found = sightings_of(
            {"jfk.a": [copy("jfk", "jfk.a")]},
            {"jfk.a": [0]},
            {place: 7},
            of_link("jfk-nyc", stated(0, 500, position=position)),
            {place: [mapped]},
        )
        return found["jfk"].ends[place]

    assert [end(position) for position in (100, 105, 110, 120, 125, 130, 140)] == [
        *(0, 5, 10, 10, 15, 20, 20)
    ]
    assert end(141) == 7, "the map is behind"
    assert end(140, link="other") == 7, "the map of another link says nothing"


def test_copies_of_a_source_topic_that_was_re_created_are_reached_first() -> None:
    """The map has the new topic only; the copies of the old one lie below its first run."""
    place = TopicPartition("jfk.a", 0)

    def end(position: int, runs: MapRuns) -> int:
        mapped = MappedPartition(
            link="jfk-nyc", source_topic="a", aggregate_topic="jfk.a", partition=0, runs=runs
        )
        found = sightings_of(
            {"jfk.a": [copy("jfk", "jfk.a")]},
            {"jfk.a": [0]},
            {place: 90},
            of_link("jfk-nyc", stated(0, 500, position=position)),
            {place: [mapped]},
        )
        return found["jfk"].ends[place]

    assert end(0, MapRuns.of([], target_next=80)) == 80
    assert [end(position, MapRuns.of([(0, 80, 5)])) for position in (0, 3, 5)] == [80, 83, 85]


def test_only_what_the_positions_have_reached_is_complete() -> None:
    def seen(time_ms: int, jfk: int, lga: int) -> dict[str, Sighting]:
        return {
            "jfk": Sighting(stated=Through(time_ms, None, 0), ends=at("jfk.a", jfk)),
            "lga": Sighting(stated=Through(time_ms + 1, None, 0), ends=at("lga.a", lga)),
        }

    sightings = Sightings()
    for step in (seen(100, 10, 10), seen(200, 20, 20), seen(300, 30, 30)):
        sightings.add(step)

    def reached(jfk: int, lga: int) -> dict[str, int | None]:
        found = sightings.reached(positions(at("jfk.a", jfk) | at("lga.a", lga)))
        return {name: each.through_ms for name, each in found.items()}

    assert sightings.reached(positions(at("jfk.a", 10))) == {"jfk": Through(100, None, 0)}
    assert reached(9, 9) == {}
    assert reached(10, 29) == {"jfk": 100, "lga": 201}
    assert reached(25, 30) == {"jfk": 200, "lga": 301}
    assert reached(30, 30) == {"jfk": 300, "lga": 301}


def test_the_newest_sighting_is_never_dropped() -> None:
    sightings = Sightings()
    for end in range(3 * SIGHTINGS_MAX):
        sightings.add({"jfk": Sighting(stated=Through(end, None, 0), ends=at("jfk.a", end))})
    last = 3 * SIGHTINGS_MAX - 1
    assert sightings.reached(positions(at("jfk.a", last))) == {"jfk": Through(last, None, 0)}
