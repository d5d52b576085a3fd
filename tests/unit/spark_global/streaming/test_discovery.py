"""Links come from their maps, and reading stops where the origin of records is not known yet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.model import TopicPartition
from spark_global.links import MirrorLink
from spark_global.source.maps import MappedPartition
from spark_global.source.provenance import MapRuns
from spark_global.streaming.discovery import (
    MAP_SECONDS_MAX,
    MapWaits,
    Stop,
    known_end,
    with_discovered,
)

AT = TopicPartition("flights", 0)


def mapped(link: str, aggregate_topic: str, source_topic: str = "flights") -> MappedPartition:
    return MappedPartition(
        link=link,
        source_topic=source_topic,
        aggregate_topic=aggregate_topic,
        partition=0,
        runs=MapRuns.of(()),
    )


def test_a_link_is_named_by_the_alias_in_its_copies() -> None:
    given_links = (MirrorLink(name="jfk-nyc", source="jfk", datacenter="JFK"),)
    found = with_discovered(
        given_links,
        [
            mapped("jfk-nyc", "jfk.flights"),
            mapped("lga-nyc", "lga.flights"),
            mapped("ewr-nyc", "flights"),
            mapped("dotted", "a.b.flights"),
        ],
    )
    assert found == (
        *given_links,
        MirrorLink(name="dotted", source="a.b", datacenter="a.b"),
        MirrorLink(name="ewr-nyc", source="ewr-nyc", datacenter="ewr-nyc"),
        MirrorLink(name="lga-nyc", source="lga", datacenter="lga"),
    )


def test_a_given_link_without_a_name_keeps_its_datacenter() -> None:
    found = with_discovered(
        [MirrorLink(source="lga", datacenter="LGA")], [mapped("lga-nyc", "lga.flights")]
    )
    assert found == (MirrorLink(source="lga", datacenter="LGA", name="lga-nyc"),)


def test_one_link_is_known_up_to_the_end_of_its_map() -> None:
    runs = MapRuns.of([(100, 0, 10), (200, 12, 5)], target_next=20)
    assert known_end([runs], 0, 100) == 20
    assert known_end([runs], 0, 15) == 15
    assert known_end([runs], 30, 100) == 30
    assert known_end([], 5, 100) == 5
    assert known_end([MapRuns.of(())], 5, 100) == 5


def test_a_silent_link_holds_nobody_back() -> None:
    silent = MapRuns.of([(0, 0, 5)])
    busy = MapRuns.of([(0, 5, 20), (90, 25, 5)])
    assert known_end([silent, busy], 0, 100) == 30
    # A record of nobody lies between them: the silent link may still claim it.
    assert known_end([silent, MapRuns.of([(0, 6, 20)])], 0, 100) == 5


def test_a_record_without_a_map_holds_others_back_for_a_minute() -> None:
    """JFK's worker died before it wrote the map of the offsets 5 to 7."""
    now = 0.0
    waits = MapWaits(lambda: now)
    jfk, lga = MapRuns.of([(0, 0, 5)]), MapRuns.of([(0, 8, 2)])
    assert waits.stop(AT, [jfk, lga], 0, 20) == Stop(5, 10)
    now = MAP_SECONDS_MAX - 1
    lga = MapRuns.of([(0, 8, 2), (2, 12, 3)])  # another record without a map lies before 12
    assert waits.stop(AT, [jfk, lga], 0, 20) == Stop(5, 15)
    now = MAP_SECONDS_MAX
    assert waits.stop(AT, [jfk, lga], 0, 20) == Stop(10, 15, passed=10)
    assert waits.stop(AT, [jfk, lga], 10, 20) == Stop(10, 15)
    now = 2 * MAP_SECONDS_MAX - 1
    assert waits.stop(AT, [jfk, lga], 10, 20) == Stop(15, 15, passed=15)
    assert waits.stop(AT, [jfk, lga], 10, 14) == Stop(14, 14, passed=14), "the log ends there"


def test_a_map_that_comes_in_time_is_waited_for() -> None:
    now = 0.0
    waits = MapWaits(lambda: now)
    lga = MapRuns.of([(0, 8, 2)])
    for now in range(0, 600, 7):  # each time the map of JFK is a little behind
        jfk = MapRuns.of([(0, 0, 5)])
        lga = MapRuns.of([(0, 8, 2 + now)])
        jfk = MapRuns.of([(0, 0, 8), (8, 10 + now, 1)]) if now else jfk
        found = waits.stop(AT, [jfk, lga], 0, 10_000)
        assert found.passed == 0 and found.known == (11 + now if now else 5)


@given(st.lists(st.sampled_from([None, 0, 1]), max_size=30), st.data())
def test_the_known_end_is_that_of_a_walk(owners: list[int | None], data: st.DataObject) -> None:
    maps = []
    for link in (0, 1):
        places = [offset for offset, owner in enumerate(owners) if owner == link]
        end = data.draw(st.integers(max(places, default=-1) + 1, 40))
        maps.append(MapRuns.of([(i, at, 1) for i, at in enumerate(places)], target_next=end))
    start = data.draw(st.integers(0, 40))
    end = data.draw(st.integers(start, 45))
    lowest = min(runs.target_next for runs in maps)
    walked = start
    while walked < end and (
        walked < lowest or (walked < len(owners) and owners[walked] is not None)
    ):
        walked += 1
    assert known_end(maps, start, end) == walked
