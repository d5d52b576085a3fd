"""Copy loops are found, and other links are not reported as loops."""

from __future__ import annotations

import pytest

from topology.file.load import parse_topology
from topology.model import Link
from topology.problems import InvalidTopology
from topology.rules.copy_loops import CopyRule, find_copy_loops


def link(source: str, target: str, *include: str, exclude: tuple[str, ...] = ()) -> Link:
    topics = {"include": list(include or (".*",)), "exclude": list(exclude)}
    return Link.model_validate({"source": source, "target": target, "topics": topics})


def identical(rule_link: Link) -> CopyRule:
    """A rule under which copies keep their names, without a trace of their origin."""
    wanted = set(rule_link.topic_filter.include)
    return lambda topic: topic if topic in wanted else None


def loops(*links: Link) -> list[tuple[str, ...]]:
    return [tuple(each.effective_name for each in loop.links) for loop in find_copy_loops(links)]


def test_two_clusters_that_copy_each_other_are_no_loop() -> None:
    assert loops(link("a", "b"), link("b", "a")) == []
    assert loops(link("a", "b", "flights"), link("b", "a", "flights")) == []


def test_a_chain_and_a_diamond_are_no_loops() -> None:
    assert loops(link("a", "b"), link("b", "c")) == []
    assert loops(link("a", "b"), link("a", "c"), link("b", "d"), link("c", "d")) == []


def test_a_ring_that_copies_one_topic_is_no_loop() -> None:
    """The copies have other names than the topic that the ring copies."""
    ring = (link("a", "b", "flights"), link("b", "c", "flights"), link("c", "a", "flights"))
    assert loops(*ring) == []


def test_rings_and_meshes_of_everything_are_no_loops() -> None:
    """As in MirrorMaker 2, no topic returns to a cluster where it has been."""
    assert loops(link("a", "b"), link("b", "c"), link("c", "a")) == []
    assert loops(*(link(x, y) for x in "abcd" for y in "abcd" if x != y)) == []


def test_identical_names_make_a_loop_of_two_clusters() -> None:
    both = [link("a", "b", "flights"), link("b", "a", "flights")]
    (loop,) = find_copy_loops(both, identical)
    assert {each.effective_name for each in loop.links} == {"a-b", "b-a"}
    assert loop.topic == "flights"
    assert loop.sentence() == (
        f"no copy loop; records of 'flights' in {loop.cluster} would come back there by"
        f" {loop.links[0].effective_name}, {loop.links[1].effective_name}, again and again"
    )


def test_identical_names_of_different_topics_are_no_loop() -> None:
    both = [link("a", "b", "flights"), link("b", "a", "gates")]
    assert find_copy_loops(both, identical) == []


def test_a_loop_among_other_links_is_the_only_one_named() -> None:
    links = [
        link("x", "a", "flights"),
        link("a", "b", "flights"),
        link("b", "c", "flights"),
        link("c", "a", "flights"),
        link("c", "y", "flights"),
    ]
    (loop,) = find_copy_loops(links, identical)
    assert {each.effective_name for each in loop.links} == {"a-b", "b-c", "c-a"}


def test_names_that_only_grow_are_a_loop_too() -> None:
    """A rule that ignores that a topic came from the target lets it circulate for ever."""

    def blind(rule_link: Link) -> CopyRule:
        return lambda topic: f"{rule_link.source}.{topic}"

    ring = [link("a", "b"), link("b", "c"), link("c", "a")]
    (loop,) = find_copy_loops(ring, blind)
    assert sorted(each.effective_name for each in loop.links) == ["a-b", "b-c", "c-a"]


def test_overlapping_patterns_are_seen_through_a_topic_of_both() -> None:
    def by_pattern(rule_link: Link) -> CopyRule:
        import re

        pattern = re.compile(rule_link.topic_filter.include[0])
        return lambda topic: topic if pattern.fullmatch(topic) else None

    overlapping = [link("a", "b", r"orders.*"), link("b", "a", r".*-eu")]
    (loop,) = find_copy_loops(overlapping, by_pattern)
    assert loop.topic.startswith("orders") and loop.topic.endswith("-eu")
    apart = [link("a", "b", r"orders-[0-9]+"), link("b", "a", r"[a-z]+\.eu")]
    assert find_copy_loops(apart, by_pattern) == []


def test_a_loop_is_reported_at_the_topics_of_a_link() -> None:
    text = """\
name: ring
clusters:
  - {name: a, external: "h:1"}
  - {name: b, external: "h:2"}
links:
  - {source: a, target: b, topics: [flights], names: identity, origin: any}
  - {source: b, target: a, topics: [flights], names: identity, origin: any}
"""
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(text, file="t.yaml")
    (line,) = caught.value.lines()
    assert line.startswith(("t.yaml:6:28: links[0].topics:", "t.yaml:7:28: links[1].topics:"))
    assert "no copy loop; records of 'flights'" in line
