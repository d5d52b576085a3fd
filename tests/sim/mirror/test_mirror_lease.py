"""A worker without a lease reports nothing about the source."""

from __future__ import annotations

import asyncio

from tests.sim.mirror_product.cells import Cell
from tests.sim.mirror_product.evidence import gather
from tests.sim.mirror_product.judges import judge
from tests.sim.mirror_product.world import ProductWorld
from tests.sim.virtual_time import run_virtually


def test_a_worker_without_a_lease_maps_nothing() -> None:
    """It slept while another worker copied records, and compaction took them before it woke up. It
    must not report that they were not copied."""

    async def scenario() -> None:
        world = ProductWorld(Cell("prefixed", "cleaned", "own", "few", "none"), 1)
        history = world.histories[0]
        history.writer.write_plain(3)
        world.start()
        await world.settle()
        (asleep,) = world.processes
        asleep.pause()
        asleep.lease.valid = False
        history.writer.write_plain(4)
        history.writer.write_aborted()
        (awake,) = [world.replace_process(asleep)]
        world.assign_all()
        await world.settle()
        await awake.kill()
        gone = {record.offset for record in history.records[3:]}
        history.compacted |= gone
        history.log.batches = [
            entry for entry in history.log.batches if entry[0].base_offset not in gone
        ]
        asleep.wake()
        await asyncio.sleep(5)
        await asleep.kill()
        world.replace_process(awake)
        world.assign_all()
        world.write_ends()
        await world.settle()
        assert judge(gather(world)) >= 7

    run_virtually(scenario())
