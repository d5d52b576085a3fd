"""The demo's checks and its JSON document."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_global.audit import AuditReport, Finding, PartitionCount
from topology.demo.answers import Answers
from topology.demo.boards import Board, Flight
from topology.demo.dashboard.document import View
from topology.demo.outage import OutageAnswer
from topology.demo.prepare import DemoError, demo_links
from topology.demo.report import Report, StreamDelay, page_tables, write_page, write_parquet
from topology.deployment.deployment import Deployment, LinkView

VALUE = {"carrier": "UA", "flight": 1, "dest": "SFO", "time_hour": "2013-01-01T10:00:00Z"}
FLIGHT = Flight(offset=7, timestamp_ms=1, key=b"UA", value=json.dumps(VALUE).encode(), headers=())


def board(there: Flight | None, here: Flight | None) -> Board:
    return Board(
        partition=0, committed_offset=7, translated_offset=9, next_there=there, next_here=here
    )


def flight(**fields: object) -> Flight:
    return Flight(
        **{
            "offset": 99,
            "timestamp_ms": FLIGHT.timestamp_ms,
            "key": FLIGHT.key,
            "value": FLIGHT.value,
            "headers": (),
            **fields,
        }  # type: ignore[arg-type]
    )


def test_a_board_is_exact_whatever_the_offsets_are() -> None:
    assert board(FLIGHT, flight()).is_exact
    assert board(None, None).is_exact


@pytest.mark.parametrize(
    "other",
    [
        None,
        flight(timestamp_ms=2),
        flight(key=b"AA"),
        flight(value=b'{"flight":2}'),
        flight(headers=(("h", b""),)),
    ],
)
def test_any_other_flight_is_not(other: Flight | None) -> None:
    assert not board(FLIGHT, other).is_exact
    assert not board(other, FLIGHT).is_exact


COUNT = PartitionCount(
    datacenter="jfk", topic="flights", partition=0, produced=5, on_aggregate=5, mirrored=5
)


def good_report() -> Report:
    return Report(
        deployment="quickstart",
        produced={"jfk": 5},
        boards=[board(FLIGHT, flight())],
        rows={"jfk": 5},
        delays={"jfk": StreamDelay.of([1.0, 3.0, 2.0])},
        outage_datacenter="lga",
        outage=[OutageAnswer(kind="strict", complete_through_ms=1, says="waits for lga")],
        answers=Answers(
            carriers=pa.table({"carrier": ["UA"], "flights": [5]}),
            days=pa.table({"day": [date(2013, 1, 1)], "departures": [5]}),
        ),
        audit=AuditReport(partitions=(COUNT,)),
    )


def test_a_run_is_good_when_every_check_holds() -> None:
    assert good_report().is_good


def test_each_check_alone_makes_a_run_bad() -> None:
    reports = {
        name: good_report()
        for name in ("boards", "no boards", "stream", "audit", "count", "failed")
    }
    reports["boards"].boards.append(board(FLIGHT, None))
    reports["no boards"].boards.clear()
    reports["stream"].rows["jfk"] = 4
    reports["audit"].audit = AuditReport(partitions=(COUNT,), counts=Counter(duplicated=1))
    # Clean as the logs are, they hold fewer records than were acknowledged.
    reports["count"].produced["jfk"] = reports["count"].rows["jfk"] = 6
    reports["failed"].failure = "deploy: no"
    assert [name for name, report in reports.items() if report.is_good] == []


def test_the_document_has_every_figure(tmp_path: Path) -> None:
    report = good_report()
    finding = Finding(
        problem="lost",
        datacenter="jfk",
        topic="flights",
        partition=0,
        offset=3,
        aggregate_offset=None,
    )
    report.audit = AuditReport(partitions=(COUNT,), counts=Counter(lost=1), findings=(finding,))
    write_parquet(report, tmp_path / "out")
    view = View(deployment="demo", stage="", samples=[], tables=page_tables(report))
    write_page(report, view, tmp_path / "out")
    document = json.loads(json.dumps(report.as_json()))
    assert document["ok"] is False
    assert document["stream"] == {
        "exact": True,
        "rows": {"jfk": 5},
        "seconds_to_row": {"jfk": {"median": 2.0, "longest": 3.0}},
    }
    assert document["outage"] == {
        "datacenter": "lga",
        "answers": [{"kind": "strict", "complete_through_ms": 1, "says": "waits for lga"}],
    }
    page = Path(document["page"]).read_text()
    for text in ("waits for lga", "UA", "2013-01-01"):
        assert text in page
    assert document["boards"]["partitions"][0]["next_here"] == VALUE
    assert document["carriers"] == [{"carrier": "UA", "flights": 5}]
    assert document["days"] == [{"day": "2013-01-01", "departures": 5}]
    assert document["audit"]["lost"] == 1
    assert document["audit"]["findings"] == [
        {
            "problem": "lost",
            "datacenter": "jfk",
            "topic": "flights",
            "partition": 0,
            "offset": 3,
            "aggregate_offset": None,
        }
    ]
    tables = {Path(path).stem: pq.read_table(path).num_rows for path in document["files"]}
    assert tables == {"carriers": 1, "days": 1, "audit": 1}


def link(source: str, target: str) -> LinkView:
    return LinkView(name=f"{source}-{target}", source=source, target=target, daemon="mirror")


def test_the_demo_needs_one_aggregate_of_all_three_airports() -> None:
    airports = ("ewr", "jfk", "lga")
    good = Deployment(
        name="x",
        topology_file="x.yaml",
        links=tuple(link(name, "nyc") for name in (*airports, "bos")),
    )
    assert {name: view.target for name, view in demo_links(good).items()} == dict.fromkeys(
        airports, "nyc"
    )
    bad = Deployment(
        name="x", topology_file="x.yaml", links=(link("ewr", "nyc"), link("jfk", "bos"))
    )
    with pytest.raises(DemoError, match="ewr, jfk, lga"):
        demo_links(bad)
