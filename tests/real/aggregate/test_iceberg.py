"""`spark materialize --to iceberg`: rows, snapshots, compaction, readers without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.completeness.statement import Hold, HoldKind
from spark_global.addresses import ClusterAddress
from spark_global.iceberg.catalogues import open_catalogue
from spark_global.iceberg.columns import ColumnsRefusedError
from spark_global.iceberg.compacting import compact_table
from spark_global.iceberg.keeping import KeptTable, keep_table
from spark_global.iceberg.maintaining import compact_beside
from spark_global.iceberg.moving import move_table
from spark_global.iceberg.querying import run_duckdb
from spark_global.iceberg.staging import TableRefusedError
from spark_global.iceberg.table_state import TableState
from spark_global.iceberg.upserts.keys import Upsert, UpsertBy
from spark_global.kept.said import Through
from spark_global.materialize import Materialization
from spark_global.streamable import UnknownViewError
from spark_global.streaming.checkpoint import read_positions
from spark_global.streaming.moving import move_checkpoint
from spark_global.streaming.positions import StreamPositions
from spark_global.streaming.translation import LinkBehindError
from spark_global.values.declaring import Decoding, PartDecoding, TopicDecoding
from spark_global.views import create_views, load_table
from tests.support.aggregated import SHIFT, Aggregated, running_aggregated
from tests.support.cluster import running_broker
from tests.support.iceberg_tables import row_counts
from tests.support.rest_catalogue import RestCatalogue

pytestmark = pytest.mark.real

NAME = ("nyc", "global_h")


@pytest.fixture(scope="module")
def nyc(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregated]:
    with running_aggregated(zookeeper, tmp_path_factory.mktemp("iceberg-broker")) as nyc:
        yield nyc


def kept(catalogue: str, view: str = "global_h", records_max: int | None = None) -> KeptTable:
    rows = Materialization(
        view=view,
        path=catalogue,
        trigger_seconds=0.05,
        stops_at_end=True,
        records_max=records_max,
        group="keeper",
    )
    return KeptTable(rows=rows, identifier=("nyc", view))


def test_one_table_over_all_datacenters(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nyc.run(nyc.create("sfo.h"))
    nyc.run(nyc.publish_map("sfo", "h", 20))
    nyc.run(nyc.state_complete("sfo", "h", SHIFT + 20, 1_000_000_000_000))
    nyc.run(nyc.copy("sfo.h", range(3_590, 3_610)))  # seconds of 1970, over the end of an hour
    aggregate = nyc.aggregate("sfo")
    asked = "SELECT datacenter, topic, position, complete_through FROM heliograph_completeness"
    assert create_views(spark, aggregate, asked) == ["heliograph_completeness"]
    stated = [tuple(row) for row in spark.sql(asked).collect()]
    assert [row[:3] for row in stated] == [("SFO", "h", SHIFT + 20)]
    held = Hold(HoldKind.OPEN_TRANSACTION, 7, 1_000_000_000_500)
    nyc.run(nyc.state_complete("oak", "h", 9, 1_000_000_000_000, held))
    oak = load_table(spark, nyc.aggregate("oak"), "completeness")
    assert [
        tuple(row) for row in oak.selectExpr("held_by", "unix_millis(held_since)").collect()
    ] == [("an open transaction of producer id 7", 1_000_000_000_500)]
    described = {row[0]: row[2] for row in spark.sql("DESCRIBE heliograph_completeness").collect()}
    assert described["position"] == "next source offset to copy"
    place = str(tmp_path / "tables")
    state = keep_table(spark, aggregate, kept(place, records_max=8))
    assert state.complete == {"SFO": Through(1_000_000_000_000, 1_000_000_000_000, 0, ("sfo-nyc",))}
    assert nyc.run(nyc.committed("keeper")) == {"sfo.h-0": 20}

    # A datacenter joins, and the job goes on where the table is.
    nyc.run(nyc.create("sea.h"))
    nyc.run(nyc.publish_map("sea", "h", 5))
    nyc.run(nyc.copy("sea.h", range(5)))
    nyc.run(nyc.copy("sfo.h", range(3_610, 3_615)))
    nyc.run(nyc.publish_map("sfo", "h", 25))
    keep_table(spark, aggregate, kept(place))
    # Lag tools see how far the table is behind each datacenter.
    progress = load_table(spark, aggregate, "progress").where("`group` = 'keeper'").collect()
    behind = [(row.datacenter, row.query, row.records_behind) for row in progress]
    assert sorted(behind) == [("SFO", "nyc.global_h", 0), ("sea", "nyc.global_h", 0)]
    expected = Counter(
        [("SFO", SHIFT + i, f"sfo.h {3_590 + i}".encode()) for i in range(25)]
        + [("sea", SHIFT + i, f"sea.h {i}".encode()) for i in range(5)]
    )
    catalogue = open_catalogue(place)
    table = catalogue.load_table(NAME)
    assert row_counts(table) == expected
    files = Counter[tuple[str, int]]()
    for task in table.scan().plan_files():
        files[task.file.partition[0], task.file.partition[1]] += task.file.record_count
    assert files == {("SFO", 0): 10, ("SFO", 1): 15, ("sea", 0): 5}

    # The snapshots say which offsets they add: together all of them, once.
    said = [each.summary.additional_properties for each in table.snapshots() if each.summary]
    spans = [
        span
        for each in said
        for span in json.loads(each["heliograph.aggregate-offsets"]).get("sfo.h", {}).values()
    ]
    assert spans == [[0, 8], [8, 16], [16, 20], [20, 25]]
    added = [entry for each in said for entry in json.loads(each["heliograph.source-offsets"])]
    assert sum(entry["records"] for entry in added) == 30
    assert [each["heliograph.kind"] for each in said].count("takeover") == 2

    with ThreadPoolExecutor(1) as pool:  # as a job does beside itself, in its session
        found = pool.submit(compact_beside, place, NAME, 2, 1 << 20).result()
    assert found.files_after == 2 and found.files_before > 2
    table = catalogue.load_table(NAME)
    assert row_counts(table) == expected
    assert TableState.decode(table.properties).positions == state_of(place).positions

    query = "SELECT datacenter, count(*) AS n FROM global_h GROUP BY datacenter ORDER BY 1"
    assert run_duckdb(query, catalogue=place, output="json", limit=10) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["rows"] == [["SFO", 25], ["sea", 5]]
    through = answer["complete_through"]["global_h"]["SFO"]["through_ms"]
    assert through == 1_000_000_000_000
    assert run_duckdb("SELECT nothing FROM global_h", catalogue=place, output="json", limit=1) == 1
    assert 'Referenced column "nothing" not found' in capsys.readouterr().err

    # As in docs/operations/iceberg.md.
    outside = load_catalog("heliograph", type="sql", uri=f"sqlite:///{place}/catalogue.db")
    rows = outside.load_table("nyc.global_h").scan(row_filter="datacenter = 'sea'").to_arrow()
    assert sorted(rows["offset"].to_pylist()) == [SHIFT + i for i in range(5)]

    with pytest.raises(UnknownViewError, match=r"no view global_hh .*; did you mean global_h\?"):
        keep_table(spark, aggregate, kept(place, view="global_hh"))


def state_of(place: str) -> TableState:
    return TableState.decode(open_catalogue(place).load_table(NAME).properties)


def read_table(place: str, view: str) -> list[dict[str, Any]]:
    """Return the rows by offset, without what every record has."""
    rows = open_catalogue(place).load_table(("nyc", view)).scan().to_arrow().to_pylist()
    names = {"offset", "value", "reason"}
    return [
        {name: each[name] for name in names & each.keys()}
        for each in sorted(rows, key=lambda row: row["aggregate_offset"])
    ]


def test_decoded_records_and_rejects(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The schema gets a field while the job is down; each record is in one of both tables."""
    place, file = str(tmp_path / "tables"), tmp_path / "value.json"
    nyc.run(nyc.create("oma.d"))
    values = (
        b'{"id": 1, "at": {"city": "A"}, "tags": ["x", null], "seats": {"a": 2}, "new": 5}',
        b'{"at": {"city": "B", "gate": 7}}',
        None,
        b'{"id": "one"}',
        b"no JSON",
    )
    nyc.run(nyc.append("oma.d", values))
    nyc.run(nyc.publish_map("oma", "d", len(values)))
    number, text = {"type": "integer"}, {"type": "string"}
    schema: dict[str, Any] = {
        "id": number,
        "at": {"type": "object", "properties": {"city": text}},
        "tags": {"type": "array", "items": text},
        "seats": {"type": "object", "additionalProperties": number},
    }

    def keep(view: str, upsert: Upsert | None = None) -> None:
        file.write_text(json.dumps({"type": "object", "properties": schema}))
        value = PartDecoding(format="json", schema=str(file))
        decoding = Decoding(topics={"d": TopicDecoding(value=value)})
        wanted = kept(place, view, records_max=3)
        rows = replace(wanted.rows, decoding=decoding)
        keep_table(spark, nyc.aggregate("oma"), replace(wanted, rows=rows, upsert=upsert))

    keep("decoded_d")
    first = {"id": 1, "at": {"city": "A"}, "tags": ["x", None], "seats": [("a", 2)]}
    second = {"id": None, "at": {"city": "B"}, "tags": None, "seats": None}
    found = read_table(place, "decoded_d")
    assert [row["offset"] for row in found] == [SHIFT, SHIFT + 1, SHIFT + 2]
    assert [row["value"] for row in found] == [first, second, None]

    schema["at"]["properties"]["gate"] = number
    schema["new"] = number
    nyc.run(nyc.append("oma.d", values[:2]))
    nyc.run(nyc.publish_map("oma", "d", len(values) + 2))
    keep("decoded_d")
    found = read_table(place, "decoded_d")
    old, new = found[:3], found[3:]
    assert [row["offset"] for row in new] == [SHIFT + 5, SHIFT + 6]
    assert [row["value"] and (row["value"]["at"], row["value"]["new"]) for row in old] == [
        ({"city": "A", "gate": None}, None),
        ({"city": "B", "gate": None}, None),
        None,
    ]
    assert [(row["value"]["at"], row["value"]["new"]) for row in new] == [
        ({"city": "A", "gate": None}, 5),
        ({"city": "B", "gate": 7}, None),
    ]
    compacted = compact_table(
        spark, open_catalogue(place), ("nyc", "decoded_d"), files_min=2, small_bytes=1 << 20
    )
    assert compacted.files_before > compacted.files_after == 1
    assert read_table(place, "decoded_d") == found

    keep("rejects_d")
    rejects = read_table(place, "rejects_d")
    assert [(row["offset"], row["value"]) for row in rejects] == [
        (SHIFT + 3, b'{"id": "one"}'),
        (SHIFT + 4, b"no JSON"),
    ]
    assert rejects[0]["reason"] == "value: field id: text, expected a whole number"
    assert rejects[1]["reason"].startswith("value: no JSON")
    query = (
        "SELECT value.id, value.seats['a'], value.at.gate FROM decoded_d ORDER BY aggregate_offset"
    )
    assert run_duckdb(query, catalogue=place, output="json", limit=10) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [
        [1, 2, None],
        [None, None, None],
        [None, None, None],
        [1, 2, None],
        [None, None, 7],
    ]

    with pytest.raises(UnknownViewError, match="keys as produced, so it cannot keep decoded_d"):
        keep("decoded_d", Upsert(UpsertBy.KEY))
    schema["id"] = text
    with pytest.raises(ColumnsRefusedError, match=r"value\.id of the table is long, .* string"):
        keep("decoded_d")


