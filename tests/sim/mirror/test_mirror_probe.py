"""The probe topic of a link: copied whole, despite the link's settings."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from mirror_maker.formats.naming import remote_topic
from mirror_maker.formats.probe import probe_topic_name
from mirror_maker.model import FlowState, LinkState
from mirror_maker.rules.rule_settings import (
    Condition,
    HeaderValue,
    KeyTest,
    RecordFilter,
    Transform,
)
from mirror_maker.rules.trouble import Trouble
from mirror_maker.worker.status import link_status
from tests.sim.mirror.scenarios import chaos, until
from tests.sim.mirror.world import LINK, TOPIC, MirrorWorld, SourceWriter
from tests.sim.virtual_time import run_virtually

PROBE = TopicPartition(probe_topic_name(LINK), 0)
LEAVES_ALL_OUT: dict[str, Any] = {
    "filter": RecordFilter(drop=(Condition(key=KeyTest(matches=".*")),)),
    "transform": (Transform(set_header=HeaderValue(name="from", value="a")),),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "rules": LEAVES_ALL_OUT,
    "latest": {"start": "latest"},
    "a later time": {"start": "2099-01-01T00:00:00Z"},
}


class ProbeWorld(MirrorWorld):
    """Return a source with the link's probe topic and its records, and an empty topic."""

    def __init__(self, seed: int, **link_settings: Any) -> None:
        super().__init__(seed, partitions=1)
        self.link_settings = {"topics": (TOPIC,), "probe": True, **link_settings}
        self.source.create(PROBE.topic, 1)
        self.partitions = [PROBE]
        self.writers = [
            SourceWriter(self.source.partition(PROBE), Random(self.random.getrandbits(32)))
        ]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_the_probe_topic_is_copied_whole_despite_the_rules_of_the_link(
    settings: dict[str, Any],
) -> None:
    async def scenario() -> None:
        world = ProbeWorld(1, **settings)
        world.write(20)
        worker = await world.worker("w")
        await world.settle(worker)
        await worker.kill()
        world.write(20)
        second = await world.worker("w")
        await world.settle(second)
        world.check_everything()
        await second.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("seed", range(6), ids=lambda seed: f"seed-{seed}")
def test_chaos_on_a_link_with_rules(seed: int) -> None:
    """Kills, overlapping workers, lost and late responses: proofs ignore the rules, too."""
    world = ProbeWorld(seed, **LEAVES_ALL_OUT)
    run_virtually(chaos(world, Random(seed), batches=40, batches_per_turn_max=20))


@pytest.mark.parametrize("is_recreated", [True, False], ids=["recreated", "out of range"])
def test_a_loss_at_the_source_of_the_probe_is_skipped_without_an_operator(
    is_recreated: bool,
) -> None:
    async def scenario() -> None:
        world = ProbeWorld(3)
        world.write(20)
        worker = await world.worker("w")
        await world.settle(worker)
        copied_count = len(world.copies(PROBE))
        if is_recreated:
            del world.source.topics[PROBE.topic]
            world.source.create(PROBE.topic, 1)
            world.writers = [SourceWriter(world.source.partition(PROBE), Random(4))]
            world.writers[0].write_plain(5)
            expected_count = 5
        else:
            await worker.stop()
            world.write(20)
            log = world.source.partition(PROBE)
            world.writers[0].write_plain(3)
            log.log_start_offset = log.log_end_offset - 3
            while log.batches[0][0].next_offset <= log.log_start_offset:
                log.batches.pop(0)
            expected_count = 3
            worker = await world.worker("w")
        await until(lambda: len(world.copies(PROBE)) == copied_count + expected_count)
        (gap,) = world.gaps(PROBE)
        assert gap.reason == (Trouble.RECREATED if is_recreated else Trouble.OUT_OF_RANGE)
        assert not worker.failures()
        await worker.stop()

    run_virtually(scenario())


def test_a_foreign_record_does_not_stop_the_probe() -> None:
    """The probe itself reports it as duplicated or altered."""

    async def scenario() -> None:
        world = ProbeWorld(6)
        copy = TopicPartition(remote_topic("a", PROBE.topic), 0)
        foreign = NewRecord(0, None, b"nobody copied this")
        worker = await world.worker("w")
        for is_restarted in (False, True):
            world.writers[0].write_plain(5)
            await world.settle(worker)
            if is_restarted:
                await worker.stop()
            partition = world.target.partition(copy)
            partition.append(encode_batch([foreign]))
            partition.commit(partition.log_end_offset)
            world.writers[0].write_plain(5)
            if is_restarted:
                worker = await world.worker("w")
            await world.settle(worker)
        copied = [record[1:] for record in world.copies(PROBE)]
        assert copied.count(foreign) == 2
        assert [each for each in copied if each != foreign] == [
            record[1:] for record in world.expected(PROBE)
        ]
        await worker.stop()

    run_virtually(scenario())


def test_the_probe_is_no_part_of_the_links_lag_totals_and_state() -> None:
    async def scenario() -> None:
        world = ProbeWorld(5)
        world.write(20)
        mirrored = TopicPartition(TOPIC, 0)
        worker = await world.worker("w")
        worker.link.assign([mirrored, PROBE])
        await until(
            lambda: (
                PROBE in worker.link.flows
                and worker.link.flows[PROBE].totals().records > 0
                and link_status(worker.link)["lag_records"] == 0
            )
        )
        worker.link.flows[PROBE].state = FlowState.PAUSED
        status = link_status(worker.link)
        assert status["state"] == LinkState.RUNNING
        figures = ("topics", "partitions", "partitions_known", "partitions_paused")
        assert [status[name] for name in figures] == [1, 1, 1, 0]
        assert status["records_copied"] == 0
        assert [each["topic"] for each in status["flows"]] == [PROBE.topic, TOPIC]
        await worker.kill()

    run_virtually(scenario())
