"""What counts as the answer of a supervisor, and what it says otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from topology.hosts.answers import Answer, read_answer

ROW: dict[str, Any] = {
    "key": "broker-jfk-1",
    "role": "broker",
    "label": "broker 1 of jfk",
    "host": "10.0.0.1",
    "version": "1.0",
    "phase": "running",
    "pid": 7,
    "restarts": 0,
    "exit_code": None,
    "log": "/l",
}
REPORT: dict[str, Any] = {
    "deployment": "flights",
    "hosts": ["10.0.0.1"],
    "version": "1.0",
    "installed": "1.0",
    "pid": 5,
    "started_at_ms": 1,
    "stopping": False,
    "file": "name: flights\n",
    "daemons": [ROW],
}


def read(document: Any, status: int = 200) -> Answer:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return read_answer(status, body, deployment="flights", host="10.0.0.1")


def test_an_answer() -> None:
    answer = read({**REPORT, "of_a_newer_version": 1})
    assert (answer.state, answer.reason) == ("answers", None)
    assert answer.daemons == [ROW]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token(status: int) -> None:
    answer = read({"message": "whatever"}, status)
    assert answer == Answer(state="wrong_token", reason="it refuses the token of `http_security`")


def test_another_deployment_or_host() -> None:
    other = read({**REPORT, "deployment": "trains\n\x1b[31m" + "x" * 1000})
    assert other.state == "mistaken"
    assert other.reason is not None and other.reason.endswith("...")
    assert other.reason.isprintable()
    moved = read({**REPORT, "hosts": ["10.0.0.2", "10.0.0.3"]})
    assert moved.state == "mistaken"
    assert moved.reason == "the supervisor there is that of 10.0.0.2, 10.0.0.3"


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<html>",
        b"[" * 100_000,
        [],
        {},
        {**REPORT, "hosts": "10.0.0.1"},
        {**REPORT, "hosts": [1]},
        {**REPORT, "file": None},
        {**REPORT, "daemons": None},
        {**REPORT, "daemons": [1]},
        {**REPORT, "daemons": [{**ROW, "label": 1}]},
        {**REPORT, "daemons": [{**ROW, "pid": "7"}]},
    ],
)
def test_what_is_no_report(document: Any) -> None:
    answer = read(document)
    assert (answer.state, answer.report, answer.daemons) == ("unusable", None, [])


def test_another_status_is_named_with_its_message() -> None:
    assert read({"message": "not found"}, 404).reason == (
        "it answers with HTTP status 404: not found"
    )
    assert read(b"no JSON", 302).reason == "it answers with HTTP status 302"
