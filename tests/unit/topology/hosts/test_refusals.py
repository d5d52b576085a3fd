"""What other hosts would refuse: their answers, within limits, and what a check finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from local_cluster.http_security.request import HttpResponse
from topology.deployment.deployment import Deployment, Part, encode_deployment
from topology.deployment.parts_of_hosts import part_here
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.hosts import refusals
from topology.hosts.answers import REASON_CHARACTERS_MAX, Answer
from topology.hosts.check_job import check
from topology.hosts.refusals import LINES_MAX, NOT_ASKED, ask_checks
from topology.shared_file.canonical import canonical_text

SECOND = "127.0.1.2"
SILENT = "127.0.1.3"
HERE = Deployment(name="flights", topology_file="/t.yaml", file_text="name: flights\n")


@contextmanager
def answering(
    monkeypatch: pytest.MonkeyPatch, response: HttpResponse | Answer
) -> Iterator[list[Any]]:
    asked: list[Any] = []

    def order(*arguments: object, **options: object) -> HttpResponse | Answer:
        asked.append((*arguments, options))
        return response

    monkeypatch.setattr(refusals, "order", order)
    yield asked


def told(monkeypatch: pytest.MonkeyPatch, response: HttpResponse | Answer) -> dict[str, Any]:
    answers = {SECOND: Answer(state="answers"), SILENT: Answer(state="unreachable")}
    with answering(monkeypatch, response) as asked:
        found = ask_checks(HERE, answers)
    (arguments,) = asked
    body = {"deployment": "flights", "host": SECOND, "file": "name: flights\n"}
    assert arguments[1:5] == (SECOND, "POST", "/check", body)
    assert list(found) == [SECOND], "who does not answer is not asked again"
    return found[SECOND]


def body(**document: object) -> HttpResponse:
    return HttpResponse(200, json.dumps(document).encode())


def test_refusals_of_another_host_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x" * (REASON_CHARACTERS_MAX + 1)
    many = [{"reason": f"a\n{each}", "details": ["d"] * (LINES_MAX + 1)} for each in range(99)]
    found = told(monkeypatch, body(refusals=many, warnings=[long], more=1))
    assert found["refusals"][0] == {"reason": "a 0", "details": ["d"] * LINES_MAX}
    assert len(found["refusals"]) == LINES_MAX
    assert found["warnings"] == [f"{long[:-1]}..."]
    assert found["unchecked"] is None


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (HttpResponse(404, b""), "its supervisor is of a version that cannot check"),
        (HttpResponse(503, b'{"message": "4 checks wait"}'), "4 checks wait"),
        (HttpResponse(500, b""), "HTTP status 500"),
        (HttpResponse(200, b"{"), "its answer is not that of a check"),
        (body(refusals=[], warnings=[1]), "its answer is not that of a check"),
        (body(refusals=[{"reason": "r"}], warnings=[]), "its answer is not that of a check"),
        (Answer(state="unreachable", reason="late"), "late"),
    ],
)
def test_a_host_that_does_not_check_says_why(
    response: HttpResponse | Answer, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(monkeypatch, response) == {**NOT_ASKED, "unchecked": reason}


FILE = """\
name: flights
clusters:
  - name: jfk
    external: kafka:9093
    security:
      {protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: u, password: {file: secret}}
  - name: ewr
    external: kafka:9094
    security:
      {protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: u, password: {env: EWR}}
    mirror: {host: 127.0.1.2}
links: [{source: jfk, target: ewr, topics: [t]}]
"""


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    """A state directory that runs another file on the second host."""
    state = StateDir(tmp_path / "state")
    state.create()
    topology = parse_topology(FILE.replace("[t]", "[u]"))
    whole = render(topology, state, topology_file=tmp_path / "etc" / "t.yaml")
    mine = part_here(whole, Part(host=SECOND), lambda host: False)
    state.deployment_file.write_text(encode_deployment(mine))
    return state


def checked(text: str, state: StateDir, **environment: str) -> Any:
    return check(canonical_text(parse_topology(text)), state, environment)


def test_secrets_are_looked_for_where_the_file_of_the_host_lies(
    state: StateDir, tmp_path: Path
) -> None:
    secret = tmp_path / "etc" / "secret"
    found = checked(FILE, state)
    assert found["refusals"] == []
    missing = [
        f"{secret} is missing: mirror into ewr reads it",
        "the environment variable EWR is not set: mirror into ewr reads it",
    ]
    assert [each for each in found["warnings"] if "reads it" in each] == missing
    secret.parent.mkdir()
    secret.write_text("s")
    found = checked(FILE, state, EWR="s")
    assert [each for each in found["warnings"] if "reads it" in each] == []


def test_another_deployment_and_a_file_that_cannot_be_read_are_refused(state: StateDir) -> None:
    (refusal, *_) = checked(FILE.replace("name: flights", "name: trains"), state)["refusals"]
    assert "belongs to deployment 'flights', not 'trains'" in refusal["reason"]
    (refusal,) = check("name: flights\nnewer: 1\n", state, {})["refusals"]
    assert refusal["reason"] == "the version that is installed here cannot read the file"
    assert any("newer" in line for line in refusal["details"])
