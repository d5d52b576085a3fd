"""A disk that stops taking writes under a broker: it ends, and what it acknowledged is on the disk.

The disk is a file system in a sparse image that lies on a file system too small for it: writes go
to the page cache, and the sync that should bring them to the disk fails with EIO.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.client.reader import read_topic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.cluster import running_broker

pytestmark = pytest.mark.real

GROUND_MIB = 10
"""What the image may take before its writes fail."""
IMAGE_MIB = 48
VALUE_BYTES = 100_000
END_SECONDS_MAX = 60.0
AT = TopicPartition("t", 0)


def run(*command: str) -> None:
    """Skips the test where the machine does not let us."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]} on this machine")
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stderr.strip()}")


class SickDisk:
    """The file system at `path`; `heal` gives its image the room that it lacks."""

    def __init__(self, directory: Path, path: Path) -> None:
        self._ground, self.path = directory / "ground", path
        self._image = self._ground / "image"
        self._mounted: list[Path] = []

    def make(self) -> None:
        self._ground.mkdir()
        self.path.mkdir(parents=True)
        size = f"size={GROUND_MIB}m"
        run("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self._ground))
        self._mounted.append(self._ground)
        with self._image.open("wb") as image:
            image.truncate(IMAGE_MIB << 20)
        run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()

    def heal(self) -> None:
        """Mounted anew, so that nothing is left of the page cache."""
        run("umount", str(self.path))
        self._mounted.remove(self.path)
        run("mount", "-o", f"remount,size={2 * IMAGE_MIB}m", str(self._ground))
        self._mount()

    def unmount(self) -> None:
        for path in reversed(self._mounted):
            subprocess.run(["umount", "--lazy", str(path)], check=True)

    def _mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.path))
        self._mounted.append(self.path)
        shutil.rmtree(self.path / "lost+found", ignore_errors=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SickDisk]:
    disk = SickDisk(tmp_path, tmp_path / "broker-1" / "log")
    try:
        disk.make()
        yield disk
    finally:
        disk.unmount()


async def test_a_failed_sync_ends_the_broker_and_loses_nothing(
    zookeeper: str, tmp_path: Path, disk: SickDisk
) -> None:
    async with running_broker(zookeeper, tmp_path) as broker:
        acknowledged: list[bytes] = []
        error = ErrorCode.none
        async with KafkaClient(broker.bootstrap, request_timeout_ms=10_000) as client:
            await client.create_topics([NewTopic(name="t", partitions=1)])
            while error is ErrorCode.none:
                value = b"%d:" % len(acknowledged) + os.urandom(VALUE_BYTES)
                batch = encode_batch([NewRecord(0, b"k", value)])
                try:
                    error = (await client.produce(1, {AT: batch}))[AT].error
                except KafkaError as raised:
                    error = raised.code
                if error is ErrorCode.none:
                    acknowledged.append(value)
        assert error in (ErrorCode.kafka_storage_error, ErrorCode.network_exception)
        assert len(acknowledged) * VALUE_BYTES < GROUND_MIB << 20
        assert broker.process is not None
        ended = await asyncio.wait_for(asyncio.to_thread(broker.process.wait), END_SECONDS_MAX)
        assert ended != 0
        assert "the log directory is lost to this broker" in broker.log_text()
        disk.heal()
        await broker.start()
        async with KafkaClient(broker.bootstrap) as client:
            found = [record.value async for record in read_topic(client, "t", partition=0)]
            assert found[: len(acknowledged)] == acknowledged
            assert len(found) <= len(acknowledged) + 1, "the one that failed may be there"
            batch = encode_batch([NewRecord(0, b"k", b"next")])
            assert (await client.produce(1, {AT: batch}))[AT].base_offset == len(found)
