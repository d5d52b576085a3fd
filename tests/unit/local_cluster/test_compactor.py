"""The compactor's process: bounded memory, and the files of a failed job."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from local_cluster import compactor
from local_cluster.compactor import JOB
from local_cluster.log.compaction.compaction_round import CompactionRound, plan_round
from local_cluster.log.config.log_config import LogConfig
from tests.unit.local_cluster.log.compaction.compaction_samples import NoThrottle, put
from tests.unit.local_cluster.log.faulty_files import FaultyFiles
from tests.unit.local_cluster.log.samples import NOW_MS, create

CONFIG = LogConfig(is_compacted=True, segment_bytes=4 << 20, min_cleanable_dirty_ratio=0.0)
KEY_BYTES_MAX = 512 * 1024
MEMORY_BYTES_MAX = 16 << 20
"""How much more a round over a large log may take than one over a small log."""


def planned(directory: Path, batches: int, records: int, value_bytes: int) -> CompactionRound:
    directory.mkdir()
    log = create(directory, config=CONFIG)
    for index in range(batches):
        pairs = [(b"%d-%d" % (index, at), os.urandom(value_bytes)) for at in range(records)]
        put(log, *pairs)
    log.writer.roll(NOW_MS)
    found = plan_round(
        log,
        cleaned_offset=0,
        last_stable_offset=log.log_end_offset,
        now_ms=NOW_MS,
        key_bytes_max=KEY_BYTES_MAX,
    )
    assert found is not None
    return found


def memory_bytes_max(found: CompactionRound) -> int:
    """Return the largest resident size of a compactor that did one round."""
    process = subprocess.Popen(
        [sys.executable, "-m", "local_cluster.compactor", f"--parent={os.getpid()}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(JOB.dump_json(found.job) + b"\n")
    process.stdin.flush()
    while "compacted" not in (event := json.loads(process.stdout.readline())):
        assert "cleaned" in event
    status = Path(f"/proc/{process.pid}/status").read_text()
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    small = planned(tmp_path / "small", 2, 10, 10)
    large = planned(tmp_path / "large", 400, 100, 1500)
    size_bytes = sum(path.stat().st_size for path in (tmp_path / "large" / "t-0").glob("*.log"))
    assert size_bytes > 3 * MEMORY_BYTES_MAX
    assert memory_bytes_max(large) < memory_bytes_max(small) + MEMORY_BYTES_MAX


def test_files_of_a_failed_job_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = planned(tmp_path / "log", 10, 10, 100)
    files = FaultyFiles(first=2, count=1, error=errno.ENOSPC, tenths=0)
    monkeypatch.setattr(compactor, "OsFiles", lambda: files)
    compactor._do(found.job, NoThrottle())  # type: ignore[arg-type]
    event = json.loads(capsys.readouterr().out)
    assert event["errno"] == errno.ENOSPC
    assert files.failed
    assert not list((tmp_path / "log" / "t-0").glob("*.cleaned"))
