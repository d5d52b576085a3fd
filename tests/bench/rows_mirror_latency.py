"""The row of latency: what the mirror adds between a producer and a reader on the other side."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from local_cluster.client.client import KafkaClient
from tests.bench import raw_frames
from tests.bench.mirror_load import PARTITIONS, make_batches
from tests.bench.mirror_model import ADDED_P50_MS, ADDED_P99_MS, MirrorScale
from tests.bench.mirror_pairs import WAY_TITLES, Pair, Way, records_of
from tests.bench.mirrors import running_mirror
from tests.bench.model import CPU_CORE, OURS_PLAIN, Figures, Row, Side, Wanted
from tests.bench.raw_client import connected

READY_SECONDS_MAX: Final = 180.0
PROCESS_START_SECONDS: Final = 1.0
"""Until the processes of the row have begun; nothing before is counted."""
_RATIOS_MAX: Final[Mapping[Way, tuple[float, float]]] = {
    "near": (0.2, 0.25),
    "far": (0.5, 0.5),
    "tls-near": (0.4, 0.4),
    "tls-far": (0.5, 0.5),
}
"""What is wanted of the added p50 and p99, to MirrorMaker 2 tuned."""


def latency_row(way: Way) -> Row:
    p50, p99 = _RATIOS_MAX[way]
    return Row(
        name=f"{way}-latency",
        title=f"2,000 records/s: through the mirror minus direct, {WAY_TITLES[way]}",
        wanted={
            ADDED_P50_MS: [Wanted(p50)],
            ADDED_P99_MS: [Wanted(p99)],
        },
        left_out={OURS_PLAIN: ""},
    )


async def latency(pair: Pair, side: Side, scale: MirrorScale, way: Way) -> Figures:
    """Percentiles at the target minus those at the source, of the same records."""
    topic = pair.new_topic("latency")
    route = pair.route(topic, way)
    copy = route.copy_of(topic)
    await pair.source.create_topic(topic, PARTITIONS)
    first, _ = make_batches("single")[0]
    with connected("127.0.0.1", pair.source.port) as (connection,):
        frame = raw_frames.produce_frame(topic, dict.fromkeys(range(PARTITIONS), first))
        raw_frames.produced(connection.call(frame))
    async with running_mirror(side, route, pair.directory) as mirror:
        async with (
            KafkaClient(pair.target.bootstrap, client_id="bench") as client,
            asyncio.timeout(READY_SECONDS_MAX),
        ):
            while await records_of(client, copy) < PARTITIONS:
                mirror.check_running()
                await asyncio.sleep(0.1)
        now_ns = time.monotonic_ns()
        from_ns = now_ns + int((PROCESS_START_SECONDS + scale.latency_warm_up_seconds) * 1e9)
        until_ns = from_ns + int(scale.latency_seconds * 1e9)
        loading = asyncio.create_task(_run("load", pair.source.port, topic, until_ns))
        reading = [
            asyncio.create_task(_run("read", port, name, from_ns, until_ns))
            for port, name in ((pair.source.port, topic), (pair.target.port, copy))
        ]
        await asyncio.sleep(max(0.0, (from_ns - time.monotonic_ns()) / 1e9))
        before, began = mirror.cpu_seconds(), time.perf_counter()
        await loading
        cpu = mirror.cpu_seconds() - before
        seconds = time.perf_counter() - began
        direct, through = [json.loads(each) for each in await asyncio.gather(*reading)]
    await pair.source.delete_topic(topic)
    await pair.delete_copies(f"{route.alias}.")
    return {
        ADDED_P50_MS: _added(direct, through, "p50_ms"),
        ADDED_P99_MS: _added(direct, through, "p99_ms"),
        CPU_CORE: cpu / seconds * 100,
    }


def _added(direct: dict[str, Any], through: dict[str, Any], name: str) -> float:
    return float(through[name]) - float(direct[name])


async def _run(*arguments: str | int) -> str:
    """What a process of the row printed. Raises RuntimeError where it failed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.bench.mirror_latency"),
        *(str(each) for each in arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parent.parent.parent,
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"{arguments[0]}: {errors.decode()[-2000:]}")
    return output.decode()
