"""The log directory: its owner, its lock, its checkpoints, and the names of its logs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.disk_work import LogDirectoryError
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_directory import parse_log_name
from local_cluster.log.state import checkpoints
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.directory.directory_samples import StandingClock, made, opened
from tests.unit.local_cluster.log.samples import TOPIC_ID, FailingFiles, append, batch, flush


def test_one_process_at_a_time(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    program = (
        "import sys; from pathlib import Path;"
        "from local_cluster.clock import SystemClock;"
        "from local_cluster.log.directory.log_directory import LogDirectory;"
        "from local_cluster.log.disk.files import OsFiles;"
        "LogDirectory(Path(sys.argv[1]), OsFiles(), broker_id=1, clock=SystemClock()).open()"
    )
    root = Path(__file__).parents[5]
    command = [sys.executable, "-c", program, str(tmp_path)]
    blocked = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert blocked.returncode == 1
    assert "in use by another process" in blocked.stderr
    directory.close()
    assert subprocess.run(command, cwd=root, check=False).returncode == 0


def test_a_directory_belongs_to_one_broker_of_one_cluster(tmp_path: Path) -> None:
    opened(tmp_path).close()
    for broker_id, cluster_id in ((2, "c"), (1, "other")):
        with pytest.raises(LogDirectoryError):
            opened(tmp_path, broker_id=broker_id, cluster_id=cluster_id)
    late = LogDirectory(tmp_path, OsFiles(), broker_id=1, clock=StandingClock())
    late.open()
    late.bind_cluster_id("c")
    with pytest.raises(LogDirectoryError):
        late.bind_cluster_id("other")
    late.close()


def test_another_incarnation_of_a_topic_is_refused_until_the_old_is_deleted(
    tmp_path: Path,
) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(1))
    newer = UUID(int=8)
    with pytest.raises(KafkaError) as refused:
        made(directory, topic_id=newer)
    assert refused.value.code is ErrorCode.inconsistent_topic_id
    directory.delete_topic("t", newer)
    assert directory.get("t", 0) is not None
    directory.delete_topic("t", TOPIC_ID)
    assert directory.get("t", 0) is None
    assert made(directory, topic_id=newer).log_end_offset == 0
    directory.collect_garbage().run()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["t-0"]
    directory.close()


@pytest.mark.parametrize("is_restarted", [False, True], ids=["at once", "after a restart"])
def test_a_new_log_is_not_opened_with_the_offsets_of_a_former_log(
    tmp_path: Path, is_restarted: bool
) -> None:
    """The checkpoints name no topic id, and are written every few seconds only."""
    directory = opened(tmp_path)
    log = made(directory)
    append(log, batch(3))
    append(log, batch(3))
    flush(log)
    log.cleanup.advance_log_start(4)
    directory.checkpoint({("t", 0): 6})
    directory.delete_topic("t", TOPIC_ID)
    if is_restarted:
        directory.close(clean=False)
        directory = opened(tmp_path)
    newer = made(directory, topic_id=UUID(int=8))
    append(newer, batch(4))
    append(newer, batch(1))
    segment = tmp_path / "t-0" / "00000000000000000000.log"
    directory.fail("the power is gone")
    directory.close(clean=False)
    segment.write_bytes(segment.read_bytes()[:-1])  # a torn tail
    again = opened(tmp_path)
    reopened = again.get("t", 0)
    assert reopened is not None
    assert reopened.corruption is None
    assert (reopened.log_start_offset, reopened.log_end_offset) == (0, 4)
    assert reopened.flushed_end_offset == 0, "nothing of it counts as flushed"
    assert again.offsets.high_watermark(("t", 0)) == 0
    again.close()


def test_checkpoints_are_not_written_before_a_new_name(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    made(directory)
    directory.checkpoint()
    written = (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_ino
    directory.delete_topic("t", TOPIC_ID)
    made(directory, partition=1, topic_id=UUID(int=8))
    assert (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_ino == written
    directory.checkpoint()  # names no former log any more
    written = (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_ino
    made(directory, topic_id=UUID(int=8))
    assert (tmp_path / checkpoints.RECOVERY_POINTS).stat().st_ino == written
    directory.close()


def test_a_deletion_that_did_not_complete_is_completed_by_the_next_start(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(1))
    directory.delete_topic("t", TOPIC_ID)
    directory.close()
    assert [path for path in tmp_path.iterdir() if path.name.endswith("-delete")]
    again = opened(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    again.close()


def test_a_flush_in_flight_survives_the_deletion_of_its_topic(tmp_path: Path) -> None:
    directory = opened(tmp_path, files=FailingFiles())
    log = made(directory)
    append(log, batch(1), epoch=3)
    ticket = log.flusher.begin_flush()
    assert ticket is not None
    directory.delete_topic("t", TOPIC_ID)
    made(directory, topic_id=UUID(int=8))
    directory.collect_garbage().run()
    ticket.run()
    log.flusher.complete_flush(ticket)
    assert log.flusher.begin_flush() is None
    assert not (tmp_path / "t-0" / checkpoints.LEADER_EPOCHS).exists()
    directory.close()


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("t-0", ("t", 0)),
        ("a-b.c_d-12", ("a-b.c_d", 12)),
        ("t", None),
        ("-1", None),
        ("t-", None),
        ("t-x", None),
        ("t-0.abc-delete", None),
        ("t-\N{SUPERSCRIPT TWO}", None),
    ],
)
def test_names_of_partition_directories(name: str, parsed: tuple[str, int] | None) -> None:
    assert parse_log_name(name) == parsed


def test_an_older_checkpoint_is_not_written_over_a_newer_one(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    older = directory.prepare_checkpoint()
    newer = directory.prepare_checkpoint()
    newer.run()
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text("of the newer one")
    older.run()
    assert path.read_text() == "of the newer one"
    newer.run()
    assert path.read_text() != "of the newer one"


def test_a_stop_does_not_write_to_a_directory_of_another_owner(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    append(made(directory), batch(3))
    directory.close(high_watermarks={("t", 0): 3})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    stranger = LogDirectory(tmp_path, OsFiles(), broker_id=2, clock=StandingClock())
    with pytest.raises(LogDirectoryError):
        stranger.open(cluster_id="c")
    stranger.close()
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
