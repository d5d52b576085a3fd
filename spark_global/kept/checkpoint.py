"""What the checkpoint of a query says about a batch. Shell.

Spark writes the end of a batch into `offsets/N` before it runs the batch. The start is the end of
the batch before.
"""

from __future__ import annotations

import json
from pathlib import Path

from spark_global.kept.batches import Batch
from spark_global.streaming.checkpoint import read_positions
from spark_global.streaming.positions import StreamPositions


def planned_batch(checkpoint: Path, number: int) -> Batch:
    """Return a batch that Spark is to run. Raises CheckpointError and OSError."""
    start = StreamPositions(topic_ids={}, offsets={})
    if number:
        start = read_positions(checkpoint / "offsets" / str(number - 1))
    end = read_positions(checkpoint / "offsets" / str(number))
    return Batch(number=number, start=start, end=end)


def query_id_of(checkpoint: Path) -> str | None:
    """Return Spark's id of the query; None if the checkpoint is new."""
    file = checkpoint / "metadata"
    return str(json.loads(file.read_text())["id"]) if file.exists() else None
