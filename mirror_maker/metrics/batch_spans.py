"""OpenTelemetry spans, where a link wants them: one for each batch, made once it is acknowledged.

    fetched ------------- sealed ------------- acknowledged
    start of the span     its event            its end

Nothing is done for a span before that but to note two times, so a batch that is dropped on the way
(a doubt, a crash, a take-over) leaves none: its successor does. A batch that a predecessor wrote
and this worker only found on the target has none either; the map is the account of what was copied,
spans are for looking at how.

What becomes of spans is said by OpenTelemetry's own environment variables: the exporter by
OTEL_TRACES_EXPORTER, the share that is kept by OTEL_TRACES_SAMPLER, the queue by OTEL_BSP_* (2,048
spans if nothing is said; what does not fit is dropped by the SDK, copying never waits for it).

This module is imported only where a link wants spans.
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
"""Where OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES name no other."""
_EXPORTERS: Final = "opentelemetry_traces_exporter"
"""The group of entry points in which exporters announce themselves."""
_OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""OTEL_EXPORTER_OTLP_PROTOCOL to the exporter's name."""
_NO_PARENT: Final = Context()


class BatchSpans:
    """The spans of one link's batches."""

    def __init__(self, tracer: Tracer, link: str, now_ns: Callable[[], int] = time.time_ns) -> None:
        """`now_ns` is wall-clock time in nanoseconds, as OpenTelemetry counts."""
        self.now_ns = now_ns
        self._tracer = tracer
        self._link = link

    def acknowledged(
        self, source: TopicPartition, target: TopicPartition, outgoing: Outgoing, base_offset: int
    ) -> None:
        """The target has the batch at `base_offset`, and the map has it too."""
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
    """Where spans go; `shutdown` sends what is left, for at most 30 s, and blocks meanwhile.

    Raises ValueError where an exporter is asked for that is not installed.
    """
    # What the environment says of the resource holds; ours is said where it says nothing.
    ours = Resource.create({"service.name": SERVICE_NAME, "service.instance.id": worker_id})
    provider = TracerProvider(
        resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
    )
    for exporter in list(_exporters()):
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporters() -> Iterator[SpanExporter]:
    """Those of OTEL_TRACES_EXPORTER: names with commas between, `otlp` if there are none."""
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
                f"no OpenTelemetry exporter {name!r} is installed: install "
                "opentelemetry-exporter-otlp, or set OTEL_TRACES_EXPORTER to one that is there"
            )
        yield found.load()()
