"""A lane writes a batch once, and knows its own query."""

from __future__ import annotations

import zlib

import pytest

from spark_global.addresses import ClusterAddress
from spark_global.links import MirrorLink
from spark_global.serving.lanes import ServedTopic
from spark_global.serving.positions import (
    Batch,
    BrokenPositionError,
    LanePosition,
    ServedByAnotherError,
    Tally,
    check_same,
    is_new,
)
from spark_global.serving.serving import OwnInputError, check_no_loop
from spark_global.views import Aggregate


def tally_of(*values: bytes) -> Tally:
    tally = Tally()
    for value in values:
        tally.add(None, value)
    return tally


HELD = LanePosition(Batch("q", 7, 4), tally_of(b"a", b"b"))


def test_a_batch_is_written_once() -> None:
    assert is_new(None, Batch("q", 3, 4))
    assert is_new(HELD, Batch("q", 8, 4))
    assert is_new(HELD, Batch("q", 9, 4))  # a batch without rows in the lane leaves no position
    assert not is_new(HELD, Batch("q", 7, 4))


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (Batch("p", 8, 4), r"query q has served batch 7, and this is query p"),
        (Batch("q", 6, 4), r"batch 7 of the query is served, and this is batch 6"),
        (Batch("q", 7, 6), r"spread over 4 lanes, and the topic of positions has 6 partitions"),
        (Batch("q", 8, 6), r"spread over 4 lanes"),
    ],
)
def test_what_would_lose_or_double_rows_is_refused(batch: Batch, why: str) -> None:
    with pytest.raises(ServedByAnotherError, match=why):
        is_new(HELD, batch)


@pytest.mark.parametrize("values", [(b"a",), (b"a", b"c"), (b"a", b"b", b"b"), ()])
def test_a_batch_that_runs_again_has_the_same_rows(values: tuple[bytes, ...]) -> None:
    check_same(HELD, tally_of(b"a", b"b"))
    check_same(HELD, tally_of(b"b", b"a"))
    with pytest.raises(ServedByAnotherError, match=f"served with 2 .* again with {len(values)}"):
        check_same(HELD, tally_of(*values))


def test_a_position_is_read_as_it_was_written() -> None:
    assert HELD.encode() == (
        b'{"version":1,"query":"q","batch":7,"lanes":4,"records":2,"checksum":%d}'
        % (zlib.crc32(b"a") + zlib.crc32(b"b"))
    )
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
