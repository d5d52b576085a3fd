"""What a workload is: clients that run while faults happen, and a check of all they saw.

A workload's clients know nothing of the faults. They repeat what may be repeated, note what is
unknown as unknown, and end with an exception only where a client library says "fatal" and means it.
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
"""How long outside clients try to deliver; what is not acknowledged by then is unknown."""
SESSION_MS: Final = 6_000
WAITING_MAX: Final = 200
"""Records that a producer has and nobody has acknowledged, or that wait to be given to one."""
LIBRDKAFKA: Final[Mapping[str, Any]] = {
    # It would tell of every connection that a fault ends.
    "log_level": 0,
    # Otherwise it may wait for ever once all brokers were down: transactions/README.md.
    "metadata.recovery.strategy": "none",
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 5_000,
}
"""Of every client of librdkafka's here."""


class Workload(ABC):
    """One life: `prepare`, `start`, faults meanwhile, `stop`, `check`."""

    name: ClassVar[str]
    title: ClassVar[str]
    progress_wanted: ClassVar[int] = 10
    """Operations (of each kind) that count as going on again."""
    must_check: ClassVar[tuple[str, ...]]
    """Counts in `Findings.checked` without which nothing was seen: then it is no good life."""

    def __init__(self, cluster: Cluster, directory: Path, seed: int) -> None:
        self.cluster = cluster
        self.directory = directory
        self.random = random.Random(seed)
        self.progress = 0
        """Operations that succeeded so far: what grows when the cluster serves."""
        self.is_measured = False
        """Whether it is waited for to go on: what it does to itself, it does at other times."""

    @property
    def gone_on(self) -> Sequence[int]:
        """`progress` by kind of operation, where one kind must not stand for another."""
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
        """End them, and wait for what is in flight. Raises what ended one of them early."""

    async def close(self) -> None:  # noqa: B027 - most have nothing else
        """End what else the workload has started; also after a failure."""

    @abstractmethod
    async def check(self) -> Findings:
        """What was seen, and what is there now, judged."""


class Worker(threading.Thread, ABC):
    """A client in a thread; `work` runs until `stopping` is set."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self.failure: str | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException:  # noqa: BLE001 - told when the worker is ended
            self.failure = traceback.format_exc()

    @abstractmethod
    def work(self) -> None:
        """Until `stopping` is set; what is raised is the worker's `failure`."""

    def pause(self, seconds: float) -> None:
        """Sleep, but not past the end."""
        self.stopping.wait(seconds)

    def produce_paced(
        self, producer: Any, per_second: float, produce: Callable[[], None], *, while_idle: bool
    ) -> None:
        """Call `produce`, which gives the producer a record, so often until the end, and then wait
        until each has its outcome. What there was no room for comes later; `while_idle`: `room`."""
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
        """Wait for the thread. Raises RuntimeError where it failed or hangs."""
        self.stopping.set()
        await asyncio.to_thread(self.join, THREAD_END_SECONDS_MAX)
        if self.is_alive():
            raise RuntimeError(f"client {self.name} hangs")
        if self.failure is not None:
            raise RuntimeError(f"client {self.name} failed:\n{self.failure}")


class Ending(Protocol):
    """A client in a thread or in a process."""

    async def end(self) -> None:
        """Tell it to end, and wait. Raises RuntimeError where it failed or hangs."""


async def end_all(clients: Sequence[Ending]) -> None:
    """End clients side by side. Raises the first failure."""
    results = await asyncio.gather(*(client.end() for client in clients), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def end_watcher(watcher: asyncio.Task[None]) -> None:
    """Cancel what watches until then. Raises what ended it early: it saw nothing since."""
    watcher.cancel()
    await asyncio.wait([watcher])
    if not watcher.cancelled():
        watcher.result()


def room(producer: Any, *, while_idle: bool) -> int:
    """How many records a producer of librdkafka's may be given now.

    With `while_idle` only when it has none: what waits there behind a request in flight makes
    librdkafka's threads poll without a pause, and many such producers on few cores make the
    answers late that they wait for.
    """
    waiting = len(producer)
    return 0 if while_idle and waiting else max(WAITING_MAX - waiting, 0)


def offset_told(message: Any) -> int:
    """Where librdkafka says that it was written; -1 where it was told of a repetition without its
    offset, and so does not know."""
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
