"""A partition directory that Kafka 4.3.0 wrote (tests/golden/kafka_log), opened as ours."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.state import checkpoints
from local_cluster.log.state.producer_snapshot import decode_snapshot, encode_snapshot
from local_cluster.records.batch import Record
from tests.unit.local_cluster.log.samples import NOW_MS, append, batch, records_of, reopen

GOLDEN = Path(__file__).parents[4] / "golden" / "kafka_log"
CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=400)
FIRST_TIMESTAMP_MS = 1357016400000
CODECS = (b"none", b"gzip", b"snappy", b"lz4", b"zstd")
RECORDS_PER_CODEC = 73


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN, tmp_path / "t-0")
    (tmp_path / "t-0" / checkpoints.RECOVERY_POINTS).unlink()
    return tmp_path


def expected(n: int) -> Record:
    """Return record `n` as tests/golden/generate/kafka_log.py produced it."""
    return Record(
        offset=n,
        timestamp_ms=FIRST_TIMESTAMP_MS + n * 1000 - (n % 5) * 3500,
        key=b"k%d" % (n % 7),
        value=b"%s-%d-" % (CODECS[n // RECORDS_PER_CODEC], n) + b"x" * (n % 90),
        headers=(("n", str(n).encode()),) if n % 3 == 0 else (),
    )


@pytest.mark.parametrize("is_clean", [True, False])
def test_every_record_and_producer_of_kafka_is_read(directory: Path, is_clean: bool) -> None:
    log = reopen(directory, config=CONFIG, is_clean=is_clean)
    assert log.corruption is None
    assert log.segments.base_offsets == (0, 71, 161, 269)
    assert records_of(log) == [expected(n) for n in range(365)]
    assert log.leader_epochs.entries == ((0, 0),)
    assert len(log.producers) == 5
    for n in range(0, 365, 7):
        found = log.reader.offset_for_timestamp(expected(n).timestamp_ms)
        first = next(
            record
            for record in map(expected, range(365))
            if record.timestamp_ms >= expected(n).timestamp_ms
        )
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (first.offset, first.timestamp_ms)
    assert append(log, batch(1)).base_offset == 365


def test_rebuilt_indexes_are_byte_for_byte_those_of_kafka(directory: Path) -> None:
    reopen(directory, config=CONFIG).close()
    compared = 0
    for path in sorted(GOLDEN.glob("*index")):
        assert (directory / "t-0" / path.name).read_bytes() == path.read_bytes(), path.name
        compared += 1
    assert compared == 8


def test_snapshots_are_those_of_kafka(directory: Path) -> None:
    name = "00000000000000000365.snapshot"
    kafka = (GOLDEN / name).read_bytes()
    state = decode_snapshot(kafka, 365, NOW_MS)
    replayed = reopen(directory, config=CONFIG).producers
    assert {p: (e.epoch, e.batches) for p, e in state} == {
        p: (e.epoch, e.batches[-1:]) for p, e in replayed
    }
    # With one batch per producer our file begins with Kafka's bytes, except for the CRC.
    ours = encode_snapshot(state)
    assert ours[6 : len(kafka)] == kafka[6:]


def test_small_files_are_byte_for_byte_kafkas(directory: Path) -> None:
    metadata = (GOLDEN / checkpoints.PARTITION_METADATA).read_bytes()
    topic_id = checkpoints.decode_partition_metadata(metadata)
    assert isinstance(topic_id, UUID)
    assert checkpoints.encode_partition_metadata(topic_id) == metadata
    epochs = (GOLDEN / checkpoints.LEADER_EPOCHS).read_bytes()
    assert checkpoints.encode_epochs(checkpoints.decode_epochs(epochs)) == epochs
    points = (GOLDEN / checkpoints.RECOVERY_POINTS).read_bytes()
    assert checkpoints.decode_offsets(points) == {("golden", 0): 365}
    assert checkpoints.encode_offsets({("golden", 0): 365}) == points
