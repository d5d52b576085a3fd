"""Logs without partition.metadata: re-created, given their topic id, or offline; not deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.state import checkpoints
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock, made, opened
from tests.unit.local_cluster.log.samples import TOPIC_ID, append, batch, flush, offsets_of


def test_nothing_is_deleted_for_lack_of_metadata(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    directory.close()
    for name in (checkpoints.PARTITION_METADATA, checkpoints.LEADER_EPOCHS):
        (tmp_path / "t-0" / name).unlink()
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
        (tmp_path / name).unlink()
    (tmp_path / "no partition").mkdir()
    again = opened(tmp_path)
    log = again.get("t", 0)
    assert log is not None
    assert offsets_of(log) == [0, 1]
    assert (tmp_path / "no partition").is_dir()
    again.close()


@pytest.mark.parametrize("is_readable", [True, False])
def test_an_unreadable_partition_is_offline_and_the_others_are_not(
    tmp_path: Path, is_readable: bool
) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    append(made(directory, 1), batch(2))
    directory.close()
    metadata = tmp_path / "t-0" / checkpoints.PARTITION_METADATA
    if is_readable:
        metadata.write_bytes(b"version: 9\n")
    else:
        metadata.unlink()
        metadata.mkdir()
    again = opened(tmp_path)
    assert again.get("t", 0) is None
    assert ("t", 0) in again.offline
    assert again.get("t", 1) is not None
    with pytest.raises(KafkaError) as refused:
        made(again)
    assert refused.value.code is ErrorCode.kafka_storage_error
    again.close()
    assert not (tmp_path / checkpoints.CLEAN_SHUTDOWN).exists()
    points = (tmp_path / checkpoints.RECOVERY_POINTS).read_bytes()
    assert checkpoints.decode_offsets(points) == {("t", 0): 2, ("t", 1): 2}


@pytest.mark.parametrize("content", [b"", b"version: 0\ntopic"])
def test_a_log_that_lost_its_topic_id_before_its_first_flush_is_re_created(
    tmp_path: Path, content: bytes
) -> None:
    """A power failure right after the creation: nothing of the log counts as durable yet."""
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    (tmp_path / "t-0" / "partition.metadata").write_bytes(content)
    directory.fail("the power is gone")
    directory.close()
    again = opened(tmp_path)
    log = made(again)
    assert (log.log_end_offset, log.topic_id) == (0, TOPIC_ID)
    append(log, batch(1))
    again.close()
    assert made(opened(tmp_path)).log_end_offset == 1


def test_a_flushed_log_without_its_topic_id_is_offline(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(2))
    flush(log)
    directory.close(high_watermarks={("t", 0): 2})
    (tmp_path / "t-0" / "partition.metadata").write_bytes(b"")
    (tmp_path / checkpoints.CLEAN_SHUTDOWN).unlink()
    again = opened(tmp_path)
    with pytest.raises(KafkaError, match=r"partition\.metadata"):
        made(again)
    assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size


def test_with_page_cache_a_log_that_was_never_flushed_is_re_created(
    tmp_path: Path,
) -> None:
    """There the high watermark proves nothing about the disk; an offline log would never return."""
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    directory.checkpoint({("t", 0): 2})
    (tmp_path / "t-0" / "partition.metadata").write_bytes(b"version: 0\ntopic")
    directory.fail("the power is gone")
    directory.close(clean=False)
    again = LogDirectory(tmp_path, OsFiles(), broker_id=1, clock=StandingClock())
    again.open(cluster_id="c", flushes=False)
    assert not again.offline
    log = made(again)
    assert (log.log_end_offset, log.topic_id) == (0, TOPIC_ID)
    again.close()


def test_a_log_without_metadata_adopts_its_topic_id_and_can_be_deleted(
    tmp_path: Path,
) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(2))
    directory.close()
    (tmp_path / "t-0" / checkpoints.PARTITION_METADATA).unlink()
    again = opened(tmp_path)
    log = made(again)
    assert (log.log_end_offset, log.topic_id) == (2, TOPIC_ID)
    again.close()
    once_more = opened(tmp_path)
    once_more.delete_topic("t", TOPIC_ID)
    assert once_more.get("t", 0) is None
    once_more.close()
