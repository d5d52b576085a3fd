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

import time
from collections.abc import Callable
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import SpanKind

from local_cluster.client.model import TopicPartition
from mirror_maker.copy.replicator import Outgoing
from mirror_maker.metrics.batch_ids import SpanIds, batch_ids
from mirror_maker.metrics.span_exporters import open_exporters

SERVICE_NAME: Final = "heliograph-mirror"
"""The default of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES."""
_NO_PARENT: Final = Context()


class GivenIds(IdGenerator):
    """Gives the next span the ids that were set for it; random ones otherwise."""

    def __init__(self) -> None:
        self.next: SpanIds | None = None
        self._random = RandomIdGenerator()

    def generate_trace_id(self) -> int:
        return self._random.generate_trace_id() if self.next is None else self.next.trace_id

    def generate_span_id(self) -> int:
        return self._random.generate_span_id() if self.next is None else self.next.span_id


class BatchSpans:
    """The spans of one link's batches."""

    def __init__(
        self, provider: TracerProvider, link: str, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        """`now_ns` returns wall-clock nanoseconds, as OpenTelemetry counts.

        With a provider of `open_provider`, a span has the ids of `batch_ids`.
        """
        self.now_ns = now_ns
        self._tracer = provider.get_tracer("mirror_maker")
        ids = provider.id_generator
        self._ids = ids if isinstance(ids, GivenIds) else GivenIds()
        self._link = link

    def acknowledged(
        self, source: TopicPartition, target: TopicPartition, outgoing: Outgoing, base_offset: int
    ) -> None:
        """Record the span of a batch that the target has at `base_offset`, and the map too."""
        prepared = outgoing.prepared
        first, (last, count) = prepared.segments[0][0], prepared.segments[-1]
        self._ids.next = batch_ids(self._link, target.topic, target.partition, base_offset)
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
        self._ids.next = None
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
        resource=ours.merge(OTELResourceDetector().detect()),
        id_generator=GivenIds(),
        shutdown_on_exit=False,
    )
    for exporter in open_exporters():
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