def test_the_latest_record_of_each_key(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The catalogue dies in commits; a late older record changes nothing; a tombstone deletes."""
    for source in ("den", "aus"):
        nyc.run(nyc.create(f"{source}.u"))
    nyc.run(nyc.publish_map("den", "u", 42))
    nyc.run(nyc.copy("den.u", range(100, 140), keys=5))
    place, name = str(tmp_path / "tables"), ("nyc", "global_u")
    server = RestCatalogue(tmp_path / "tables")
    server.start()

    def keep(by: UpsertBy, catalogue: str) -> None:
        wanted = kept(catalogue, "global_u", 15)
        keep_table(
            spark, nyc.aggregate("den", "aus"), replace(wanted, upsert=Upsert(by, buckets=2))
        )

    try:
        with server.restarted_whenever_dead():
            server.die_at_next_commit("before")
            keep(UpsertBy.KEY, server.uri)
            # The other datacenter arrives later, with older records and one newer one.
            nyc.run(nyc.publish_map("aus", "u", 22))
            nyc.run(nyc.copy("aus.u", range(110, 131), keys=5))
            nyc.run(nyc.copy("aus.u", range(136, 137), keys=5))
            server.die_at_next_commit("after")
            keep(UpsertBy.KEY, server.uri)
    finally:
        server.stop()
    assert server.deaths == 2
    catalogue = open_catalogue(place)
    expected = Counter[tuple[str, int, bytes | None]](
        ("DEN", SHIFT + i - 100, f"den.u {i}".encode()) for i in (135, 136, 137, 138, 139)
    )
    assert row_counts(catalogue.load_table(name)) == expected

    nyc.run(nyc.delete_key("den.u", 140, b"k4"))
    nyc.run(nyc.copy("den.u", range(20, 21), keys=5))  # a clock that ran back
    keep(UpsertBy.KEY, place)
    table = catalogue.load_table(name)
    del expected["DEN", SHIFT + 39, b"den.u 139"]
    expected["DEN", SHIFT + 40, None] = 1
    assert row_counts(table) == expected
    assert len(list(table.scan().plan_files())) == 2
    # The snapshots say which offsets they add, also those whose records changed nothing.
    said = [each.summary.additional_properties for each in table.snapshots() if each.summary]
    spans = dict[str, list[list[int]]]()
    for each in said:
        for topic, of_topic in json.loads(each["heliograph.aggregate-offsets"]).items():
            spans.setdefault(topic, []).extend(of_topic.values())
    for topic, end in (("den.u", 42), ("aus.u", 22)):
        starts, ends = zip(*spans[topic], strict=True)
        assert starts == (0, *ends[:-1]) and ends[-1] == end
    added = [entry for each in said for entry in json.loads(each["heliograph.source-offsets"])]
    assert sum(entry["records"] for entry in added) == 42 + 22
    assert TableState.decode(table.properties).positions.offsets == {
        TopicPartition("den.u", 0): 42,
        TopicPartition("aus.u", 0): 22,
    }
    query = "SELECT count(*) FROM global_u WHERE NOT is_deleted AND datacenter = 'DEN'"
    assert run_duckdb(query, catalogue=place, output="json", limit=10) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0][0] == 4
    with pytest.raises(TableRefusedError, match="the latest record by key, not every record"):
        keep_table(spark, nyc.aggregate("den", "aus"), kept(place, "global_u"))
    nyc.run(nyc.create("aus.n"))
    nyc.run(nyc.publish_map("aus", "n", 1))
    nyc.run(nyc.copy("aus.n", range(1)))
    keyless = replace(kept(place, "global_n"), upsert=Upsert(UpsertBy.DATACENTER_KEY))
    with pytest.raises(PySparkException, match=r"aus\.n-0: the record at offset 0 has no key"):
        keep_table(spark, nyc.aggregate("aus"), keyless)


def checkpoint_at(held: StreamPositions, folder: Path) -> Path:
    """Write the checkpoint of a query whose only batch ended there, and was not done."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets" / "0").write_text("\n".join(["v1", "{}", json.dumps(held.encode())]))
    return folder


