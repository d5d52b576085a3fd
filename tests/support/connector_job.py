"""A Spark driver that reads topics by both readers, and prints the rows of each as JSON.

python -m tests.support.connector_job BOOTSTRAP LINKS JARS TOPIC...
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame

from spark_global.connector.jars import ConnectorRefusedError, connector_settings
from spark_global.connector.records import connector_records
from spark_global.links import decode_links
from spark_global.session import SHORT_JOB, open_session
from spark_global.views import Aggregate, create_views, load_table, read_options

RECORDS_PER_TASK: Final = 7


def rows(frame: DataFrame) -> list[Any]:
    """Return every value of every row as text, in order."""
    return sorted([str(value) for value in row] for row in frame.collect())


def main(bootstrap: str, links: str, jars: str, *topics: str) -> None:
    aggregate = Aggregate(name="nyc", bootstrap=bootstrap, links=decode_links(links))
    found: dict[str, Any] = {}
    with open_session("local[2]", settings={**SHORT_JOB, **connector_settings(jars)}) as session:
        for topic in topics:
            options: dict[str, str | int] = {"topic": topic, "split_records_max": RECORDS_PER_TASK}
            ours = load_table(session, aggregate, "records", **options)
            wanted = replace(
                read_options(aggregate), topic=topic, split_records_max=RECORDS_PER_TASK
            )
            theirs = connector_records(session, wanted)
            found[topic] = {
                "ours": rows(ours),
                "theirs": rows(theirs),
                "ours_columns": ours.dtypes,
                "theirs_columns": theirs.dtypes,
                "tasks": theirs.rdd.getNumPartitions(),
            }
        bounded = replace(read_options(aggregate), topic=topics[0], offset_end=105)
        found["bounded"] = rows(connector_records(session, bounded).select("offset"))
        create_views(session, aggregate, f"global_{topics[0]}", by_connector=True)
        found["view"] = session.table(f"global_{topics[0]}").count()
        try:
            connector_records(session, replace(wanted, topic=None, topics=("__consumer_offsets",)))
        except ConnectorRefusedError as error:
            found["refusal"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
