"""The steps of a record's way, in words, in the document and as spans."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from local_cluster.records.batch import NewRecord, Record, encode_batch
from local_cluster.records.header import TIMESTAMP_TYPE_BIT, read_header
from mirror_maker.metrics.batch_ids import batch_ids
from topology.tracing.facts import (
    Audited,
    Batch,
    Bounds,
    LinkCopy,
    LogFacts,
    Place,
    Stated,
    StoredRecord,
    Transaction,
    WayFacts,
)
from topology.tracing.show import head_lines, table_rows, way_document
from topology.tracing.spans import record_spans
from topology.tracing.steps import Clock, Step, way_steps
from topology.tracing.trace_ids import RecordIdentity, trace_ids
from topology.why.facts import Fate, RecordFacts

RECORD = Record(7, 1_000, b"k", b"v")
SOURCE = Place("jfk", "flights", 0, 7)
COPY = Place("nyc", "jfk.flights", 0, 9)
FAR = Place("vault", "nyc.jfk.flights", 0, 11)
BATCH = read_header(encode_batch([NewRecord(1_000, b"k", b"v")] * 3, base_offset=6, leader_epoch=4))
IDS = trace_ids(RecordIdentity("id", uuid.UUID(int=1), *SOURCE[1:]), ())


def log(place: Place, **changes: Any) -> LogFacts:
    found = LogFacts(
        place=place,
        datacenter=f"{place.cluster}-dc",
        topic_id=uuid.UUID(int=1),
        stored=StoredRecord(record=RECORD, batch=BATCH),
        leader=2,
        leader_epoch=4,
        start=0,
        end=20,
    )
    return replace(found, **changes)


def fate(state: Fate = Fate.COPIED, **changes: Any) -> RecordFacts:
    return replace(RecordFacts(topic="flights", partition=0, offset=7, fate=state), **changes)


def copied(**changes: Any) -> LinkCopy:
    found = LinkCopy(
        link="jfk-nyc",
        source=SOURCE,
        target="nyc",
        datacenter="nyc-dc",
        fate=fate(),
        mapped_ms=2_600,
        batch=Batch(8, 4, 1, 8, 2_400),
        stated=Stated(Bounds(900, 2_500), Bounds(1_500, 2_500), 3_000, "w1"),
        audited=Audited(True, 4_000),
        log=log(COPY),
    )
    return replace(found, **changes)


def steps(*copies: LinkCopy, origin: LogFacts | None = None) -> list[Step]:
    return way_steps(WayFacts(asked=SOURCE, origin=origin or log(SOURCE), copies=copies))


def test_each_step_has_its_narrowest_time_and_the_clock_of_it() -> None:
    found = steps(copied())
    assert [(each.name, each.state, *each.time, each.clock) for each in found] == [
        ("produced", "done", 1_000, 1_000, Clock.PRODUCER),
        ("committed", "done", 900, 2_400, Clock.MIRROR),
        ("copied", "done", 1_500, 2_400, Clock.MIRROR),
        ("complete", "done", None, 3_000, Clock.MIRROR),
        ("audited", "done", None, 4_000, Clock.MIRROR),
    ], "the receipt is written before the statement: so the record was committed and copied by then"
    assert found[0].sentence == "in a batch of 3 at 6, leader epoch 4, of broker 2"
    assert found[2].sentence == "in a batch of 4 at 8, identical to the record"


def test_a_leader_of_an_earlier_epoch_is_not_named() -> None:
    (produced, _) = steps(origin=log(SOURCE, leader_epoch=5))
    assert produced.details["leader_epoch"] == 4 and produced.details["leader"] is None
    assert "broker" not in produced.sentence


def test_an_append_time_is_by_the_brokers_clock_and_no_time_is_unknown() -> None:
    by_broker = BATCH._replace(attributes=TIMESTAMP_TYPE_BIT)
    (produced, _) = steps(origin=log(SOURCE, stored=StoredRecord(record=RECORD, batch=by_broker)))
    assert produced.clock is Clock.BROKER
    timeless = StoredRecord(record=RECORD._replace(timestamp_ms=-1), batch=BATCH)
    (produced, committed) = steps(origin=log(SOURCE, stored=timeless))
    assert (produced.state, produced.time, produced.clock) == ("done", Bounds(), None)
    assert (committed.state, committed.time) == ("done", Bounds())


@pytest.mark.parametrize(
    ("transaction", "words"),
    [(Transaction.ABORTED, "aborted"), (Transaction.OPEN, "open")],
)
def test_the_fate_of_a_transaction_is_told(transaction: Transaction, words: str) -> None:
    stored = StoredRecord(record=RECORD, batch=BATCH, transaction=transaction)
    produced, committed = steps(origin=log(SOURCE, stored=stored))
    assert produced.sentence.endswith(f"its transaction is {words}")
    assert ("read_committed readers wait" in committed.sentence) == (words == "open")


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({"fate": fate(Fate.PENDING)}, "pending", "not copied yet"),
        ({"fate": fate(Fate.NO_MAP)}, "pending", "copied nothing of the partition"),
        ({"fate": fate(Fate.LEFT_OUT)}, "left_out", "`filter` leaves it out"),
        ({"fate": fate(Fate.BEFORE_START)}, "before_start", "began to copy after it"),
        ({"fate": fate(Fate.UNKNOWN)}, "unknown", "incomplete there"),
        ({"fate": fate(Fate.TRIMMED)}, "trimmed", "no longer has the copies"),
        (
            {"fate": fate(Fate.LEFT_OUT, gap={"reason": "too_large", "detail": "9 MB"})},
            "in_gap",
            "in a gap of the link (too_large): 9 MB",
        ),
        ({"problem": "nyc does not answer", "fate": None}, "unknown", "nyc does not answer"),
        (
            {"log": log(COPY, stored=None, missing="deleted: the partition begins at 12")},
            "done",
            "deleted: the partition begins at 12",
        ),
        (
            {"log": log(COPY, stored=StoredRecord(record=Record(9, 1, b"", b""), batch=BATCH))},
            "done",
            "changed by the link's rules",
        ),
    ],
)
def test_what_became_of_a_copy(changes: dict[str, Any], state: str, words: str) -> None:
    (found,) = [each for each in steps(copied(**changes)) if each.name == "copied"]
    assert found.state == state and words in found.sentence


def answer(strict_ms: int | None, *late: str) -> dict[str, Any]:
    holder = {"datacenter": "newark", "reason": "it is late"}
    missing = [{"link": each, "datacenter": "jfk-dc", "reason": "it is late"} for each in late]
    return {
        "topic": "flights",
        "strict": {"complete_through_ms": strict_ms, "held_back_by": holder},
        "fast": {"missing": missing},
    }


@pytest.mark.parametrize(
    ("aggregate", "words"),
    [
        (answer(2_500), "strict answers over all datacenters include it"),
        (answer(2_499), "strict answers wait for newark (it is late)"),
        (answer(None), "strict answers wait for newark (it is late)"),
        (answer(1, "jfk-nyc"), "fast answers go on without jfk-dc (it is late)"),
    ],
)
def test_what_answers_of_the_aggregate_do_with_it(aggregate: dict[str, Any], words: str) -> None:
    (found,) = [each for each in steps(copied(aggregate=aggregate)) if each.name == "complete"]
    assert words in found.sentence
    assert ("include" in found.sentence) == ("include" in words)


@pytest.mark.parametrize(
    ("audited", "state"),
    [
        (None, "unknown"),
        (Audited(False, 4_000), "pending"),
        (Audited(True, 4_000, "LOST: gone"), "doubted"),
    ],
)
def test_what_the_audit_says(audited: Audited | None, state: str) -> None:
    (found,) = [each for each in steps(copied(audited=audited)) if each.name == "audited"]
    assert (found.state, found.time.is_known) == (state, False)


def far(**changes: Any) -> LinkCopy:
    found = copied(
        link="nyc-vault",
        source=COPY,
        target="vault",
        log=log(FAR),
        mapped_ms=2_700,
        batch=None,
        stated=Stated(),
        audited=None,
    )
    return replace(found, **changes)


def test_spans_follow_one_another_and_copies_of_copies_begin_at_those() -> None:
    facts = WayFacts(asked=SOURCE, origin=log(SOURCE), copies=(copied(has_batch_spans=True), far()))
    root, *children = record_spans(facts, way_steps(facts), IDS)
    assert [(each.name, each.start_time, each.end_time) for each in children] == [
        ("produced flights", 1_000_000_000, 1_000_000_000),
        ("committed flights", 1_000_000_000, 2_400_000_000),
        ("copied jfk.flights", 2_400_000_000, 2_400_000_000),
        ("complete jfk.flights", 2_400_000_000, 3_000_000_000),
        ("audited jfk.flights", 2_400_000_000, 4_000_000_000),
        ("copied nyc.jfk.flights", 2_400_000_000, 2_700_000_000),
    ]
    assert (root.start_time, root.end_time) == (1_000_000_000, 4_000_000_000)
    assert root.parent is None and all(each.parent == root.context for each in children)
    (link,) = children[2].links
    assert (link.context.trace_id, link.context.span_id) == batch_ids("jfk-nyc", *COPY[1:3], 8)
    about = children[2].attributes or {}
    assert (about["heliograph.not_before_ms"], about["heliograph.not_after_ms"]) == (1_500, 2_400)
    assert about["messaging.kafka.offset"] == 9 and about["heliograph.link"] == "jfk-nyc"


def test_a_clock_that_is_behind_makes_no_span_that_ends_before_it_begins() -> None:
    future = StoredRecord(record=RECORD._replace(timestamp_ms=90_000), batch=BATCH)
    facts = WayFacts(asked=SOURCE, origin=log(SOURCE, stored=future), copies=(copied(),))
    for each in record_spans(facts, way_steps(facts), IDS):
        assert (each.start_time or 0) <= (each.end_time or 0)


def test_without_any_time_there_are_no_spans() -> None:
    timeless = StoredRecord(record=RECORD._replace(timestamp_ms=-1), batch=BATCH)
    facts = WayFacts(asked=SOURCE, origin=log(SOURCE, stored=timeless))
    assert record_spans(facts, way_steps(facts), IDS) == []


def test_people_see_times_after_the_first_one() -> None:
    facts = WayFacts(asked=COPY, origin=log(SOURCE), copies=(copied(), far(problem="silent")))
    document = way_document(facts, way_steps(facts), IDS)
    assert [*head_lines(document)] == [
        "record jfk.flights-0, offset 9, of nyc",
        "  is a copy of flights-0, offset 7, of jfk (jfk-dc)",
        f"trace {IDS.trace_id:032x}",
    ]
    rows = table_rows(document)
    assert [(each["step"], each["where"], each["time"]) for each in rows] == [
        ("produced", "jfk", "1970-01-01T00:00:01.000Z"),
        ("committed", "jfk", "-0.100 s to +1.400 s"),
        ("copied", "jfk-nyc ->", "+0.500 s to +1.400 s"),
        ("complete", "jfk-nyc ->", "by +2.000 s"),
        ("audited", "jfk-nyc ->", "by +3.000 s"),
        ("copied", "nyc-vault ->", None),
    ]
    assert [each["place"] for each in rows][1:3] == ["flights-0 @7", "jfk.flights-0 @9"]
