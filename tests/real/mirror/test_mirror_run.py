"""`heliograph mirror run --mm2 FILE` as a process: copies, and stops cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.real.mirror.test_mirror_kill import create
from tests.support.cluster import running_clusters
from tests.support.mirror_process import read_records
from tests.support.producing import produce_to

pytestmark = pytest.mark.real

WAIT_SECONDS_MAX = 240.0
AT = TopicPartition("orders", 0)


async def test_properties_of_mirror_maker_2_are_run(zookeeper: str, tmp_path: Path) -> None:
    async with running_clusters(zookeeper, tmp_path, "east", "west") as (bootstraps, clients):
        lines = ["clusters = east, west", "replication.factor = 1"]
        lines += [f"{name}.bootstrap.servers = {at}" for name, at in bootstraps.items()]
        lines += ["east->west.enabled = true", "east->west.topics = orders", "linger.ms = 5"]
        file = tmp_path / "mm2.properties"
        file.write_text("\n".join(lines))
        await create(clients["east"], "orders", 1)
        values = [b"%d" % n for n in range(100)]
        records = [NewRecord(1_000, None, value) for value in values]
        await produce_to(clients["east"], AT, encode_batch(records))
        log = tmp_path / "run.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "topology", "mirror", "run", "--mm2", str(file)],
                stdout=output,
                stderr=output,
                cwd=Path(__file__).parents[3],
            )
        try:
            found: list[bytes | None] = []
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS_MAX):
                    while len(found) < len(values) and process.poll() is None:
                        copies = await read_records(
                            clients["west"], AT._replace(topic="east.orders")
                        )
                        found = [record.value for record in copies]
                        await asyncio.sleep(0.1)
            assert found == values, log.read_text()[-4000:]
            process.send_signal(signal.SIGTERM)
            code = await asyncio.wait_for(asyncio.to_thread(process.wait), WAIT_SECONDS_MAX)
            assert code == 0, log.read_text()[-4000:]
            assert "mm2.properties:7: linger.ms: has no effect" in log.read_text()
        finally:
            if process.poll() is None:
                process.kill()
                await asyncio.to_thread(process.wait)
