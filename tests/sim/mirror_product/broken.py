"""Deliberately broken mirrors: each breaks one rule that a promise hangs on.

The simulation must notice every one of them, else it proves nothing. To add one: a function that
patches the rule away, and its line in VARIANTS with a seed that notices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final, NamedTuple
from unittest import mock

from local_cluster.records.header import HEADER_BYTES, BatchHeader, pack_header, patch_crc
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.audit.log_check import LogCheck
from mirror_maker.clusters.origins import Origins
from mirror_maker.copy import batch_selection, coalescing, passthrough, replicator
from mirror_maker.copy.batch_selection import CopyPath, SourceBatch
from mirror_maker.copy.open_block import OpenBlock
from mirror_maker.copy.passthrough import PreparedBatch
from mirror_maker.copy.replicator import Outgoing
from mirror_maker.flow import sender
from mirror_maker.flow.copy_session import CopySession
from mirror_maker.flow.sender import Sender
from mirror_maker.formats import (
    Gap,
    OffsetMap,
    Opening,
    Run,
    Translation,
    TranslationState,
    encode_gap,
)
from mirror_maker.link.map_flusher import MapFlusher
from mirror_maker.model import FlowFailedError, SourceGap
from mirror_maker.resume import journal_entries, log_comparison, proof, tail_places
from mirror_maker.resume.generations import GenerationOpener
from mirror_maker.resume.journal_entries import note_gap
from mirror_maker.rules.gap_ranges import GapRanges
from mirror_maker.rules.trouble import Trouble
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.tail.places import PlacedTail
from mirror_maker.tail.target_tail import TargetTail

Broken = AbstractContextManager[object]


def key_batches_by_target_partition() -> Broken:
    """Batches of two flows for one partition meet in a request, which keeps one of them."""

    def take(self: Sender) -> list[Any]:
        sent: list[Any] = []
        size_bytes = 0
        for target, queue in list(self._queues.items()):
            for flow in list(queue):
                if size_bytes >= self._limits.produce_request_bytes_max:
                    return sent
                del queue[flow]
                outgoing = flow.take() if flow.target_leader == self._node_id else None
                if outgoing is None:
                    continue
                sent.append(sender._Sent(flow, outgoing))
                size_bytes += outgoing.size_bytes
                if flow.can_take:
                    queue[flow] = None
            if not queue:
                del self._queues[target]
        return sent

    stack = ExitStack()
    stack.enter_context(mock.patch.object(Sender, "_take", take))
    stack.enter_context(mock.patch.object(sender, "ProduceBatches", lambda *pairs: dict(pairs)))
    return stack


def copy_the_base_of_a_delete_horizon() -> Broken:
    """The horizon's bit is cleared, and its value stays the base timestamp."""
    path = batch_selection._path

    def believe_the_base(header: BatchHeader, source_first: int) -> CopyPath:
        found = path(header, source_first)
        return CopyPath.PASSTHROUGH if found is CopyPath.DELETE_HORIZON else found

    return mock.patch.object(batch_selection, "_path", believe_the_base)


def tell_copies_without_a_source_as_lost() -> Broken:
    """A tail whose source is gone was copied, and the journal says that it was lost."""

    async def note(
        journal: GapStore, opening: Opening, holes: Any, lost: Any, target_next: int, policy: Any
    ) -> None:
        ranges = [(hole.source_from, hole.source_to) for hole in holes]
        for start, end in [*ranges, *([lost] if lost else [])]:
            await note_gap(
                journal,
                opening.flow,
                target_topic=opening.target_topic,
                producer_epoch=opening.producer_epoch,
                target_offset=target_next,
                error=FlowFailedError("gone", Trouble.OUT_OF_RANGE, SourceGap(start, end, None)),
            )

    return mock.patch.object(proof, "note_source_losses", note)


def forget_that_copies_lost_their_source() -> Broken:
    """The journal does not say where the single places of copies are unknown."""

    async def note_nothing(*args: Any, **options: Any) -> None:
        return

    return mock.patch.object(journal_entries, "note_copied", note_nothing)


def pass_over_foreign_records() -> Broken:
    """What others wrote into a copy is not told."""

    async def settle_nothing(*args: object) -> None:
        return

    stack = ExitStack()
    stack.enter_context(
        mock.patch.object(CopySession, "_on_foreign", lambda self, start, end: None)
    )
    stack.enter_context(mock.patch.object(proof, "settle_foreign", settle_nothing))
    return stack


def write_the_map_before_the_receipts() -> Broken:
    """A worker that dies in between leaves mapped copies that nobody compares."""
    flush = MapFlusher.flush

    async def write_later(self: Any, taken: Any) -> None:
        self.__dict__.setdefault("late", []).extend(
            entry for each in taken.values() for entry in each.receipts
        )

    async def flush_and_write(self: Any) -> None:
        await flush(self)
        late = self.__dict__.pop("late", [])
        if late:
            await self._stores.audit_topics.write_receipts(late)

    stack = ExitStack()
    stack.enter_context(mock.patch.object(MapFlusher, "_write_receipts", write_later))
    stack.enter_context(mock.patch.object(MapFlusher, "flush", flush_and_write))
    return stack


