"""Work of a log that blocks and so runs in a worker thread: flushing and removing files.

The loop makes a ticket, a worker runs it, the loop completes it. A flush ticket holds open files
and no paths, so it neither looks at the log, which goes on meanwhile, nor touches a directory that
was deleted and made anew under the same name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from local_cluster.log.disk.files import Files, Syncable
from local_cluster.wire.errors import ErrorCode, KafkaError


class LogDirectoryError(KafkaError, OSError):
    """The log directory cannot be used, or no longer: its replicas go offline.

    An OSError as well, so that a shell that stops on a disk error need not know this one.

    After a failed fsync the kernel may have dropped the dirty pages and marked them clean, so a
    second fsync that succeeds proves nothing: the log directory is finished until a restart.
    """

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(ErrorCode.kafka_storage_error, message)
        self.errno = errno


class DirectoryNotOursError(LogDirectoryError):
    """The log directory is well, but somebody else's, or in doubt: nothing may be done to it."""


@dataclass(slots=True, kw_only=True)
class FlushJob:
    """Everything that must reach the disk before offsets below `end_offset` count as flushed."""

    end_offset: int
    generation: int
    sequence: int
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

    def is_covered(self) -> None:
        """Take note that the whole file system was synced since the ticket was made."""
        self.is_done = True

    def failed(self, error: OSError) -> LogDirectoryError:
        """Take note that the disk failed; what to raise."""
        message = f"flush failed: {error}"
        self.on_failure(message)
        return LogDirectoryError(message)


@dataclass(frozen=True, slots=True)
class DeletedSegment:
    """A segment that retention or a truncation took out of its log."""

    base_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Segments that left a log, and their files, already renamed to `.deleted`.

    A file that `run` does not get to is removed by the next start.
    """

    segments: Sequence[DeletedSegment] = ()
    paths: Sequence[str] = ()
    trees: Sequence[str] = ()
    """Whole directories (a deleted partition), already renamed to `...-delete`."""
    port: Files

    def __len__(self) -> int:
        return len(self.segments)

    def run(self) -> None:
        """Remove the files. Blocks; may run in any thread. Raises OSError."""
        for path in self.paths:
            try:
                self.port.remove(path)
            except FileNotFoundError:
                continue
        for path in self.trees:
            # The name may have been used, and removed, twice.
            with contextlib.suppress(FileNotFoundError):
                self.port.remove_tree(path)
