"""Topics deleted at the source, as the workers of a link see them."""

from __future__ import annotations

from local_cluster.client.model import TopicPartition
from mirror_maker.model import FlowState
from mirror_maker.worker.status import link_status
from tests.sim.mirror.scenarios import until
from tests.sim.mirror.world import TOPIC, MirrorWorld, SimWorker
from tests.sim.virtual_time import run_virtually

GONE = TopicPartition("a-" + TOPIC, 0)
"""A topic that sorts before all others."""


async def until_working(worker: SimWorker, topics: set[str]) -> None:
    """Wait until it has flows, and discovery has found exactly these topics at the source."""
    link = worker.link
    await until(lambda: bool(link.flows) and {*link.directory.source} == topics)


def test_there_is_a_first_worker_after_a_topic_was_deleted() -> None:
    async def scenario() -> None:
        world = MirrorWorld(1)
        world.source.create(GONE.topic, 1)
        stays = await world.worker("stays")
        stays.link.assign(world.partitions[:1])
        before = await world.worker("before")
        before.link.assign([GONE, *world.partitions[1:]])
        for worker in (stays, before):
            await until_working(worker, {TOPIC, GONE.topic})
        assert (stays.link.is_first_worker, before.link.is_first_worker) == (False, True)
        del world.source.topics[GONE.topic]
        await before.stop()
        # It restarts under its name, and gets its partitions back: the other one still knows it.
        after = await world.worker("before")
        after.link.assign([GONE, *world.partitions[1:]])
        for worker in (stays, after):
            await until_working(worker, {TOPIC})
        assert stays.link.known != after.link.known
        assert (stays.link.is_first_worker, after.link.is_first_worker) == (True, False)
        await after.stop()
        await stays.stop()

    run_virtually(scenario())


def test_a_deleted_topic_is_reported_by_its_new_worker_and_has_no_lag() -> None:
    async def scenario() -> None:
        world = MirrorWorld(3)
        world.source.create(GONE.topic, 1)
        world.write(10)
        world.write_ends()
        every = [GONE, *world.partitions]
        first = await world.worker("w0")
        first.link.assign(every)
        await until(lambda: link_status(first.link)["lag_records"] == 0)
        gone = world.source.topics.pop(GONE.topic)
        await until(lambda: first.link.flows[GONE].state is FlowState.SOURCE_GONE)
        assert link_status(first.link)["lag_records"] == 0
        await first.stop()
        second = await world.worker("w1")
        second.link.assign(every)
        await until(lambda: link_status(second.link)["lag_records"] == 0)
        flow = second.link.flows[GONE]
        await until(lambda: flow.state is FlowState.SOURCE_GONE)
        assert flow.reason == f"{GONE.topic} does not exist at the source"
        world.source.topics[GONE.topic] = gone  # the cluster only did not list it for a while
        await until(lambda: flow.state is FlowState.RUNNING)
        await until(lambda: link_status(second.link)["lag_records"] == 0)
        await second.stop()

    run_virtually(scenario())
