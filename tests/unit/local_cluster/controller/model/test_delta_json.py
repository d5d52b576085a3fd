"""CLUSTER_DELTA bodies: round trips, and refusal of anything else."""

from __future__ import annotations

import pytest

from local_cluster.controller.model.cluster_image import (
    NO_EPOCH,
    ClusterDelta,
    ClusterImage,
    ReplicaReport,
    difference,
)
from local_cluster.controller.model.delta_json import (
    DELTA_VERSION,
    Reply,
    decode_delta,
    decode_reply,
    encode_delta,
    encode_reply,
)
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.samples import (
    broker,
    partition,
    topic,
    topic_id,
    unwritten,
)

FIRST = ClusterImage(
    1,
    3,
    8,
    {1: broker(1, rack="r"), 2: broker(2)},
    {
        "a": topic("a", partition(0, 1, 2, epoch=4, version=6), unwritten(1, 9), retention_ms="5"),
        "b": topic("b", partition(0, 1)),
    },
    {"gone": topic_id("gone")},
    {"1": {"leader.replication.throttled.rate": "5"}, "2": {"no.such": "x"}},
    {"groups/etl": {"consumer.session.timeout.ms": "50000"}},
    {1: frozenset({("a", 0)}), 2: frozenset({("a", 1)})},
    is_whole=True,
)
SECOND = ClusterImage(
    1,
    3,
    9,
    {1: broker(1)},
    {"a": topic("a", partition(0, 2, epoch=5))},
    {"b": topic_id("b")},
    {"1": {"leader.replication.throttled.rate": "6"}},
    {},
    {1: frozenset({("a", 0), ("a", 1), ("b", 0)})},
)


@pytest.mark.parametrize(
    "delta", [difference(None, FIRST, 77), difference(FIRST, SECOND, 78)], ids=["full", "diff"]
)
def test_round_trip(delta: ClusterDelta) -> None:
    payload = encode_delta(delta)
    assert payload[0] == DELTA_VERSION
    assert decode_delta(payload) == delta


def test_a_difference_names_what_is_gone() -> None:
    delta = difference(FIRST, SECOND, 1)
    assert delta.brokers == {1: broker(1), 2: None}
    assert delta.topics == {"a": SECOND.topics["a"], "b": None}
    assert delta.deletions == {"b": topic_id("b")}
    assert delta.broker_configs == {"1": {"leader.replication.throttled.rate": "6"}, "2": None}
    assert delta.entity_configs == {"groups/etl": None}
    assert delta.offline == {1: SECOND.offline[1], 2: None}
    assert (delta.base_sequence, delta.sequence) == (8, 9)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x02{}", b"\x01", b"\x01[]", b"\x01{}", b'\x01{"full":1}', b"\x01\xff"],
)
def test_anything_else_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):
        decode_delta(payload)
    with pytest.raises(ValueError):
        decode_reply(payload)


def test_a_delta_cut_short_is_refused() -> None:
    payload = encode_delta(difference(None, FIRST, 1))
    for end in range(len(payload)):
        with pytest.raises(ValueError):
            decode_delta(payload[:end])


def test_replies() -> None:
    assert decode_reply(encode_reply(ErrorCode.none)) == Reply(ErrorCode.none)
    stale = encode_reply(ErrorCode.stale_broker_epoch, "old")
    assert decode_reply(stale) == Reply(ErrorCode.stale_broker_epoch, "old")
    report = ReplicaReport(SECOND.offline[1], frozenset({topic_id("b"), topic_id("c")}))
    told = decode_reply(encode_reply(ErrorCode.none, report=report))
    assert told == Reply(ErrorCode.none, "", report)
    refusal = encode_reply(ErrorCode.stale_controller_epoch, "old", epoch_min=4)
    assert decode_reply(refusal).epoch_min == 4


def test_a_refusal_without_an_epoch() -> None:
    reply = decode_reply(b'\x01{"error_code":11,"error_message":"old"}')
    assert reply == Reply(ErrorCode.stale_controller_epoch, "old")
    assert reply.epoch_min == NO_EPOCH
