"""The output of `heliograph audit` for people."""

from __future__ import annotations

from typing import Any

import pytest

from topology.audit.show import FAULTS_SHOWN_MAX, print_audit


def _partition(**fields: Any) -> dict[str, Any]:
    return {
        "topic": "flights",
        "partition": 0,
        "target_topic": "jfk.flights",
        "audited_to": 120,
        "batches_waiting": 0,
        "records": {"COMPLETE": 120},
        "findings": [],
        "problem": None,
    } | fields


def _link(*partitions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "link": "jfk-nyc",
        "source": "jfk",
        "target": "nyc",
        "age_seconds": 1.6,
        "problem": None,
        "partitions": list(partitions),
    } | fields


def _printed(capsys: pytest.CaptureFixture[str], *links: dict[str, Any]) -> list[str]:
    print_audit(links)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_copies_that_are_well_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert _printed(capsys, _link(_partition(), _partition(partition=1, audited_to=None))) == [
        "link jfk-nyc: jfk -> nyc, audited 2 s ago",
        "partition copy COMPLETE audited to waiting",
        "flights-0 jfk.flights 120 120 0",
        "flights-1 jfk.flights 120 - 0",
    ]


def test_nothing_mapped_and_no_links(capsys: pytest.CaptureFixture[str]) -> None:
    assert _printed(capsys, _link()) == ["link jfk-nyc: jfk -> nyc: nothing is mapped yet"]
    assert _printed(capsys) == ["there are no links"]


def test_faults_have_columns_and_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    finding = {"verdict": "LOST", "target_from": 12, "target_to": 15, "detail": "it is not there"}
    partition = _partition(
        records={"COMPLETE": 117, "LATE": 5, "LOST": 3}, findings=[finding], batches_waiting=2
    )
    problem = "the audit of worker w1 does not go on: nyc is away"
    assert _printed(capsys, _link(partition, problem=problem, age_seconds=None)) == [
        "link jfk-nyc: jfk -> nyc, not audited yet",
        "partition copy COMPLETE LATE LOST audited to waiting",
        "flights-0 jfk.flights 117 5 3 120 2",
        "the audit of worker w1 does not go on: nyc is away",
        "what is wrong:",
        "flights-0: LOST at target offsets 12 to 14: it is not there",
    ]


def test_records_that_were_read_are_shown_with_their_payloads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fault = {
        "verdict": "ALTERED",
        "source_offset": 7,
        "target_offset": 9,
        "detail": "another value",
        "source_record": {"key": "k", "value": "right"},
        "target_record": {"key": "k", "value": "wrong"},
    }
    count = FAULTS_SHOWN_MAX + 3
    read = _partition(records={"COMPLETE": 1, "ALTERED": count}, faults=[fault] * count)
    printed = _printed(capsys, _link(_partition(), records_read=[read]))
    assert printed[:3] == [
        "link jfk-nyc: jfk -> nyc, both logs read",
        "partition copy COMPLETE ALTERED",
        f"flights-0 jfk.flights 1 {count}",
    ]
    assert printed[4] == (
        "flights-0: ALTERED at source offset 7, target offset 9: another value"
        " (source has key 'k', value 'right'; target has key 'k', value 'wrong')"
    )
    assert len(printed) == 4 + FAULTS_SHOWN_MAX + 1
    assert printed[-1] == "and 3 more; -o json has them all"
