"""A lane writes a batch once, and knows its own query."""

from __future__ import annotations

import pytest

from spark_global.addresses import ClusterAddress
from spark_global.links import MirrorLink
from spark_global.serving.lanes import ServedTopic
from spark_global.serving.positions import (
    BrokenPositionError,
    LanePosition,
    ServedByAnotherError,
    is_new,
)
from spark_global.serving.serving import OwnInputError, check_no_loop
from spark_global.views import Aggregate

HELD = LanePosition("q", 7)


def test_a_batch_is_written_once() -> None:
    assert is_new(None, LanePosition("q", 3))
    assert is_new(HELD, LanePosition("q", 8))
    assert is_new(HELD, LanePosition("q", 9))  # a batch without rows in the lane leaves no position
    assert not is_new(HELD, LanePosition("q", 7))
    assert not is_new(HELD, LanePosition("q", 6))
    with pytest.raises(ServedByAnotherError, match=r"query q has served batch 7, and this is .* p"):
        is_new(HELD, LanePosition("p", 8))


def test_a_position_is_read_as_it_was_written() -> None:
    assert HELD.encode() == b'{"version":1,"query":"q","batch":7}'
    assert LanePosition.decode(HELD.encode()) == HELD
    for value in (None, b"", b"{}", b"[]", b'{"version":2}', b'{"version":1,"query":"q"}'):
        with pytest.raises(BrokenPositionError):
            LanePosition.decode(value)


def test_a_view_does_not_read_what_it_writes() -> None:
    link = MirrorLink(name="jfk-nyc", source="jfk", datacenter="JFK", bootstrap="jfk:9092")
    aggregate = Aggregate(name="nyc", bootstrap="nyc:9092", links=(link,))

    def check(bootstrap: str, topic: str) -> None:
        target = ServedTopic(cluster=ClusterAddress(bootstrap), topic=topic, name="n")
        check_no_loop(aggregate, "flights", target)

    for bootstrap, topic in (("jfk:9092", "flights"), ("nyc:9092", "jfk.flights")):
        with pytest.raises(OwnInputError, match=f"reads topic {topic} of {bootstrap}"):
            check(bootstrap, topic)
    check("jfk:9092", "counts")
    check("nyc:9092", "all-flights")
    check("elsewhere:9092", "flights")
