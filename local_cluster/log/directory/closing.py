"""Closing many logs at a clean stop: what must reach the disk goes there side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

from local_cluster.log.disk.disk_work import FlushJob
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.wire.errors import KafkaError

THREADS_MAX: Final = 8
"""Threads that fsync side by side; file systems gather what comes at the same time."""
LOGS_AT_ONCE_MAX: Final = 64
"""Logs whose files are open for their flush at one time."""


def close_logs(logs: Iterable[PartitionLog]) -> None:
    """Close every log; one that cannot be closed fails, the others still get their clean end.

    Blocks.
    """
    rest = iter(logs)
    with ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="close") as pool:
        while some := list(islice(rest, LOGS_AT_ONCE_MAX)):
            tickets: list[tuple[PartitionLog, FlushJob]] = []
            for log in some:
                try:
                    ticket = log.begin_close()
                except KafkaError as error:
                    log.fail(str(error))
                    continue
                if ticket is not None:
                    tickets.append((log, ticket))
            _run(pool, tickets)


def _run(pool: ThreadPoolExecutor, tickets: Sequence[tuple[PartitionLog, FlushJob]]) -> None:
    running = [(log, ticket, pool.submit(ticket.run)) for log, ticket in tickets]
    for log, ticket, future in running:
        error = future.exception()
        if error is None:
            log.complete_flush(ticket)
        elif isinstance(error, KafkaError):
            log.fail(str(error))
        else:
            raise error
