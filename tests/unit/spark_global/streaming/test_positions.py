"""Positions survive the checkpoint, and do not fit another cluster or topic."""

from __future__ import annotations

import json

import pytest

from local_cluster.client.model import TopicPartition
from spark_global.streaming.positions import (
    NOTHING_JOINED,
    CheckpointError,
    StreamPositions,
    TopicGoneError,
    check_identity,
    check_log_starts,
)

HELD = StreamPositions(
    cluster_id="nyc",
    topic_ids={"jfk.b": "id-b", "jfk.a": "id-a"},
    offsets={
        TopicPartition("jfk.b", 10): 7,
        TopicPartition("jfk.b", 9): 5,
        TopicPartition("jfk.a", 0): 3,
    },
)


def test_offsets_that_no_map_is_waited_for_are_kept() -> None:
    at = TopicPartition("flights", 0)
    passed = StreamPositions(topic_ids={"flights": "i"}, offsets={at: 8}, passed={at: 5})
    assert StreamPositions.decode(passed.encode()) == passed
    plain = StreamPositions(topic_ids={"flights": "i"}, offsets={at: 8})
    assert "passed" not in str(plain.encode()), "the text of a version before"


def test_positions_come_back_from_the_checkpoint() -> None:
    text = json.dumps(HELD.encode())
    assert text == (
        '{"version": 1, "cluster_id": "nyc", "topics": {'
        '"jfk.a": {"topic_id": "id-a", "offsets": {"0": 3}}, '
        '"jfk.b": {"topic_id": "id-b", "offsets": {"9": 5, "10": 7}}}}'
    )
    assert StreamPositions.decode(json.loads(text)) == HELD
    assert json.dumps(StreamPositions.decode(json.loads(text)).encode()) == text


def test_nothing_has_joined_before_the_first_batch() -> None:
    assert StreamPositions.decode(NOTHING_JOINED) == StreamPositions(topic_ids={}, offsets={})


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"version": 2}, "version 2; this reader knows 1"),
        ({"jfk.a": {"0": 5}}, "version None"),
        ({"version": 1, "cluster_id": "x", "topics": {"a": 5}}, "broken positions"),
        ({"version": 1, "cluster_id": "x", "topics": {"a": {"topic_id": ""}}}, "broken positions"),
    ],
)
def test_other_documents_are_refused(document: dict[str, object], said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        StreamPositions.decode(document)


def test_positions_of_another_cluster_or_topic_are_refused() -> None:
    present = dict(HELD.topic_ids) | {"other": "x"}
    check_identity(HELD, "nyc", present)
    check_identity(HELD, "", dict.fromkeys(present, ""))  # a cluster without ids proves nothing
    with pytest.raises(CheckpointError, match="belongs to cluster nyc, and this is lon"):
        check_identity(HELD, "lon", present)
    with pytest.raises(TopicGoneError, match=r"topic jfk\.b is gone"):
        check_identity(HELD, "nyc", {"jfk.a": "id-a"})
    with pytest.raises(CheckpointError, match=r"jfk\.b was deleted and re-created.*id-b.*id-c"):
        check_identity(HELD, "nyc", present | {"jfk.b": "id-c"})


def test_records_that_retention_has_deleted_are_named() -> None:
    check_log_starts(HELD, {TopicPartition("jfk.a", 0): 3, TopicPartition("new", 0): 9})
    with pytest.raises(CheckpointError, match=r"jfk\.a-0: retention has deleted .*\[3, 4\)"):
        check_log_starts(HELD, {TopicPartition("jfk.a", 0): 4})
