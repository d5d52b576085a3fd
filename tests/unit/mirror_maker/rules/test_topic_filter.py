"""Which topics are copied, under which names, and how their copies are created."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.model import ClusterMetadata, PartitionMetadata, TopicMetadata
from local_cluster.wire.errors import ErrorCode
from mirror_maker.formats import gaps_topic_name, map_topic_name
from mirror_maker.formats.completeness.statement import completeness_topic_name
from mirror_maker.formats.mm2 import checkpoints_topic, offset_syncs_topic
from mirror_maker.formats.naming import TopicNames, remote_topic
from mirror_maker.formats.probe import MERGED_PROBE_COPY, probe_topic_name
from mirror_maker.formats.receipts import receipts_topic_name
from mirror_maker.formats.verdicts import verdicts_topic_name
from mirror_maker.link.topic_plan import (
    creation_rounds,
    grown_topics,
    left_out_topics,
    link_topics,
    missing_topics,
    new_topic,
    select_topics,
)
from mirror_maker.rules.start_position import mm2_offsets_topic
from mirror_maker.rules.topic_filter import NameFilter, TopicFilter, is_internal_topic
from mirror_maker.settings import TOPICS_EXCLUDE_DEFAULT, LinkSettings


def at_jfk(name: str) -> str:
    return remote_topic("jfk", name)


def topic(name: str, partitions: int = 1, error: ErrorCode = ErrorCode.none) -> TopicMetadata:
    entries = {
        index: PartitionMetadata(index, 0, 0, (0,), (0,), ErrorCode.none)
        for index in range(partitions)
    }
    return TopicMetadata(name, uuid.UUID(int=1), error, False, entries)


def cluster(*topics: TopicMetadata) -> ClusterMetadata:
    return ClusterMetadata("c", 0, {}, {entry.name: entry for entry in topics})


@pytest.mark.parametrize(
    ("name", "selected"),
    [
        ("orders", True),
        ("orders.v1", True),
        ("nyc.orders", False),  # came from the target
        ("nyc", True),
        ("__consumer_offsets", False),
        ("heliograph-offset-map.x.internal", False),
        ("something-internal", False),
        ("a.replica", False),
    ],
)
def test_default_selection(name: str, selected: bool) -> None:
    assert TopicFilter((".*",), TOPICS_EXCLUDE_DEFAULT, "nyc").selects(name) is selected


@pytest.mark.parametrize(
    ("name", "is_internal", "is_cycle"),
    # What DefaultReplicationPolicy.isInternalTopic and MirrorSourceConnector.isCycle of Kafka 4.3.0
    # answer, the latter for the target `nyc`.
    [
        ("mm2-offset-syncs.jfk.internal", True, False),
        ("mm2-offsets.jfk.internal", True, False),
        ("mm2-configs.jfk.internal", True, False),
        ("mm2-status.jfk.internal", True, False),
        ("jfk.checkpoints.internal", True, False),
        ("nyc.checkpoints.internal", True, True),
        ("__consumer_offsets", True, False),
        ("__transaction_state", True, False),
        ("__share_group_state", True, False),
        ("__remote_log_metadata", True, False),
        (".hidden", True, False),
        ("connect-offsets", False, False),
        ("_schemas", False, False),
        ("app-store-changelog", False, False),
        ("internal", False, False),
        ("internal.orders", False, False),
        ("orders-internal", True, False),
        ("heartbeats", False, False),
        ("jfk.heartbeats", False, False),
        ("nyc.heartbeats", False, True),
        ("jfk.nyc.heartbeats", False, True),
        ("orders.v1", False, False),
        ("nyc.orders", False, True),
        ("jfk.nyc.orders", False, True),
        ("jfk.sfo.nyc.orders", False, True),
        ("jfk.orders.nyc", False, False),
        ("jfk.nycorders", False, False),
        ("jfk.anyc.orders", False, False),
    ],
)
def test_what_mirror_maker_2_never_copies(name: str, is_internal: bool, is_cycle: bool) -> None:
    assert is_internal_topic(name) is is_internal
    everything = TopicFilter((".*",), (), "nyc")
    assert everything.selects(name) is not (is_internal or is_cycle)


def test_topics_of_the_mirror_are_not_copied() -> None:
    names = [
        map_topic_name("a-b"),
        gaps_topic_name("a-b"),
        receipts_topic_name("a-b"),
        verdicts_topic_name("a-b"),
        completeness_topic_name("a-b"),
    ]
    names += [checkpoints_topic("a"), offset_syncs_topic("b"), mm2_offsets_topic("a")]
    assert all(map(is_internal_topic, names)), names


NAMINGS = {
    "prefixed": TopicNames(),
    "identity": TopicNames(otherwise="identity"),
    "pattern": TopicNames(map={"a": "b"}, pattern="(.*)", to="$1-eu"),
    "merge": TopicNames(merge=("orders",)),
}


def probed_link(source: str, target: str, names: TopicNames) -> LinkSettings:
    return LinkSettings(
        name=f"{source}-{target}",
        source_alias=source,
        source_bootstrap="-",
        names=names,
        topics_exclude=(),  # internal topics are still left out
        probe=True,
    )


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("clusters", ["abc", "aba", "abca"], ids=["chain", "two", "ring"])
def test_a_probe_topic_travels_one_hop(clusters: str, naming: str) -> None:
    """In a chain or a ring, each link copies its own probe topic and no copy of another one,
    whatever the names are."""
    links = [(a, b, probed_link(a, b, NAMINGS[naming])) for a, b in pairwise(clusters)]
    topics = {name: {"orders"} for name in clusters}
    for source, _, link in links:
        topics[source].add(probe_topic_name(link.name))
    for _ in range(3):  # once around, and further
        for source, target, link in links:
            for name in sorted(topics[source]):
                if link_topics(link, target).selects(name):
                    topics[target].add(link.copy_name(name))
    probes = {
        name: {each for each in topics[name] if "heliograph-probe" in each} for name in clusters
    }
    for name in clusters:
        own = {probe_topic_name(link.name) for source, _, link in links if source == name}
        copies = {
            link.copy_name(probe_topic_name(link.name))
            for _, target, link in links
            if target == name
        }
        assert probes[name] == own | copies


def test_two_links_that_merge_have_one_copy_of_their_probes() -> None:
    copies = {
        link.copy_name(probe_topic_name(link.name))
        for link in (probed_link(source, "all", NAMINGS["merge"]) for source in ("east", "west"))
    }
    assert copies == {MERGED_PROBE_COPY}


def test_a_link_that_is_not_probed_leaves_its_probe_topic_alone() -> None:
    link = replace(probed_link("a", "b", NAMINGS["prefixed"]), probe=False)
    assert not link_topics(link, "b").selects(probe_topic_name("a-b"))
    probed = link_topics(replace(link, probe=True, topics=("t",)), "b")
    assert probed.plain_names == {"t", probe_topic_name("a-b")}


def test_with_kept_names_only_the_first_part_shows_a_hop() -> None:
    kept = TopicFilter((".*",), (), "nyc", heartbeats=True, is_prefixed=False)
    selected = ("sales.nyc.orders", "nyc.orders", "heartbeats", "jfk.nyc.heartbeats")
    assert list(map(kept.selects, selected)) == [True, False, True, False]


def test_patterns_match_in_full_and_an_empty_list_matches_nothing() -> None:
    chosen = TopicFilter(("order", "fl.*"), ("flaw",), "nyc")
    assert [n for n in ("order", "orders", "flights", "flaw") if chosen.selects(n)] == [
        "order",
        "flights",
    ]
    assert not TopicFilter((), (), "nyc").selects("")
    assert TopicFilter(("x",), (), "nyc").selects("x")
    assert is_internal_topic(".hidden")


def test_matching_topics_that_are_not_copied_are_listed() -> None:
    names = (
        "order",
        "order-internal",
        "order.internal",
        "nyc.order",
        "other",
        "__order",
        "order-x",
    )
    chosen = TopicFilter((".*order.*",), (*TOPICS_EXCLUDE_DEFAULT, "order-x"), "nyc")
    assert left_out_topics(cluster(*map(topic, names)), chosen) == [
        "nyc.order",
        "order-internal",
        "order-x",
        "order.internal",
    ]
    assert left_out_topics(cluster(topic("order")), chosen) == []


def test_plain_names_are_those_that_can_be_looked_up() -> None:
    chosen = TopicFilter(
        ("t", "orders.v1", "later-.*", "x|y", "gone", "a.internal"), ("gone",), "b"
    )
    assert chosen.plain_names == {"t", "orders.v1"}


def test_topics_to_create_and_to_extend() -> None:
    source = cluster(topic("t", 3), topic("u", 2), topic("__x"), topic("broken", 0, ErrorCode(3)))
    wanted = select_topics(source, TopicFilter((".*",), (), "nyc"))
    assert sorted(wanted) == ["t", "u"]
    missing = topic("jfk.u", 0, ErrorCode.unknown_topic_or_partition)
    target = cluster(topic("jfk.t", 1), missing)
    assert missing_topics(wanted, target, at_jfk) == ["u"]
    assert grown_topics(wanted, target, at_jfk) == {"jfk.t": 3}


def test_a_request_creates_no_more_than_a_controller_takes() -> None:
    few = {f"t{index}": 1 for index in range(1_001)}
    assert [len(names) for names in creation_rounds(few)] == [500, 500, 1]
    many = {"a": 600, "b": 400, "c": 1, "large": 5_000, "d": 1}
    assert list(creation_rounds(many)) == [["a", "b"], ["c"], ["large"], ["d"]]
    assert list(creation_rounds({})) == []


def test_a_copy_takes_the_configs_set_on_the_source() -> None:
    configs: dict[str, tuple[str | None, bool]] = {
        "retention.ms": ("-1", False),
        "segment.bytes": ("1073741824", True),
        "cleanup.policy": ("compact", False),
        "min.insync.replicas": ("2", False),
        "message.timestamp.type": ("LogAppendTime", False),
    }
    made = new_topic(topic("t", 5), configs, at_jfk, 3)
    assert (made.name, made.partitions, made.replication_factor) == ("jfk.t", 5, 3)
    assert made.configs == {
        "retention.ms": "-1",
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
    }
    assert remote_topic("jfk", "t") == "jfk.t"


@pytest.mark.parametrize(
    ("include", "exclude", "prefix", "expected"),
    [
        ((".*",), (), "", True),
        ((".*",), ("connect-.*",), "", False),
        ((".*",), ("connect-.*",), "con", False),
        ((".*",), ("connect-.*",), "connect-x", False),
        ((".*",), ("connect-.*",), "etl-", True),
        (("etl-.*",), (), "etl-", True),
        (("etl-.*",), (), "etl", False),
        (("etl-1",), (), "etl-1", False),
        (("e.l-.*",), (), "etl-", True),
        ((r"a\.b.*",), (), "a.b", True),
        ((r"a\.b.*",), (), "axb", False),
        ((".*",), ("etl",), "etl-", True),
        ((".*",), ("etl-9",), "etl-", False),
        ((".*",), (".tl-9",), "etl-", False),
        ((".*",), ("(x|y).*",), "etl-", False),  # not decided
        (("[a-z]+.*",), (), "etl-", False),
        ((r"etl\.*",), (), "etl", False),
        ((), (), "etl-", False),
    ],
)
def test_a_prefix_is_selected_if_every_name_below_it_surely_is(
    include: tuple[str, ...], exclude: tuple[str, ...], prefix: str, expected: bool
) -> None:
    assert NameFilter(include, exclude).selects_every(prefix) is expected


PATTERNS = st.lists(
    st.one_of(
        st.text("ab.", max_size=3).flatmap(lambda head: st.sampled_from([head, f"{head}.*"])),
        st.sampled_from([".*", r"a\.b", r"a\..*", "a|b", "[ab]+", r"a\.*", "(a.*)?"]),
    ),
    max_size=3,
)


@given(PATTERNS, PATTERNS, st.text("ab.", max_size=3), st.text("ab.-", max_size=4))
def test_no_name_below_a_selected_prefix_is_left_out(
    include: list[str], exclude: list[str], prefix: str, rest: str
) -> None:
    names = NameFilter(include, exclude)
    assert names.selects(prefix + rest) or not names.selects_every(prefix)
