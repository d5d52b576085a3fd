"""OFFSET_TIMES: only brokers ask, and only leaders know."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.groups.offset_times import (
    AT_END,
    Place,
    decode_times,
    encode_places,
    encode_times,
)
from local_cluster.handlers.data.offset_times import offset_times
from local_cluster.handlers.services import RequestContext
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError


def replica(time_ms: int | None, *, is_leader: bool = True) -> Any:
    reader = SimpleNamespace(unread_time=lambda offset, limit: time_ms)
    return SimpleNamespace(
        is_leader=is_leader, high_watermark=9, log=SimpleNamespace(reader=reader)
    )


REPLICAS = {0: replica(500), 1: replica(None), 2: replica(600, is_leader=False)}


def ask(principal: str, body: bytes) -> bytes:
    broker: Any = SimpleNamespace(
        settings=SimpleNamespace(
            broker_principals=("User:broker",),
            trusted_listeners=(),
        ),
        authorize=lambda *_: True,
        replicas=SimpleNamespace(get=lambda topic, index: REPLICAS.get(index)),
    )
    context = RequestContext(ApiKey.OFFSET_TIMES, 0, 1, "c", principal, "INTERNAL", "h", 1)
    reply = offset_times(broker, context, memoryview(body))
    assert isinstance(reply, bytes)
    return reply


def test_a_leader_answers_for_each_place() -> None:
    places = [Place("t", index, 3) for index in range(4)]
    assert decode_times(ask("User:broker", encode_places(places))) == [500, AT_END, None, None]


def test_a_client_is_refused() -> None:
    with pytest.raises(KafkaError) as refusal:
        ask("User:alice", encode_places([Place("t", 0, 3)]))
    assert refusal.value.code is ErrorCode.cluster_authorization_failed


@pytest.mark.parametrize("body", [b"", b"\x02[]", b"\x01{", b"\x01{}", b"\x01[1]", b"\x01[[1]]"])
def test_other_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(KafkaError) as refusal:
        ask("User:broker", body)
    assert refusal.value.code is ErrorCode.invalid_request


def test_other_bytes_are_no_response() -> None:
    for body in (b"", b'\x01["soon"]', b"\x01[true]", encode_times([1])[:-1]):
        with pytest.raises(ValueError):
            decode_times(body)
