"""Payloads of configs and their notifications, against those of Kafka 3.9.1."""

from __future__ import annotations

import pytest

from local_cluster.controller.model import config_znodes, znode_paths
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
