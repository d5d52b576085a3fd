"""A group that read `orders` in two datacenters continues in the merged topic and skips nothing."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats.naming import TopicNames
from mirror_maker.settings import LinkSettings, MirrorSettings
from tests.real.mirror.test_mirror_groups import commit, position
from tests.real.mirror.test_mirror_kill import create
from tests.support.cluster import running_clusters
from tests.support.mirror_process import MirrorProcess, read_records
from tests.support.producing import produce_to

pytestmark = pytest.mark.real

WAIT_SECONDS_MAX = 120.0
AT = TopicPartition("orders", 0)
GROUP = "app"


@pytest.mark.long
async def test_a_group_of_two_datacenters_continues_in_the_merged_topic(
    zookeeper: str, tmp_path: Path
) -> None:
    async with (
        running_clusters(zookeeper, tmp_path, "east", "west", "all") as (bootstraps, clients),
        contextlib.AsyncExitStack() as stack,
    ):
        for name in ("east", "west"):
            await create(clients[name], "orders", 1)
        # Each of two workers has one of the two partitions.
        workers = [
            MirrorProcess(_settings(tmp_path, bootstraps, f"w{index}"), tmp_path / f"w{index}")
            for index in range(2)
        ]
        for worker in workers:
            worker.directory.mkdir()
            await worker.start()
            stack.push_async_callback(worker.kill)
        written = dict.fromkeys(("east", "west"), 0)
        for name in ("east", "west", "east", "west"):
            await _write(clients[name], name, written)
            await _until_copied(clients["all"], sum(written.values()), workers)
        await commit(clients["east"], GROUP, AT, 30)
        await _until(workers, state="partial", held_by="west-all")
        found = await position(clients["all"], GROUP, AT)
        assert found is not None
        assert not _unread(await _merged(clients["all"]), {"east": 30, "west": 0}, 0, found)
        for read in ({"east": 30, "west": 5}, {"east": 31, "west": 25}, {"east": 40, "west": 25}):
            for name, offset in read.items():
                await commit(clients[name], GROUP, AT, offset)
            merged = await _merged(clients["all"])
            place = _unread(merged, read, 0, len(merged))[0]
            count = len(merged) - place - len(_unread(merged, read, place, len(merged)))
            await _until(workers, state="merged", target_offset=place, reread_records=count)
            assert await position(clients["all"], GROUP, AT) == place
        # East is read to its end, so it does not hold the group back when west continues.
        await _write(clients["west"], "west", written)
        await _until_copied(clients["all"], sum(written.values()), workers)
        for name, offset in written.items():
            await commit(clients[name], GROUP, AT, offset)
        end = sum(written.values())
        await _until(workers, state="merged", target_offset=end, reread_records=0, held_by=None)
        assert await position(clients["all"], GROUP, AT) == end


async def _write(client: KafkaClient, name: str, written: dict[str, int]) -> None:
    first = written[name]
    records = [NewRecord(1_000, None, f"{name} {first + n}".encode()) for n in range(20)]
    await produce_to(client, AT, encode_batch(records))
    written[name] += len(records)


async def _merged(client: KafkaClient) -> list[tuple[str, int]]:
    """Return datacenter and source offset of every record of the merged topic."""
    values = [(record.value or b"").decode().split() for record in await read_records(client, AT)]
    return [(name, int(number)) for name, number in values]


def _unread(merged: list[tuple[str, int]], read: dict[str, int], first: int, end: int) -> list[int]:
    """Return target offsets of the records that the group has not read at their source."""
    return [at for at in range(first, end) if merged[at][1] >= read[merged[at][0]]]


async def _until_copied(client: KafkaClient, count: int, workers: list[MirrorProcess]) -> None:
    copied = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while copied < count:
                copied = len(await read_records(client, AT))
                await asyncio.sleep(0.1)
    assert copied == count, "\n".join(worker.log_text()[-2000:] for worker in workers)


async def _until(workers: list[MirrorProcess], **wanted: Any) -> None:
    """Wait until every link's owner reports this of the group's position."""
    seen: list[dict[str, Any]] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while True:
                links = [link for worker in workers for link in (await worker.status())["links"]]
                seen = [each for link in links for each in link["groups"]["positions"]]
                if seen and all(wanted.items() <= each.items() for each in seen):
                    return
                await asyncio.sleep(0.1)
    raise AssertionError(f"not {wanted}: {seen}\n{workers[0].log_text()[-2000:]}")


def _settings(directory: Path, bootstraps: dict[str, str], worker_id: str) -> MirrorSettings:
    return MirrorSettings(
        worker_id=worker_id,
        target_alias="all",
        target_bootstrap=bootstraps["all"],
        links=tuple(
            LinkSettings(
                name=f"{name}-all",
                source_alias=name,
                source_bootstrap=bootstraps[name],
                names=TopicNames(merge=("orders",)),
                origin="local",
                sync_group_offsets=True,
            )
            for name in ("east", "west")
        ),
        ready_file=str(directory / worker_id / "ready.json"),
        session_timeout_ms=6_000,
    )
