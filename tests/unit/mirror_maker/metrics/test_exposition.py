"""The Prometheus text of a worker's status: an unknown value has no sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from mirror_maker.metrics.exposition import render_metrics
from mirror_maker.metrics.latency import BOUNDS_MS, LatencyHistogram

MM2_METRIC_NAMES = Path(__file__).parents[3] / "golden" / "mm2_metric_names.txt"
PUBLISHED = Path(__file__).parent / "published_metrics.txt"


def flow(**changes: object) -> dict[str, Any]:
    return {
        "topic": "t", "partition": 0, "state": "RUNNING", "lag_records": 5, "lag_bytes": None,
        "lag_seconds": 0.5, "records_copied": 7, "bytes_copied": 70, "restarts": 1,
        "batches_left_out": 2, "trouble": None, "gaps_by_reason": {},
        "batches": {"passthrough": 3, "holes": 0}, "target_topic": "a.t",
        "latency": latency(), "record_age": latency(), "records_per_second": None,
        "bytes_per_second": None, **changes,
    }  # fmt: skip


def full_status() -> dict[str, Any]:
    """A status from which every metric has a sample."""
    document = status(
        flow(
            lag_bytes=4, records_per_second=2.5, bytes_per_second=9.0, state="FAILED",
            trouble="too_large", gaps_by_reason={"out_of_range": 2},
            latency=latency((3, 10), (BOUNDS_MS[-1] + 1, 1)), record_age=latency((20, 1)),
            audit={"age_seconds": 1.5, "findings": {"LOST": 3}},
        ),
        flow(partition=1, lag_records=None, lag_seconds=None, audit={"age_seconds": None}),
    )  # fmt: skip
    (link,) = document["links"]
    took = {"last_ms": 4, "min_ms": 3, "max_ms": 5, "mean_ms": 4.0}
    link |= {
        "rights_missing": ["User:reader may not READ topic t at a"],
        "map_unwritten_seconds": 0.0,
        "audit": {"cpu_share": 0.0123},
        "groups": {
            "states": {"synced": 2, "active": 1},
            "latencies": [{"group": "g", "target_topic": "a.t", "partition": 0} | took],
        },
    }
    return document


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


def test_published_names_labels_values_and_help_texts_stay() -> None:
    """`published_metrics.txt` is the published text of `full_status`."""

    def families(text: str) -> list[object]:
        return [
            (each.name, each.type, each.documentation, each.samples)
            for each in text_string_to_metric_families(text)
        ]

    assert families(render_metrics(full_status())) == families(PUBLISHED.read_text())


def test_unknown_values_have_no_sample() -> None:
    text = render_metrics(status(flow()))
    labels = r'{link="l\"1",topic="t",partition="0"}'
    assert f"heliograph_mirror_lag_records{labels} 5\n" in text
    assert "heliograph_mirror_lag_bytes{" not in text
    assert f"heliograph_mirror_records_copied_total{labels} 7\n" in text
    assert f"heliograph_mirror_failed{labels} 0\n" in text
    assert 'path="passthrough"} 3\n' in text


def test_an_unwritten_map_has_a_metric() -> None:
    document = status(flow())
    document["links"][0]["map_unwritten_seconds"] = 31.5
    text = render_metrics(document)
    assert r'heliograph_mirror_map_unwritten_seconds{link="l\"1"} 31.5' in text


def test_a_failed_partition_has_metrics() -> None:
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
    assert f'{name}_bucket{{{at},le="0.001"}} 2\n' in text, "a clock that is ahead counts as 0"
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
    client_id = r'clientid="\"a->b|l\"1|replication-consumer\""'
    lag = f'kafka_consumer_fetch_manager_records_lag{{{client_id},topic="t",partition="0"}} 5\n'
    assert lag in text


def test_links_are_connectors_and_partitions_tasks() -> None:
    text = render_metrics(status(flow(), flow(partition=1)))
    for name, value in {
        "worker_connector_count": 1, "worker_task_count": 2, "coordinator_assigned_connectors": 1,
        "coordinator_assigned_tasks": 2,
    }.items():  # fmt: skip
        assert f"\nkafka_connect_{name} {value}\n" in text
