"""A Spark driver in a process of its own that serves a view as a topic until it is killed.

python -m tests.support.serving_job BOOTSTRAP TOPIC TARGET SERVED CHECKPOINT RECORDS_PER_BATCH
"""

from __future__ import annotations

import sys

from spark_global.addresses import ClusterAddress
from spark_global.materialize import Materialization
from spark_global.serving.lanes import ServedTopic
from spark_global.serving.serving import Serving, start_serving
from spark_global.session import SHORT_JOB, open_session
from tests.support.iceberg_job import aggregate_of
from tests.support.streaming_job import MASTER

LANES = 2


def serving(
    topic: str,
    target: str,
    served: str,
    checkpoint: str,
    records_max: int,
    *,
    once: bool = False,
    query: str | None = None,
) -> Serving:
    """What the job serves, or another query."""
    return Serving(
        rows=Materialization(
            view=f"global_{topic}",
            path=checkpoint,
            trigger_seconds=0.05,
            stops_at_end=once,
            records_max=records_max,
            query=query,
        ),
        target=ServedTopic(cluster=ClusterAddress(target), topic=served, name=served),
        lanes=LANES,
    )


def main(
    bootstrap: str, topic: str, target: str, served: str, checkpoint: str, records_max: str
) -> None:
    wanted = serving(topic, target, served, checkpoint, int(records_max))
    with open_session(MASTER, settings=SHORT_JOB) as session:
        start_serving(session, aggregate_of(bootstrap), wanted).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
