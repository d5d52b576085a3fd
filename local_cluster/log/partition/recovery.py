"""Opening the files of a partition: trusting them after a clean stop, checking them after a crash.

From the segment of the recovery point on, every batch is read and its CRC checked. Where the walk
stops before the end of the files, the first line that applies decides:

    the offset lies below `durable_offset` (known to have been on the disk)   corrupt
    a segment with batches follows                                            corrupt
    a whole batch is there, at an offset that does not continue               corrupt
    the place holds zeros (pages that never reached the disk)                 torn tail, truncated
    a whole batch follows                                                     corrupt
    the batch there was written in full, and its CRC is wrong                 corrupt
    anything else: too short, or with sectors that were never written         torn tail, truncated

A log is also corrupt if it ends before `end_offset_min`, wherever the walk stopped.

A corrupt log is never shortened. It serves its whole part, refuses appends, and reports why;
replication decides what becomes of it. Indexes that are missing or not valid are rebuilt.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from local_cluster.log.disk.files import TEMPORARY_SUFFIX, Files
from local_cluster.log.segment.file_names import LOG_SUFFIX, file_name, parse_offsets
from local_cluster.log.segment.index import IndexCorruptError
from local_cluster.log.segment.scan import has_batch_after, is_damaged_batch, is_unwritten
from local_cluster.log.segment.segment import Segment
from local_cluster.log.segment.swap import recover_swaps
from local_cluster.log.state.checkpoints import LEADER_EPOCHS, CheckpointCorruptError, decode_epochs
from local_cluster.log.state.epochs import LeaderEpochs
from local_cluster.log.state.producer_snapshot import SNAPSHOT_SUFFIX

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenedFiles:
    """The content of a partition's files."""

    segments: list[Segment]
    """Oldest first; the last one can be appended to unless the log is corrupt."""
    epochs: LeaderEpochs
    epochs_changed: bool
    """Whether leader-epoch-checkpoint holds other epochs."""
    snapshots: list[int]
    """The offsets of the producer snapshots."""
    corruption: str | None = None
    hidden: list[Segment] = field(default_factory=list)
    """Segments behind a corrupt place: kept on disk, never read."""
    torn_bytes: int = 0
    """Bytes of a torn tail that were truncated."""
    unflushed: list[str] = field(default_factory=list)
    """Paths of files that were checked or rebuilt: a crash may have left them in the page cache."""

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset


