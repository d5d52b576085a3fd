"""Payloads of brokers and the cluster, against those of Kafka 3.9.1."""

from __future__ import annotations

import json

import pytest

from local_cluster.controller.model import broker_znodes, znode_paths
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from tests.unit.local_cluster.controller.model.kafka_payloads import STRANGE_PAYLOADS, kafka_znodes


def test_broker_registration_is_kafkas() -> None:
    payload = broker_znodes.encode_broker(
        [("CLIENT", "127.0.0.1", 29092), ("REPL", "127.0.0.1", 29093)],
        {"CLIENT": "PLAINTEXT", "REPL": "PLAINTEXT"},
        rack="r1",
        timestamp_ms=1795239851762,
    )
    assert payload == kafka_znodes()[znode_paths.broker_id_path(1)]


def test_broker_registration_is_read_back() -> None:
    broker = broker_znodes.decode_broker(1, kafka_znodes()["/brokers/ids/1"], broker_epoch=77)
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


def test_small_payloads_are_kafkas() -> None:
    written = {
        znode_paths.CLUSTER_ID: broker_znodes.encode_cluster_id("Dv-v_H3VTwSswNcCuk1zDg"),
        znode_paths.CONTROLLER: broker_znodes.encode_controller(1, timestamp_ms=1795239851875),
        znode_paths.CONTROLLER_EPOCH: broker_znodes.encode_controller_epoch(1),
        znode_paths.FEATURE: broker_znodes.encode_feature(),
        znode_paths.PRODUCER_ID_BLOCK: broker_znodes.encode_producer_id_block(1, range(1000)),
    }
    for path, payload in written.items():
        assert payload == kafka_znodes()[path], path
    assert broker_znodes.decode_controller(kafka_znodes()["/controller"]) == 1
    assert (
        broker_znodes.decode_cluster_id(kafka_znodes()["/cluster/id"]) == "Dv-v_H3VTwSswNcCuk1zDg"
    )


def test_producer_id_blocks_follow_each_other() -> None:
    assert broker_znodes.next_producer_id_block(b"") == range(1000)
    assert broker_znodes.next_producer_id_block(
        kafka_znodes()["/latest_producer_id_block"]
    ) == range(1000, 2000)


def test_producer_ids_do_not_wrap() -> None:
    last = broker_znodes.encode_producer_id_block(1, range(2**63 - 1002, 2**63 - 2))
    with pytest.raises(OverflowError):
        broker_znodes.next_producer_id_block(last)


@pytest.mark.parametrize("payload", STRANGE_PAYLOADS)
def test_strange_payloads_raise_value_error(payload: bytes) -> None:
    with pytest.raises(UnreadableZnodeError):
        broker_znodes.decode_broker(1, payload, broker_epoch=0)
    for decode in (
        broker_znodes.decode_controller,
        broker_znodes.decode_controller_epoch,
        broker_znodes.decode_cluster_id,
    ):
        with pytest.raises(UnreadableZnodeError):
            decode(payload)


@pytest.mark.parametrize(
    "changed",
    [
        {"endpoints": None},
        {"endpoints": "P://h:1"},
        {"endpoints": [7]},
        {"endpoints": ["P://h:65536"]},
        {"endpoints": ["P://h:99999999999999999999"]},
        {"rack": 7},
        {"listener_security_protocol_map": {"P": None}},
        {"listener_security_protocol_map": ["P"]},
    ],
    ids=str,
)
def test_a_registration_that_no_client_could_be_sent_is_refused(changed: dict[str, object]) -> None:
    body = {"version": 5, "endpoints": ["P://h:1"], "rack": "r"}
    broker_znodes.decode_broker(1, json.dumps(body).encode(), broker_epoch=0)
    with pytest.raises(UnreadableZnodeError):
        broker_znodes.decode_broker(1, json.dumps(body | changed).encode(), broker_epoch=0)


@pytest.mark.parametrize("payload", [b"-1", b"1.0", b" 1", b"1_0", b"2147483648", b"\xd9\xa3"])
def test_a_controller_epoch_is_a_number(payload: bytes) -> None:
    with pytest.raises(UnreadableZnodeError):
        broker_znodes.decode_controller_epoch(payload)
