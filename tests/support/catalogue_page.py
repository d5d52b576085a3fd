"""Writes docs/operations/spark-catalogue.md: what each question answers on the demo's flights.

Run as a script (`make catalogue-page`). It runs the demo, keeps its deployment for the questions,
and stops it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from mirror_maker.formats.mm2 import HEARTBEATS_TOPIC
from spark_global.catalogue.question import Question
from spark_global.session import open_session
from spark_global.view_names import question_names, view_names
from spark_global.views import Aggregate, create_views, global_topics
from topology.deployment.aggregate_view import aggregate_view
from topology.deployment.deployment import read_deployment
from topology.deployment.state_dir import StateDir
from topology.operate.down import down

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "operations" / "spark-catalogue.md"
AGGREGATE: Final = "nyc"
ROWS_MAX: Final = 5
CELL_CHARS_MAX: Final = 48
HEAD: Final = """# The catalogue's answers

What each [question of the catalogue](spark.md#questions) answers on the demo's flights:
336,776 departures of three airports. `make catalogue-page` runs the demo and writes this page.
At most five rows of an answer are shown, and long values are cut. The records have timestamps
of 2013, so completeness, which is of today, is far past all windows.
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        state = StateDir(path / "state")
        try:
            options = ["--keep", "--state-dir", str(state.path), "--out", str(path / "out")]
            subprocess.run([sys.executable, "-m", "topology", "demo", *options], check=True)
            aggregate = aggregate_view(read_deployment(state), AGGREGATE)
            with open_session() as session:
                text = HEAD + "".join(sections(session, aggregate))
        finally:
            down(state, purge=True)
    PAGE.write_text(text)
    return 0


def sections(session: SparkSession, aggregate: Aggregate) -> Iterator[str]:
    """Yield the section of each question."""
    names = question_names(view_names(global_topics(aggregate)))
    for name, (question, topic) in names.items():
        if topic == HEARTBEATS_TOPIC:
            # Only links that take heartbeats of MirrorMaker 2 along have it.
            yield section(name, question, None)
            continue
        create_views(session, aggregate, name)
        frame = session.sql(f"SELECT * FROM {name} LIMIT {ROWS_MAX + 1}")
        yield section(name, question, [row.asDict(recursive=True) for row in frame.collect()])


def section(name: str, question: Question, rows: list[dict[str, Any]] | None) -> str:
    """Return the section of one question; None if the demo has no input for it."""
    lines = [f"\n## {name}", "", question.about, ""]
    if question.parameters:
        defaults = ", ".join(f"`{each}` {value}" for each, value in question.parameters.items())
        lines += [f"Parameters: {defaults}.", ""]
    if rows is None:
        lines.append("The demo has no such topic.")
    elif not rows:
        lines.append("No row.")
    else:
        columns = [name for name in rows[0] if name != "topic_id"]  # another one in each run
        lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines += [
            "| " + " | ".join(cell(row[column]) for column in columns) + " |"
            for row in rows[:ROWS_MAX]
        ]
        if len(rows) > ROWS_MAX:
            lines += ["", "And more rows."]
    return "\n".join(lines) + "\n"


def cell(value: Any) -> str:
    """Return a value as the text of a cell."""
    if isinstance(value, bytes | bytearray):
        text = value.decode(errors="replace")
    elif isinstance(value, Mapping):
        text = ", ".join(f"{key}: {cell(each)}" for key, each in value.items())
    elif isinstance(value, list):
        text = ", ".join(map(cell, value))
    else:
        text = "-" if value is None else str(value)
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= CELL_CHARS_MAX else f"{text[:CELL_CHARS_MAX]}..."


if __name__ == "__main__":
    sys.exit(main())
