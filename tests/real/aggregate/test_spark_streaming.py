"""`readStream`: positions in the checkpoint, limits, links that join, broken checkpoints."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, SparkSession

from local_cluster.client.auth.security import PLAINTEXT
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from spark_global.addresses import ClusterAddress
from spark_global.links import MirrorLink
from spark_global.materialize import Materialization, start_materializing
from spark_global.source.splits import Split
from spark_global.streamable import UnknownViewError
from spark_global.streaming.moving import move_checkpoint
from spark_global.streaming.planner import StreamPlanner
from spark_global.streaming.positions import StreamPositions
from spark_global.values.declaring import Decoding, PartDecoding, TopicDecoding
from spark_global.views import (
    Aggregate,
    create_views,
    follow_streams,
    load_table,
    read_options,
    stream_records,
)
from tests.support.aggregated import SHIFT, Aggregated, running_aggregated
from tests.support.producing import produce_to
from tests.support.streaming_job import StreamingJob, write_parquet
from topology.status.liveness import ClusterAddress as ClusterAtAddress
from topology.status.published_streams import streams_of
from topology.status.streams import sentence

pytestmark = pytest.mark.real

WAIT_SECONDS_MAX = 120.0


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("streaming-broker")) as nyc:
        yield nyc


def drain(frame: DataFrame, out: Path) -> list[int]:
    """Read all that there is into Parquet; return the rows of each batch that had rows."""
    query = write_parquet(frame, out, available_now=True)
    query.awaitTermination()
    return [each.numInputRows for each in query.recentProgress if each.numInputRows]


def values(spark: SparkSession, out: Path) -> list[str]:
    return sorted(bytes(row.value).decode() for row in spark.read.parquet(f"{out}/rows").collect())


def positions(out: Path) -> list[dict[str, Any]]:
    """The positions of every batch in the checkpoint."""
    files = sorted((out / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
    return [json.loads(each.read_text().splitlines()[-1]) for each in files]


def test_a_query_goes_on_where_its_checkpoint_ends(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    nyc.run(nyc.create("jfk.a", 2))
    nyc.run(nyc.copy("jfk.a", range(100)))
    nyc.run(nyc.copy("jfk.a", range(100, 105), partition=1))
    frame = stream_records(
        spark, nyc.aggregate("jfk"), topic="a", group="a-query", maxRecordsPerTrigger=40
    )
    assert drain(frame, tmp_path) == [40, 40, 25]
    # The small partition is not held back by the large one.
    read = [each["topics"]["jfk.a"]["offsets"] for each in positions(tmp_path)]
    assert read[:2] == [{"0": 0, "1": 0}, {"0": 35, "1": 5}]
    assert read[-1] == {"0": 100, "1": 5}
    nyc.run(nyc.copy("jfk.a", range(105, 110)))
    assert drain(frame, tmp_path) == [5]
    # Nobody followed the query, so its group has where the last run went on.
    assert nyc.run(nyc.committed("a-query")) == {"jfk.a-0": 100, "jfk.a-1": 5}
    assert values(spark, tmp_path) == sorted(f"jfk.a {i}" for i in range(110))


def test_a_stream_reads_no_record_before_its_origin_is_known(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    nyc.run(nyc.create("ord.b"))
    nyc.run(nyc.copy("ord.b", range(30)))
    nyc.run(nyc.publish_map("ord", "b", 20))
    frame = stream_records(spark, nyc.aggregate(), topic="b")
    assert drain(frame, tmp_path) == [20]
    nyc.run(nyc.publish_map("ord", "b", 30))
    assert drain(frame, tmp_path) == [10]
    rows = spark.read.parquet(f"{tmp_path}/rows").collect()
    assert {(row.datacenter, row.topic, row.offset - row.aggregate_offset) for row in rows} == {
        ("ord", "b", SHIFT)
    }
    assert sorted(row.aggregate_offset for row in rows) == list(range(30))


def test_copies_of_a_topic_that_was_re_created_keep_their_offsets(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    """A stream that is behind the new topic has the rows of one that was not."""
    nyc.run(nyc.create("jfk.again"))
    nyc.run(nyc.copy("jfk.again", range(5)))
    nyc.run(nyc.publish_map("jfk", "again", 5))
    frame = stream_records(spark, nyc.aggregate("jfk"), topic="again")
    drain(frame, tmp_path / "ahead")
    nyc.run(nyc.copy("jfk.again", range(5, 8)))
    nyc.run(nyc.open_again("jfk", "again", 5, 8))

    def rows(out: Path) -> list[tuple[int, int, str | None]]:
        drain(frame, out)
        kept = spark.read.parquet(f"{out}/rows").collect()
        return sorted((row.aggregate_offset, row.offset, row.topic_id) for row in kept)

    new = str(UUID(int=2))
    expected = [(i, SHIFT + i, None) for i in range(5)] + [(5 + i, i, new) for i in range(3)]
    assert rows(tmp_path / "behind") == expected
    assert rows(tmp_path / "ahead") == expected


def test_a_batch_that_runs_again_waits_for_a_map_that_is_not_there(nyc: Aggregated) -> None:
    """As after a restart, while the map's topic has no leader."""
    nyc.run(nyc.create("den.r"))
    nyc.run(nyc.copy("den.r", range(20)))
    nyc.run(nyc.publish_map("den", "r", 10))
    at = TopicPartition("den.r", 0)
    start, end = (StreamPositions(topic_ids={}, offsets={at: each}) for each in (0, 20))

    async def plan() -> list[Split]:
        planner = StreamPlanner(replace(read_options(nyc.aggregate("den")), topic="r"))
        try:
            planning = asyncio.create_task(planner.splits(start, end))
            while planner.survey is None and not planning.done():
                await asyncio.sleep(0.01)
            await nyc.publish_map("den", "r", 20)
            return await planning
        finally:
            await planner.close()

    (wanted,) = [one for split in nyc.run(plan()) for one in split.ranges]
    assert wanted.runs is not None and wanted.runs.counts.sum() == 20


