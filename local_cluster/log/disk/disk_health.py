"""Whether the disk under a log directory accepts writes, as the logs on it reported last.

    healthy every write goes to the disk
    full    a write met ENOSPC or EDQUOT: the logs are read-only until a probe can be written
    failed  a write met an error of the disk itself (EIO, a file system that turned read-only):
            final until a restart; the owner of the disk is called once

Any other error of a call (EMFILE, a directory that somebody removed) says nothing about the disk:
that call fails and the next may succeed. Errors of reads do not count here: a bad sector in an old
segment must not take the newer ones from their readers.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from local_cluster.log.disk.files import Files

log = logging.getLogger(__name__)

SPACE_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
DISK_ERRORS: Final = frozenset(
    {errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EUCLEAN}
)
PROBE_BYTES: Final = 1024 * 1024
"""What must fit before the logs are written again, so that the next append does not fail."""
PROBE_NAME: Final = ".space-probe"


def is_out_of_space(error: OSError) -> bool:
    """Return whether a disk or a quota is full."""
    return error.errno in SPACE_ERRORS


@dataclass(frozen=True, slots=True)
class Probe:
    """A file of `PROBE_BYTES` that is written, synced and removed again."""

    files: Files
    path: str

    def run(self) -> None:
        """Write it. Blocks; may run in any thread. Raises OSError where the disk refuses it."""
        try:
            file = self.files.open(self.path, create=True)
            try:
                file.truncate(0)
                if file.write(bytes(PROBE_BYTES)) != PROBE_BYTES:
                    raise OSError(errno.ENOSPC, "short write", self.path)
                file.sync()
            finally:
                file.close()
        finally:
            with contextlib.suppress(OSError):
                self.files.remove(self.path)


class DiskState:
    """The state of one disk, shared by the logs on it. Belongs to the thread of the logs."""

    def __init__(self, name: str, on_failed: Callable[[OSError], None] | None = None) -> None:
        self._name = name
        self._on_failed = on_failed
        self._is_failed = False
        self.refusal: str | None = None
        """Why nothing may be written at present, None while the disk is healthy."""

    @property
    def is_full(self) -> bool:
        return self.refusal is not None and not self._is_failed

    def note(self, error: OSError) -> None:
        """Note an error of a write."""
        if self._is_failed:
            return
        if error.errno in DISK_ERRORS:
            self._is_failed = True
            self.refusal = f"the disk failed: {error}"
            log.critical(
                "the disk of %s failed and is not written until a restart: %s", self._name, error
            )
            if self._on_failed is not None:
                self._on_failed(error)
        elif is_out_of_space(error) and self.refusal is None:
            self.refusal = f"the disk is full: {error}"
            log.error(
                "no space is left for %s: its partitions are read-only until there is some (%s)",
                self._name,
                error,
            )

    def freed(self) -> None:
        """Note that a probe was written: there is space again."""
        if self.is_full:
            self.refusal = None
            log.warning("there is space again for %s: its partitions are writable", self._name)
