"""Compaction in one process, for tests: a round from the plan to the swap."""

from __future__ import annotations

from local_cluster.log.compaction.cleaner import run_job
from local_cluster.log.compaction.compaction_job import Compacted
from local_cluster.log.compaction.compaction_round import plan_round
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.records.batch import NewRecord, encode_batch
from tests.unit.local_cluster.log.samples import NOW_MS, append

KEY_BYTES_MAX = 1 << 20


class NoThrottle:
    def __init__(self) -> None:
        self.taken_bytes = 0

    def take(self, size_bytes: int) -> None:
        self.taken_bytes += size_bytes


def compact(
    log: PartitionLog,
    *,
    cleaned_offset: int = 0,
    now_ms: int = NOW_MS,
    last_stable_offset: int | None = None,
    key_bytes_max: int = KEY_BYTES_MAX,
) -> Compacted | None:
    """Do one round; return None where none was due."""
    planned = plan_round(
        log,
        cleaned_offset=cleaned_offset,
        last_stable_offset=log.log_end_offset if last_stable_offset is None else last_stable_offset,
        now_ms=now_ms,
        key_bytes_max=key_bytes_max,
    )
    if planned is None:
        return None
    for result in run_job(planned.job, OsFiles(), NoThrottle()):
        if isinstance(result, Compacted):
            return result
        deletion = planned.take_over(result)
        assert deletion is not None, "nothing else changes the log"
        deletion.run()
    raise AssertionError("a round ends with its result")


def put(
    log: PartitionLog,
    *pairs: tuple[bytes, bytes | None],
    codec: int = 0,
    now_ms: int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    epoch: int = 0,
) -> int:
    """Append one batch of (key, value); return its base offset."""
    made = encode_batch(
        [NewRecord(now_ms, key, value) for key, value in pairs],
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        attributes=attributes,
    )
    return append(log, made, now_ms=now_ms, epoch=epoch).base_offset