def open_files(
    files: Files,
    directory: str,
    *,
    index_interval_bytes: int,
    recovery_point: int,
    durable_offset: int,
    end_offset_min: int,
    log_start_offset: int,
    is_clean: bool,
    now_ms: int,
) -> OpenedFiles:
    """Open the segments, indexes, epochs and snapshots of a partition directory.

    - `recovery_point`: batches below it need no check.
    - `durable_offset`: batches below it must be whole, unless a truncation removed them.
    - `end_offset_min`: no truncation ever removed anything below it; 0 where that is unknown.
      After a clean stop it is the log end offset.

    A directory without segments gets an empty one at `log_start_offset`. Raises OSError.
    """
    found = files.list_dir(directory)
    names = recover_swaps(files, directory, found)
    for name in names:
        if name.endswith(TEMPORARY_SUFFIX):
            files.remove(f"{directory}/{name}")
    segments = [
        Segment(files, directory, base_offset, index_interval_bytes=index_interval_bytes)
        for base_offset in parse_offsets(names, LOG_SUFFIX)
    ]
    if not segments:
        first = Segment(
            files, directory, log_start_offset, index_interval_bytes=index_interval_bytes
        )
        first.create(now_ms)
        return _open_empty(files, directory, first, names, end_offset_min)
    epochs, epochs_known = _load_epochs(files, directory, LEADER_EPOCHS in names)
    on_disk = list(epochs.entries)
    opened = OpenedFiles(segments, epochs, False, [])
    if names != found:
        opened.unflushed.append(directory)
    # Without the epochs every batch must be read; after a clean stop none must.
    if not epochs_known:
        recover_from = 0
    elif is_clean:
        recover_from = segments[-1].base_offset
    else:
        recover_from = recovery_point
    _open_segments(
        files, opened, recover_from, durable_offset, is_clean and epochs_known, end_offset_min
    )
    _require_end(opened, directory, end_offset_min)
    end_offset = opened.end_offset
    if epochs.truncate_end(end_offset):
        opened.epochs_changed = True
    if epochs_known:
        # The batches mostly confirm the file. Then nothing is written, and the log can be flushed
        # on a full disk too.
        opened.epochs_changed = list(epochs.entries) != on_disk
    for offset in parse_offsets(names, SNAPSHOT_SUFFIX):
        if offset > end_offset and opened.corruption is None:
            files.remove(f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")
        else:
            opened.snapshots.append(offset)
    return opened


def _open_empty(
    files: Files, directory: str, first: Segment, names: Sequence[str], end_offset_min: int
) -> OpenedFiles:
    # Snapshots without a segment belong to deleted files.
    for offset in parse_offsets(names, SNAPSHOT_SUFFIX):
        files.remove(f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")
    opened = OpenedFiles([first], LeaderEpochs(), LEADER_EPOCHS in names, [])
    _require_end(opened, directory, end_offset_min)
    return opened


def _require_end(opened: OpenedFiles, directory: str, end_offset_min: int) -> None:
    """Declare a log corrupt that lost its end, even if the rest is whole."""
    end_offset = opened.end_offset
    if opened.corruption is None and end_offset < end_offset_min:
        opened.corruption = (
            f"{directory} ends at offset {end_offset}, it was known to reach {end_offset_min}"
        )
        log.error("log is corrupt and will not be written: %s", opened.corruption)


def _open_segments(
    files: Files,
    opened: OpenedFiles,
    recover_from: int,
    durable_offset: int,
    trust_last: bool,
    end_offset_min: int,
) -> None:
    segments = opened.segments
    known_starts = {entry.epoch: entry.start_offset for entry in opened.epochs.entries}
    for index, segment in enumerate(list(segments)):
        is_last = index == len(segments) - 1
        next_offset = None if is_last else segments[index + 1].base_offset
        try:
            if next_offset is not None and next_offset <= recover_from:
                segment.load_closed(next_offset)
                continue
            if is_last and trust_last:
                segment.load_active()
                if end_offset_min in (0, segment.next_offset):
                    continue
                log.warning(
                    "%s is checked: it ends at %d, the checkpoint says %d",
                    segment.log_path,
                    segment.next_offset,
                    end_offset_min,
                )
        except (IndexCorruptError, FileNotFoundError) as error:
            log.warning("a segment is checked and its indexes rebuilt: %s", error)
        if opened.epochs.truncate_end(segment.base_offset):
            # The file may be older than the batches, which are read anyway: a truncation, and
            # other batches of the same epoch, may have come after it.
            opened.epochs_changed = True
        problem = _recover_segment(files, opened, segment, index, durable_offset, known_starts)
        opened.unflushed.append(segment.log_path)
        if problem is not None:
            opened.corruption = f"{segment.log_path}: {problem}"
            log.error("log is corrupt and will not be written: %s", opened.corruption)
            opened.hidden = segments[index + 1 :]
            del segments[index + 1 :]
            return
        if segment is segments[-1]:
            return
        assert next_offset is not None, "only the last segment has no successor"
        segment.next_offset = next_offset
        opened.unflushed += segment.finish()
        segment.close_for_appends()


def _recover_segment(
    files: Files,
    opened: OpenedFiles,
    segment: Segment,
    index: int,
    durable_offset: int,
    known_starts: Mapping[int, int],
) -> str | None:
    """Rebuild a segment and truncate a torn tail; return what is corrupt, None if nothing is."""
    try:
        prefix, epoch_starts = segment.rebuild()
    except IndexCorruptError as error:
        return str(error)
    for previous_end, header in epoch_starts:
        epoch, start_offset = header.partition_leader_epoch, header.base_offset
        known = known_starts.get(epoch, start_offset)
        if previous_end <= known <= start_offset:
            # The first batches of the epoch were compacted away; its start stays.
            start_offset = known
        if opened.epochs.assign(epoch, start_offset):
            opened.epochs_changed = True
    size_bytes = files.size_bytes(segment.log_path)
    following = opened.segments[index + 1 :]
    holds_more = any(files.size_bytes(later.log_path) for later in following)
    if prefix.problem is None:
        if not following or segment.next_offset <= following[0].base_offset:
            return None
        return f"offset {segment.next_offset - 1} lies beyond the next segment"
    where = f"{prefix.problem} at position {prefix.size_bytes}, offset {prefix.next_offset}"
    if prefix.next_offset < durable_offset:
        return f"{where}, although everything below offset {durable_offset} was on the disk"
    if holds_more:
        return f"{where}, and later segments hold batches"
    if prefix.is_misplaced:
        return f"{where}, in a whole batch"
    file = segment.file.open()
    place = (file, prefix.size_bytes, size_bytes, prefix.next_offset)
    if not is_unwritten(file, prefix.size_bytes):
        if has_batch_after(*place):
            return f"{where}, and whole batches follow"
        if is_damaged_batch(*place):
            return f"{where}, in a batch that was written in full"
    file.truncate(prefix.size_bytes)
    opened.torn_bytes += size_bytes - prefix.size_bytes
    log.warning(
        "the torn tail of %s was truncated: %s, %d bytes",
        segment.log_path,
        where,
        size_bytes - prefix.size_bytes,
    )
    # Empty segments behind the torn tail begin at an offset that the log has not reached.
    for later in following:
        later.mark_deleted()
        opened.segments.remove(later)
    return None


def _load_epochs(files: Files, directory: str, exists: bool) -> tuple[LeaderEpochs, bool]:
    """Return the leader epochs, and whether they are known; if not, every batch must be read."""
    if not exists:
        return LeaderEpochs(), False
    try:
        content = files.read_bytes(f"{directory}/{LEADER_EPOCHS}")
        return LeaderEpochs(decode_epochs(content)), True
    except CheckpointCorruptError as error:
        log.warning("leader epochs of %s are rebuilt: %s", directory, error)
        return LeaderEpochs(), False
