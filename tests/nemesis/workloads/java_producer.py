"""Kafka's own VerifiableProducer (Java), idempotent; it prints what was acknowledged, and where."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from local_cluster.client.model import NewTopic
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.checkers.set_full import Found, Outcome, Write, check_set
from tests.nemesis.workloads.reading import read_all
from tests.nemesis.workloads.workload import Workload, spread_topic
from tests.support.java_process import JavaProcess

TOPIC: Final = "java-producer"
PARTITIONS: Final = 2
PROGRAM: Final = "org.apache.kafka.tools.VerifiableProducer"
RECORDS_PER_SECOND: Final = 50
END_SECONDS_MAX: Final = 150.0
CONFIG: Final = """\
acks=all
enable.idempotence=true
retries=2147483647
delivery.timeout.ms=120000
request.timeout.ms=10000
linger.ms=5
"""


class JavaProducer(Workload):
    """See `checkers/set_full.py`. What was neither acknowledged nor refused is unknown."""

    name: ClassVar = "java-producer"
    title: ClassVar = "Java's producer, idempotent"
    must_check: ClassVar = ("acknowledged", "read", "replicas")

    @property
    def topics(self) -> Sequence[NewTopic]:
        return [spread_topic(TOPIC, PARTITIONS)]

    async def start(self) -> None:
        config = self.directory / "producer.properties"
        config.write_text(CONFIG)
        self._process = JavaProcess(
            PROGRAM,
            (
                *("--bootstrap-server", self.cluster.bootstrap, "--topic", TOPIC),
                *("--throughput", str(RECORDS_PER_SECOND), "--command-config", str(config)),
            ),
            self.directory / "producer.log",
        )
        self._process.start()
        self._following = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        self._following.cancel()
        try:
            await self._process.terminate(END_SECONDS_MAX)
        finally:
            await self._process.kill()

    async def check(self) -> Findings:
        acknowledged = [
            Write("java", int(e["value"]), e["partition"], Outcome.ACKNOWLEDGED, e["offset"])
            for e in self._events()
            if e["name"] == "producer_send_success"
        ]
        known = {write.number for write in acknowledged}
        read = await read_all(self.cluster.bootstrap, {TOPIC: PARTITIONS})
        found = {
            partition: [Found(m.offset, "java", int(m.value or -1)) for m in messages]
            for (_, partition), messages in read.items()
        }
        # A producer that counts up has tried every number up to some that are still in flight.
        unknown = [
            Write("java", record.number, partition, Outcome.UNKNOWN)
            for partition, records in found.items()
            for record in records
            if record.number not in known
        ]
        return check_set([*acknowledged, *unknown], found)

    async def _follow(self) -> None:
        with self._process.output.open("rb") as output:
            while True:
                # A mark that a read cuts in two is not counted: progress only has to grow.
                self.progress += output.read().count(b'"producer_send_success"')
                await asyncio.sleep(0.25)

    def _events(self) -> list[dict[str, Any]]:
        lines = self._process.text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
