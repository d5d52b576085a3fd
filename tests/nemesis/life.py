"""One life of a cluster: workloads run, faults come and go, and then everything is checked."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from local_cluster.wire.errors import KafkaError
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.cluster import Cluster, ClusterOptions
from tests.nemesis.faults.fault import KAFKA, Fault
from tests.nemesis.faults.table import FAULTS
from tests.nemesis.kafka import kafka_cluster
from tests.nemesis.ours import our_cluster
from tests.nemesis.outcome import ANOMALY, FAILED, NO_PROGRESS, NOT_RUN, OK, Outcome
from tests.nemesis.plan import Step
from tests.nemesis.replicas import check_replicas
from tests.nemesis.workloads.table import WORKLOADS
from tests.nemesis.workloads.workload import Workload

PROGRESS_SECONDS_MAX: Final = 120.0
WARM_UP_SECONDS_MAX: Final = 120.0

Say = Callable[[str], None]


class Life:
    """Workloads on one cluster, and what is known of each."""

    def __init__(self, cluster: Cluster, workloads: Sequence[Workload], say: Say) -> None:
        self._cluster = cluster
        self._workloads = workloads
        self._say = say
        self._failures: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._stuck: set[str] = set()
        self._findings: dict[str, Findings] = {}

    async def play(self, steps: Sequence[Step]) -> None:
        """Start, step through the faults, stop, check."""
        for workload in self._workloads:
            await workload.prepare()
        self._cluster.watched_topic = self._workloads[0].topics[0].name
        for workload in self._workloads:
            await workload.start()
        await self._progress(WARM_UP_SECONDS_MAX, "warm-up")
        for step in steps:
            await self._step(step)
        await asyncio.gather(*(self._until_in_sync(each) for each in self._workloads))
        await asyncio.gather(*(self._guarded(each, each.stop) for each in self._workloads))
        for workload in self._workloads:
            await self._guarded(workload, partial(self._check, workload))

    async def _step(self, step: Step) -> None:
        faults = [FAULTS[name] for name in step.faults]
        self._say(f"fault: {step}")
        injected = await asyncio.gather(
            *(fault.inject(self._cluster) for fault in faults), return_exceptions=True
        )
        for fault, result in zip(faults, injected, strict=True):
            if isinstance(result, BaseException):
                # In a pair one may be in the other's way: nobody leads, nobody stops.
                if len(faults) == 1 or not isinstance(result, (KafkaError, TimeoutError)):
                    raise result
                self._say(f"{fault.name} was not injected: {result}")
        await asyncio.sleep(step.hold_seconds)
        for fault in faults:
            if fault.mend is not None:
                await fault.mend(self._cluster)
        await self._cluster.heal()
        await self._progress(PROGRESS_SECONDS_MAX, "healed")
        await asyncio.sleep(step.calm_seconds)

    async def _progress(self, seconds_max: float, when: str) -> None:
        """Wait until every workload has gone on, and note how long each took."""
        start = time.monotonic()
        wanted = {
            each.name: [count + each.progress_wanted for count in each.gone_on]
            for each in self._workloads
        }
        waiting = {each.name: each for each in self._workloads}
        for workload in self._workloads:
            workload.is_measured = True
        while waiting and time.monotonic() < start + seconds_max:
            for name, workload in tuple(waiting.items()):
                counts = zip(workload.gone_on, wanted[name], strict=True)
                if all(count >= enough for count, enough in counts):
                    del waiting[name]
                    workload.is_measured = False
                    seconds = time.monotonic() - start
                    if when != "warm-up":
                        self._seconds[name] = max(seconds, self._seconds.get(name, 0.0))
            await asyncio.sleep(0.02)
        self._stuck |= set(waiting)
        for workload in waiting.values():
            workload.is_measured = False
        took = time.monotonic() - start
        self._say(f"{when}: {'all go on' if not waiting else sorted(waiting)} after {took:.1f} s")

    async def _until_in_sync(self, workload: Workload) -> None:
        """A replica that does not come back counts as a workload without progress."""
        try:
            await self._cluster.until_in_sync([topic.name for topic in workload.topics])
        except TimeoutError as error:
            self._stuck.add(workload.name)
            self._say(f"{workload.name}: {error}")

    async def _guarded(self, workload: Workload, do: Callable[[], object]) -> None:
        try:
            done = do()
            if asyncio.iscoroutine(done):
                await done
        except Exception:  # noqa: BLE001 - an outcome like others
            self._failures.setdefault(workload.name, traceback.format_exc())

    async def _check(self, workload: Workload) -> None:
        findings = await workload.check()
        findings.merge(
            await check_replicas(
                self._cluster, workload.topics, are_deleted_from=workload.deletes_records
            )
        )
        self._findings[workload.name] = findings
        unchecked = findings.unchecked(workload.must_check)
        if unchecked and workload.name not in self._stuck:
            self._failures.setdefault(
                workload.name, f"the checker saw none of: {', '.join(unchecked)}"
            )

    def outcome(self, workload: Workload, fault: str, seed: int) -> Outcome:
        name = workload.name
        findings = self._findings.get(name, Findings())
        verdict = OK
        if findings.anomalies:
            verdict = ANOMALY
        elif name in self._failures:
            verdict = FAILED
        elif name in self._stuck:
            verdict = NO_PROGRESS
        return Outcome(
            system=self._cluster.system,
            fault=fault,
            workload=name,
            verdict=verdict,
            progress_seconds=self._seconds.get(name),
            checked=dict(findings.checked),
            anomalies=dict(findings.anomalies),
            allowed=dict(findings.allowed),
            measured=dict(findings.measured),
            examples=findings.examples,
            reason=self._failures.get(name, "")[-4000:],
            seed=seed,
        )


def options_for(faults: Sequence[Fault], workloads: Sequence[type[Workload]]) -> ClusterOptions:
    """What all of these faults and workloads need."""
    options = [fault.options for fault in faults]
    return ClusterOptions(
        small_disk_node=next((o.small_disk_node for o in options if o.small_disk_node), None),
        clock_node=next((o.clock_node for o in options if o.clock_node), None),
        older_version=any(o.older_version for o in options),
        users=any(workload.needs_users for workload in workloads),
    )


def is_possible(faults: Sequence[Fault], workload: type[Workload]) -> bool:
    """Whether the brokers of these faults have what a workload needs."""
    return not (workload.needs_users and any(fault.options.older_version for fault in faults))


async def live(
    system: str,
    label: str,
    steps: Sequence[Step],
    workload_names: Sequence[str],
    directory: Path,
    seed: int,
    say: Say,
) -> list[Outcome]:
    """The outcomes of one life; `label` is what the table calls its faults."""
    faults = [FAULTS[name] for step in steps for name in step.faults]
    directory.mkdir(parents=True, exist_ok=True)
    make = kafka_cluster if system == KAFKA else our_cluster
    played = [name for name in workload_names if is_possible(faults, WORKLOADS[name])]
    not_run = [
        Outcome(
            system=system,
            fault=label,
            workload=name,
            verdict=NOT_RUN,
            reason="the older version has no listener with users",
            seed=seed,
        )
        for name in workload_names
        if name not in played
    ]
    if not played:
        return not_run
    options = options_for(faults, [WORKLOADS[name] for name in played])
    async with make(directory, options).running() as cluster:
        workloads = []
        for number, name in enumerate(played):
            home = directory / f"workload-{name}"
            home.mkdir()
            workloads.append(WORKLOADS[name](cluster, home, seed + number))
        life = Life(cluster, workloads, say)
        try:
            await life.play(steps)
        finally:
            for workload in workloads:
                await workload.close()
        return [*not_run, *(life.outcome(workload, label, seed) for workload in workloads)]