def test_a_link_joins_a_running_query(spark: SparkSession, nyc: Aggregated, tmp_path: Path) -> None:
    nyc.run(nyc.create("jfk.c"))
    nyc.run(nyc.publish_map("jfk", "c", 10))
    nyc.run(nyc.copy("jfk.c", range(10)))
    seen: list[tuple[str, int | None]] = []

    def take(batch: DataFrame, _: int) -> None:
        seen.extend((row.datacenter, row.offset) for row in batch.collect())

    frame = stream_records(
        spark, nyc.aggregate("jfk"), topic="c", startingOffsets="latest", group="c-query"
    )
    follower = follow_streams(spark, nyc.aggregate())
    query = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        wait_for(lambda: bool(positions(tmp_path)) if query.isActive else query.exception())
        nyc.run(nyc.copy("jfk.c", range(10, 15)))
        nyc.run(nyc.publish_map("jfk", "c", 15))
        # A datacenter that the options do not name, with records from before the query sees it.
        nyc.run(nyc.create("lga.c"))
        nyc.run(nyc.copy("lga.c", range(7)))
        nyc.run(nyc.publish_map("lga", "c", 7))
        wait_for(lambda: len(seen) >= 12 or not query.isActive)
        # Lag tools see a group that is at the ends, though the query goes on.
        ends = {"jfk.c-0": 15, "lga.c-0": 7}
        wait_for(lambda: nyc.run(nyc.committed("c-query")) == ends or not query.isActive)
        caught_up = [("JFK", 0, 0.0, False), ("lga", 0, 0.0, False)]
        wait_for(lambda: [astuple(lag) for lag in follower.lag(query.id)] == caught_up)
        # Any other session sees the same in the table.
        rows = load_table(spark, nyc.aggregate(), "progress").where("`group` = 'c-query'").collect()
        behind = [(row.datacenter, row.records_behind, row.seconds_behind) for row in rows]
        assert behind == [("JFK", 0, 0.0), ("lga", 0, 0.0)]
        assert {row.query for row in rows} == {str(query.id)}
        # So does `heliograph status`.
        shown = nyc.run(streams_of(ClusterAtAddress("nyc", nyc.bootstrap, PLAINTEXT)))
        (line,) = (sentence(each) for each in shown if each["group"] == "c-query")
        assert "of nyc: JFK 0 records and 0.0 s behind, lga 0 records and 0.0 s behind" in line
    finally:
        query.stop()
        spark.streams.removeListener(follower)
    assert query.exception() is None
    expected = [("JFK", SHIFT + i) for i in range(10, 15)] + [("lga", SHIFT + i) for i in range(7)]
    assert sorted(seen, key=str) == expected


