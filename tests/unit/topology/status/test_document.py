"""The status document lists everything of the topology, and unknown values are null."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local_cluster.http_security.settings import OPEN
from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment, LinkView
from topology.deployment.supervisor_ports import SupervisorPorts
from topology.status.document import Liveness, assemble_status, unsupervised_report
from topology.supervisor.own_process import Identity
from topology.supervisor.process_journal import StartedProcess
from topology.supervisor.readiness import http_url

DEPLOYMENT = Deployment(
    name="d",
    topology_file="/d.yaml",
    daemons=(
        Daemon(key="b", role="broker", label="b", argv=("b",)),
        Daemon(key="m", role="mirror", label="m", argv=("m",)),
        Daemon(key="g", role="aggregator", label="g", argv=("g",)),
    ),
    clusters=(
        ClusterView(
            name="ewr",
            kind="aggregate",
            datacenter="Newark",
            bootstrap="h:1",
            brokers=(BrokerView(id=1, host="h", port=1, daemon="b"),),
            aggregator="g",
        ),
        ClusterView(name="theirs", kind="external", datacenter="theirs", bootstrap="k:2"),
    ),
    links=(LinkView(name="l", source="theirs", target="ewr", daemon="m"),),
)


def row(key: str, role: str, phase: str = "running", **more: Any) -> dict[str, Any]:
    return {
        "key": key,
        "role": role,
        "label": key,
        "phase": phase,
        "pid": 7 if phase == "running" else None,
        "restarts": 0,
        "failures": 0,
        "exit_code": None,
        "log": f"/{key}.log",
        "ready": None,
        **more,
    }


def report(*rows: dict[str, Any], stopping: bool = False) -> dict[str, Any]:
    return {"name": "d", "pid": 1, "stopping": stopping, "daemons": list(rows)}


ALL = (
    row("b", "broker"),
    row("m", "mirror", ready={"http_port": 8083}),
    row("g", "aggregator", ready={"http_port": 8080}),
)


def liveness(
    *,
    external_brokers: dict[str, list[dict[str, Any]]] | None = None,
    silent_clusters: dict[str, str] | None = None,
    silent_daemons: dict[str, str] | None = None,
) -> Liveness:
    return Liveness(
        external_brokers=external_brokers or {},
        silent_clusters=silent_clusters or {},
        silent_daemons=silent_daemons or {},
    )


def test_nothing_runs() -> None:
    status = assemble_status(DEPLOYMENT, None, {})
    assert (status["state"], status["supervisor"]) == ("stopped", None)
    (problem,) = status["problems"]
    assert (problem["subject"], problem["remedy"]) == ("deployment d", "heliograph up /d.yaml")
    assert status["clusters"][0]["brokers"] == [
        {
            "id": 1,
            "host": "h",
            "port": 1,
            "pid": None,
            "state": "stopped",
            "reason": None,
            "url": None,
        }
    ]
    assert status["links"] == [
        {
            "name": "l",
            "source": "theirs",
            "target": "ewr",
            "state": "stopped",
            "reason": None,
            "standing_still": [],
            "standing_still_more": 0,
            "gaps": None,
            "paused": None,
            "throttle": None,
            "topics": None,
            "partitions": None,
            "lag_records": None,
            "lag_seconds": None,
            "probe": None,
            "waits_for": None,
        }
    ]


def test_what_runs_without_a_supervisor_is_not_called_stopped(tmp_path: Path) -> None:
    ready = tmp_path / "m.json"
    ready.write_text(json.dumps({"pid": 9, "state": "running", "http_port": 8083}))
    left = {
        "b": StartedProcess(Identity(8, "then"), DEPLOYMENT.daemons[0]),
        "m": StartedProcess(
            Identity(9, "then"), replace(DEPLOYMENT.daemons[1], ready_file=str(ready))
        ),
    }
    found = unsupervised_report(left, lambda key: tmp_path / key)
    status = assemble_status(DEPLOYMENT, found, {"l": {"name": "l", "state": "running"}})
    assert (status["state"], status["supervisor"]) == ("unsupervised", None)
    assert status["clusters"][0]["brokers"][0]["pid"] == 8
    assert status["links"][0]["state"] == "running"
    assert status["aggregators"][0]["state"] == "stopped"
    assert [each["restarts"] for each in status["daemons"]] == [None, None]
    assert unsupervised_report({}, lambda key: tmp_path / key) is None


def test_everything_runs() -> None:
    said = {
        "name": "l",
        "state": "RUNNING",
        "topics": 1,
        "partitions": 3,
        "lag_records": 0,
        "lag_seconds": None,
    }
    broker = row("b", "broker", ready={"http_host": "127.0.0.1", "http_port": 9404})
    status = assemble_status(DEPLOYMENT, report(broker, *ALL[1:]), {"l": said})
    assert status["state"] == "running"
    assert status["clusters"][0]["brokers"][0]["pid"] == 7
    assert status["clusters"][0]["brokers"][0]["url"] == "http://127.0.0.1:9404"
    assert status["links"][0] == {
        **said,
        "source": "theirs",
        "target": "ewr",
        "state": "running",
        "reason": None,
        "standing_still": [],
        "standing_still_more": 0,
        "gaps": None,
        "paused": None,
        "throttle": None,
        "probe": None,
        "waits_for": None,
    }
    assert status["problems"] == []
    assert status["aggregators"] == [
        {"cluster": "ewr", "url": "http://127.0.0.1:8080", "state": "running"}
    ]
    assert status["mirrors"] == [
        {"cluster": "ewr", "url": "http://127.0.0.1:8083", "state": "running"}
    ]


def test_a_supervisor_with_a_port_has_a_url() -> None:
    daemons = tuple(replace(each, host="10.0.0.1") for each in DEPLOYMENT.daemons)
    ports = SupervisorPorts(port=9990, security=OPEN)
    deployment = replace(DEPLOYMENT, daemons=daemons, supervisors=ports)
    status = assemble_status(deployment, report(*ALL), {})
    assert status["supervisor"] == {"pid": 1, "url": "http://10.0.0.1:9990"}


def test_every_worker_of_a_target_is_a_mirror() -> None:
    shared = replace(DEPLOYMENT.links[0], workers=("m", "m.w2", "m.w3"))
    third = Daemon(key="m.w3", role="mirror", label="m.w3", argv=("m",), host="far")
    links = (shared, replace(shared, name="l2"))
    deployment = replace(DEPLOYMENT, links=links, elsewhere=(third,))
    second = row("m.w2", "mirror", ready={"http_host": "127.0.0.1", "http_port": 8084})
    status = assemble_status(deployment, report(*ALL, second), {})
    assert [each["url"] for each in status["mirrors"]] == [
        "http://127.0.0.1:8083",
        "http://127.0.0.1:8084",
    ]


def test_the_brokers_of_an_existing_cluster_are_unknown_until_it_answers() -> None:
    status = assemble_status(DEPLOYMENT, report(*ALL), {})
    assert status["clusters"][1]["brokers"] is None
    broker = {"id": 5, "host": "k", "port": 2, "pid": None, "state": "registered"}
    heard = liveness(external_brokers={"theirs": [broker]})
    status = assemble_status(DEPLOYMENT, report(*ALL), {}, heard)
    assert status["clusters"][1]["brokers"] == [broker]


def test_an_existing_cluster_that_does_not_answer_is_a_problem_of_its_links_too() -> None:
    why = "cluster theirs (k:2) does not answer within 3 s"
    said = {"l": {"name": "l", "state": "RUNNING"}}
    heard = liveness(silent_clusters={"theirs": why})
    status = assemble_status(DEPLOYMENT, report(*ALL), said, heard)
    assert status["state"] == "degraded"
    assert (status["clusters"][1]["brokers"], status["clusters"][1]["reason"]) == (None, why)
    link = status["links"][0]
    assert (link["state"], link["reason"]) == ("source_down", why)
    assert [each["subject"] for each in status["problems"]] == ["cluster theirs", "link l"]


def test_a_broker_that_has_a_process_and_does_not_answer_is_not_running() -> None:
    said = {"l": {"name": "l", "state": "RUNNING"}}
    heard = liveness(silent_daemons={"b": "h:1 does not answer within 3000 ms"})
    status = assemble_status(DEPLOYMENT, report(*ALL), said, heard)
    assert status["state"] == "degraded"
    (broker,) = status["clusters"][0]["brokers"]
    assert (broker["state"], broker["pid"]) == ("not_answering", 7)
    link = status["links"][0]
    why = "cluster ewr does not answer: h:1 does not answer within 3000 ms"
    assert (link["state"], link["reason"]) == ("target_down", why)
    assert [each["subject"] for each in status["problems"]] == ["b", "link l"]
    assert "kill -CONT 7" in status["problems"][0]["remedy"]


def test_a_cluster_with_a_broker_that_answers_is_not_silent() -> None:
    brokers = tuple(BrokerView(id=n, host="h", port=n, daemon=f"b{n}") for n in (1, 2))
    clusters = (replace(DEPLOYMENT.clusters[0], brokers=brokers), DEPLOYMENT.clusters[1])
    daemons = tuple(Daemon(key=f"b{n}", role="broker", label=f"b{n}", argv=()) for n in (1, 2))
    two = replace(DEPLOYMENT, daemons=(*daemons, *DEPLOYMENT.daemons[1:]), clusters=clusters)
    rows = report(row("b1", "broker"), row("b2", "broker"), *ALL[1:])
    said = {"l": {"name": "l", "state": "RUNNING"}}
    status = assemble_status(two, rows, said, liveness(silent_daemons={"b1": "no answer"}))
    assert [each["state"] for each in status["clusters"][0]["brokers"]] == [
        "not_answering",
        "running",
    ]
    assert (status["state"], status["links"][0]["state"]) == ("degraded", "running")


def test_a_worker_that_does_not_answer_leaves_its_links_without_a_state_of_their_own() -> None:
    heard = liveness(silent_daemons={"m": "http://127.0.0.1:8083/healthz does not answer"})
    status = assemble_status(DEPLOYMENT, report(*ALL), {}, heard)
    link = status["links"][0]
    assert link["state"] == "not_answering"
    assert link["reason"].startswith("its worker does not answer: http://127.0.0.1:8083")
    assert status["mirrors"][0]["state"] == "not_answering"


@pytest.mark.parametrize("state", ["FAILED", "HELD", "DEGRADED"])
def test_a_link_that_waits_for_a_person_is_never_starting(state: str) -> None:
    said = {"l": {"name": "l", "state": state, "reason": "why"}}
    for rows in (ALL, (row("b", "broker", "starting"), *ALL[1:])):
        status = assemble_status(DEPLOYMENT, report(*rows), said)
        assert status["state"] == "degraded"
        assert (status["links"][0]["state"], status["links"][0]["reason"]) == (
            state.lower(),
            "why",
        )


def test_a_silent_mirror_worker_leaves_its_links_unknown() -> None:
    status = assemble_status(DEPLOYMENT, report(*ALL), {})
    link = status["links"][0]
    assert (link["state"], link["lag_records"]) == ("unknown", None)
    assert status["state"] == "starting"


def test_a_link_that_catches_up_does_its_work_and_one_whose_source_is_away_does_not() -> None:
    for state, overall in (("CATCHING_UP", "running"), ("SOURCE_DOWN", "degraded")):
        status = assemble_status(DEPLOYMENT, report(*ALL), {"l": {"name": "l", "state": state}})
        assert status["links"][0]["state"] == state.lower()
        assert status["state"] == overall
    while_a_broker_starts = report(row("b", "broker", "starting"), *ALL[1:])
    said = {"l": {"name": "l", "state": "TARGET_DOWN"}}
    assert assemble_status(DEPLOYMENT, while_a_broker_starts, said)["state"] == "starting"


def test_old_figures_of_a_worker_that_is_gone_are_not_its_state() -> None:
    rows = (row("b", "broker"), row("m", "mirror", "restarting", restarts=1), ALL[2])
    status = assemble_status(DEPLOYMENT, report(*rows), {})
    assert status["links"][0]["state"] == "restarting"
    assert status["state"] == "degraded"


def test_a_daemon_the_supervisor_does_not_know_is_not_running() -> None:
    said = {"l": {"name": "l", "state": "running"}}
    assert assemble_status(DEPLOYMENT, report(*ALL[:2]), said)["state"] == "starting"
    stopping = report(*ALL, stopping=True)
    assert assemble_status(DEPLOYMENT, stopping, said)["state"] == "stopping"


@pytest.mark.parametrize(
    ("ready", "url"),
    [
        (None, None),
        ({}, None),
        ({"http_port": 1}, "http://127.0.0.1:1"),
        ({"http_host": "0.0.0.0", "http_port": 1}, "http://127.0.0.1:1"),
        ({"http_host": "::", "http_port": 1}, "http://[::1]:1"),
        ({"http_host": "10.0.0.5", "http_port": 1}, "http://10.0.0.5:1"),
    ],
)
def test_where_a_daemon_is_reached(ready: dict[str, Any] | None, url: str | None) -> None:
    assert http_url(ready) == url


PROBED = replace(DEPLOYMENT, links=(replace(DEPLOYMENT.links[0], is_probed=True),))
OK_PROBE = {
    "link": "l",
    "state": "ok",
    "reason": None,
    "sent": 9,
    "received": 8,
    "lost": 0,
    "doubled": 0,
    "out_of_order": 0,
    "altered": 0,
    "last_arrival_age_seconds": 0.5,
    "latency_ms": {"p50": 2.0, "p99": 4.0, "last": 3.0, "counts": [1, 2]},
}
LOST_PROBE = {**OK_PROBE, "state": "degraded", "reason": "1 record lost", "lost": 1}


def probed_link(state: str, probes: Any) -> tuple[dict[str, Any], str]:
    """Return the link of the document, and the state of the deployment."""
    status = assemble_status(
        PROBED, report(*ALL), {"l": {"name": "l", "state": state}}, probes=probes
    )
    return status["links"][0], status["state"]


def test_a_link_has_what_its_probe_says() -> None:
    link, overall = probed_link("RUNNING", {"l": OK_PROBE})
    assert (link["state"], overall) == ("running", "running")
    assert link["probe"] == {
        **{key: value for key, value in OK_PROBE.items() if key not in ("link", "latency_ms")},
        "latency_ms": {"p50": 2.0, "p99": 4.0, "last": 3.0},
    }


@pytest.mark.parametrize(
    ("said", "state", "reason"),
    [
        ("RUNNING", "degraded", "its probe: 1 record lost"),
        ("CATCHING_UP", "degraded", "its probe: 1 record lost"),
        ("HELD", "held", None),
        ("SOURCE_DOWN", "source_down", None),
        ("FAILED", "failed", None),
    ],
)
def test_a_probe_that_finds_fault_degrades_a_link_that_seems_well(
    said: str, state: str, reason: str | None
) -> None:
    link, overall = probed_link(said, {"l": LOST_PROBE})
    assert (link["state"], link["reason"], overall) == (state, reason, "degraded")
    assert (link["probe"]["reason"], link["probe"]["lost"]) == ("1 record lost", 1)


def test_an_aggregator_that_does_not_answer_leaves_the_probe_unknown() -> None:
    link, overall = probed_link("RUNNING", {})
    assert (link["state"], overall) == ("running", "running")
    probe = link["probe"]
    assert probe["state"] == "unknown"
    assert probe["reason"] == "the aggregator of ewr does not answer"
    assert (probe["sent"], probe["lost"], probe["latency_ms"]["p50"]) == (None, None, None)


def test_where_nobody_was_asked_no_probe_is_shown() -> None:
    link, overall = probed_link("RUNNING", None)
    assert (link["probe"], overall) == (None, "running")
