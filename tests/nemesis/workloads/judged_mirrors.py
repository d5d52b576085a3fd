"""The ways in which `judged_mirror` is played."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import confluent_kafka

from tests.nemesis.workloads.judged_mirror import QUIET_SOURCE, TARGET, UNDER_FAULTS, JudgedMirror
from tests.nemesis.workloads.workload import LIBRDKAFKA, end_watcher
from tests.referee.admin import AdminGaveUp
from tests.referee.modes import State
from tests.referee.writers import tiny_burst_size

DISTURB_EVERY_SECONDS: Final = 4.0
COPY_SECONDS: Final = 0.15
"""Until what was written is copied: a worker writes its map after half a second."""
WRITE_SECONDS_MAX: Final = 4.0
POLL_SECONDS: Final = 0.05


class MirrorMerged(JudgedMirror):
    """One worker, two links into one topic: the cluster under faults, and a quiet one."""

    name: ClassVar = "mirror-merged"
    title: ClassVar = "two links of one worker merge their topics"
    states: ClassVar[Sequence[State]] = (State.PLAIN, State.TRANSACTIONAL)
    sources: ClassVar[Sequence[str]] = (UNDER_FAULTS, QUIET_SOURCE)
    prelude_seconds: ClassVar[float] = 4.0
    """Both flows into a partition have batches at once, for as long as that takes to copy."""


class MirrorWorkers(JudgedMirror):
    """Three workers share the partitions."""

    name: ClassVar = "mirror-workers"
    title: ClassVar = "several workers share a link"
    states: ClassVar[Sequence[State]] = (State.PLAIN, State.TRANSACTIONAL)
    partitions: ClassVar[int] = 9
    workers_count: ClassVar[int] = 3


class MirrorFlows(JudgedMirror):
    """Hundreds of partitions, most of which rest at any time."""

    name: ClassVar = "mirror-flows"
    title: ClassVar = "hundreds of partitions on one worker"
    partitions: ClassVar[int] = 200


class MirrorCompacted(JudgedMirror):
    """A compacted topic with tombstones, cleaned before and while it is copied."""

    name: ClassVar = "mirror-compacted"
    title: ClassVar = "a compacted topic with tombstones, cleaned at the source"
    must_check: ClassVar = (*JudgedMirror.must_check, "not copied: cleaned at source")
    states: ClassVar[Sequence[State]] = (State.KEPT, State.PLAIN)
    copies_keep: ClassVar[bool] = True
    prelude_seconds: ClassVar[float] = 10.0
    burst = tiny_burst_size
    records_per_second: ClassVar[float] = 150.0


class MirrorDisturbed(JudgedMirror):
    """Its worker is killed when records are copied and not mapped, and the source deletes them;
    somebody writes into the copy."""

    name: ClassVar = "mirror-disturbed"
    title: ClassVar = "a worker killed, its source deleted, intruders in the copy"
    must_check: ClassVar = (*JudgedMirror.must_check, "disturbed", "journal entries: foreign")
    deletes_records: ClassVar = True

    async def start(self) -> None:
        await super().start()
        self._disturbed = 0
        self._disturbing = asyncio.create_task(self._disturb())

    async def stop(self) -> None:
        try:
            await end_watcher(self._disturbing)
        finally:
            for worker in self.workers:
                if worker.process is not None and worker.process.poll() is not None:
                    await worker.start()
            await super().stop()

    async def check(self) -> Any:
        findings = await super().check()
        findings.checked["disturbed"] += self._disturbed
        return findings

    async def _disturb(self) -> None:
        (worker,) = self.workers
        while True:
            await asyncio.sleep(DISTURB_EVERY_SECONDS)
            if self.is_measured:
                continue
            await asyncio.to_thread(self._intrude)
            with contextlib.suppress(AdminGaveUp):
                ends = await asyncio.to_thread(self._await_writing)
                await asyncio.sleep(COPY_SECONDS)
                await worker.kill()
                try:
                    if ends:
                        await asyncio.to_thread(self.admins[UNDER_FAULTS].delete_records, ends)
                finally:
                    await worker.start()
                self._disturbed += bool(ends)

    def _await_writing(self) -> dict[tuple[str, int], int]:
        """Where partitions end that were written to right now; none if none was for long."""
        admin = self.admins[UNDER_FAULTS]
        places = [(self.prefix + State.PLAIN, number) for number in range(self.partitions)]
        before = admin.ends(places)
        for _ in range(int(WRITE_SECONDS_MAX / POLL_SECONDS)):
            time.sleep(POLL_SECONDS)
            grown = {at: end for at, end in admin.ends(places).items() if end > before[at]}
            if grown:
                return grown
        return {}

    def _intrude(self) -> None:
        producer: Any = confluent_kafka.Producer(
            {**LIBRDKAFKA, "bootstrap.servers": self.bootstraps[TARGET]}
        )
        copy = next(iter(self._judged())).copy
        producer.produce(copy, value=b"of an intruder", partition=self.random.randrange(3))
        producer.flush(10.0)
