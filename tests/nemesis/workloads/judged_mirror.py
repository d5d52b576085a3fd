"""Our mirror from the cluster under faults, judged by the referee's checks: several ways of it.

Outside clients write as the referee's do: idempotent, in tiny and in large batches, with every
codec, and in transactions. In the end `tests/support/mirror_judging.py` puts both logs, the
map and the journal before the checks of `tests/referee/checks`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import KafkaError
from mirror_maker.formats.naming import TopicNames
from mirror_maker.rules.trouble import Policies
from mirror_maker.settings import LinkSettings, MirrorSettings
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.cluster import Cluster
from tests.nemesis.workloads.workload import Workload, end_watcher, spread_topic
from tests.referee.admin import Admin
from tests.referee.clients import Client
from tests.referee.content import COMPACTED
from tests.referee.ledger import Ledger
from tests.referee.modes import State
from tests.referee.plan import CODECS
from tests.referee.transactions import TransactionalWriter
from tests.referee.writers import KEPT_WHOLE, Writer, burst_size
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.mirror_judging import JudgedTopic, judge_links
from tests.support.mirror_process import MirrorProcess
from tests.support.zookeeper_process import ZooKeeperProcess

UNDER_FAULTS: Final = "a"
"""The cluster that faults happen to; `b` and the target are brokers that nothing happens to."""
QUIET_SOURCE, TARGET = "b", "hub"
SETTLE_SECONDS_MAX: Final = 120.0
POLL_SECONDS: Final = 0.25
COMPACTED_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "2000",
    "min.cleanable.dirty.ratio": "0.01",
    # Long: a cleaned tombstone stays, with the delete horizon in its batch.
    "delete.retention.ms": "600000",
}


class JudgedMirror(Workload):
    """A link, or more, with its clients."""

    must_check: ClassVar[tuple[str, ...]] = (
        "records compared",
        "offsets translated: exact",
        "replicas",
    )
    states: ClassVar[Sequence[State]] = (State.PLAIN,)
    partitions: ClassVar[int] = 3
    workers_count: ClassVar[int] = 1
    records_per_second: ClassVar[float] = 60.0
    sources: ClassVar[Sequence[str]] = (UNDER_FAULTS,)
    """With two, both are merged into topics of one name."""
    prelude_seconds: ClassVar[float] = 0.0
    """Load before any worker starts: some segments, and a round of the cleaner."""
    burst: ClassVar[Callable[[random.Random], int]] = burst_size
    copies_keep: ClassVar[bool] = False
    """Whether copies are made beforehand, and keep what compaction takes at the source."""

    def __init__(self, cluster: Cluster, directory: Path, seed: int) -> None:
        super().__init__(cluster, directory, seed)
        self._stack = contextlib.AsyncExitStack()
        self._seed = seed
        self.ledger = Ledger()
        self.workers: list[MirrorProcess] = []
        self._clients: list[Client] = []

    @property
    def prefix(self) -> str:
        """Of the names of its topics at the sources."""
        return f"{self.name}-"

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [
            spread_topic(
                self.prefix + state,
                self.partitions,
                **{key.replace(".", "_"): value for key, value in _config(state).items()},
            )
            for state in self.states
        ]

    async def prepare(self) -> None:
        await super().prepare()
        zookeeper = ZooKeeperProcess(self.directory / "zookeeper")
        self._stack.callback(zookeeper.kill)
        quiet = [source for source in self.sources if source != UNDER_FAULTS]
        self.bootstraps = {UNDER_FAULTS: self.cluster.bootstrap}
        for name in (*quiet, TARGET):
            broker: BrokerProcess = await self._stack.enter_async_context(
                running_broker(zookeeper.server.connect, self.directory / name, cluster=name)
            )
            self.bootstraps[name] = broker.bootstrap
        self.admins = {name: Admin(servers) for name, servers in self.bootstraps.items()}
        await asyncio.to_thread(self._create_topics, quiet)
        for number in range(self.workers_count):
            self.workers.append(self._worker(f"w{number + 1}"))

    def _create_topics(self, quiet: Sequence[str]) -> None:
        for state in self.states:
            for name in quiet:
                self.admins[name].create_topic(self.prefix + state, self.partitions, _config(state))
            if self.copies_keep:
                for each in self._judged():
                    self.admins[TARGET].create_topic(
                        each.copy, self.partitions, {"retention.ms": "-1"}
                    )

    def _worker(self, worker_id: str) -> MirrorProcess:
        directory = self.directory / worker_id
        directory.mkdir()
        merge = (f"{self.prefix}.*",) if len(self.sources) > 1 else ()
        settings = MirrorSettings(
            worker_id=worker_id,
            target_alias=TARGET,
            target_bootstrap=self.bootstraps[TARGET],
            links=tuple(
                LinkSettings(
                    name=f"{source}-{TARGET}",
                    source_alias=source,
                    source_bootstrap=self.bootstraps[source],
                    topics=(f"{self.prefix}.*",),
                    names=TopicNames(merge=merge),
                    on=Policies(out_of_range="skip", foreign="skip"),
                )
                for source in self.sources
            ),
            ready_file=str(directory / "ready.json"),
            session_timeout_ms=6_000,
        )
        return MirrorProcess(settings, directory)

    async def start(self) -> None:
        self._clients = list(self._writers())
        for client in self._clients:
            client.start()
        await asyncio.sleep(self.prelude_seconds)
        await asyncio.gather(*(worker.start() for worker in self.workers))
        self._following = asyncio.create_task(self._follow())

    def _writers(self) -> Iterator[Client]:
        for source in self.sources:
            name = f"{self._seed}-{source}"
            yield Writer(
                self.ledger,
                source,
                self.bootstraps[source],
                self.states,
                CODECS,
                self.records_per_second,
                name,
                self.prefix,
                type(self).burst,
                () if self.deletes_records else KEPT_WHOLE,
            )
            if State.TRANSACTIONAL in self.states:
                yield TransactionalWriter(
                    self.ledger,
                    source,
                    self.bootstraps[source],
                    State.TRANSACTIONAL,
                    self.partitions,
                    self.random.choice(CODECS),
                    name,
                    self.prefix,
                )

    async def stop(self) -> None:
        for client in self._clients:
            client.stopping.set()
        try:
            for client in self._clients:
                await asyncio.to_thread(client.join_well)
        finally:
            await end_watcher(self._following)

    async def close(self) -> None:
        for worker in self.workers:
            if worker.process is not None and worker.process.poll() is None:
                await worker.kill()
        await self._stack.aclose()

    async def check(self) -> Findings:
        findings = Findings()
        judgement = await judge_links(
            list(self._judged()), self.admins, self.ledger.written(), SETTLE_SECONDS_MAX
        )
        for finding in judgement.findings:
            findings.add(f"{finding.promise}-{finding.kind}", f"{finding.where}: {finding.text}")
        findings.checked += judgement.figures
        for worker in self.workers:
            if worker.process is None or worker.process.poll() is not None:
                findings.add("mirror-ended", worker.log_text()[-1_000:])
        return findings

    def _judged(self) -> Iterator[JudgedTopic]:
        for source in self.sources:
            for state in self.states:
                topic = self.prefix + state
                is_shared = len(self.sources) > 1
                yield JudgedTopic(
                    link=f"{source}-{TARGET}",
                    source=source,
                    topic=topic,
                    target=TARGET,
                    copy=topic if is_shared else f"{source}.{topic}",
                    source_compacts=state in COMPACTED,
                    target_compacts=state in COMPACTED and not self.copies_keep,
                )

    async def _follow(self) -> None:
        copies = {each.copy for each in self._judged()}
        places = {TopicPartition(copy, p): LATEST_TIMESTAMP for copy in copies
                  for p in range(self.partitions)}  # fmt: skip
        async with KafkaClient(self.bootstraps[TARGET]) as client:
            while True:
                with contextlib.suppress(KafkaError):
                    found = await client.list_offsets(places)
                    self.progress = sum(max(each.offset, 0) for each in found.values())
                await asyncio.sleep(POLL_SECONDS)


def _config(state: State) -> dict[str, str]:
    return {"retention.ms": "-1", **(COMPACTED_CONFIG if state in COMPACTED else {})}
