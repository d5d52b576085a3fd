"""A *generation*: the copies of one source log under one producer epoch. Shell.

If the source topic is re-created, or the end of its log is replaced, the new log is another one
than what was copied. An operator's repair needs a new start as well. Then the map begins a new
generation with an opening at the next producer epoch; the older copies stay where they are.
`quiet_period` says why the target must be quiet first. If a write of the old epoch arrives later
still, the next proof finds it by its epoch and stops the flow.

A repair may order that the replaced copies are deleted: a journal entry with the reason
`repair_fresh` (`repair/plan.py`). The opening of the next generation says at which target offset
its copies begin. Everything below is deleted before the first of them is written, and again by
every proof that finds something there. So it does not matter which worker opened the generation,
nor at which step a worker was killed.
"""

from __future__ import annotations

import logging

from local_cluster.records.header import PRODUCER_EPOCH_MAX
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.formats import FlowKey, Opening
from mirror_maker.formats.gaps import REPAIR_FRESH_REASON
from mirror_maker.model import FlowFailedError
from mirror_maker.ports import Lease, check_lease
from mirror_maker.resume.quiet_period import QuietPeriod
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.stores.map_store import MapStore

log = logging.getLogger(__name__)


def next_epoch(epoch: int) -> int:
    """Return the next producer epoch. Raises FlowFailedError after the last one."""
    if epoch >= PRODUCER_EPOCH_MAX:
        raise FlowFailedError(
            f"the link's producer id has no epochs left ({epoch} is the last); a link with another "
            "name gets another id, and starts over"
        )
    return epoch + 1


class GenerationOpener:
    """Opens the generations of one flow."""

    def __init__(
        self, target: TargetLog, map_store: MapStore, quiet_period: QuietPeriod, lease: Lease
    ) -> None:
        self._target = target
        self._map_store = map_store
        self._quiet_period = quiet_period
        self._lease = lease

    async def end_when_quiet(self) -> int:
        """Return the target's end, once no write of the old epoch can arrive any more.

        Raises NotQuietError: call again after its time. Raises KafkaError: not now.
        """
        return await self._quiet_period.end_offset(self._map_store.registration.producer_id)

    async def open_generation(self, flow: FlowKey, source_offset: int, read_to: int | None) -> None:
        """Open the flow at the next producer epoch from a source offset on, once the target is
        quiet.

        The target was read up to `read_to`; the next proof reads what follows. None: an operator
        decided about everything that is there. Raises NotQuietError: call again after its time.
        Raises KafkaError: not now. Raises FlowFailedError: never.
        """
        state = self._map_store.state
        epoch = next_epoch(state.highest_epoch(flow))
        end = await self.end_when_quiet()
        await self._map_store.catch_up()
        if state.highest_epoch(flow) >= epoch:
            return  # another worker was first
        check_lease(self._lease)
        opening = self._map_store.new_opening(
            flow,
            producer_epoch=epoch,
            nonce=self._map_store.new_nonce(),
            target_topic=self._target.at.topic,
            source_offset=source_offset,
            target_offset=end if read_to is None else min(read_to, end),
        )
        await self._map_store.append([opening])
        await self._map_store.catch_up()


async def delete_replaced(
    target: TargetLog, map_store: MapStore, journal: GapStore, opening: Opening
) -> None:
    """Delete what precedes the last generation that was ordered `fresh`. Raises KafkaError."""
    below = _replaced_below(map_store, journal, opening)
    if below is None:
        return
    first, end = await target.bounds()
    if first >= min(below, end):
        return
    await target.delete_records(min(below, end))
    log.warning("%s: deleted the records below offset %d, as ordered", target.at, min(below, end))


def _replaced_below(map_store: MapStore, journal: GapStore, opening: Opening) -> int | None:
    """Return the target offset below which the copy must be empty; None if nothing was ordered."""
    flow = opening.flow
    orders = [
        entry
        for entry in journal.state.partition_gaps(flow.source_topic, flow.partition)
        if entry.flow == flow and entry.source_to is None and entry.reason == REPAIR_FRESH_REASON
    ]
    if not orders:
        return None
    last = max(orders, key=lambda entry: entry.producer_epoch)
    following = map_store.state.opening_after(flow, last.producer_epoch)
    if following is None or following.source_offset > last.source_from:
        return None  # it would not copy again everything that was deleted
    return following.target_offset
