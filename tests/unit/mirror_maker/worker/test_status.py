"""Status and metrics: what is unknown stays unknown."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.controls import Controls, PausedPart
from mirror_maker.metrics.lag import UNKNOWN_LAG, Lag
from mirror_maker.metrics.latency import BOUNDS_MS, LatencyHistogram
from mirror_maker.metrics.rates import WINDOW_MS, WindowedRate
from mirror_maker.repair.examiner import NoRepairError
from mirror_maker.repair.plan import How
from mirror_maker.worker.http import StatusServer
from mirror_maker.worker.status import render_metrics, total_lag

MM2_METRIC_NAMES = Path(__file__).parents[3] / "golden" / "mm2_metric_names.txt"


def flow(**changes: object) -> dict[str, Any]:
    return {
        "topic": "t", "partition": 0, "state": "RUNNING", "lag_records": 5, "lag_bytes": None,
        "lag_seconds": 0.5, "records_copied": 7, "bytes_copied": 70, "restarts": 1,
        "batches_left_out": 2, "trouble": None, "gaps_by_reason": {},
        "batches": {"passthrough": 3, "holes": 0}, "target_topic": "a.t",
        "latency": latency(), "record_age": latency(), "records_per_second": None,
        "bytes_per_second": None, **changes,
    }  # fmt: skip


def latency(*observed: tuple[int, int]) -> dict[str, Any]:
    histogram = LatencyHistogram()
    for latency_ms, records_count in observed:
        histogram.observe(latency_ms, records_count)
    names = ("counts", "sum_ms", "last_ms", "min_ms", "max_ms", "mean_ms")
    return {name: getattr(histogram, name) for name in names}


def status(*flows: dict[str, Any]) -> dict[str, Any]:
    link = {
        "name": 'l"1',
        "source": "a",
        "state": "RUNNING",
        "partitions": len(flows),
        "flows": list(flows),
    }
    return {"target": "b", "links": [link]}


def test_totals_are_unknown_where_any_part_is() -> None:
    assert total_lag([Lag(1, 10, 0.5), Lag(2, 20, 3.0)]) == Lag(3, 30, 3.0)
    assert total_lag([Lag(1, None, 0.5), Lag(2, 20, None)]) == Lag(3, None, None)
    assert total_lag([Lag(1, 1, 1.0), UNKNOWN_LAG]) == UNKNOWN_LAG
    assert total_lag([]) == UNKNOWN_LAG


def test_unknown_values_have_no_sample() -> None:
    text = render_metrics(status(flow()))
    labels = r'{link="l\"1",topic="t",partition="0"}'
    assert f"heliograph_mirror_lag_records{labels} 5\n" in text
    assert "heliograph_mirror_lag_bytes{" not in text
    assert f"heliograph_mirror_records_copied_total{labels} 7\n" in text
    assert f"heliograph_mirror_failed{labels} 0\n" in text
    assert 'path="passthrough"} 3\n' in text


def test_a_map_that_is_not_written_shows() -> None:
    told = status(flow())
    told["links"][0]["map_unwritten_seconds"] = 31.5
    text = render_metrics(told)
    assert r'heliograph_mirror_map_unwritten_seconds{link="l\"1"} 31.5' in text


def test_a_failed_partition_shows() -> None:
    gaps = {"out_of_range": 2}
    text = render_metrics(status(flow(state="FAILED", trouble="too_large", gaps_by_reason=gaps)))
    labels = r'link="l\"1",topic="t",partition="0"'
    assert f"heliograph_mirror_failed{{{labels}}} 1\n" in text
    assert f'heliograph_mirror_gaps{{{labels},reason="out_of_range"}} 2\n' in text
    assert f'heliograph_mirror_trouble{{{labels},trouble="too_large"}} 1\n' in text


def test_latency_is_a_histogram_of_a_topics_partitions_together() -> None:
    text = render_metrics(
        status(
            flow(latency=latency((3, 10), (BOUNDS_MS[-1] + 1, 1))),
            flow(partition=1, latency=latency((4, 5), (-7, 2))),
        )
    )
    name = "heliograph_mirror_replication_latency_seconds"
    at = r'link="l\"1",topic="t"'
    assert f'{name}_bucket{{{at},le="0.001"}} 2\n' in text, "a clock ahead counts as 0"
    assert f'{name}_bucket{{{at},le="0.002"}} 2\n' in text
    assert f'{name}_bucket{{{at},le="0.005"}} 17\n' in text
    assert f'{name}_bucket{{{at},le="60"}} 17\n' in text
    assert f'{name}_bucket{{{at},le="+Inf"}} 18\n' in text
    assert f"{name}_count{{{at}}} 18\n" in text
    assert f"{name}_sum{{{at}}} {(3 * 10 + 60_001 + 4 * 5) / 1000}\n" in text


def test_mirror_maker_2s_names_and_no_sample_for_what_is_not_known() -> None:
    prefix = "kafka_connect_mirror_mirrorsourceconnector_"
    labels = '{source="a",target="b",topic="a.t",partition="0"}'
    text = render_metrics(status(flow(latency=latency((30, 1), (10, 3)))))
    for name, value in {
        "record_count": 7, "byte_count": 70, "replication_latency_ms": 10,
        "replication_latency_ms_min": 10, "replication_latency_ms_max": 30,
        "replication_latency_ms_avg": 15.0,
    }.items():  # fmt: skip
        assert f"{prefix}{name}{labels} {value}\n" in text
    idle = render_metrics(status(flow()))
    assert f"{prefix}record_count{labels} 7\n" in idle
    assert f"{prefix}replication_latency_ms{{" not in idle


def test_every_name_of_mirror_maker_2s_mbeans_is_there_with_its_labels() -> None:
    position = {"group": "g", "target_topic": "a.t", "partition": 0}
    document = status(
        flow(
            latency=latency((30, 1)),
            record_age=latency((20, 1)),
            records_per_second=2.5,
            bytes_per_second=9.0,
        )
    )
    took = {"last_ms": 4, "min_ms": 3, "max_ms": 5, "mean_ms": 4.0}
    document["links"][0]["groups"] = {"latencies": [position | took]}
    text = render_metrics(document)
    values = {"source": "a", "target": "b", "group": "g", "topic": "a.t", "partition": "0"}
    names, mbean, keys = 0, "", list[str]()
    for line in MM2_METRIC_NAMES.read_text().splitlines():
        if line.startswith("  "):
            name = f"kafka_connect_mirror_{mbean.lower()}_{line.strip().replace('-', '_')}"
            labels = ",".join(f'{key}="{values[key]}"' for key in keys)
            assert f"\n{name}{{{labels}}} " in text, name
            names += 1
        elif line and not line.startswith("#"):
            mbean, *keys = line.split()
    assert names == 16
    assert 'record_age_ms{source="a",target="b",topic="a.t",partition="0"} 20\n' in text
    assert 'byte_rate{source="a",target="b",topic="a.t",partition="0"} 9.0\n' in text
    lag = 'kafka_consumer_fetch_manager_records_lag{clientid="l\\"1",topic="t",partition="0"} 5'
    assert lag in text


def test_rates_are_of_two_windows_as_kafkas_are() -> None:
    rate = WindowedRate()
    assert rate.per_second(0) is None
    rate.observe(600, 1_000)
    assert rate.per_second(1_000) == 600 / 30, "no burst at the beginning"
    assert rate.per_second(16_000) == 600 / 45
    rate.observe(300, 1_000 + WINDOW_MS)
    assert rate.per_second(1_000 + WINDOW_MS) == 900 / 30
    assert rate.per_second(1_000 + 2 * WINDOW_MS) == 300 / 30, "the first window is forgotten"
    assert rate.per_second(1_000 + 10 * WINDOW_MS) == 0.0


async def test_the_port_answers() -> None:
    ready = False

    def retry(link: str, topic: str | None, partition: int | None) -> list[dict[str, Any]]:
        if link != "l":
            raise LookupError(link)
        return [{"topic": topic, "partition": partition}]

    told = Controls()

    async def control(link: str, change: Callable[[Controls], Controls]) -> Controls:
        nonlocal told
        if link != "l":
            raise LookupError(link)
        told = change(told)
        return told

    asked: list[tuple[str, str, int, How | None]] = []

    async def repair(link: str, topic: str, partition: int, how: How | None) -> dict[str, Any]:
        asked.append((link, topic, partition, how))
        if link != "l":
            raise LookupError(link)
        if how is How.FRESH:
            raise NoRepairError("others may write into it")
        if how is How.SKIP:
            raise KafkaError(ErrorCode.request_timed_out, "no answer")
        return {"is_well": True}

    server = StatusServer(lambda: status(flow()), lambda: ready, retry, control, repair)
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    port = listener.getsockname()[1]
    try:
        async with ClientSession(f"http://127.0.0.1:{port}") as session:
            assert (await session.get("/healthz")).status == 200
            assert (await session.get("/readyz")).status == 503
            ready = True
            assert (await session.get("/readyz")).status == 200
            assert (await session.post("/retry?link=other")).status == 404
            assert (await session.post("/retry?partition=1")).status == 400
            retried = await (await session.post("/retry?link=l&topic=t&partition=1")).json()
            assert retried == {"retried": [{"topic": "t", "partition": 1}]}
            part = "/repair?link=l&topic=t&partition=1"
            assert await (await session.get(part)).json() == {"is_well": True}
            assert asked == [("l", "t", 1, None)]
            assert (await session.post(f"{part}&how=recopy")).status == 200
            assert asked.pop() == ("l", "t", 1, How.RECOPY)
            for code, path in (
                (400, part),
                (400, f"{part}&how=somehow"),
                (400, "/repair?link=l&topic=t&how=skip"),
                (404, "/repair?link=other&topic=t&partition=1&how=skip"),
                (409, f"{part}&how=fresh"),
                (503, f"{part}&how=skip"),
            ):
                assert (await session.post(path)).status == code, path
            for wrong in ("pause", "pause?link=l&partition=1", "throttle?link=l", "resume?topic=t"):
                assert (await session.post("/" + wrong)).status == 400
            assert (await session.post("/pause?link=other")).status == 404
            assert (await session.post("/pause?link=l&topic=t")).status == 200
            assert (await session.post("/resume?link=l&topic=t&partition=1")).status == 409
            rates = "source_bytes_per_second=7&target_bytes_per_second=0"
            answered = await session.post(f"/throttle?link=l&{rates}")
            assert await answered.json() == {
                "paused": [{"topic": "t", "partition": None}],
                "source_bytes_per_second": 7,
                "target_bytes_per_second": 0,
            }
            await session.post("/throttle?link=l&target_bytes_per_second=8")
            assert told == Controls(
                paused=frozenset({PausedPart("t")}),
                source_bytes_per_second=7,
                target_bytes_per_second=8,
            )
            answer = await (await session.get("/status")).json()
            assert answer["links"][0]["flows"][0]["lag_bytes"] is None
            metrics = await session.get("/metrics")
            assert metrics.content_type == "text/plain"
            assert "heliograph_mirror_lag_records" in await metrics.text()
    finally:
        await server.stop()
