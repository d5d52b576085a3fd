"""Kafka's text of UUIDs."""

from __future__ import annotations

from local_cluster.controller.model import znode_json
from tests.unit.local_cluster.controller.samples import topic_id


def test_uuid_text_round_trips() -> None:
    value = topic_id("a")
    assert znode_json.decode_uuid(znode_json.encode_uuid(value)) == value
    assert len(znode_json.encode_uuid(value)) == 22
