"""Spans of batches: each agrees with both logs, and no two are about the same records."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mirror_maker.formats.naming import remote_topic
from mirror_maker.metrics.batch_spans import BatchSpans
from tests.sim.mirror.scenarios import KillAtStep
from tests.sim.mirror.world import LINK, TOPIC, MirrorWorld, VirtualClock
from tests.sim.virtual_time import run_virtually


def _traced_world(seed: int) -> tuple[MirrorWorld, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    world = MirrorWorld(seed)
    clock = VirtualClock()
    world.spans = BatchSpans(provider, LINK, now_ns=lambda: clock.now_ms() * 1_000_000)
    return world, exporter


def _told(world: MirrorWorld, spans: tuple[ReadableSpan, ...]) -> list[list[int]]:
    """Return the target offsets of the spans, per partition; compare each span with the logs."""
    told: list[list[int]] = [[] for _ in world.partitions]
    for span in spans:
        about = span.attributes
        assert about is not None
        assert about["messaging.destination.name"] == remote_topic("a", TOPIC)
        partition = int(str(about["messaging.destination.partition.id"]))
        at = world.partitions[partition]
        base_offset = int(str(about["messaging.kafka.offset"]))
        count = int(str(about["messaging.batch.message_count"]))
        source_offset_of = {
            copy.offset: record.offset
            for record, copy in zip(world.expected(at), world.copies(at), strict=False)
        }
        offsets = [source_offset_of[base_offset + index] for index in range(count)]
        assert offsets[0] == about["heliograph.source.offset.first"]
        assert offsets[-1] == about["heliograph.source.offset.last"]
        sealed = span.events[0]
        assert sealed.name == "sealed" and span.start_time and span.end_time
        assert VirtualClock().now_ms() * 1_000_000 >= span.end_time
        assert span.start_time <= sealed.timestamp <= span.end_time
        told[partition] += range(base_offset, base_offset + count)
    return told


def test_every_copied_record_is_in_one_span() -> None:
    async def scenario() -> None:
        world, exporter = _traced_world(3)
        # Batches in doubt are found on the target, not acknowledged; here there is no doubt.
        world.network.is_perfect, world.network.delay_ms_max = True, 0.0
        world.write(60)
        worker = await world.worker("w")
        await world.settle(worker)
        assert not any(flow.restarts for flow in worker.flows)
        await worker.stop()
        told = _told(world, exporter.get_finished_spans())
        for at, offsets in zip(world.partitions, told, strict=True):
            assert sorted(offsets) == [copy.offset for copy in world.copies(at)]
            assert offsets, at

    run_virtually(scenario())


@pytest.mark.parametrize("step", [40, 60, 80])
def test_no_record_is_in_two_spans_after_a_kill(step: int) -> None:
    async def scenario() -> None:
        world, exporter = _traced_world(step)
        world.write(40)
        kill = KillAtStep(step)
        first = await world.worker("w", kill)
        async with asyncio.timeout(60):
            await kill.killed.wait()
        await first.kill()
        second = await world.worker("w")
        await world.settle(second)
        await second.stop()
        told = _told(world, exporter.get_finished_spans())
        for offsets in told:
            assert len(offsets) == len(set(offsets))
        assert any(told)

    run_virtually(scenario())