def test_a_table_follows_another_aggregate(
    spark: SparkSession,
    nyc: Aggregated,
    zookeeper: str,
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
) -> None:
    """Other offsets there, and foreign records before them; the first aggregate is refused."""
    directory = tmp_path_factory.mktemp("other-broker")
    context = running_broker(zookeeper, directory, cluster="other")
    broker = nyc.run(context.__aenter__())
    try:
        here = replace(nyc, has_sources=True, published=set())
        there = replace(here, bootstrap=broker.bootstrap, first=7, published=set())
        name, place = ("nyc", "global_m"), str(tmp_path / "tables")
        for each in (here, there):
            each.run(each.create("pdx.m"))
            each.run(each.fill("pdx.m"))
            each.run(each.publish_map("pdx", "m", 20))
            each.run(each.copy("pdx.m", range(20)))
        here.run(here.publish_map("pdx", "m", 30))
        here.run(here.copy("pdx.m", range(20, 30)))
        keep_table(spark, here.aggregate("pdx"), kept(place, "global_m"))
        table = open_catalogue(place).load_table(name)
        addresses = [ClusterAddress(each.bootstrap) for each in (here, there)]
        with pytest.raises(LinkBehindError, match=r"read to 1030; wait for the link"):
            move_table(place, name, here=addresses[0], to=addresses[1], wait_seconds=0)
        there.run(there.publish_map("pdx", "m", 40))
        with pytest.raises(LinkBehindError, match=r"pdx.m-0 ends at 27.* goes on at 37"):
            move_table(place, name, here=addresses[0], to=addresses[1], wait_seconds=0)
        # A checkpoint with the same positions is moved as the table is.
        old, new = (
            checkpoint_at(TableState.decode(table.properties).positions, tmp_path / "old"),
            tmp_path / "new",
        )
        moving = partial(move_checkpoint, old, new, is_source=False)
        with pytest.raises(LinkBehindError, match=r"pdx.m-0 ends at 27.* goes on at 37"):
            nyc.run(moving(here=addresses[0], to=addresses[1]))
        assert not new.exists()
        there.run(there.copy("pdx.m", range(20, 40)))
        assert nyc.run(moving(here=addresses[0], to=addresses[1])) == [0]
        assert list(read_positions(new / "offsets" / "0").offsets.values()) == [37]
        for _ in range(2):
            state = move_table(place, name, here=addresses[0], to=addresses[1])
            assert list(state.positions.offsets.values()) == [37]
        with pytest.raises(TableRefusedError, match="move it with `heliograph spark move-table`"):
            keep_table(spark, here.aggregate("pdx"), kept(place, "global_m"))
        keep_table(spark, there.aggregate("pdx"), kept(place, "global_m"))
        table = open_catalogue(place).load_table(name)
        assert row_counts(table) == Counter(
            ("PDX", SHIFT + i, f"pdx.m {i}".encode()) for i in range(40)
        )
        kinds = [each.summary["heliograph.kind"] for each in table.snapshots() if each.summary]
        assert kinds.count("move") == 1
    finally:
        nyc.run(context.__aexit__(None, None, None))


def test_a_rest_catalogue_that_dies_in_commits(
    spark: SparkSession, nyc: Aggregated, tmp_path: Path
) -> None:
    nyc.run(nyc.create("bos.r"))
    server = RestCatalogue(tmp_path / "tables")
    server.start()
    try:
        with server.restarted_whenever_dead():
            for place, end in (("before", 20), ("after", 40)):
                nyc.run(nyc.publish_map("bos", "r", end))
                nyc.run(nyc.copy("bos.r", range(end - 20, end)))
                server.die_at_next_commit(place)
                keep_table(spark, nyc.aggregate("bos"), kept(server.uri, "global_r", 15))
    finally:
        server.stop()
    assert server.deaths == 2
    table = open_catalogue(str(tmp_path / "tables")).load_table(("nyc", "global_r"))
    assert row_counts(table) == Counter(
        ("BOS", SHIFT + i, f"bos.r {i}".encode()) for i in range(40)
    )
