"""Shows on a terminal what a Spark session does, because its first answer takes many seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql import SparkSession
from rich.console import Console
from rich.live import Live
from rich.text import Text

REFRESHES_PER_SECOND: Final = 2.0

Tasks = Callable[[], tuple[int, int]]
"""Returns how many tasks of the running stages are done, and how many there are."""


@contextlib.contextmanager
def showing(
    what: str, tasks: Tasks | None = None, console: Console | None = None
) -> Iterator[None]:
    """Show a line with seconds and tasks on standard error meanwhile; only on a terminal."""
    shown = console or Console(stderr=True)
    if not shown.is_terminal:
        yield
        return
    began_s = time.monotonic()

    def line() -> Text:
        return Text(progress_line(what, time.monotonic() - began_s, tasks() if tasks else (0, 0)))

    with Live(
        get_renderable=line,
        console=shown,
        refresh_per_second=REFRESHES_PER_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield


def progress_line(what: str, elapsed_s: float, tasks: tuple[int, int]) -> str:
    """Return the line: what runs, for how long, and its tasks if there are any."""
    done, total = tasks
    of_tasks = f", {done} of {total} tasks" if total else ""
    return f"{what}: {elapsed_s:.0f} s{of_tasks}"


def tasks_of(session: SparkSession) -> Tasks:
    """Return what counts the tasks of a session's running stages."""
    tracker = session.sparkContext.statusTracker()

    def count() -> tuple[int, int]:
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [stage for stage in found if stage is not None]
        return sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages)

    return count
