"""Progress is a line on a terminal, and nothing elsewhere."""

from __future__ import annotations

import io

from rich.console import Console

from spark_global.progress import progress_line, showing


def test_the_line_has_seconds_and_tasks() -> None:
    assert progress_line("Spark starts", 3.4, (0, 0)) == "Spark starts: 3 s"
    assert progress_line("the query runs", 16.2, (3, 8)) == "the query runs: 16 s, 3 of 8 tasks"


def test_only_a_terminal_is_shown_progress() -> None:
    said = {}
    for is_terminal in (True, False):
        file = io.StringIO()
        console = Console(file=file, force_terminal=is_terminal)
        with showing("the query runs", lambda: (1, 2), console):
            pass
        said[is_terminal] = file.getvalue()
    assert "1 of 2 tasks" in said[True]
    assert said[False] == ""
