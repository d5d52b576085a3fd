"""A Spark driver in a process of its own that keeps a Delta table until it is killed.

python -m tests.support.delta_job BOOTSTRAP TOPIC PATH RECORDS_PER_BATCH
"""

from __future__ import annotations

import sys

from spark_global.delta.keeping import start_keeping
from spark_global.materialize import Materialization
from spark_global.session import SHORT_JOB, open_session
from tests.support.iceberg_job import MASTER, aggregate_of


def kept(view: str, path: str, records_max: int | None = None, *, once: bool) -> Materialization:
    """What the job keeps."""
    return Materialization(
        view=view,
        path=path,
        trigger_seconds=0.05,
        stops_at_end=once,
        records_max=records_max,
        late_seconds=0,
    )


def main(bootstrap: str, topic: str, path: str, records_max: str) -> None:
    wanted = kept(f"global_{topic}", path, int(records_max), once=False)
    with open_session(MASTER, settings=SHORT_JOB) as session:
        start_keeping(session, aggregate_of(bootstrap), wanted).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
