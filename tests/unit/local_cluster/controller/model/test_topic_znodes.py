"""Payloads of topics and partition states, against those of Kafka 3.9.1."""

from __future__ import annotations

import pytest

from local_cluster.controller.model import topic_znodes, znode_json, znode_paths
from local_cluster.controller.model.topic_znodes import TopicAssignment
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from tests.unit.local_cluster.controller.model.kafka_payloads import STRANGE_PAYLOADS, kafka_znodes
from tests.unit.local_cluster.controller.samples import partition


def test_topic_is_kafkas() -> None:
    assignment = TopicAssignment(
        znode_json.decode_uuid("F6jEpkysS6qCC37z8OH69w"), {0: (1,), 1: (1,)}, {}, {}
    )
    assert topic_znodes.encode_topic(assignment) == kafka_znodes()[znode_paths.topic_path("orders")]
    assert topic_znodes.decode_topic(kafka_znodes()["/brokers/topics/orders"]) == assignment


def test_topic_of_an_old_tool_has_no_id() -> None:
    read = topic_znodes.decode_topic(b'{"version":1,"partitions":{"0":[2,1]}}')
    assert read == TopicAssignment(None, {0: (2, 1)}, {}, {})


def test_partition_states_are_kafkas() -> None:
    led = topic_znodes.encode_state(partition(0, 1), controller_epoch=1)
    assert led == kafka_znodes()[znode_paths.state_path("orders", 0)]
    away = topic_znodes.encode_state(
        partition(0, 2, leader=-1, epoch=1, isr=(2,)), controller_epoch=3
    )
    assert away == kafka_znodes()[znode_paths.state_path("away", 0)]
    assert topic_znodes.decode_state(away) == (-1, 1, (2,), 3)


def test_isr_changes() -> None:
    payload = b'{"version":1,"partitions":[{"topic":"a","partition":3}]}'
    assert topic_znodes.decode_partitions(payload) == {("a", 3)}


@pytest.mark.parametrize("payload", STRANGE_PAYLOADS)
def test_strange_payloads_raise_value_error(payload: bytes) -> None:
    with pytest.raises(UnreadableZnodeError):
        topic_znodes.decode_state(payload)
    for decode in (topic_znodes.decode_partitions, topic_znodes.decode_reassignments):
        with pytest.raises(UnreadableZnodeError):
            decode(payload)


@pytest.mark.parametrize(
    "isr", ['"12"', "null", "[1,1]", "[-1]", "[1.0]", "[true]", "[1e999]", "[2147483648]"]
)
def test_an_isr_is_a_list_of_brokers(isr: str) -> None:
    state = f'{{"leader":1,"leader_epoch":0,"isr":{isr},"controller_epoch":1}}'
    with pytest.raises(UnreadableZnodeError):
        topic_znodes.decode_state(state.encode())


@pytest.mark.parametrize(
    "body",
    [
        '"partitions":{"0":"12"}',
        '"partitions":{"0":[1,1]}',
        '"partitions":{"-1":[1]}',
        '"partitions":{"1":[1],"01":[2]}',
        '"partitions":[[1]]',
        '"partitions":{"0":[1]},"adding_replicas":{"1":[2]}',
        '"partitions":{"0":[1]},"topic_id":7',
        '"partitions":{"0":[1]},"topic_id":"abc"',
    ],
)
def test_a_topic_that_contradicts_itself_is_refused(body: str) -> None:
    with pytest.raises(UnreadableZnodeError):
        topic_znodes.decode_topic(f'{{"version":3,{body}}}'.encode())
