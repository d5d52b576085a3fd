"""The block at the end of a flow's offset map, which a worker rewrites as it copies. Pure.

A worker never rewrites another worker's block: the nonce makes its key unique. It may take over the
runs of its predecessor's last block, and delete that block after its own first write. So restarts
do not pile up small blocks. Every state that is written stays true.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from mirror_maker.formats import Block, FlowKey, Run
from mirror_maker.formats.records import encode_key

RUNS_PER_BLOCK: Final = 2_000
"""The block is closed and the next one opened at this many runs, about 10 kB."""


class OpenBlock:
    """The block that grows; `take_records` returns what must be written now."""

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
        earlier blocks in the map topic; see `trim`."""
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
        """(target offset after it, key) of every block before this one."""
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

    @property
    def runs_count(self) -> int:
        """Runs in the open block."""
        return len(self._runs)

    def append(self, runs: Sequence[Run], source_next: int, next_sequence: int) -> None:
        """Add acknowledged runs. Other source offsets below `source_next` were left out."""
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
        """Leave a hole: nobody knows the places of the copies of [source_from, source_to).

        The copies lie before `target_to`, and `next_sequence` follows them. This block ends where
        the hole begins, and the next one begins after it: readers find the hole between two blocks
        (`OffsetMap.skip_unknown`).
        """
        self.advance(source_from)
        self._roll()
        self._source_start = self.source_next = source_to
        self._target_start = target_to
        self.next_sequence = next_sequence
        self.is_dirty = True

    def advance(self, source_next: int) -> None:
        """Record that nothing before `source_next` is left to copy."""
        if source_next > self.source_next:
            self.source_next = source_next
            self.is_dirty = True

    def trim(self, target_log_start: int) -> None:
        """Delete blocks about offsets below the target's log start."""
        while self._older and self._older[0][0] <= target_log_start:
            self._superseded.append(self._older.popleft()[1])
            self.is_dirty = True

    def take_records(self) -> tuple[list[Block], list[bytes]]:
        """Return (blocks to write, keys to delete after them); clean until the next change.

        If the write fails, the caller returns them with `put_back`.
        """
        blocks, keys = self.unwritten(), self._superseded
        self._closed, self._superseded, self.is_dirty = [], [], False
        return blocks, keys

    def put_back(self, blocks: Sequence[Block], keys: Sequence[bytes]) -> None:
        """Queue the result of `take_records` again: its write may not have happened."""
        # The last block is the open one, and the next write contains its newer state. Closed
        # blocks are written again: to write a true record twice does no harm.
        self._closed[:0] = blocks[:-1]
        self._superseded[:0] = keys
        self.is_dirty = True

    def unwritten(self) -> list[Block]:
        """Return the blocks that `take_records` would return, in order."""
        return [*self._closed, self.block()]

    def block(self) -> Block:
        """Return the current state of the open block."""
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
