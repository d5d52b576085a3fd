"""Payloads of configs and their notifications, against those of Kafka 3.9.1."""

from __future__ import annotations

import pytest

from local_cluster.controller.model import config_znodes, znode_paths
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from tests.unit.local_cluster.controller.model.kafka_payloads import kafka_znodes


def test_configs_are_kafkas() -> None:
    payload = config_znodes.encode_config({"cleanup.policy": "compact"})
    assert payload == kafka_znodes()[znode_paths.topic_config_path("orders")]


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


@pytest.mark.parametrize(
    "config", [b"[]", b'{"a":1}', b'{"a":null}', b'{"a":"\\ud800"}', b'{"SCRAM-SHA-256":["key"]}']
)
def test_configs_are_texts_and_a_refusal_repeats_none(config: bytes) -> None:
    with pytest.raises(UnreadableZnodeError) as refused:
        config_znodes.decode_config(b'{"version":1,"config":' + config + b"}")
    assert "key" not in str(refused.value).replace("key 'a'", "")


@pytest.mark.parametrize("payload", [b'{"config":{"SCRAM-SHA-256":"salt="', b'["salt="]'])
def test_a_payload_that_is_no_json_is_not_repeated(payload: bytes) -> None:
    """It may be that of a user, and refusals are logged."""
    with pytest.raises(UnreadableZnodeError) as refused:
        config_znodes.decode_config(payload)
    assert "salt" not in str(refused.value)