def test_the_first_run_alone_starts_where_the_options_say(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    nyc.run(nyc.create("bos.d"))
    nyc.run(nyc.copy("bos.d", range(20)))
    at_15 = "1970-01-01T00:00:15"
    frame = stream_records(
        spark, nyc.aggregate("bos"), topic="d", startingTimestamp=at_15, maxBytesPerTrigger=70
    )
    batches = drain(frame, tmp_path)
    assert len(batches) > 1, "the limit in bytes is too small for all at once"
    assert sum(batches) == 5
    nyc.run(nyc.create("ord.d"))
    nyc.run(nyc.copy("ord.d", range(3)))
    nyc.run(nyc.publish_map("ord", "d", 3))
    assert sum(drain(frame, tmp_path)) == 3
    assert values(spark, tmp_path) == sorted(
        [f"bos.d {i}" for i in range(15, 20)] + [f"ord.d {i}" for i in range(3)]
    )


def test_the_first_run_starts_where_a_source_says(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    """The group is at the source, whose offsets are higher."""
    nyc.run(nyc.create("den.s"))
    nyc.run(nyc.publish_map("den", "s", 20))
    nyc.run(nyc.copy("den.s", range(20)))
    nyc.run(nyc.create("s"))
    nyc.run(nyc.copy("s", range(1)))
    nyc.run(nyc.commit("movers", "s", SHIFT + 15))
    link = MirrorLink(name="den-nyc", source="den", datacenter="DEN", bootstrap=nyc.bootstrap)
    aggregate = Aggregate(name="nyc", bootstrap=nyc.bootstrap, links=(link,))
    frame = stream_records(spark, aggregate, topic="s", startingGroups='{"DEN": "movers"}')
    assert sum(drain(frame, tmp_path)) == 5
    assert values(spark, tmp_path) == sorted(f"den.s {i}" for i in range(15, 20))
    # The position counts in the first run only.
    nyc.run(nyc.publish_map("den", "s", 22))
    nyc.run(nyc.copy("den.s", range(20, 22)))
    assert sum(drain(frame, tmp_path)) == 2
    for options, message in (
        ({"startingGroups": '{"DEN": "nobody"}'}, "group nobody has committed nothing"),
        (
            {"startingSourceOffsets": json.dumps({"DEN": {"s": {"0": SHIFT + 23}}})},
            r"DEN s-0, offset 1023: den\.s-0: link den-nyc has copied .* below 1022",
        ),
    ):
        with pytest.raises(Exception, match=message):
            drain(stream_records(spark, aggregate, topic="s", **options), tmp_path / "refused")


def test_a_checkpoint_of_a_deleted_topic_is_refused(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    async def delete(topic: str) -> None:
        async with KafkaClient(nyc.bootstrap) as client:
            await client.delete_topics([topic])

    nyc.run(nyc.create("bos.e"))
    nyc.run(nyc.copy("bos.e", range(10)))
    frame = stream_records(spark, nyc.aggregate("bos"), topic="e")
    assert drain(frame, tmp_path) == [10]
    nyc.run(delete("bos.e"))
    nyc.run(nyc.create("bos.e"))
    nyc.run(nyc.copy("bos.e", range(20)))
    with pytest.raises(Exception, match=r"topic bos\.e was deleted and re-created"):
        drain(frame, tmp_path)


def test_questions_about_groups_as_sql_views(spark: SparkSession, nyc: Aggregated) -> None:
    # The source is the same cluster, and the copy lacks its last two records.
    nyc.run(nyc.create("g"))
    nyc.run(nyc.copy("g", range(12)))
    nyc.run(nyc.create("sea.g"))
    nyc.run(nyc.copy("sea.g", range(10)))
    nyc.run(nyc.publish_map("sea", "g", 10, shift=0))
    nyc.run(nyc.commit("readers", "g", 11))
    nyc.run(nyc.commit("dashboards", "sea.g", 4))
    nyc.run(nyc.commit("dashboards", "g", 7))
    link = MirrorLink(name="sea-nyc", source="sea", datacenter="SEA", bootstrap=nyc.bootstrap)
    aggregate = Aggregate(name="nyc", bootstrap=nyc.bootstrap, links=(link,))
    asked = {
        "heliograph_group_lag": ["side", "`group`", "lag"],
        "heliograph_lag": ["side", "`group`", "aggregate_topic", "partition", "lag"],
        "heliograph_translated_groups": ["`group`", "translated_offset"],
        "heliograph_replay_if_lost": ["`group`", "skipped", "unread"],
        "global_g_windows": ["datacenter", "records"],
        "global_g_fast_windows": ["records", "datacenters", "missing"],
    }
    assert set(create_views(spark, aggregate, " ".join(asked))) == set(asked)
    found = {
        name: sorted(tuple(row) for row in spark.table(name).select(*columns).collect())
        for name, columns in asked.items()
    }
    assert found == {
        "heliograph_group_lag": [
            ("aggregate", "dashboards", 6),
            ("source", "dashboards", 5),
            ("source", "readers", 1),
        ],
        "heliograph_lag": [
            ("aggregate", "dashboards", "sea.g", 0, 6),
            ("source", "dashboards", "sea.g", 0, 5),
            ("source", "readers", "sea.g", 0, 1),
        ],
        "heliograph_translated_groups": [("dashboards", 7), ("readers", None)],
        "heliograph_replay_if_lost": [("dashboards", 0, 2), ("readers", 1, 1)],
        "global_g_windows": [("SEA", 10)],
        "global_g_fast_windows": [(10, ["SEA"], ["SEA"])],
    }


def test_configs_of_sources_and_copies(spark: SparkSession, nyc: Aggregated) -> None:
    """The source is the same cluster; one link has no address of its source."""
    nyc.run(nyc.create("c", cleanup="compact"))
    nyc.run(nyc.create("sfo.c"))
    nyc.run(nyc.create("oak.c"))
    links = (
        MirrorLink(name="sfo-nyc", source="sfo", datacenter="SFO", bootstrap=nyc.bootstrap),
        MirrorLink(name="oak-nyc", source="oak", datacenter="OAK"),
    )
    aggregate = Aggregate(name="nyc", bootstrap=nyc.bootstrap, links=links)
    query = "SELECT * FROM heliograph_topic_configs WHERE topic = 'c'"
    create_views(spark, aggregate, query)
    rows = spark.sql(query).collect()
    found = {
        (row.side, row.datacenter, row.aggregate_topic): (row.config_value, row.is_default)
        for row in rows
        if row.config == "cleanup.policy"
    }
    assert found == {
        ("source", "SFO", "sfo.c"): ("compact", False),
        ("aggregate", "SFO", "sfo.c"): ("delete", False),
        ("aggregate", "OAK", "oak.c"): ("delete", False),
    }
    assert {row.is_default for row in rows} == {True, False}


def test_a_query_moves_from_the_aggregate_to_the_source(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    nyc.run(nyc.create("k"))
    nyc.run(nyc.copy("k", range(12)))
    nyc.run(nyc.create("den.k"))
    nyc.run(nyc.copy("den.k", range(8)))
    nyc.run(nyc.publish_map("den", "k", 6, shift=0))
    assert drain(stream_records(spark, nyc.aggregate(), topic="k"), tmp_path) == [6]
    old = (tmp_path / "checkpoint").rename(tmp_path / "old")
    cluster = ClusterAddress(nyc.bootstrap)
    nyc.run(move_checkpoint(old, tmp_path / "checkpoint", here=cluster, to=cluster, is_source=True))
    source = Aggregate(name="den", bootstrap=nyc.bootstrap, links=())
    there = stream_records(spark, source, topics="k", discoverLinks="false")
    assert drain(there, tmp_path) == [6]
    rows = spark.read.parquet(f"{tmp_path}/rows").collect()
    assert sorted((row.aggregate_topic, row.offset) for row in rows) == [
        *(("den.k", offset) for offset in range(6)),
        *(("k", offset) for offset in range(6, 12)),
    ]


def test_a_view_is_kept_as_parquet_by_datacenter_and_hour(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    def keep(view: str) -> DataFrame:
        path = str(tmp_path / view)
        wanted = Materialization(
            view=view, path=path, stops_at_end=True, late_seconds=5, records_max=8
        )
        start_materializing(spark, nyc.aggregate("sfo"), wanted).awaitTermination()
        return spark.read.parquet(path)

    nyc.run(nyc.create("sfo.h"))
    nyc.run(nyc.copy("sfo.h", range(3_590, 3_610)))  # seconds of 1970, over the end of an hour
    nyc.run(nyc.publish_map("sfo", "h", 20))
    assert keep("global_h").count() == 20
    nyc.run(nyc.copy("sfo.h", range(3_610, 3_615)))
    nyc.run(nyc.publish_map("sfo", "h", 25))
    rows = keep("global_h").collect()
    assert sorted(row.offset for row in rows) == list(range(SHIFT, SHIFT + 25))
    assert Counter((row.datacenter, row.hour) for row in rows) == {
        ("SFO", "1970-01-01-00"): 10,
        ("SFO", "1970-01-01-01"): 15,
    }
    assert (tmp_path / "global_h" / "datacenter=SFO" / "hour=1970-01-01-01").is_dir()
    windows = keep("global_h_windows").select("datacenter", "records", "hour").collect()
    assert [tuple(row) for row in windows] == [("SFO", 10, "1970-01-01-00")]
    with pytest.raises(UnknownViewError, match=r"no view global_hh .*did you mean global_h\?"):
        keep("global_hh")


def test_decoded_records_are_kept_and_get_new_columns(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    file = tmp_path / "j.json"
    decoding = Decoding(
        topics={"j": TopicDecoding(value=PartDecoding(format="json", schema=str(file)))}
    )

    async def append(*values: bytes) -> None:
        async with KafkaClient(nyc.bootstrap) as client:
            batch = encode_batch([NewRecord(0, None, value) for value in values])
            await produce_to(client, TopicPartition("sfo.j", 0), batch)

    def keep(view: str) -> DataFrame:
        path = str(tmp_path / view)
        wanted = Materialization(view=view, path=path, stops_at_end=True, decoding=decoding)
        start_materializing(spark, nyc.aggregate("sfo"), wanted).awaitTermination()
        return spark.read.option("mergeSchema", "true").parquet(path)

    nyc.run(nyc.create("sfo.j"))
    nyc.run(append(b'{"id": 1}', b"no", b'{"id": 2}'))
    nyc.run(nyc.publish_map("sfo", "j", 3))
    rows = keep("decoded_j").select("value.id", "offset").collect()
    assert sorted(map(tuple, rows)) == [(1, SHIFT), (2, SHIFT + 2)]
    schema = json.loads(file.read_text())
    schema["properties"]["gate"] = {"type": "string"}
    file.write_text(json.dumps(schema))
    nyc.run(append(b'{"id": 3, "gate": "B7"}'))
    nyc.run(nyc.publish_map("sfo", "j", 4))
    rows = keep("decoded_j").select("value.id", "value.gate").collect()
    assert sorted(map(tuple, rows)) == [(1, None), (2, None), (3, "B7")]
    (reject,) = keep("rejects_j").select("offset", "value").collect()
    assert tuple(reject) == (SHIFT + 1, b"no")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_kills_lose_nothing_and_double_nothing(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    records, per_batch = 300, 50
    for source in ("ewr", "mia"):
        nyc.run(nyc.create(f"{source}.f"))
        nyc.run(nyc.publish_map(source, "f", records))
        nyc.run(nyc.copy(f"{source}.f", range(records)))

    job = StreamingJob(nyc.bootstrap, "f", tmp_path, per_batch)
    try:
        # Between batches: every planned batch is done.
        wait_for(lambda: len(job.batches("commits")) >= 3)
        wait_for(lambda: job.batches("commits") >= job.batches("offsets"))
    finally:
        job.kill()
    before = job.batches("commits")

    job = StreamingJob(nyc.bootstrap, "f", tmp_path, per_batch)
    try:
        wait_for(lambda: len(job.batches("commits")) > len(before))
        assert job.kill_workers()
        seen = job.batches("commits")
        wait_for(lambda: len(job.batches("commits")) > len(seen))
        # In the middle of a batch: it is planned and not done.
        wait_for(lambda: job.batches("offsets") > job.batches("commits"))
    finally:
        job.kill()
    assert len(job.batches("commits")) < 2 * records // per_batch, "killed too late"

    drain(stream_records(spark, nyc.aggregate(), topic="f"), tmp_path)
    rows = spark.read.parquet(f"{tmp_path}/rows").collect()
    found = sorted((row.datacenter, row.offset, bytes(row.value).decode()) for row in rows)
    assert found == sorted(
        (source, SHIFT + i, f"{source}.f {i}") for source in ("ewr", "mia") for i in range(records)
    )


def wait_for(is_done: Any) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