def trust_the_map_without_pairing() -> Broken:
    """A resume goes on where the map ends, whatever lies on the target behind it."""

    async def find_none(
        source: Any, base: Any, tail: Any, gaps: GapRanges, clock: Any
    ) -> PlacedTail:
        return PlacedTail((), gaps.first_outside(base.source_next))

    return mock.patch.object(log_comparison, "find_places", find_none)


def count_the_tail_without_looking() -> Broken:
    """A resume believes that the tail has as many source offsets as records."""

    async def count(source: Any, base: Any, tail: Any, gaps: GapRanges, clock: Any) -> PlacedTail:
        records = sum(each.header.records_count for each in tail.batches)
        return PlacedTail((), gaps.first_outside(base.source_next) + records)

    return mock.patch.object(log_comparison, "find_places", count)


def jump_one_too_far() -> Broken:
    """A hole of the map takes the next source offset with it."""
    jump = OpenBlock.jump

    def jump_further(self: OpenBlock, start: int, end: int, target_to: int, sequence: int) -> None:
        jump(self, start, end + 1, target_to, sequence)

    return mock.patch.object(OpenBlock, "jump", jump_further)


def jump_one_too_low() -> Broken:
    """The copies behind a hole of the map seem to begin before its last one."""
    jump = OpenBlock.jump

    def jump_lower(self: OpenBlock, start: int, end: int, target_to: int, sequence: int) -> None:
        jump(self, start, end, target_to - 1, sequence)

    return mock.patch.object(OpenBlock, "jump", jump_lower)


def send_again_after_a_lost_answer() -> Broken:
    """A batch of which nobody knows whether it arrived goes out at the next sequence."""
    refused = CopySession.on_refused

    def send_again(self: CopySession, outgoing: Outgoing, error: KafkaError) -> None:
        mine = self.replicator
        alone = list(mine._in_flight) == [outgoing]
        if error.code != ErrorCode.network_exception or not alone:
            refused(self, outgoing, error)
            return
        mine._in_flight.clear()
        mine._queue.appendleft(outgoing.prepared)
        self._landed()
        self._on_ready(self)

    return mock.patch.object(CopySession, "on_refused", send_again)


def write_without_a_producer_id() -> Broken:
    """Nothing tells a repeated batch from a new one."""
    return mock.patch.object(replicator, "stamp", lambda prepared, *_: patch_crc(prepared.data, 0))


def skip_without_the_journal() -> Broken:
    """What retention took is passed over, and only this worker knows."""

    async def note(self: GapStore, gap: Gap) -> Gap:
        self.state.replay(*encode_gap(gap))
        return gap

    return mock.patch.object(GapStore, "note", note)


def open_a_generation_one_too_late() -> Broken:
    """A new generation leaves out its first source offset."""
    open_generation = GenerationOpener.open_generation

    async def open_late(
        self: GenerationOpener, flow: Any, source_offset: int, read_to: int | None
    ) -> None:
        await open_generation(self, flow, source_offset + 1, read_to)

    return mock.patch.object(GenerationOpener, "open_generation", open_late)


def forget_the_origin() -> Broken:
    """What mirrors wrote is copied by the next one, and comes back."""
    return mock.patch.object(Origins, "foreign_ids", frozenset())


def copy_what_was_aborted() -> Broken:
    """Aborted transactions are copied."""
    select = batch_selection.select_batches

    def select_all(fetched: Any, position: int, aborted: Any, *args: Any, **options: Any) -> Any:
        return select(fetched, position, (), *args, **options)

    return mock.patch.object(replicator, "select_batches", select_all)


def copy_a_batch_from_its_beginning() -> Broken:
    """A batch that begins before the position is copied whole."""
    records = SourceBatch.records

    def whole(self: SourceBatch) -> Any:
        self.source_first = min(self.source_first, self.header.base_offset)
        return records(self)

    return mock.patch.object(SourceBatch, "records", whole)


def believe_every_first_answer() -> Broken:
    """Nothing is read back after a proof: no probation."""
    return mock.patch.object(replicator, "PROBATION_BATCHES", 0)


def lose_the_headers() -> Broken:
    """A batch that is built anew has no headers."""
    encode = passthrough.encode_dense

    def bare(records: Any, codec: int) -> Any:
        return encode([record._replace(headers=record.headers[:-1]) for record in records], codec)

    return mock.patch.object(passthrough, "encode_dense", bare)


