"""Pushed payloads: names, labels and values are made safe, and limits hold."""

from __future__ import annotations

import contextlib
import math
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Histogram,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from local_cluster.client_metrics import otlp
from local_cluster.client_metrics.otlp import BrokenPayload, Pushed, TooLarge, read_payload
from local_cluster.client_metrics.series import ClientSeries
from local_cluster.prometheus_text import Head
from local_cluster.records.compress import Codec, compress
from tests.support.scraping import parse

WHO = {"client_id": "c"}
OTLP_ID = uuid.UUID(int=7)
BYTES_MAX = 100_000
DELTA = 1


def labels(**values: str) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]


def gauge(name: str, value: float, **attributes: str) -> Metric:
    points = [NumberDataPoint(as_double=value, attributes=labels(**attributes))]
    return Metric(name=name, gauge=Gauge(data_points=points))


def total(name: str, value: int, **changes: Any) -> Metric:
    fields = {"is_monotonic": True, "aggregation_temporality": DELTA, **changes}
    return Metric(name=name, sum=Sum(data_points=[NumberDataPoint(as_int=value)], **fields))


def payload(*metrics: Metric, **resource: str) -> bytes:
    scopes = [ScopeMetrics(metrics=metrics)]
    one = ResourceMetrics(resource=Resource(attributes=labels(**resource)), scope_metrics=scopes)
    return bytes(MetricsData(resource_metrics=[one]).SerializeToString())


def read(*metrics: Metric, codec: int = Codec.NONE, **resource: str) -> Pushed:
    return read_payload(codec, compress(codec, payload(*metrics, **resource)), BYTES_MAX, WHO)


@pytest.mark.parametrize("codec", list(Codec))
def test_gauges_and_sums_of_each_codec(codec: Codec) -> None:
    found = read(
        gauge("org.apache.kafka.consumer.lag", 1.5, topic="t", client_id="liar"),
        total("org.apache.kafka.producer.record.send.total", 7),
        total("org.apache.kafka.producer.node.requests", 3, aggregation_temporality=2),
        total("my.app.up/down", 2, is_monotonic=False),
        codec=codec,
        group_id="g",
    )
    assert found.dropped == 0
    assert [(each.name, each.kind, each.value, each.is_delta) for each in found.samples] == [
        ("org_apache_kafka_consumer_lag", "gauge", 1.5, False),
        ("org_apache_kafka_producer_record_send_total", "counter", 7, True),
        ("org_apache_kafka_producer_node_requests_total", "counter", 3, False),
        ("heliograph_client_my_app_up_down", "gauge", 2, True),
    ]
    assert found.samples[0].labels == '{group_id="g",topic="t",client_id="c"}'


def test_what_is_not_shown_is_counted() -> None:
    nothing = Metric(name="n", gauge=Gauge(data_points=[NumberDataPoint(flags=1, as_int=3)]))
    many = gauge("m", 1, **{f"l{number}": "v" for number in range(otlp.LABELS_PER_SAMPLE_MAX)})
    found = read(gauge("a", math.nan), nothing, Metric(name="h", histogram=Histogram()), many)
    assert found == Pushed((), 4)


def test_at_most_so_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "SAMPLES_PER_PUSH_MAX", 2)
    found = read(*(gauge(f"m{number}", 1) for number in range(5)))
    assert (len(found.samples), found.dropped) == (2, 3)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_payload_that_is_too_large_differs_from_a_broken_one(codec: Codec) -> None:
    large = compress(codec, payload(*(gauge("same", 1) for _ in range(10_000))))
    if codec is not Codec.NONE:
        with pytest.raises(TooLarge):
            read_payload(codec, large, BYTES_MAX, WHO)
    with pytest.raises(BrokenPayload):
        read_payload(codec, b"\xff" * 20, BYTES_MAX, WHO)


@given(st.binary(max_size=200), st.integers(min_value=0, max_value=4))
def test_any_bytes_are_read_or_refused(data: bytes, codec: int) -> None:
    with contextlib.suppress(BrokenPayload, TooLarge):
        read_payload(codec, data, BYTES_MAX, WHO)


@given(name=st.text(max_size=20), key=st.text(max_size=20), value=st.text(max_size=20))
def test_any_names_become_legal_text(name: str, key: str, value: str) -> None:
    series = ClientSeries()
    found = read(gauge(name, 2, **{key: value}), total(f"other {name}", 1))
    series.push(OTLP_ID, WHO, found.samples, 0, 10)
    lines: dict[Head, list[str]] = {}
    for _ in series.write(lines):
        pass
    text = "".join(head.lines() + "".join(rows) for head, rows in lines.items())
    scraped = parse(text)
    assert sum(len(each) for each in scraped.samples.values()) == 3
