"""Deliberately broken log start offsets, for broken_variants.py."""

from __future__ import annotations

from unittest import mock

from local_cluster.log.partition.log_cleanup import LogCleanup
from local_cluster.log.partition.truncation import LogTruncation
from local_cluster.replication.partition import Partition
from tests.sim.cluster.broken_transactions import Broken


def refuse_the_batch_to_start_within() -> Broken:
    """A follower that starts over within a batch does not take that batch."""
    return mock.patch.object(LogTruncation, "start_over_with", lambda self, first, now_ms: None)


def delete_one_record_too_many() -> Broken:
    """DeleteRecords takes the next record as well."""
    advance = LogCleanup.advance_log_start

    def advance_too_far(self: LogCleanup, offset: int) -> None:
        advance(self, min(offset + 1, self._state.log_end_offset))

    return mock.patch.object(LogCleanup, "advance_log_start", advance_too_far)


def never_send_the_log_start_to_followers() -> Broken:
    """Followers keep records that the leader deleted."""
    follow = Partition.follow_offsets
    return mock.patch.object(
        Partition, "follow_offsets", lambda self, high_watermark, _: follow(self, high_watermark, 0)
    )
