"""Names of copies in a topology file: valid ones, and ones that would mix or double records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirror_maker.formats.naming import TopicNames
from topology.file.load import load_topology, parse_topology
from topology.model import Link
from topology.problems import InvalidTopology
from topology.rules.copy_loops import find_copy_loops, find_second_paths
from topology.rules.name_collisions import find_collisions

CONFIGS = Path(__file__).resolve().parents[4] / "configs"
CLUSTERS = """\
name: shop
clusters:
  - {name: a, external: "h:1"}
  - {name: b, external: "h:2"}
  - {name: c, external: "h:3"}
links:
"""


def link(source: str, target: str, *topics: str, **keys: Any) -> Link:
    given = {"source": source, "target": target, "topics": list(topics or (".*",)), **keys}
    return Link.model_validate(given)


def identity(source: str, target: str, *topics: str, **keys: Any) -> Link:
    return link(source, target, *topics, names="identity", **keys)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(CLUSTERS + text, file="t.yaml")
    return caught.value.lines()


def test_every_way_to_name_copies() -> None:
    topology = parse_topology(
        CLUSTERS
        + """\
  - {source: a, target: b, topics: [orders]}
  - {source: b, target: a, topics: [orders], names: identity}
  - source: a
    target: c
    topics: [".*"]
    names: {map: {orders: eu-orders}, pattern: "team-(.*)", to: "$1-eu", otherwise: identity}
  - {source: b, target: c, topics: [".*"], merge: orders, origin: any}
""".replace("otherwise: identity", "otherwise: prefixed")
    )
    names = [each.topic_names for each in topology.links]
    assert names == [
        TopicNames(),
        TopicNames(otherwise="identity"),
        TopicNames(map={"orders": "eu-orders"}, pattern="team-(.*)", to="$1-eu"),
        TopicNames(merge=("orders",)),
    ]
    assert [each.effective_origin for each in topology.links] == ["any", "local", "local", "any"]


def test_wrong_names_are_problems_with_their_position() -> None:
    lines = problems(
        """\
  - {source: a, target: b, topics: [x], names: same}
  - {source: b, target: c, topics: [x], names: {map: {x: "a b"}, pattern: "t-.*", to: y}}
  - {source: a, target: c, topics: [x], names: {pattern: "t-(.*)"}}
"""
    )
    assert [line.split(": ")[1] for line in lines] == [
        "links[0].names",
        "links[1].names.map.x",
        "links[1].names.pattern",
        "links[1].names.to",
        "links[2].names",
    ]


def test_identical_names_both_ways_are_safe_where_only_the_born_are_copied() -> None:
    both = [identity("a", "b"), identity("b", "a")]
    assert find_copy_loops(both) == []
    assert find_second_paths(both) == []


def test_identical_names_between_three_are_safe_too() -> None:
    pairs = [(x, y) for x in "abc" for y in "abc" if x != y]
    links = [identity(x, y, "orders") for x, y in pairs]
    assert find_copy_loops(links) == []
    assert find_second_paths(links) == []
    assert list(find_collisions(links)) == []


def test_a_ring_that_forwards_what_was_born_elsewhere_is_refused() -> None:
    ring = [identity(x, y, "orders", origin="any") for x, y in ("ab", "bc", "ca")]
    (loop,) = find_copy_loops(ring)
    assert {each.effective_name for each in loop.links} == {"a-b", "b-c", "c-a"}


def test_a_record_that_would_come_back_once_is_refused() -> None:
    links = [identity("a", "b", "orders"), identity("b", "a", "orders", origin="any")]
    assert find_copy_loops(links) == []
    (path,) = find_second_paths(links)
    assert (path.cluster, path.end_cluster, path.end_topic) == ("a", "a", "orders")


def test_a_record_with_two_ways_to_one_topic_is_refused() -> None:
    ways = [
        identity("a", "b", "orders"),
        identity("b", "c", "orders", origin="any"),
        identity("a", "c", "orders"),
    ]
    (path,) = find_second_paths(ways)
    assert path.sentence().startswith("one path for every record; records of 'orders' in a would")
    assert find_second_paths(ways[:2]) == []
    assert find_second_paths([ways[0], identity("b", "c", "orders"), ways[2]]) == []


def test_copies_that_would_have_one_name_are_refused_unless_merged() -> None:
    mapped = [
        link("a", "c", "orders", names={"map": {"orders": "all"}}),
        link("b", "c", "sales", names={"map": {"sales": "all"}}),
    ]
    (found,) = find_collisions(mapped)
    assert found.target_topic == "all"
    one = link("a", "c", "x", "y", names={"map": {"x": "z", "y": "z"}})
    (found,) = find_collisions([one])
    assert {found.topic, found.other_topic} == {"x", "y"}
    merged = [link(source, "c", "orders", "flights", merge=["orders"]) for source in "ab"]
    assert list(find_collisions(merged)) == []
    lines = problems(
        """\
  - {source: a, target: c, topics: [orders], merge: orders}
  - {source: b, target: c, topics: [orders], names: {map: {orders: orders}}}
"""
    )
    assert len(lines) == 1
    assert "links[1].names: a name of its own for every copy" in lines[0]


def test_two_datacenters_mirror_each_other_and_have_an_aggregate_each() -> None:
    topology = load_topology(CONFIGS / "two-datacenters.yaml")
    assert {each.name: each.effective_kind for each in topology.clusters} == {
        "east": "local",
        "west": "local",
        "east-all": "aggregate",
        "west-all": "aggregate",
    }
    assert [
        (each.source, each.target, each.topic_names.is_prefixed, each.effective_origin)
        for each in topology.links
    ] == [
        ("east", "west", False, "local"),
        ("west", "east", False, "local"),
        ("east", "east-all", True, "local"),
        ("west", "east-all", True, "local"),
        ("east", "west-all", True, "local"),
        ("west", "west-all", True, "local"),
    ]
