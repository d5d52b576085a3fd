"""The growing end of a flow's offset map: the block that a worker rewrites as it copies. Pure.

A worker never rewrites another worker's block: its nonce makes the key its own. It may begin with
what a predecessor's last block says, and delete that one after its own first write, so that
restarts do not pile up small blocks. Every state that is written is true for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from mirror_maker.formats import Block, FlowKey, Run
from mirror_maker.formats.records import encode_key

RUNS_PER_BLOCK: Final = 2_000
"""A block is closed and the next one begun when it has this many runs: about 10 kB."""


class OpenBlock:
    """The block under construction; `take_records` gives what must be written now."""

    def __init__(
        self,
        *,
        flow: FlowKey,
        target_topic: str,
        producer_id: int,
        producer_epoch: int,
        nonce: int,
        source_start: int,
        target_start: int,
        next_sequence: int,
        predecessor: Block | None = None,
        older: Sequence[Block] = (),
    ) -> None:
        """`predecessor` ends where this block begins; a small one is taken over. `older` are the
        blocks before it that the map topic has; see `trim`."""
        self._flow = flow
        self._target_topic = target_topic
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._nonce = nonce
        self._source_start = source_start
        self._target_start = target_start
        self._runs: list[Run] = []
        self._superseded: list[bytes] = []
        self._closed: list[Block] = []
        self._older = deque(
            (block.target_next, encode_key(block))
            for block in sorted(older, key=lambda block: block.target_next)
        )
        """(target offset behind it, key) of every block before this one."""
        self.source_next = source_start
        self.next_sequence = next_sequence
        self.is_dirty = False
        if predecessor is not None and len(predecessor.runs) < RUNS_PER_BLOCK // 2:
            assert predecessor.source_next == source_start, (predecessor, source_start)
            self._source_start = predecessor.source_start
            self._target_start = predecessor.target_start
            self._runs = list(predecessor.runs)
            self._superseded = [encode_key(predecessor)]

    @property
    def target_next(self) -> int:
        """The target offset after the last mapped record."""
        return self._runs[-1].target_next if self._runs else self._target_start

    def append(self, runs: Sequence[Run], source_next: int, next_sequence: int) -> None:
        """Take in acknowledged runs; what lies up to `source_next` beside them was left out."""
        for run in runs:
            last = self._runs[-1] if self._runs else None
            if (
                last is not None
                and last.source_next == run.source_offset
                and last.target_next == run.target_offset
            ):
                self._runs[-1] = last._replace(records_count=last.records_count + run.records_count)
            else:
                self._runs.append(run)
        self.advance(source_next)
        self.next_sequence = next_sequence
        self.is_dirty = True
        if len(self._runs) >= RUNS_PER_BLOCK:
            self._roll()

    def jump(self, source_from: int, source_to: int, target_to: int, next_sequence: int) -> None:
        """Leave a hole: of [source_from, source_to) it is not known which copy is whose.

        The copies lie before `target_to`, `next_sequence` is the one behind them. The block ends
        where the hole begins, and another one begins behind it: readers find the hole between two
        blocks (`OffsetMap.skip_unknown`).
        """
        self.advance(source_from)
        self._roll()
        self._source_start = self.source_next = source_to
        self._target_start = target_to
        self.next_sequence = next_sequence
        self.is_dirty = True

    def advance(self, source_next: int) -> None:
        """Note that nothing before `source_next` is left to copy."""
        if source_next > self.source_next:
            self.source_next = source_next
            self.is_dirty = True

    def trim(self, target_log_start: int) -> None:
        """The target no longer has what lies below this offset: blocks about it are deleted."""
        while self._older and self._older[0][0] <= target_log_start:
            self._superseded.append(self._older.popleft()[1])
            self.is_dirty = True

    def take_records(self) -> tuple[list[Block], list[bytes]]:
        """(blocks to write, keys to delete after them); clean until the next change.

        A caller whose write failed gives them back with `put_back`.
        """
        blocks, keys = self.unwritten(), self._superseded
        self._closed, self._superseded, self.is_dirty = [], [], False
        return blocks, keys

    def put_back(self, blocks: Sequence[Block], keys: Sequence[bytes]) -> None:
        """The write of `take_records` is not known to have happened: have it written again."""
        # The last block was the open one, which the next write covers as it is by then. Closed
        # ones are rewritten as they were; to write a true record twice does no harm.
        self._closed[:0] = blocks[:-1]
        self._superseded[:0] = keys
        self.is_dirty = True

    def unwritten(self) -> list[Block]:
        """The blocks that `take_records` would give, in their order."""
        return [*self._closed, self.block()]

    def block(self) -> Block:
        """The open block as it is now."""
        return Block(
            flow=self._flow,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            nonce=self._nonce,
            target_topic=self._target_topic,
            source_start=self._source_start,
            target_start=self._target_start,
            source_next=self.source_next,
            next_sequence=self.next_sequence,
            runs=tuple(self._runs),
        )

    def _roll(self) -> None:
        block = self.block()
        self._closed.append(block)
        self._older.append((block.target_next, encode_key(block)))
        self._source_start = block.source_next
        self._target_start = block.target_next
        self._runs = []
