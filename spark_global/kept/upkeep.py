"""Compacts a table again and again, beside the job that writes it. Shell."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

UNREFERENCED_HOURS_MIN: Final = 24.0
"""Hours that a file outside of a table is kept at least: longer than any batch is written."""
EVERY_MINUTES: Final = 60.0
"""Default of the minutes between two compactions."""
END_SECONDS_MAX: Final = 10.0
"""Seconds that a job which ends waits for a compaction. One that is cut off changes nothing."""
_SECONDS_PER_MINUTE: Final = 60.0

log = logging.getLogger(__name__)


class Compacting(NamedTuple):
    """What is done beside a job."""

    compact: Callable[[], str]
    """Compacts the table once, and returns what was done. May raise what it likes."""
    every_minutes: float = EVERY_MINUTES


@contextmanager
def beside(compacting: Compacting | None) -> Iterator[None]:
    """Do the upkeep in a thread of its own until the block ends. A failure is logged, no more."""
    if compacting is None or compacting.every_minutes <= 0:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_repeat, args=(compacting, ended), name="upkeep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(END_SECONDS_MAX)


def _repeat(compacting: Compacting, ended: threading.Event) -> None:
    while not ended.wait(compacting.every_minutes * _SECONDS_PER_MINUTE):
        try:
            log.info("%s", compacting.compact())
        except Exception as error:  # noqa: BLE001 - the table is as it was, the job goes on
            if not ended.is_set():
                log.warning("the table was not compacted: %s", error)
