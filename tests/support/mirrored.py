"""Two source clusters with a producer, and real mirrors of them in two aggregates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mirror_maker.settings import LinkSettings, MirrorSettings
from spark_global.links import MirrorLink
from spark_global.views import Aggregate
from tests.support.aggregated import Aggregated
from tests.support.cluster import running_broker
from tests.support.mirror_process import MirrorProcess

SOURCES: Final = ("ewr", "jfk")
AGGREGATES: Final = ("nyc", "bos")
FILLED: Final = 7
"""Records that no mirror wrote before the first copy, in the second aggregate: offsets differ."""
SESSION_TIMEOUT_MS: Final = 6_000


@dataclass
class MirroredAggregate:
    """An aggregate, and the worker of both links into it."""

    aggregated: Aggregated
    mirror: MirrorProcess

    @property
    def bootstrap(self) -> str:
        return self.aggregated.bootstrap

    @property
    def first(self) -> int:
        """Offset of the first copy."""
        return self.aggregated.first

    def kill_mirror(self) -> None:
        self.aggregated.run(self.mirror.kill())

    def start_mirror(self) -> None:
        self.aggregated.run(self.mirror.start())


@dataclass
class Mirrored:
    """One topic of both sources, and its mirrors."""

    topic: str
    sources: dict[str, Aggregated]
    aggregates: list[MirroredAggregate]

    def produce(self, values: range, keys: int) -> None:
        """Produce one record per value and source; the mirrors copy it. See `Aggregated.copy`."""
        for name, source in self.sources.items():
            said = f"{name}.{self.topic}"
            source.run(source.copy(self.topic, values, keys=keys, said=said))

    def audited(self, bootstrap: str) -> Aggregate:
        """The aggregate at an address, with the sources' addresses: an audit reads both logs."""
        links = tuple(
            MirrorLink(
                name=f"{name}-nyc",
                source=name,
                datacenter=name.upper(),
                bootstrap=source.bootstrap,
            )
            for name, source in self.sources.items()
        )
        return Aggregate(name="nyc", bootstrap=bootstrap, links=links)


def _leave(runner: asyncio.Runner, context: contextlib.AbstractAsyncContextManager[Any]) -> None:
    runner.run(context.__aexit__(None, None, None))


@contextlib.contextmanager
def mirrored(zookeeper: str, directory: Path, topic: str) -> Iterator[Mirrored]:
    """Four clusters of one broker, the topic, and a running worker per aggregate."""
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
        brokers: dict[str, Aggregated] = {}
        for index, name in enumerate((*SOURCES, *AGGREGATES)):
            context = running_broker(zookeeper, directory / name, cluster=name)
            broker = runner.run(context.__aenter__())
            stack.callback(_leave, runner, context)
            first = FILLED if index == len(SOURCES) + 1 else 0
            brokers[name] = Aggregated(broker.bootstrap, runner, first=first)
        sources = {name: brokers[name] for name in SOURCES}
        for source in sources.values():
            source.run(source.create(topic))
        aggregates = []
        for name in AGGREGATES:
            for source_name in SOURCES:
                copy = f"{source_name}.{topic}"
                brokers[name].run(brokers[name].create(copy))
                brokers[name].run(brokers[name].fill(copy))
            worker = _worker(directory / f"mirror-{name}", brokers[name].bootstrap, topic, sources)
            aggregates.append(MirroredAggregate(brokers[name], worker))
            stack.callback(_end, worker)
            aggregates[-1].start_mirror()
        yield Mirrored(topic, sources, aggregates)


def _worker(
    directory: Path, bootstrap: str, topic: str, sources: dict[str, Aggregated]
) -> MirrorProcess:
    directory.mkdir()
    links = tuple(
        LinkSettings(
            name=f"{name}-nyc",
            source_alias=name,
            source_bootstrap=source.bootstrap,
            topics=(topic,),
            on_unmapped_target="append",  # behind the filling
        )
        for name, source in sources.items()
    )
    settings = MirrorSettings(
        worker_id="w1",
        target_alias="nyc",
        target_bootstrap=bootstrap,
        links=links,
        ready_file=str(directory / "ready.json"),
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    return MirrorProcess(settings, directory)


def _end(worker: MirrorProcess) -> None:
    if worker.process is not None and worker.process.poll() is None:
        worker.process.kill()
        worker.process.wait()
