"""Any disk fault during any work: acknowledged records are there, and nothing else.

A log directory is worked on while some calls of its file system fail: the n-th call that changes
anything and a few after it, with ENOSPC (and short writes) or EIO, in appends, rolls, indexes,
snapshots, checkpoints, compaction, renames and removals alike.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from pathlib import Path
from uuid import UUID

from hypothesis import event, given, settings
from hypothesis import strategies as st

from local_cluster.clock import SystemClock
from local_cluster.log.compaction.cleaner import run_job
from local_cluster.log.compaction.compaction_job import Compacted
from local_cluster.log.compaction.compaction_round import plan_round
from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.directory.log_directory import LogDirectory
from local_cluster.log.disk.disk_work import LogDirectoryError
from local_cluster.log.disk.files import OsFiles
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.control import EndMarker
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.local_cluster.log.compaction.compaction_samples import NoThrottle
from tests.unit.local_cluster.log.faulty_files import FaultyFiles
from tests.unit.local_cluster.log.samples import NOW_MS, append, records_of

TOPIC_ID = UUID(int=7)
PRODUCER_ID = 5
PLAIN = LogConfig(
    segment_bytes=700, index_interval_bytes=100, segment_index_bytes=120, retention_bytes=1500
)
COMPACTED = LogConfig(
    segment_bytes=700,
    index_interval_bytes=100,
    is_compacted=True,
    is_deleted_by_retention=False,
    min_cleanable_dirty_ratio=0.0,
)
CONFIGS = {"plain": PLAIN, "compacted": COMPACTED}

step = st.one_of(
    st.tuples(st.sampled_from(["plain", "plain", "compacted"]), st.integers(1, 260)),
    st.sampled_from(
        ["flush", "roll", "marker", "retain", "compact", "checkpoint", "truncate", "restart", "new"]
    ),
)


class World:
    """A log directory, and for each log the records that must be there and those that may be."""

    def __init__(self, root: Path, files: FaultyFiles) -> None:
        self.root, self.files = root, files
        self.must: dict[str, dict[int, bytes]] = {"plain": {}, "compacted": {}}
        self.may: dict[str, dict[int, bytes]] = {"plain": {}, "compacted": {}}
        self.made = 0
        self.sequences = {"plain": 0, "compacted": 0}
        self.is_over = self.was_cut = False
        self.directory = self.opened()

    def opened(self) -> LogDirectory:
        def failed(_: LogDirectory, error: OSError) -> None:
            assert error.errno == errno.EIO
            self.is_over = True

        directory = LogDirectory(
            self.root, self.files, broker_id=1, clock=SystemClock(), on_failed=failed
        )
        try:
            directory.open(cluster_id="c", config=PLAIN)
        except LogDirectoryError:
            # The broker does not start on this disk until somebody replaces the cable.
            directory.close(clean=False)
            self.files.heal()
            directory = LogDirectory(self.root, self.files, broker_id=1, clock=SystemClock())
            directory.open(cluster_id="c", config=PLAIN)
        self.is_over = False
        return directory

    def log(self, name: str) -> PartitionLog:
        return self.directory.get_or_create(name, TOPIC_ID, 0, CONFIGS[name])

    def append(self, name: str, size_bytes: int) -> None:
        value = b"%d" % self.made + b"." * size_bytes
        self.made += 1
        key = b"k%d" % (self.made % 5)
        sequence = self.sequences[name]
        if name == "plain" and self.was_cut:
            # Only the log knows how far the truncation got before it failed.
            entry = self.log(name).producers.get(PRODUCER_ID)
            sequence = entry.batches[-1].last_sequence + 1 if entry and entry.batches else 0
        batch = encode_batch(
            [NewRecord(NOW_MS + self.made, key, value)],
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            base_sequence=sequence,
        )
        result = append(self.log(name), batch, epoch=self.made // 10)
        assert not result.is_duplicate
        if name == "compacted":
            for offset, kept in list(self.must[name].items()):
                if kept.partition(b"/")[0] == key:
                    del self.must[name][offset]
        shown = key + b"/" + value
        self.must[name][result.base_offset] = self.may[name][result.base_offset] = shown
        self.sequences[name] = sequence + 1

    def do(self, what: str) -> None:
        log = self.log("plain")
        if what == "flush":
            ticket = log.flusher.begin_flush()
            if ticket is not None:
                ticket.run()
                log.flusher.complete_flush(ticket)
        elif what == "roll":
            log.writer.roll(NOW_MS)
        elif what == "marker":
            log.as_leader.append_marker(
                EndMarker(is_commit=True, coordinator_epoch=0),
                producer_id=PRODUCER_ID + 1,
                producer_epoch=0,
                leader_epoch=self.made // 10,
                now_ms=NOW_MS,
            )
        elif what == "retain":
            deletion = log.cleanup.apply_retention(NOW_MS, log.log_end_offset)
            start = log.log_start_offset
            self.must["plain"] = {at: v for at, v in self.must["plain"].items() if at >= start}
            deletion.run()
        elif what == "truncate":
            offset = max(log.log_start_offset, log.log_end_offset - 2)
            # From here on the records beyond may be gone, even if the truncation fails.
            self.must["plain"] = {at: v for at, v in self.must["plain"].items() if at < offset}
            self.was_cut = True
            log.truncation.truncate_to(offset, NOW_MS).run()
            self.may["plain"] = {at: v for at, v in self.may["plain"].items() if at < offset}
        elif what == "compact":
            self.compact()
        elif what == "checkpoint":
            self.directory.checkpoint()
        elif what == "new":
            self.directory.get_or_create(f"new{self.made}", TOPIC_ID, 0, PLAIN)
        elif what == "restart":
            try:
                self.directory.close(clean=True)
            finally:
                self.directory = self.opened()

    def compact(self) -> None:
        log = self.log("compacted")
        planned = plan_round(
            log,
            cleaned_offset=self.directory.offsets.cleaned(("compacted", 0)),
            last_stable_offset=log.log_end_offset,
            now_ms=NOW_MS,
            key_bytes_max=1 << 16,
        )
        if planned is None:
            return
        for result in run_job(planned.job, self.files, NoThrottle()):
            if isinstance(result, Compacted):
                self.directory.offsets.set_cleaned(("compacted", 0), result.end_offset)
            else:
                deletion = planned.take_over(result)
                assert deletion is not None
                deletion.run()

    def log_failed(self) -> bool:
        return any(log.failure is not None for log in self.directory)

    def crash(self) -> None:
        """Kill the process; what it wrote is in the page cache."""
        self.directory.close(clean=False)
        self.directory = self.opened()

    def check(self) -> None:
        for name in CONFIGS:
            if (name, 0) in self.directory.offline:
                assert self.files.failed
                continue
            log = self.directory.get(name, 0)
            if log is None:
                assert not self.must[name]
                continue
            assert log.corruption is None
            found = {
                record.offset: (record.key or b"") + b"/" + (record.value or b"")
                for record in records_of(log)
                if record.value is not None and record.value[:1].isdigit()
            }
            assert found.items() <= self.may[name].items(), "a half written record is visible"
            assert self.must[name].items() <= found.items(), "an acknowledged record is gone"


@settings(max_examples=150, deadline=None, report_multiple_bugs=False)
@given(
    steps=st.lists(step, min_size=4, max_size=40),
    first=st.integers(0, 60),
    count=st.integers(1, 6),
    error=st.sampled_from([errno.ENOSPC, errno.ENOSPC, errno.EIO]),
    tenths=st.integers(0, 9),
)
def test_nothing_acknowledged_is_lost_and_nothing_is_half_visible(
    steps: list[str | tuple[str, int]], first: int, count: int, error: int, tenths: int
) -> None:
    root = Path(tempfile.mkdtemp(prefix="log-faults-"))
    files = FaultyFiles(first=first, count=count, error=error, tenths=tenths)
    try:
        world = World(root, files)
        for one in steps:
            try:
                if isinstance(one, tuple):
                    world.append(*one)
                else:
                    world.do(one)
            except KafkaError as refused:
                assert files.failed, "an error without a fault"
                assert refused.code is ErrorCode.kafka_storage_error
            except OSError as refused:
                # The compactor or a deletion failed: the log continues.
                assert refused.errno == error
            if world.is_over or world.log_failed():
                # An error of the disk ends the broker; it is started again.
                world.crash()
            elif files.is_well and world.directory.disk.is_full:
                world.directory.prepare_probe().run()
                world.directory.disk.freed()
                world.directory.reopen_offline()
            world.check()
        for kind in set(files.failed):
            event(f"failed: {kind}")
        files.heal()
        world.crash()
        world.check()
        for name in CONFIGS:
            world.append(name, 1)
        world.check()
        world.directory.close(clean=True)
        directory = LogDirectory(root, OsFiles(), broker_id=1, clock=SystemClock())
        directory.open(cluster_id="c", config=PLAIN)
        assert directory.was_clean
        world.directory = directory
        world.check()
        directory.close()
    finally:
        with contextlib.suppress(KafkaError):
            world.directory.close(clean=False)
        shutil.rmtree(root)
