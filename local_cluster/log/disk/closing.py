"""Closes deleted files in a thread of its own.

The last close of a deleted file frees its blocks. On a file system that discards them at once, that
takes a fifth of a second per gigabyte, and the loop would serve nobody meanwhile.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

THREAD_NAME: Final = "file-closer"


class FileCloser:
    """A queue of files to close; the limit of open files bounds it."""

    def __init__(self) -> None:
        self._descriptors: SimpleQueue[int] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_started = False

    def start(self) -> None:
        """Start the thread if there is none. It ends with the process."""
        if self._is_started:
            return
        with self._lock:
            if not self._is_started:
                threading.Thread(target=self._run, name=THREAD_NAME, daemon=True).start()
                self._is_started = True

    def close(self, fd: int) -> None:
        """Close a file: now if it has a name, else in the thread. May be called in `__del__`."""
        if self._is_started and os.fstat(fd).st_nlink == 0:
            self._descriptors.put(fd)
        else:
            os.close(fd)

    def _run(self) -> None:
        while True:
            fd = self._descriptors.get()
            # Nobody reads the file any more, so nobody is told of an error.
            with suppress(OSError):
                os.close(fd)
