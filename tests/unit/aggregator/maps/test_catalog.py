"""Merged topics come from maps and aliases; dots in names are never guessed at."""

from __future__ import annotations

from aggregator.maps.catalog import MappedTopic, build_catalog, is_internal, nearest
from aggregator.settings import LinkSettings
from mirror_maker.formats.naming import TopicNames


def _link(
    source: str, datacenter: str | None = None, names: TopicNames | None = None
) -> LinkSettings:
    return LinkSettings(
        name=f"{source}-nyc",
        datacenter=datacenter or source,
        source=source,
        source_bootstrap="127.0.0.1:1",
        names=names or TopicNames(),
    )


def test_same_topic_of_all_datacenters_is_one() -> None:
    catalog = build_catalog(
        [_link("jfk"), _link("ewr")],
        {
            "ewr.flights": 4,
            "jfk.flights": 2,
            "jfk.gates": 1,
            "orders.v1": 3,
            "__consumer_offsets": 5,
        },
    )
    flights = catalog.merged["flights"]
    assert [part.topic for part in flights.parts] == ["ewr.flights", "jfk.flights"]
    assert [part.datacenter for part in flights.parts] == ["ewr", "jfk"]
    assert flights.partitions == 6
    assert set(catalog.merged) == {"flights", "gates"}
    assert catalog.local == {"orders.v1": 3}


def test_longest_alias_wins() -> None:
    catalog = build_catalog([_link("us"), _link("us.east")], {"us.east.orders": 1, "us.orders": 1})
    assert [part.link for part in catalog.merged["orders"].parts] == ["us-nyc", "us.east-nyc"]


def test_map_beats_naming() -> None:
    catalog = build_catalog(
        [_link("us"), _link("us.east")],
        {"us.east.orders": 1},
        [MappedTopic("us-nyc", "east.orders", "us.east.orders")],
    )
    assert (catalog.part("us-nyc", "east.orders"),) == catalog.parts_of("us.east.orders")
    assert catalog.part("us.east-nyc", "orders") is None


def test_identical_names_come_from_the_map_only() -> None:
    link = _link("jfk", names=TopicNames(otherwise="identity"))
    assert build_catalog([link], {"flights": 2}).local == {"flights": 2}
    catalog = build_catalog([link], {"flights": 2}, [MappedTopic("jfk-nyc", "flights", "flights")])
    assert catalog.local == {}
    assert catalog.merged["flights"].parts[0].datacenter == "jfk"


def test_unseen_topic_has_unknown_partitions_not_zero() -> None:
    catalog = build_catalog(
        [_link("jfk"), _link("ewr")],
        {"ewr.flights": 3},
        [MappedTopic("jfk-nyc", "flights", "jfk.flights")],
    )
    part = catalog.part("jfk-nyc", "flights")
    assert part is not None
    assert part.partitions is None
    assert catalog.merged["flights"].partitions is None


def test_map_of_an_unknown_link_is_ignored() -> None:
    catalog = build_catalog([], {"a.t": 1}, [MappedTopic("gone", "t", "a.t")])
    assert catalog.merged == {}
    assert catalog.local == {"a.t": 1}


def test_mapped_names_and_bare_prefix() -> None:
    names = TopicNames(map={"flights": "departures"})
    catalog = build_catalog([_link("jfk", names=names)], {"departures": 1, "jfk.": 1, "jfk.x": 1})
    assert set(catalog.merged) == {"flights", "x"}
    assert set(catalog.local) == {"jfk."}


def test_a_merged_topic_is_a_part_of_every_link_that_fills_it() -> None:
    names = TopicNames(merge=("flights",))
    links = [_link("jfk", names=names), _link("ewr", names=names)]
    mapped = [MappedTopic(link.name, "flights", "flights") for link in links]
    catalog = build_catalog(links, {"flights": 4, "jfk.gates": 1}, mapped)
    assert [part.link for part in catalog.parts_of("flights")] == ["ewr-nyc", "jfk-nyc"]
    assert catalog.merged["flights"].partitions == 4
    assert catalog.local == {}
    assert [part.datacenter for part in catalog.parts_of("jfk.gates")] == ["jfk"]


def test_internal_topics_by_the_mirror_rule() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("heliograph-offset-map.jfk-nyc.internal")
    assert is_internal("a-internal")
    assert is_internal("x.replica")
    assert not is_internal("internal")
    assert not is_internal("jfk.flights")


def test_nearest_name() -> None:
    assert nearest("jkf-nyc", ["jfk-nyc", "ewr-nyc"]) == "jfk-nyc"
    assert nearest("zzz", ["jfk-nyc"]) is None
