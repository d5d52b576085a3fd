"""The *opening* of a flow: found in the map, or written and read back. Shell.

An opening says from which source offset on, to which target offset on, the flow is copied, with
which producer id and epoch. It is acknowledged and read back before the first batch goes out. So
wherever there is a batch, an opening explains it.
"""

from __future__ import annotations

from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.clusters.partition_log import TargetLog
from mirror_maker.formats import FlowKey, Opening
from mirror_maker.model import FlowFailedError
from mirror_maker.ports import Lease, check_lease
from mirror_maker.resume.foreign_records import settle_foreign
from mirror_maker.resume.generations import GenerationOpener, delete_replaced
from mirror_maker.resume.journal_entries import (
    is_repair_ordered,
    lost_ranges,
    note_copied,
    note_replaced_log,
    replaced_from,
)
from mirror_maker.resume.log_comparison import LogComparison
from mirror_maker.resume.source_log import SourceLog
from mirror_maker.resume.start_lookup import StartLookup
from mirror_maker.rules.start_position import StartKind, parse_start
from mirror_maker.rules.trouble import Trouble
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.stores.map_store import MapStore
from mirror_maker.tail.places import Hole
from mirror_maker.tail.target_tail import TargetTail, resume_base


class FlowOpener:
    """Finds the opening of one flow, and writes it if there is none."""

    def __init__(
        self,
        source: SourceLog,
        target: TargetLog,
        settings: LinkSettings,
        *,
        map_store: MapStore,
        journal: GapStore,
        logs: LogComparison,
        start: StartLookup,
        generations: GenerationOpener,
        lease: Lease,
    ) -> None:
        self._source = source
        self._target = target
        self._settings = settings
        self._map_store = map_store
        self._journal = journal
        self._logs = logs
        self._start = start
        self._generations = generations
        self._lease = lease

    async def find(self, flow: FlowKey) -> Opening:
        """Return the opening under which the flow is copied now; open a generation if one is due.

        Raises KafkaError (try again), FlowFailedError (stop).
        """
        opening = await self._find_or_open(flow)
        await self._journal.catch_up()
        replaced = replaced_from(self._journal, opening)
        if replaced is not None:
            read_to = None
            if not is_repair_ordered(self._journal, opening):
                before = self._map_store.state.last_block(flow, opening.producer_epoch)
                former, read_to = await self._logs.read_tail(resume_base(opening, before))
                await settle_foreign(
                    self._journal, self._settings, opening, former.foreign, replaced
                )
            await self._generations.open_generation(flow, replaced, read_to)
            opening = await self._find_or_open(flow)
        await delete_replaced(self._target, self._map_store, self._journal, opening)
        return opening

    async def _find_or_open(self, flow: FlowKey) -> Opening:
        store = self._map_store
        if store.state.opening(flow) is None:
            # The target's end is asked for before the map is read. An opening precedes every batch,
            # so records below that end are not the mirror's if there is no opening then.
            first, end = await self._target.bounds()
            await store.catch_up()
            if store.state.opening(flow) is None:
                await self._open(flow, first, end)
        else:
            await store.catch_up()
        opening = store.state.opening(flow)
        if opening is None:
            latest = store.state.latest_flow(
                flow.source_topic, flow.partition, flow.target_topic_id
            )
            if latest is not None:
                # The opening of an earlier topic arrived first. The next attempt knows of it.
                raise KafkaError(ErrorCode.unknown_topic_id, f"{latest} was opened meanwhile")
            raise FlowFailedError(f"{store.topic} does not keep what is written to it")
        if opening.producer_id != store.registration.producer_id:
            raise FlowFailedError(
                f"opened with producer id {opening.producer_id}, but the link is registered with "
                f"{store.registration.producer_id}"
            )
        return opening

    async def _open(self, flow: FlowKey, target_start: int, target_end: int) -> None:
        state, target = self._map_store.state, self._target.at
        known = state.latest_flow(flow.source_topic, flow.partition, flow.target_topic_id)
        if known is not None:
            await self._open_recreated(known, flow)
            return
        self._check_not_renamed(flow)
        # Copies that are taken over must be the source's, or the takeover fails.
        settings = self._settings.for_topic(flow.source_topic)
        is_exclusive = not settings.names.is_shared(flow.source_topic) and (
            parse_start(settings.start).kind is not StartKind.MM2
        )
        if is_exclusive and target_end > target_start and settings.on_unmapped_target == "fail":
            raise FlowFailedError(
                f"{target} has records {target_start}..{target_end - 1} that no offset map explains"
            )
        start = await self._start.find()
        await self._map_store.append_opening(
            self._map_store.new_opening(
                flow,
                producer_epoch=self._map_store.registration.producer_epoch,
                nonce=0,  # `append_opening` sets it
                target_topic=target.topic,
                source_offset=start.source_offset,
                target_offset=target_end,
                has_older_copies=start.has_older_copies,
            )
        )
        await self._map_store.catch_up()

    def _check_not_renamed(self, flow: FlowKey) -> None:
        state, copy = self._map_store.state, self._target.at.topic
        moved = state.latest_flow(flow.source_topic, flow.partition)
        before = None if moved is None else state.target_topic(moved)
        if before is not None and before != copy:
            raise FlowFailedError(
                f"reconfigured: {flow.source_topic} was copied into {before}, and would now be "
                f"copied into {copy}; a link with another name starts over"
            )

    async def _open_recreated(self, known: FlowKey, flow: FlowKey) -> None:
        """Continue with a topic that was re-created, if the link's policy says so."""
        detail = (
            f"source topic {flow.source_topic} was deleted and re-created (topic id "
            f"{known.source_topic_id}, now {flow.source_topic_id}); its copy "
            f"{self._target.at.topic} is of the old one"
        )
        if self._settings.for_topic(flow.source_topic).on.of(Trouble.RECREATED) != "skip":
            raise FlowFailedError(detail, Trouble.RECREATED)
        state = self._map_store.state
        opening, offset_map = state.opening(known), state.offset_map(known)
        assert opening is not None, "a known flow has an opening"
        assert offset_map is not None, "a known flow has a map"
        base = resume_base(opening, state.last_block(known, opening.producer_epoch))
        tail, read_to = await self._logs.read_tail(base)
        await settle_foreign(self._journal, self._settings, opening, tail.foreign, base.source_next)
        # A copy that arrives late may be of a record that the entries below would call lost.
        await self._generations.end_when_quiet()
        await self._journal.catch_up()  # after the tail: an entry precedes what follows its gap
        lost = lost_ranges(self._journal, opening)
        hole = _unmapped_copies(lost.first_outside(base.source_next), base.target_next, tail)
        check_lease(self._lease)
        if hole is not None:
            await note_copied(self._journal, opening, hole, is_topic_gone=True)
        await note_replaced_log(
            self._journal,
            opening,
            source_from=offset_map.source_next if hole is None else hole.source_to,
            target_offset=offset_map.target_next if hole is None else hole.target_to,
            trouble=Trouble.RECREATED,
            detail=detail,
        )
        await self._generations.open_generation(flow, await self._source.first(), read_to)


def _unmapped_copies(source_next: int, target_next: int, tail: TargetTail) -> Hole | None:
    """Return what a killed worker copied of a topic that is gone, and did not map.

    The first record has source offset `source_next` or a higher one, and lies at `target_next` or
    later. The source offsets of the hole end after the first one that can be missing: copying goes
    in order.
    """
    count = tail.length
    if not tail.batches:
        return None
    target_from, target_to = tail.batches[0].header.base_offset, tail.batches[-1].header.next_offset
    if tail.batches[0].ordinal:
        target_from = target_next
    return Hole(source_next, source_next + count, target_from, target_to, count)
