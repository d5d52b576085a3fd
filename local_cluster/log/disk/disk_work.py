"""Work of a log that blocks on the disk, and so runs in a worker thread.

The event loop makes the work, a worker runs it, the loop completes it. A flush job holds open files
and no paths. So it does not look at the log, which continues meanwhile. Nor can it touch a
directory that was deleted and re-created under the same name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from local_cluster.log.disk.files import Files, Syncable
from local_cluster.wire.errors import ErrorCode, KafkaError


class LogDirectoryError(KafkaError):
    """The log directory cannot be used any more: its replicas go offline.

    After a failed fsync the kernel may have dropped the dirty pages and marked them clean. A
    second fsync that succeeds proves nothing, so the directory fails until a restart.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.kafka_storage_error, message)


class DirectoryNotOursError(LogDirectoryError):
    """The log directory works, but it belongs to another owner, or that is in doubt."""


@dataclass(slots=True, kw_only=True)
class FlushJob:
    """Everything that must reach the disk before offsets below `end_offset` count as flushed."""

    end_offset: int
    truncations: int
    """`LogState.truncations` when the job was made."""
    sequence: int
    """The last change that the job covers."""
    files: Sequence[Syncable]
    on_failure: Callable[[str], None]
    is_done: bool = field(default=False, init=False)

    def run(self) -> None:
        """Flush. Blocks; may run in any thread. Raises LogDirectoryError, which is final."""
        try:
            for file in self.files:
                file.sync()
        except OSError as error:
            raise self.failed(error) from error
        self.is_done = True

    def mark_done(self) -> None:
        """Note that the whole file system was synced since the job was made."""
        self.is_done = True

    def failed(self, error: OSError) -> LogDirectoryError:
        """Fail the log; return the error to raise."""
        message = f"flush failed: {error}"
        self.on_failure(message)
        return LogDirectoryError(message)


@dataclass(frozen=True, slots=True)
class DeletedSegment:
    """A segment that retention, compaction or a truncation took out of its log."""

    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Segments that left a log, and their files, already renamed to `.deleted`.

    The next start deletes the files that `run` did not reach.
    """

    segments: Sequence[DeletedSegment] = ()
    paths: Sequence[str] = ()
    trees: Sequence[str] = ()
    """Whole directories (a deleted partition), already renamed to `...-delete`."""
    port: Files

    def __len__(self) -> int:
        return len(self.segments)

    def run(self) -> None:
        """Delete the files. Blocks; may run in any thread. Raises OSError."""
        for path in self.paths:
            try:
                self.port.remove(path)
            except FileNotFoundError:
                continue
        for path in self.trees:
            # The same name may have been used, and deleted, twice.
            with contextlib.suppress(FileNotFoundError):
                self.port.remove_tree(path)
