"""A clean shutdown of one log directory: closing its logs side by side, and the marker of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

from local_cluster.log.disk.disk_work import FlushJob
from local_cluster.log.disk.files import Files
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.log.state.checkpoints import CLEAN_SHUTDOWN, encode_clean_shutdown
from local_cluster.wire.errors import KafkaError

THREADS_MAX: Final = 8
"""Threads that fsync side by side; file systems group concurrent requests."""
LOGS_AT_ONCE_MAX: Final = 64
"""Logs whose files are open for their flush at one time."""


def take_marker(files: Files, directory: str) -> bool:
    """Remove the marker of a clean shutdown; return whether there was one. Blocks.

    It must be gone from the disk before the first append, or a start after a later crash would
    trust it. Raises OSError.
    """
    marker = f"{directory}/{CLEAN_SHUTDOWN}"
    if not files.exists(marker):
        return False
    files.remove(marker)
    files.open_for_sync(directory).sync()
    return True


def write_marker(files: Files, directory: str) -> None:
    """Write the marker of a clean shutdown. Blocks. Raises OSError."""
    files.replace(f"{directory}/{CLEAN_SHUTDOWN}", encode_clean_shutdown(), durable=True)


def close_logs(logs: Iterable[PartitionLog]) -> None:
    """Close every log. A log that cannot be closed fails; the others still close. Blocks."""
    rest = iter(logs)
    with ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="close") as pool:
        while some := list(islice(rest, LOGS_AT_ONCE_MAX)):
            jobs: list[tuple[PartitionLog, FlushJob]] = []
            for log in some:
                try:
                    job = log.begin_close()
                except KafkaError as error:
                    log.state.fail(str(error))
                    continue
                if job is not None:
                    jobs.append((log, job))
            _run(pool, jobs)


def _run(pool: ThreadPoolExecutor, jobs: Sequence[tuple[PartitionLog, FlushJob]]) -> None:
    running = [(log, job, pool.submit(job.run)) for log, job in jobs]
    for log, job, future in running:
        error = future.exception()
        if error is None:
            log.flusher.complete_flush(job)
        elif isinstance(error, KafkaError):
            log.state.fail(str(error))
        else:
            raise error
