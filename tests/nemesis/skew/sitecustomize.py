"""Python loads this at its start where the directory is in PYTHONPATH: a wall clock that is wrong.

What a process reads as the time of day is ahead by as many seconds as the file says that
NEMESIS_CLOCK names, at every call. Clocks that do not go back are left alone, as a clock that is
set leaves them alone, and so are sleeps.
"""

from __future__ import annotations

import os
import time

_path = os.environ["NEMESIS_CLOCK"]
_right_time_ns = time.time_ns


def _wrong_time_ns() -> int:
    file = os.open(_path, os.O_RDONLY)
    try:
        return _right_time_ns() + int(os.read(file, 32)) * 1_000_000_000
    finally:
        os.close(file)


def _wrong_time() -> float:
    return _wrong_time_ns() / 1_000_000_000


vars(time).update(time=_wrong_time, time_ns=_wrong_time_ns)
