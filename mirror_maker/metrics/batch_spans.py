"""OpenTelemetry spans of batches: one per batch, created when it is acknowledged.

    fetched ------------- sealed ------------- acknowledged
    start of the span     its event            its end

Until then a span costs two timestamps. A batch that is dropped on the way (doubt, crash, take-over)
leaves no span; its successor does. A batch that a predecessor wrote and this worker only found on
the target has no span either. The map is the account of what was copied; spans show how.

OpenTelemetry's own environment variables control where spans go: OTEL_TRACES_EXPORTER the exporter,
OTEL_TRACES_SAMPLER the share that is kept, OTEL_BSP_* the queue. By default the queue holds 2,048
spans and the SDK drops more; copying never waits for it.

Only links that want spans import this module.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, Tracer

from local_cluster.client.model import TopicPartition
from mirror_maker.copy.replicator import Outgoing

SERVICE_NAME: Final = "heliograph-mirror"
"""The default of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES."""
_EXPORTERS: Final = "opentelemetry_traces_exporter"
"""The group of entry points under which exporters register."""
_OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""OTEL_EXPORTER_OTLP_PROTOCOL -> name of the exporter."""
_NO_PARENT: Final = Context()


class BatchSpans:
    """The spans of one link's batches."""

    def __init__(self, tracer: Tracer, link: str, now_ns: Callable[[], int] = time.time_ns) -> None:
        """`now_ns` returns wall-clock nanoseconds, as OpenTelemetry counts."""
        self.now_ns = now_ns
        self._tracer = tracer
        self._link = link

    def acknowledged(
        self, source: TopicPartition, target: TopicPartition, outgoing: Outgoing, base_offset: int
    ) -> None:
        """Record the span of a batch that the target has at `base_offset`, and the map too."""
        prepared = outgoing.prepared
        first, (last, count) = prepared.segments[0][0], prepared.segments[-1]
        span = self._tracer.start_span(
            f"copy {target.topic}",
            _NO_PARENT,
            SpanKind.PRODUCER,
            {
                "messaging.system": "kafka",
                "messaging.destination.name": target.topic,
                "messaging.destination.partition.id": str(target.partition),
                "messaging.kafka.offset": base_offset,
                "messaging.batch.message_count": prepared.records_count,
                "heliograph.link": self._link,
                "heliograph.source.topic": source.topic,
                "heliograph.source.offset.first": first,
                "heliograph.source.offset.last": last + count - 1,
                "heliograph.source.batches": prepared.batches_count,
                "heliograph.bytes": outgoing.size_bytes,
                "heliograph.path": prepared.path.value,
            },
            start_time=prepared.fetched_ns,
        )
        span.add_event("sealed", timestamp=outgoing.sealed_ns)
        span.end(self.now_ns())


def open_provider(worker_id: str) -> TracerProvider:
    """Return the provider that exports spans.

    Its `shutdown` sends the remaining spans for at most 30 s and blocks meanwhile. Raises
    ValueError if the configured exporter is not installed.
    """
    # The environment's resource attributes win; ours are the defaults.
    ours = Resource.create({"service.name": SERVICE_NAME, "service.instance.id": worker_id})
    provider = TracerProvider(
        resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
    )
    for exporter in list(_exporters()):
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporters() -> Iterator[SpanExporter]:
    """Yield the exporters named in OTEL_TRACES_EXPORTER, separated by commas; `otlp` by default."""
    wanted = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    for name in map(str.strip, wanted.split(",")):
        if name == "none":
            continue
        if name == "otlp":
            protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
            name = _OTLP.get(protocol, f"otlp over {protocol}")
        found = next(iter(entry_points(group=_EXPORTERS, name=name)), None)
        if found is None:
            raise ValueError(
                f"the OpenTelemetry exporter {name!r} is not installed: install "
                "opentelemetry-exporter-otlp, or set OTEL_TRACES_EXPORTER to an installed one"
            )
        yield found.load()()
