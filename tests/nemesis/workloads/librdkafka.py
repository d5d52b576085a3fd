"""librdkafka's producers as people set them: batches, codecs, several in flight; a last reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from local_cluster.client.model import NewTopic
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.resent import check_log, superseded
from tests.nemesis.checkers.set_full import check_set
from tests.nemesis.workloads.numbered import NumberedProducer
from tests.nemesis.workloads.reading import read_written
from tests.nemesis.workloads.set_full import PARTITIONS, read_numbers
from tests.nemesis.workloads.workload import Workload, end_all, spread_topic

TOPIC: Final = "librdkafka"
PRODUCERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {"linger.ms": 0},
    "lz4": {"linger.ms": 50, "compression.type": "lz4"},
    "zstd": {"linger.ms": 100, "compression.type": "zstd", "batch.num.messages": 20},
}
REQUESTS_IN_FLIGHT_MAX: Final = 5
"""What an idempotent producer may have, and librdkafka's default."""
RECORDS_PER_SECOND: Final = 60
PADDING_BYTES: Final = 500


class Librdkafka(Workload):
    """See `checkers/set_full.py` and `checkers/resent.py`."""

    name: ClassVar = "librdkafka"
    title: ClassVar = "librdkafka's producers: batches, codecs, many in flight"
    must_check: ClassVar = ("acknowledged", "read", "sequences", "replicas")

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(TOPIC, PARTITIONS)]

    async def start(self) -> None:
        self._producers = [
            NumberedProducer(
                self.cluster.bootstrap,
                name,
                TOPIC,
                PARTITIONS,
                per_second=RECORDS_PER_SECOND,
                requests_in_flight_max=REQUESTS_IN_FLIGHT_MAX,
                config=config,
                padding=PADDING_BYTES,
                on_acknowledged=self._count,
            )
            for name, config in PRODUCERS.items()
        ]
        for producer in self._producers:
            producer.start()

    async def stop(self) -> None:
        await end_all(self._producers)

    async def check(self) -> Findings:
        writes = [write for producer in self._producers for write in producer.writes]
        read = await read_numbers(self.cluster.bootstrap, TOPIC)
        log = await read_written(self.cluster, TOPIC, PARTITIONS)
        again = superseded(log)
        findings = check_set(
            writes,
            {
                partition: [each for each in found if (partition, each.offset) not in again]
                for partition, found in read.items()
            },
        )
        findings.merge(check_log(log))
        return findings

    def _count(self) -> None:
        self.progress += 1