def move_the_base_of_coalesced_batches() -> Broken:
    """Times of records change where tiny batches become one."""
    made = coalescing.coalesce

    def shift(run: Any) -> Any:
        found = made(run)
        if found is None:
            return None
        data = bytearray(found.data)
        header = found.header._replace(base_timestamp=found.header.base_timestamp + 1)
        data[:HEADER_BYTES] = pack_header(header)
        return found._replace(header=header, data=data)

    return mock.patch.object(batch_selection, "coalesce", shift)


def map_a_rebuilt_batch_as_dense() -> Broken:
    """The holes of a source batch are not in the map."""

    def dense(self: PreparedBatch, target_offset: int) -> Any:
        return [Run(self.segments[0][0], target_offset, self.records_count)]

    return mock.patch.object(PreparedBatch, "runs", dense)


def take_any_topic_of_the_name() -> Broken:
    """A fetch by name may bring records of a topic that was created since."""
    confirmed = CopySession.on_confirmed

    def believe(self: CopySession, mark: int, topic_id: Any) -> None:
        confirmed(self, mark, self.key.source_topic_id)

    return mock.patch.object(CopySession, "on_confirmed", believe)


def expect_every_receipt_twice() -> Broken:
    """What a successor tells of the tail counts beside what the dead worker told."""
    expect = LogCheck.expect

    def forget(self: LogCheck, entry: Any, record_offset: int) -> None:
        if self._receipts.reported_to > 0:
            self._receipts.reported_to = 0
        expect(self, entry, record_offset)

    return mock.patch.object(LogCheck, "expect", forget)


def take_others_records_for_lost_ones() -> Broken:
    """The audit does not know that others write into a shared copy."""

    init = LogCheck.__init__

    def alone(self: LogCheck, *args: Any, **options: Any) -> None:
        init(self, *args, **options | {"is_exclusive": True})

    return mock.patch.object(LogCheck, "__init__", alone)


def translate_behind_what_others_wrote() -> Broken:
    """The greatest place instead of the smallest one."""
    translate = OffsetMap.translate

    def greatest(self: OffsetMap, source_offset: int) -> Translation:
        smallest, following = translate(self, source_offset), self.next_mapped(source_offset)
        if smallest.state is not TranslationState.EXACT or following is None:
            return smallest
        return smallest._replace(target_offset=following[1])

    return mock.patch.object(OffsetMap, "translate", greatest)


def go_on_behind_the_next_record() -> Broken:
    """A resume passes over one offset behind the tail."""
    find = tail_places.find_places

    async def find_further(*args: Any) -> PlacedTail:
        found = await find(*args)
        return found._replace(source_next=found.source_next + bool(found.pieces))

    return mock.patch.object(log_comparison, "find_places", find_further)


def never_see_the_others_in_the_tail() -> Broken:
    """Batches of other producers in the tail are taken for the link's own."""
    taken = TargetTail._take

    def take(self: TargetTail, header: BatchHeader, view: memoryview) -> None:
        base = self._base
        ours = header._replace(
            producer_id=base.producer_id,
            producer_epoch=base.producer_epoch,
            base_sequence=self.next_sequence,
        )
        is_other = header.producer_id != base.producer_id and not header.is_control
        taken(self, ours if is_other and header.base_offset >= base.target_next else header, view)

    return mock.patch.object(TargetTail, "_take", take)


class Variant(NamedTuple):
    """A broken mirror, and a seed that notices."""

    broken: Callable[[], Broken]
    noticed_at: int


VARIANTS: Final[Mapping[str, Variant]] = {
    variant.broken.__name__: variant
    for variant in (
        Variant(key_batches_by_target_partition, 65),
        Variant(copy_the_base_of_a_delete_horizon, 9),
        Variant(tell_copies_without_a_source_as_lost, 15),
        Variant(forget_that_copies_lost_their_source, 15),
        Variant(pass_over_foreign_records, 10),
        Variant(write_the_map_before_the_receipts, 21),
        Variant(trust_the_map_without_pairing, 9),
        Variant(count_the_tail_without_looking, 9),
        Variant(jump_one_too_far, 15),
        Variant(jump_one_too_low, 15),
        Variant(send_again_after_a_lost_answer, 28),
        Variant(write_without_a_producer_id, 9),
        Variant(skip_without_the_journal, 10),
        Variant(open_a_generation_one_too_late, 18),
        Variant(forget_the_origin, 14),
        Variant(copy_what_was_aborted, 10),
        Variant(copy_a_batch_from_its_beginning, 15),
        Variant(believe_every_first_answer, 11),
        Variant(lose_the_headers, 9),
        Variant(move_the_base_of_coalesced_batches, 23),
        Variant(map_a_rebuilt_batch_as_dense, 9),
        Variant(take_any_topic_of_the_name, 78),
        Variant(expect_every_receipt_twice, 9),
        Variant(take_others_records_for_lost_ones, 9),
        Variant(translate_behind_what_others_wrote, 9),
        Variant(go_on_behind_the_next_record, 9),
        Variant(never_see_the_others_in_the_tail, 9),
    )
}
