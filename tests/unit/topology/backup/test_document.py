"""The document of a backup: exact to the byte, readable, and safe to start from."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.controller.model.broker_znodes import (
    encode_producer_id_block,
    next_producer_id_block,
)
from local_cluster.controller.model.cluster_image import PartitionState
from local_cluster.controller.model.topic_znodes import decode_state, encode_state
from topology.backup.document import (
    LEADER_EPOCHS_SKIPPED,
    PRODUCER_IDS_SKIPPED,
    NotABackup,
    backup_document,
    is_kept,
    read_document,
    restored,
    topics_of,
)
from topology.shared_file import znodes

CONTENT = st.one_of(
    st.binary(max_size=50),
    st.text(max_size=50).map(str.encode),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    ).map(lambda value: json.dumps(value).encode()),
)


@given(st.dictionaries(st.text(min_size=1, max_size=8).map(lambda name: f"/{name}"), CONTENT))
def test_every_content_comes_back_to_the_byte(znodes: dict[str, bytes]) -> None:
    text = json.dumps(backup_document("d", "2026-01-01T00:00:00+00:00", {"ewr": znodes}))
    assert read_document(text) == {"ewr": znodes}


def test_kafkas_json_is_readable() -> None:
    znodes = {"/config/topics/t": b'{"version":1,"config":{"retention.ms":"5"}}', "/a": b"\xff"}
    document = backup_document("d", "now", {"ewr": znodes})
    assert document["clusters"]["ewr"] == [
        {"path": "/a", "base64": "/w=="},
        {"path": "/config/topics/t", "json": {"version": 1, "config": {"retention.ms": "5"}}},
    ]


def test_notifications_are_left_out_and_their_parents_kept() -> None:
    assert is_kept("/config/changes")
    assert not is_kept("/config/changes/config_change_0000000001")
    assert not is_kept("/isr_change_notification/isr_change_1")
    assert is_kept("/config/users/alice")


def test_the_file_of_the_hosts_is_left_out() -> None:
    assert not is_kept(znodes.PATH)


def test_a_restore_gives_no_epoch_and_no_producer_id_twice() -> None:
    path = "/brokers/topics/t/partitions/0/state"
    state = PartitionState(0, (1, 2), leader=1, leader_epoch=7, isr=(1, 2), zk_version=4)
    before = {
        path: encode_state(state, controller_epoch=3),
        "/latest_producer_id_block": encode_producer_id_block(1, range(1000)),
        "/brokers/topics/t": b'{"version":3}',
    }
    after = restored(before)
    again = decode_state(after[path])
    assert (again.leader_epoch, again.isr) == (7 + LEADER_EPOCHS_SKIPPED, (1, 2))
    block = "/latest_producer_id_block"
    assert (
        next_producer_id_block(after[block]).start
        == next_producer_id_block(before[block]).start + PRODUCER_IDS_SKIPPED
    )
    assert after["/brokers/topics/t"] == before["/brokers/topics/t"]


def test_topics_are_the_children_of_their_parent() -> None:
    assert topics_of(["/brokers/topics/t", "/brokers/topics/t/partitions", "/config"]) == ["t"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format":"heliograph-backup","version":9,"clusters":{}}']
)
def test_what_is_no_backup(text: str) -> None:
    with pytest.raises(NotABackup, match="expected"):
        read_document(text)
