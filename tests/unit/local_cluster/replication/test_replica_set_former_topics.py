"""Logs of a deleted topic whose name is used again, and whose deletion this broker missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.controller.model.cluster_image import ALL_WELL
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.samples import append, batch
from tests.unit.local_cluster.replication.test_offline_replicas import OTHER_ID, TOPIC_ID, Broker


def strays(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("*/*") if path.name.endswith("-stray"))


def stray(index: int) -> str:
    return f"t-{index}.{TOPIC_ID.hex}-stray"


async def test_the_new_topic_replaces_the_log_and_the_files_are_kept(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.apply(1, 2, 1)
    former = broker.replicas.get_leader("t", 0)
    append(former.log, batch(3))
    waiting = former.committed(3)
    broker.apply(1, 2, topic_id=OTHER_ID)
    with pytest.raises(KafkaError) as failed:
        await waiting
    assert failed.value.code is ErrorCode.not_leader_or_follower
    living = broker.replicas.get_leader("t", 0)
    assert (living.topic_id, living.log.log_end_offset) == (OTHER_ID, 0)
    assert broker.fetching.followed == {1}
    assert broker.leaderships == [(0, True), (2, True), (0, False), (2, False), (0, True)]
    assert strays(tmp_path) == [stray(0), stray(1), stray(2)]
    (kept,) = tmp_path.glob(f"*/{stray(0)}/*.log")
    assert kept.stat().st_size
    assert broker.replicas.get("t", 2) is None
    assert broker.replicas.report() == ALL_WELL
    broker.close()
    again = Broker(tmp_path)
    again.apply(1, 2, epoch=1, topic_id=OTHER_ID)
    assert strays(tmp_path) == [stray(0), stray(1), stray(2)]
    again.close()


async def test_a_broker_that_was_down_sets_its_logs_aside(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.apply(1, 1)
    broker.close()
    back = Broker(tmp_path)
    back.apply(2, topic_id=OTHER_ID)
    assert strays(tmp_path) == [stray(0), stray(1)]
    assert [(log.partition, log.topic_id) for log in back.directories] == [(0, OTHER_ID)]
    back.close()


async def test_no_log_is_set_aside_because_metadata_is_missing(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.apply(1, 1)
    broker.apply()
    assert strays(tmp_path) == []
    assert len(list(broker.directories)) == 2
    broker.close()
