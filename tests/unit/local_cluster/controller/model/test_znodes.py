"""Paths and payloads against znodes that Kafka 3.9.1 wrote (tests/golden)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_cluster.controller.model import (
    broker_znodes,
    config_znodes,
    topic_znodes,
    znode_json,
    znode_paths,
)
from local_cluster.controller.model.topic_znodes import TopicAssignment
from tests.unit.local_cluster.controller.samples import partition, topic_id

GOLDEN = Path(__file__).parents[4] / "golden" / "zookeeper_kafka_3_9_1.txt"


def golden() -> dict[str, bytes]:
    pairs = (line.split(" ", 1) for line in GOLDEN.read_text().splitlines())
    return {path: payload.encode() for path, payload in pairs}


def test_broker_registration_is_kafkas() -> None:
    payload = broker_znodes.encode_broker(
        [("CLIENT", "127.0.0.1", 29092), ("REPL", "127.0.0.1", 29093)],
        {"CLIENT": "PLAINTEXT", "REPL": "PLAINTEXT"},
        rack="r1",
        timestamp_ms=1795239851762,
    )
    assert payload == golden()[znode_paths.broker_id_path(1)]


def test_broker_registration_is_read_back() -> None:
    broker = broker_znodes.decode_broker(1, golden()["/brokers/ids/1"], broker_epoch=77)
    assert broker.listeners == {"CLIENT": ("127.0.0.1", 29092), "REPL": ("127.0.0.1", 29093)}
    assert (broker.rack, broker.broker_epoch, broker.host) == ("r1", 77, "127.0.0.1")


def test_broker_without_plaintext_listener_has_no_legacy_address() -> None:
    payload = broker_znodes.encode_broker(
        [("S", "h", 9093)], {"S": "SASL_SSL"}, rack=None, timestamp_ms=1
    )
    body = json.loads(payload)
    assert (body["host"], body["port"]) == (None, -1)
    assert "rack" not in body


def test_ipv6_endpoints_have_brackets() -> None:
    payload = broker_znodes.encode_broker(
        [("P", "::1", 9092)], {"P": "PLAINTEXT"}, rack=None, timestamp_ms=1
    )
    assert json.loads(payload)["endpoints"] == ["P://[::1]:9092"]
    assert broker_znodes.decode_broker(1, payload, broker_epoch=0).listeners == {"P": ("::1", 9092)}


@pytest.mark.parametrize(
    ("body", "listeners"),
    [
        ({"version": 1, "host": "h", "port": 1}, {"PLAINTEXT": ("h", 1)}),
        ({"version": 2, "endpoints": ["SSL://h:2"]}, {"SSL": ("h", 2)}),
        (
            {
                "version": 4,
                "endpoints": ["A://h:3"],
                "listener_security_protocol_map": {"A": "SSL"},
            },
            {"A": ("h", 3)},
        ),
    ],
)
def test_older_registrations_are_read(
    body: dict[str, object], listeners: dict[str, tuple[str, int]]
) -> None:
    broker = broker_znodes.decode_broker(3, json.dumps(body).encode(), broker_epoch=0)
    assert broker.listeners == listeners


def test_topic_is_kafkas() -> None:
    assignment = TopicAssignment(
        znode_json.decode_uuid("F6jEpkysS6qCC37z8OH69w"), {0: (1,), 1: (1,)}, {}, {}
    )
    assert topic_znodes.encode_topic(assignment) == golden()[znode_paths.topic_path("orders")]
    assert topic_znodes.decode_topic(golden()["/brokers/topics/orders"]) == assignment


def test_topic_of_an_old_tool_has_no_id() -> None:
    read = topic_znodes.decode_topic(b'{"version":1,"partitions":{"0":[2,1]}}')
    assert read == TopicAssignment(None, {0: (2, 1)}, {}, {})


def test_partition_states_are_kafkas() -> None:
    led = topic_znodes.encode_state(partition(0, 1), controller_epoch=1)
    assert led == golden()[znode_paths.state_path("orders", 0)]
    away = topic_znodes.encode_state(
        partition(0, 2, leader=-1, epoch=1, isr=(2,)), controller_epoch=3
    )
    assert away == golden()[znode_paths.state_path("away", 0)]
    assert topic_znodes.decode_state(away) == (-1, 1, (2,), 3)


def test_small_payloads_are_kafkas() -> None:
    written = {
        znode_paths.CLUSTER_ID: broker_znodes.encode_cluster_id("Dv-v_H3VTwSswNcCuk1zDg"),
        znode_paths.topic_config_path("orders"): config_znodes.encode_config(
            {"cleanup.policy": "compact"}
        ),
        znode_paths.CONTROLLER: broker_znodes.encode_controller(1, timestamp_ms=1795239851875),
        znode_paths.CONTROLLER_EPOCH: broker_znodes.encode_controller_epoch(1),
        znode_paths.FEATURE: broker_znodes.encode_feature(),
        znode_paths.PRODUCER_ID_BLOCK: broker_znodes.encode_producer_id_block(1, range(1000)),
    }
    for path, payload in written.items():
        assert payload == golden()[path], path
    assert broker_znodes.decode_controller(golden()["/controller"]) == 1
    assert broker_znodes.decode_cluster_id(golden()["/cluster/id"]) == "Dv-v_H3VTwSswNcCuk1zDg"


def test_producer_id_blocks_follow_each_other() -> None:
    assert broker_znodes.next_producer_id_block(b"") == range(1000)
    assert broker_znodes.next_producer_id_block(golden()["/latest_producer_id_block"]) == range(
        1000, 2000
    )


def test_producer_ids_do_not_wrap() -> None:
    last = broker_znodes.encode_producer_id_block(1, range(2**63 - 1002, 2**63 - 2))
    with pytest.raises(OverflowError):
        broker_znodes.next_producer_id_block(last)


@pytest.mark.parametrize(
    ("payload", "entity"),
    [
        (b'{"version":2,"entity_path":"topics/orders"}', ("topics", "orders")),
        (b'{"version":1,"entity_type":"topics","entity_name":"a"}', ("topics", "a")),
        (b'{"version":2,"entity_path":"users/u/clients/c"}', None),
    ],
)
def test_config_changes(payload: bytes, entity: tuple[str, str] | None) -> None:
    assert config_znodes.decode_config_change(payload) == entity


def test_configs_of_an_empty_znode() -> None:
    assert config_znodes.decode_config(b"") == {}


def test_isr_changes() -> None:
    payload = b'{"version":1,"partitions":[{"topic":"a","partition":3}]}'
    assert topic_znodes.decode_partitions(payload) == {("a", 3)}


@pytest.mark.parametrize("payload", [b"", b"[]", b"{", b"\xff", b'{"version":"x"}', b'"a"'])
def test_strange_payloads_raise_value_error(payload: bytes) -> None:
    with pytest.raises(ValueError):
        topic_znodes.decode_state(payload)
    with pytest.raises(ValueError):
        broker_znodes.decode_broker(1, payload, broker_epoch=0)


def test_uuid_text_round_trips() -> None:
    value = topic_id("a")
    assert znode_json.decode_uuid(znode_json.encode_uuid(value)) == value
    assert len(znode_json.encode_uuid(value)) == 22


def test_parents_come_before_their_children() -> None:
    seen = {""}
    for path in znode_paths.PERSISTENT_PATHS:
        assert path.rsplit("/", 1)[0] in seen, path
        seen.add(path)
