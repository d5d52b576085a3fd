"""A Spark driver in a process of its own that keeps an Iceberg table until it is killed.

python -m tests.support.iceberg_job BOOTSTRAP TOPIC CATALOG RECORDS_PER_BATCH [UPSERT [MASTER]]

UPSERT is `key`, `datacenter-key`, or empty for every record.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from typing import Final

from spark_global.iceberg.keeping import REFUSALS, KeptTable, keep_table
from spark_global.iceberg.upserts.keys import Upsert, UpsertBy
from spark_global.links import MirrorLink
from spark_global.materialize import Materialization
from spark_global.session import SHORT_JOB, open_session
from spark_global.views import Aggregate
from tests.support.spark_cluster import SETTINGS

MASTER: Final = "local[2]"
NAMESPACE: Final = "nyc"
SOURCES: Final = ("ewr", "jfk")


def aggregate_of(bootstrap: str) -> Aggregate:
    """The aggregate of the job."""
    links = tuple(
        MirrorLink(name=f"{source}-nyc", source=source, datacenter=source.upper())
        for source in SOURCES
    )
    return Aggregate(name="nyc", bootstrap=bootstrap, links=links)


def kept_table(
    topic: str, catalogue: str, records_max: int, *, once: bool, upsert_by: str = ""
) -> KeptTable:
    """What the job keeps: every record, or the latest ones."""
    rows = Materialization(
        view=f"global_{topic}",
        path=catalogue,
        trigger_seconds=0.05,
        records_max=records_max,
        stops_at_end=once,
        late_seconds=0,
    )
    return KeptTable(
        rows=rows,
        identifier=(NAMESPACE, f"global_{topic}"),
        upsert=Upsert(UpsertBy(upsert_by), buckets=3) if upsert_by else None,
    )


def main(
    bootstrap: str,
    topic: str,
    catalogue: str,
    records_max: str,
    upsert_by: str = "",
    master: str = MASTER,
) -> None:
    faulthandler.register(signal.SIGUSR1)  # what each thread does, for a job that is stuck
    wanted = kept_table(topic, catalogue, int(records_max), once=False, upsert_by=upsert_by)
    settings = SHORT_JOB if master == MASTER else SETTINGS
    with open_session(master, settings=settings) as session:
        try:
            keep_table(session, aggregate_of(bootstrap), wanted)
        except REFUSALS as error:
            sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
