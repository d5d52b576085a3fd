"""Names of copies, and names that tell the source topic."""

from __future__ import annotations

import pytest

from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.probe import MERGED_PROBE_COPY, is_probe_topic, probe_topic_name
from mirror_maker.link.topic_plan import colliding_topics
from mirror_maker.rules.topic_filter import is_internal_topic
from mirror_maker.settings import LinkSettings

PREFIXED = TopicNames()
IDENTITY = TopicNames(otherwise="identity")
CUSTOM = TopicNames(map={"orders": "eu-orders"}, pattern="team-(.*)", to="$1.paris")
MERGED = TopicNames(merge=("orders", "returns-.*"))


@pytest.mark.parametrize(
    ("names", "topic", "copy", "is_shared"),
    [
        (PREFIXED, "orders", "paris.orders", False),
        (IDENTITY, "orders", "orders", True),
        (IDENTITY, "heartbeats", "paris.heartbeats", False),
        (IDENTITY, "tokyo.heartbeats", "paris.tokyo.heartbeats", False),
        (CUSTOM, "orders", "eu-orders", False),
        (CUSTOM, "team-blue", "blue.paris", False),
        (CUSTOM, "a-team-blue", "paris.a-team-blue", False),
        (MERGED, "orders", "orders", True),
        (MERGED, "returns-2013", "returns-2013", True),
        (MERGED, "flights", "paris.flights", False),
        (TopicNames(otherwise="identity", map={"a": "b"}), "a", "b", False),
    ],
)
def test_names_of_copies(names: TopicNames, topic: str, copy: str, is_shared: bool) -> None:
    assert names.target_topic("paris", topic) == copy
    assert names.is_shared(topic) is is_shared


PROBE = "heliograph-probe.paris-tokyo.internal"
EVERYTHING_NAMED = TopicNames(map={PROBE: "seen"}, pattern="(.*)", to="$1-eu")


@pytest.mark.parametrize(
    ("names", "copy", "is_shared", "is_merged"),
    [
        (PREFIXED, f"paris.{PROBE}", False, False),
        (IDENTITY, PROBE, True, False),
        (EVERYTHING_NAMED, f"paris.{PROBE}", False, False),
        (TopicNames(otherwise="identity", pattern="(.*)", to="$1-eu"), PROBE, True, False),
        (MERGED, MERGED_PROBE_COPY, True, True),
        (TopicNames(otherwise="identity", merge=("orders",)), MERGED_PROBE_COPY, True, True),
    ],
)
def test_the_copy_of_a_probe_topic_stays_internal_under_every_naming(
    names: TopicNames, copy: str, is_shared: bool, is_merged: bool
) -> None:
    assert probe_topic_name("paris-tokyo") == PROBE
    assert names.target_topic("paris", PROBE) == copy
    assert (names.is_shared(PROBE), names.is_merged(PROBE)) == (is_shared, is_merged)
    assert is_internal_topic(copy)


def test_only_a_name_of_a_link_makes_a_probe_topic() -> None:
    assert is_probe_topic(probe_topic_name("a.b-c_d"))
    others = (probe_topic_name(""), MERGED_PROBE_COPY, f"paris.{PROBE}", "heliograph-probe.x")
    assert not any(map(is_probe_topic, others))


@pytest.mark.parametrize(
    ("names", "copy", "topic"),
    [
        (PREFIXED, "paris.orders", "orders"),
        (PREFIXED, "orders", None),
        (PREFIXED, "paris.", None),
        (IDENTITY, "orders", None),
        (CUSTOM, "eu-orders", "orders"),
        (CUSTOM, "paris.orders", None),  # the copy of `orders` without the map
        (CUSTOM, "paris.flights", "flights"),
        (MERGED, "orders", None),
        (MERGED, "paris.flights", "flights"),
    ],
)
def test_a_copys_name_gives_the_source_topic_or_none(
    names: TopicNames, copy: str, topic: str | None
) -> None:
    assert names.source_topic("paris", copy) == topic


@pytest.mark.parametrize(
    "wrong",
    [
        {"pattern": "a(.)"},
        {"to": "$1"},
        {"pattern": "a", "to": "$1"},
        {"pattern": "(a)", "to": "b"},
    ],
)
def test_half_a_rule_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"pattern|group|\$1"):
        TopicNames(**wrong)  # type: ignore[arg-type]


def test_topics_of_a_link_that_would_share_a_copy() -> None:
    names = TopicNames(otherwise="identity", map={"a": "c"})
    link = LinkSettings(name="x", source_alias="p", source_bootstrap="-", names=names)
    assert colliding_topics({"a", "b", "c"}, link.copy_name) == {"c": ["a", "c"]}


def test_settings_that_select_records_are_terms() -> None:
    link = LinkSettings(name="x", source_alias="p", source_bootstrap="-")
    assert link.terms == {}
    local = LinkSettings(name="x", source_alias="p", source_bootstrap="-", origin="local")
    assert local.terms == {"origin": "local"}
