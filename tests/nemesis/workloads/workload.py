"""A workload: clients that run while faults happen, and a check of everything they saw.

A workload's clients know nothing of the faults. They retry what may be retried, and note what is
unknown as unknown. They end with an exception only if a client library reports a fatal error.
"""

from __future__ import annotations

import asyncio
import random
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from local_cluster.client.model import NewTopic
from tests.nemesis.checkers.findings import Findings

if TYPE_CHECKING:
    # A second of CPU to load, and clients in processes of their own do not need it.
    from tests.nemesis.cluster import Cluster

THREAD_END_SECONDS_MAX: Final = 180.0
DELIVERY_MS_MAX: Final = 120_000
"""How long outside clients try to deliver; a record without an answer by then is unknown."""
SESSION_MS: Final = 6_000
CONSUMER_GROUPS: Final[Mapping[str, str]] = {
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
"""Settings of brokers: members of the consumer protocol have the session of classic ones."""
WAITING_MAX: Final = 200
"""Records of a producer without an answer, or that wait for room in it."""
LIBRDKAFKA: Final[Mapping[str, Any]] = {
    # It would log every connection that a fault ends.
    "log_level": 0,
    # Otherwise it may wait for ever once all brokers were down: transactions/README.md.
    "metadata.recovery.strategy": "none",
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 5_000,
}
"""Settings of every client of librdkafka's here."""


class Workload(ABC):
    """One life: `prepare`, `start`, faults meanwhile, `stop`, `check`."""

    name: ClassVar[str]
    title: ClassVar[str]
    progress_wanted: ClassVar[int] = 10
    """Operations (of each kind) that count as progress after healing."""
    must_check: ClassVar[tuple[str, ...]]
    """Counts in `Findings.checked` that must not be 0: otherwise the check saw nothing."""
    needs_users: ClassVar[bool] = False
    """Whether its cluster has users with passwords, and an authorizer."""
    deletes_records: ClassVar[bool] = False
    """Whether it calls DeleteRecords, so that replicas may begin at different offsets."""

    def __init__(self, cluster: Cluster, directory: Path, seed: int) -> None:
        self.cluster = cluster
        self.directory = directory
        self.random = random.Random(seed)
        self.progress = 0
        """Operations that succeeded so far."""
        self.is_measured = False
        """Whether its progress is measured. Stops of its own members wait until that is over."""

    @property
    def gone_on(self) -> Sequence[int]:
        """Return `progress` by kind of operation, if one kind must not stand for another."""
        return [self.progress]

    @property
    @abstractmethod
    def topics(self) -> Sequence[NewTopic]:
        """Created before the workload starts; their replicas are compared in the end."""

    async def prepare(self) -> None:
        """Create the topics."""
        await self.cluster.create_topics(*self.topics)

    @abstractmethod
    async def start(self) -> None:
        """Start the clients and return."""

    @abstractmethod
    async def stop(self) -> None:
        """End the clients and wait for requests in flight. Raises what ended a client early."""

    async def close(self) -> None:  # noqa: B027 - most have nothing else
        """End what else the workload has started; also after a failure."""

    @abstractmethod
    async def check(self) -> Findings:
        """Judge what was seen and what is there."""


class Worker(threading.Thread, ABC):
    """A client in a thread; `work` runs until `stopping` is set."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self.failure: str | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException:  # noqa: BLE001 - reported when the worker ends
            self.failure = traceback.format_exc()

    @abstractmethod
    def work(self) -> None:
        """Run until `stopping` is set; an exception becomes the worker's `failure`."""

    def pause(self, seconds: float) -> None:
        """Sleep, but not past the end."""
        self.stopping.wait(seconds)

    def produce_paced(
        self, producer: Any, per_second: float, produce: Callable[[], None], *, while_idle: bool
    ) -> None:
        """Call `produce` at this pace until the end, then wait until each record has its outcome.

        `produce` gives the producer a record. Records without room come later. `while_idle`: see
        `room`.
        """
        owed = 0
        while not self.stopping.is_set():
            owed = min(owed + 1, WAITING_MAX)
            burst = min(owed, room(producer, while_idle=while_idle))
            owed -= burst
            for _ in range(burst):
                produce()
            producer.poll(0)
            self.pause(1 / per_second)
        producer.flush(DELIVERY_MS_MAX / 1000)
        assert len(producer) == 0, "every record has an outcome within its timeout"

    async def end(self) -> None:
        """Wait for the thread. Raises RuntimeError if it failed or hangs."""
        self.stopping.set()
        await asyncio.to_thread(self.join, THREAD_END_SECONDS_MAX)
        if self.is_alive():
            raise RuntimeError(f"client {self.name} hangs")
        if self.failure is not None:
            raise RuntimeError(f"client {self.name} failed:\n{self.failure}")


class Ending(Protocol):
    """A client in a thread or in a process."""

    async def end(self) -> None:
        """Tell it to end, and wait. Raises RuntimeError if it failed or hangs."""


async def end_all(clients: Sequence[Ending]) -> None:
    """End clients side by side. Raises the first failure."""
    results = await asyncio.gather(*(client.end() for client in clients), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def end_watcher(watcher: asyncio.Task[None]) -> None:
    """Cancel a watcher. Raises what ended it early, because it saw nothing since."""
    watcher.cancel()
    await asyncio.wait([watcher])
    if not watcher.cancelled():
        watcher.result()


def room(producer: Any, *, while_idle: bool) -> int:
    """Return how many records a producer of librdkafka's may be given now.

    With `while_idle` only when it has none. Records that wait behind a request in flight make
    librdkafka's threads poll without a pause. Many such producers on few cores delay the answers
    that they wait for.
    """
    waiting = len(producer)
    return 0 if while_idle and waiting else max(WAITING_MAX - waiting, 0)


def offset_told(message: Any) -> int:
    """Return the offset that librdkafka reports; -1 if it was told of a repetition without one."""
    offset: int | None = message.offset()
    return -1 if offset is None else offset


def spread_topic(name: str, partitions: int, **configs: str) -> NewTopic:
    """A topic on all three brokers, led by brokers 1 and 2: broker 3 only follows."""
    orders = ((1, 2, 3), (2, 3, 1))
    return NewTopic(
        name=name,
        assignments={index: orders[index % 2] for index in range(partitions)},
        configs={key.replace("_", "."): value for key, value in configs.items()},
    )
