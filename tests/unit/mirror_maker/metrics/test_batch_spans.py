"""Spans of batches: their content and exporters, and that OpenTelemetry is loaded only if
needed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from local_cluster.client.model import TopicPartition
from mirror_maker.copy.batch_selection import CopyPath
from mirror_maker.copy.passthrough import PreparedBatch
from mirror_maker.copy.replicator import Outgoing
from mirror_maker.metrics.batch_ids import batch_ids
from mirror_maker.metrics.batch_spans import BatchSpans, GivenIds, open_provider
from mirror_maker.settings import LinkSettings, MirrorSettings
from mirror_maker.worker.service import MirrorService

LINK = LinkSettings(
    name="jfk-nyc", source_alias="jfk", source_bootstrap="127.0.0.1:1", trace_batches=True
)
SETTINGS = MirrorSettings(
    worker_id="w",
    target_alias="nyc",
    target_bootstrap="127.0.0.1:2",
    links=(LINK,),
    ready_file="ready",
)


def test_a_span_has_offsets_counts_and_times_of_a_batch() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(id_generator=GivenIds(), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = BatchSpans(provider, "jfk-nyc", now_ns=lambda: 3_000)
    prepared = PreparedBatch(
        memoryview(b"x" * 70), 5, 10, 19, ((10, 2), (14, 3)), CopyPath.HOLES, fetched_ns=1_000
    )
    outgoing = Outgoing(prepared, sequence=0, sealed_ns=2_000)
    spans.acknowledged(TopicPartition("t", 4), TopicPartition("jfk.t", 4), outgoing, 99)
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.parent) == ("copy jfk.t", None)
    assert span.context is not None
    assert (span.context.trace_id, span.context.span_id) == batch_ids("jfk-nyc", "jfk.t", 4, 99)
    spans.acknowledged(TopicPartition("t", 4), TopicPartition("jfk.t", 4), outgoing, 104)
    other = exporter.get_finished_spans()[1].context
    assert other is not None and other.trace_id != span.context.trace_id
    assert (span.start_time, span.end_time) == (1_000, 3_000)
    assert [(event.name, event.timestamp) for event in span.events] == [("sealed", 2_000)]
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.destination.name": "jfk.t",
        "messaging.destination.partition.id": "4",
        "messaging.kafka.offset": 99,
        "messaging.batch.message_count": 5,
        "heliograph.link": "jfk-nyc",
        "heliograph.source.topic": "t",
        "heliograph.source.offset.first": 10,
        "heliograph.source.offset.last": 16,
        "heliograph.source.batches": 1,
        "heliograph.bytes": 70,
        "heliograph.path": "holes",
    }


def test_the_environment_selects_the_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "from mirror_maker.metrics.batch_spans import open_provider\n"
        "provider = open_provider('w1')\n"
        "provider.get_tracer('t').start_span('copy t').end()\n"
        "provider.shutdown()\n"
    )
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,zone=a")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=120
    )
    span = json.loads(done.stdout)
    assert span["name"] == "copy t"
    about = span["resource"]["attributes"]
    assert (about["service.name"], about["zone"]) == ("mine", "a")
    assert about["service.instance.id"] == "w1"


def test_the_service_has_a_name_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    provider = open_provider("w1")
    assert provider.resource.attributes["service.name"] == "heliograph-mirror"
    provider.shutdown()


async def test_an_exporter_that_is_not_installed_stops_the_worker_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none,nowhere")
    with pytest.raises(ValueError, match="'nowhere' is not installed"):
        MirrorService(SETTINGS)
    MirrorService(replace(SETTINGS, links=(replace(LINK, trace_batches=False),)))


def test_opentelemetry_is_not_loaded_where_no_link_wants_spans() -> None:
    program = (
        "import sys, mirror_maker.worker.process\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
