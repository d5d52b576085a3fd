"""Kafka's own DumpLogSegments reads what we write; skipped where Kafka's jars cannot be had."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from local_cluster.log.config import LogConfig
from local_cluster.records.header import DELETE_HORIZON_BIT, iter_headers
from tests.kafka_from_maven import kafka_jars
from tests.unit.local_cluster.log.compacting import compact, put
from tests.unit.local_cluster.log.samples import (
    NOW_MS,
    append,
    batch,
    create,
    offsets_of,
    read_all,
)

pytestmark = pytest.mark.oracle

COMPLAINTS = re.compile(r"mismatch|corrupt|not found|isvalid: false|exception", re.IGNORECASE)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments of every codec, two producers, three epochs."""
    root = tmp_path_factory.mktemp("ours")
    log = create(root, config=LogConfig(segment_bytes=9000, index_interval_bytes=400))
    sequence = 0
    for index in range(120):
        made = batch(
            1 + index % 4,
            timestamp_ms=NOW_MS + index * 10 - index % 7 * 30,
            value=b"x" * (index * 11 % 200),
            codec=index % 5,
            producer=(9, 0, sequence) if index % 2 else (-1, -1, -1),
        )
        sequence += (1 + index % 4) * (index % 2)
        append(log, made, epoch=index // 50)
    log.close()
    return root / "t-0"


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A log of every codec after two rounds, and the offsets of the records that are left."""
    root = tmp_path_factory.mktemp("compacted")
    config = LogConfig(
        is_compacted=True,
        segment_bytes=9000,
        index_interval_bytes=400,
        min_cleanable_dirty_ratio=0.0,
    )
    log = create(root, config=config)
    for index in range(400):
        put(
            log,
            (b"k%d" % (index % 30), b"x" * (index * 11 % 200)),
            (b"once%d" % index, b"y") if index % 20 == 0 else (b"t%d" % (index % 9), None),
            codec=index % 5,
            now_ms=NOW_MS + index * 10 - index % 7 * 30,
            producer=(9, 0, 2 * index) if index < 200 else (-1, -1, -1),
            epoch=index // 100,
        )
    cleaned = compact(log)
    assert cleaned is not None
    assert compact(log, now_ms=NOW_MS + 1000) is not None
    headers = [header for _, header in iter_headers(read_all(log))]
    assert any(header.records_count == 0 for header in headers)
    assert any(header.attributes & DELETE_HORIZON_BIT for header in headers)
    log.close()
    return root / "t-0", offsets_of(log)


def dump(files: list[Path], *options: str) -> str:
    names = ",".join(map(str, files))
    command = ["java", "-cp", f"{kafka_jars()}/*", "org.apache.kafka.tools.DumpLogSegments"]
    done = subprocess.run(
        [*command, *options, "--files", names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not COMPLAINTS.search(done.stdout), done.stdout
    return done.stdout


def test_every_record_of_every_segment(written: Path) -> None:
    logs = sorted(written.glob("*.log"))
    assert len(logs) >= 2
    text = dump(logs, "--deep-iteration")
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert offsets == list(range(300))


def test_indexes_pass_the_sanity_check(written: Path) -> None:
    indexes = sorted(written.glob("*.index")) + sorted(written.glob("*.timeindex"))
    text = dump(indexes, "--index-sanity-check")
    empty = [path for path in indexes if not path.stat().st_size]
    assert text.count("is empty") == len(empty)
    assert text.count("passed sanity check") == len(indexes) - len(empty) >= 4
    # Without the option every entry is compared with the batch it points to.
    filled = [path for path in indexes if path not in empty]
    assert dump(filled).count("offset: ") > 20


def test_every_record_of_a_compacted_log(compacted: tuple[Path, list[int]]) -> None:
    directory, offsets = compacted
    logs = sorted(directory.glob("*.log"))
    text = dump(logs, "--deep-iteration")
    shown = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert shown == offsets
    assert len(offsets) < 400
    assert "isvalid: true" in text
    assert "deleteHorizonMs: OptionalLong[" in text


def test_indexes_of_a_compacted_log(compacted: tuple[Path, list[int]]) -> None:
    directory, _ = compacted
    indexes = sorted(directory.glob("*.index")) + sorted(directory.glob("*.timeindex"))
    filled = [path for path in indexes if path.stat().st_size]
    text = dump(indexes, "--index-sanity-check")
    assert text.count("passed sanity check") == len(filled) >= 4
    assert dump(filled).count("offset: ") > 20


def test_snapshots(written: Path) -> None:
    text = dump(sorted(written.glob("*.snapshot")))
    assert "producerId: 9 producerEpoch: 0" in text
