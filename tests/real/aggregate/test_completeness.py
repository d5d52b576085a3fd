"""Two datacenters and an aggregate as processes: what each answer says when one is killed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aggregator.settings import AggregatorSettings, LinkSettings
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.settings import LinkSettings as MirrorLink
from mirror_maker.settings import MirrorSettings
from tests.support.aggregator_process import running_aggregator
from tests.support.cluster import running_broker
from tests.support.mirror_process import MirrorProcess
from tests.support.producing import produce_once

pytestmark = pytest.mark.real
SECONDS_MAX = 60.0


async def until(ask: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> Any:
    """Return the first answer for which it holds."""
    answer: Any = None
    try:
        async with asyncio.timeout(SECONDS_MAX):
            while not holds(answer := await ask()):
                await asyncio.sleep(0.2)
    except TimeoutError as error:
        raise AssertionError(answer) from error
    return answer


async def test_a_killed_datacenter_is_named_and_stops_nobody(
    zookeeper: str, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        jfk, ewr, nyc = [
            await stack.enter_async_context(
                running_broker(zookeeper, tmp_path / name, cluster=name)
            )
            for name in ("jfk", "ewr", "nyc")
        ]
        for source in (jfk, ewr):
            await _fill(stack, source.bootstrap)
        sources = {"jfk": jfk.bootstrap, "ewr": ewr.bootstrap}
        mirror = MirrorSettings(
            worker_id="w",
            target_alias="nyc",
            target_bootstrap=nyc.bootstrap,
            links=tuple(
                MirrorLink(name=f"{name}-nyc", source_alias=name, source_bootstrap=bootstrap)
                for name, bootstrap in sources.items()
            ),
            ready_file=str(tmp_path / "mirror" / "ready.json"),
        )
        worker = MirrorProcess(mirror, tmp_path / "mirror")
        worker.directory.mkdir()
        await worker.start()
        stack.push_async_callback(worker.kill)
        settings = AggregatorSettings(
            aggregate="nyc",
            bootstrap=nyc.bootstrap,
            links=tuple(
                LinkSettings(
                    name=f"{name}-nyc", datacenter=name, source=name, source_bootstrap=bootstrap
                )
                for name, bootstrap in sources.items()
            ),
            ready_file=str(tmp_path / "aggregator-ready.json"),
        )
        _, http = await stack.enter_async_context(running_aggregator(settings, tmp_path))

        async def ask() -> Any:
            async with http.get("/api/v1/completeness?late_ms=5000") as response:
                return await response.json()

        written_ms = time.time_ns() // 1_000_000
        both = await until(ask, lambda found: _through(found, "strict") > written_ms)
        (flights,) = both["topics"]
        assert {each["datacenter"] for each in flights["datacenters"]} == {"jfk", "ewr"}
        assert (both["strict"]["state"], both["fast"]["missing"]) == ("complete", [])
        measured = await until(ask, lambda found: bool(found["clocks"]))
        (clock,) = measured["clocks"]
        # One machine has one clock.
        assert clock["worker_id"] == "w"
        assert abs(clock["skew_ms"]) <= clock["error_ms"] + 1

        await ewr.kill()
        killed_ms = time.time_ns() // 1_000_000
        dead = await until(ask, lambda found: bool(found.get("fast", {}).get("missing")))
        assert [each["datacenter"] for each in dead["fast"]["missing"]] == ["ewr"]
        # For a moment the reason may be that its topics were listed too long ago.
        reason = "its source has not answered since"
        later = await until(ask, lambda found: _reason(found) == reason)
        holder = later["strict"]["held_back_by"]
        assert (holder["datacenter"], holder["partition"]) == ("ewr", 0)
        assert _through(later, "strict") == holder["since_ms"] <= killed_ms
        assert _through(later, "fast") > killed_ms


def _through(found: Any, mode: str) -> int:
    answer = found.get(mode) or {}
    return answer.get("complete_through_ms") or 0


def _reason(found: Any) -> str | None:
    holder = found["strict"]["held_back_by"]
    return None if holder is None else holder["reason"]


async def _fill(stack: contextlib.AsyncExitStack, bootstrap: str) -> None:
    client = await stack.enter_async_context(KafkaClient(bootstrap))
    await client.create_topics([NewTopic(name="flights", partitions=1, replication_factor=1)])
    batch = encode_batch([NewRecord(1_000, None, b"landed")])
    at = TopicPartition("flights", 0)
    leader = (await client.metadata(["flights"])).topics["flights"].partitions[0].leader
    assert not (await produce_once(client, leader, at, batch)).error
