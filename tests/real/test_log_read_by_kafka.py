"""Kafka's own DumpLogSegments reads what we write; skipped where Kafka's jars cannot be had."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from local_cluster.log.config import LogConfig
from tests.kafka_from_maven import kafka_jars
from tests.unit.local_cluster.log.samples import NOW_MS, append, batch, create

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


def test_snapshots(written: Path) -> None:
    text = dump(sorted(written.glob("*.snapshot")))
    assert "producerId: 9 producerEpoch: 0" in text
