"""Runs of tiny batches, copied as one batch each: exactly once, however fetches divide them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.header import BatchHeader
from local_cluster.wire.errors import ErrorCode
from mirror_maker.copy.batch_selection import CopyPath
from mirror_maker.formats.naming import remote_topic
from tests.sim.mirror.scenarios import chaos, kill_at_every_step
from tests.sim.mirror.world import LIMITS, TOPIC, MirrorWorld, SimWorker
from tests.sim.virtual_time import run_virtually


class TinyWorld(MirrorWorld):
    """A world whose sources have mostly batches of one or two records."""

    def __init__(self, seed: int, partitions: int = 1) -> None:
        super().__init__(seed, partitions)
        # A fetch ends inside some batch: which one depends on when it is sent.
        self.limits = replace(
            LIMITS,
            fetch_partition_bytes_max=self.random.choice((900, 1_500)),
            partition_pending_bytes_max=4_000,
            produce_request_bytes_max=2_000,
        )
        for writer in self.writers:
            writer.codecs = (self.random.choice((0, 3)),)

    def write(self, batches: int) -> None:
        for _ in range(batches):
            writer = self.random.choice(self.writers)
            if self.random.random() < 0.1:
                writer.write()
            else:
                writer.write_plain(self.random.randint(1, 2))


def _check_coalesced(worker: SimWorker) -> None:
    assert sum(flow.totals().batches[CopyPath.COALESCED] for flow in worker.flows) > 8


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_every_step_with_tiny_batches(seed: int) -> None:
    kill_at_every_step(
        lambda: TinyWorld(seed), batches=40, batches_later=10, check_undisturbed=_check_coalesced
    )


@pytest.mark.parametrize("seed", range(25), ids=lambda seed: f"seed-{seed}")
def test_chaos_with_tiny_batches(seed: int) -> None:
    """Lost and late messages, kills, and two workers at once that divide the runs differently."""

    async def scenario() -> None:
        world = TinyWorld(seed, partitions=2)
        await chaos(world, Random(seed), batches=60, batches_per_turn_max=60)

    run_virtually(scenario())


def test_a_target_that_refuses_coalesced_batches_gets_those_of_the_source() -> None:
    async def scenario() -> None:
        world = TinyWorld(3)
        largest = 150
        refused: list[BatchHeader] = []

        def refuse(at: TopicPartition, header: BatchHeader) -> ErrorCode | None:
            if at.topic != remote_topic("a", TOPIC) or header.size_bytes <= largest:
                return None
            refused.append(header)
            return ErrorCode.message_too_large

        for _ in range(60):
            world.writers[0].write_plain(1)
        assert all(
            header.size_bytes <= largest
            for header, _ in world.source.partition(world.partitions[0]).batches
        )
        world.target.refuse = refuse
        worker = await world.worker("w")
        await world.settle(worker)
        world.check_copies()
        world.check_map(complete=True)
        assert not worker.failures()
        assert len(refused) == 1, "it is not retried again and again"
        await worker.stop()

    run_virtually(scenario())
