"""The properties of a table and of its snapshots."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from local_cluster.client.model import TopicPartition
from spark_global.iceberg.layout import SCHEMA
from spark_global.iceberg.table_state import (
    POSITIONS,
    SnapshotKind,
    TableState,
    TableStateError,
    Writer,
    snapshot_properties,
)
from spark_global.kept.said import SourceRange, Through, describe_complete, positions_hash, united
from spark_global.source.tables import RECORDS
from spark_global.streaming.positions import StreamPositions

JFK = TopicPartition("jfk.flights", 0)
LGA = TopicPartition("lga.flights", 3)


def positions(**offsets: int) -> StreamPositions:
    places = {"jfk": JFK, "lga": LGA}
    return StreamPositions(
        cluster_id="c",
        topic_ids={places[name].topic: "id" for name in offsets},
        offsets={places[name]: offset for name, offset in offsets.items()},
    )


STATE = TableState(
    view="global_flights",
    writer=Writer(3, "run"),
    positions=positions(jfk=120, lga=7),
    complete={"JFK": Through(1_700_000_000_123, None, 2), "LGA": Through(None, None, 0)},
)


def test_a_state_is_read_back_from_the_properties_of_its_table() -> None:
    assert TableState.decode(STATE.properties() | {"owner": "somebody"}) == STATE
    new = TableState(view="global_flights", complete={})
    assert TableState.decode(new.properties()) == new


@pytest.mark.parametrize(
    "broken",
    [
        {"heliograph.view": None},
        {"heliograph.positions": "{"},
        {"heliograph.positions": '{"version": 9}'},
        {"heliograph.complete-through": '{"JFK": 5}'},
        {"heliograph.writer-epoch": "three"},
        {"heliograph.writer": None},
    ],
)
def test_broken_properties_are_refused(broken: dict[str, str | None]) -> None:
    given = STATE.properties() | broken
    with pytest.raises(TableStateError):
        TableState.decode({name: text for name, text in given.items() if text is not None})


def test_a_snapshot_says_what_it_adds() -> None:
    ranges = [
        SourceRange("JFK", "flights", 0, 1_100, 1_110, 10),
        SourceRange("LGA", "flights", 3, None, None, 4),
        SourceRange("JFK", "flights", 0, 1_110, 1_125, 10),
        SourceRange("LGA", "flights", 3, 5, 6, 1),
    ]
    says = snapshot_properties(STATE, SnapshotKind.BATCH, positions(jfk=100), ranges)
    assert says == {
        "heliograph.kind": "batch",
        "heliograph.writer-epoch": "3",
        # The partition of LGA joins: its records come with the next batch.
        "heliograph.aggregate-offsets": '{"jfk.flights":{"0":[100,120]}}',
        "heliograph.source-offsets": (
            '[{"datacenter":"JFK","topic":"flights","partition":0,"first":1100,"end":1125,'
            '"records":20},'
            '{"datacenter":"LGA","topic":"flights","partition":3,"first":5,"end":6,"records":5}]'
        ),
        "heliograph.complete-through": (
            '{"JFK":{"through":"2023-11-14T22:13:20.123Z","proved":null,"gaps":2},'
            '"LGA":{"through":null,"proved":null,"gaps":0}}'
        ),
        "heliograph.positions-hash": positions_hash(STATE.positions),
    }
    assert united(united(ranges)) == united(ranges)


def test_the_hash_is_that_of_the_positions_alone() -> None:
    assert positions_hash(positions(jfk=1, lga=2)) == positions_hash(positions(lga=2, jfk=1))
    assert positions_hash(positions(jfk=1)) != positions_hash(positions(jfk=2))
    assert (
        STATE.properties()[POSITIONS]
        == TableState.decode(STATE.properties()).properties()[POSITIONS]
    )


def test_a_datacenter_without_news_keeps_its_time() -> None:
    after = STATE.with_complete({"LGA": Through(5, 5, 0), "EWR": Through(1, 1, 0)})
    assert after.complete == {
        "JFK": Through(1_700_000_000_123, None, 2),
        "LGA": Through(5, 5, 0),
        "EWR": Through(1, 1, 0),
    }
    assert describe_complete(after.complete) == [
        "EWR: complete through 1970-01-01T00:00:00.001Z",
        "JFK: complete through 2023-11-14T22:13:20.123Z, with 2 gaps",
        "LGA: complete through 1970-01-01T00:00:00.005Z",
    ]


def test_what_is_proved_stays_proved_and_a_gap_stays_a_gap() -> None:
    state = STATE.with_complete({"LGA": Through(9, 5, 2)})
    assert state.with_complete({"LGA": Through(3, 2, 1)}).complete["LGA"] == Through(5, 5, 2)
    assert state.with_complete({"LGA": Through(7, 6, 3)}).complete["LGA"] == Through(7, 6, 3)
    assert state.with_complete({"LGA": Through(None, None, 0)}).complete["LGA"] == Through(5, 5, 2)


def test_a_table_has_the_columns_of_the_table_records() -> None:
    def plain(kind: pa.DataType) -> str:
        return (
            str(kind).replace("large_", "").replace(" not null", "").replace("element: ", "item: ")
        )

    kept = schema_to_pyarrow(SCHEMA)
    assert [(field.name, plain(field.type)) for field in kept] == [
        (field.name, plain(field.type)) for field in RECORDS
    ]
    assert not any(field.required for field in SCHEMA.fields), "later versions add columns"
    assert all(field.doc for field in SCHEMA.fields)
