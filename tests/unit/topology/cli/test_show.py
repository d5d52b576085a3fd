"""Output is complete, for people and for programs."""

from __future__ import annotations

from typing import Any

import pytest

from topology.cli.show import UpProgress, print_bootstraps, print_gaps, print_status
from topology.deployment.plan import Step


def status(**more: Any) -> dict[str, Any]:
    return {
        "name": "d",
        "topology_file": "/d.yaml",
        "state": "running",
        "supervisor": {"pid": 7},
        "clusters": [],
        "links": [],
        "mirrors": [],
        "aggregators": [],
        "daemons": [],
        "problems": [],
        **more,
    }


def test_addresses_are_whole_where_a_program_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap = ",".join(f"kafka-{number}.example:9092" for number in range(12))
    cluster = {"name": "lga", "kind": "external", "bootstrap": bootstrap, "brokers": None}
    print_status(status(clusters=[cluster]))
    assert f" {bootstrap} " in capsys.readouterr().out


def test_every_other_host_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"label": "broker [2] of ewr", "state": "running", "pid": 7, "restarts": 0}
    told = {"host": "10.0.0.2", "state": "answers", "reason": None, "file": "behind"}
    silent = {"host": "10.0.0.3", "state": "wrong_token", "reason": "it refuses", "file": None}
    elsewhere = [
        {"label": label, "host": host, "state": state, "reason": None}
        for label, host, state in (
            ("broker 2", "10.0.0.2", "answers"),
            ("broker 3", "10.0.0.3", "answers"),
            ("mirror", "10.0.0.2", "unreachable"),
        )
    ]
    hosts = [{**told, "generation": 4, "daemons": [row]}, {**silent, "daemons": []}]
    print_status(status(hosts=hosts, elsewhere=elsewhere))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[2:] == [
        "host process state pid reason",
        "10.0.0.2 broker [2] of ewr running 7",
        "10.0.0.3 - wrong_token - it refuses",
        "10.0.0.2 is behind: it runs generation 4 of the file",
        "on other hosts host state reason",
        "broker 3 10.0.0.3 answers",
        "mirror 10.0.0.2 unreachable",
    ]


def test_words_in_brackets_are_words(capsys: pytest.CaptureFixture[str]) -> None:
    gap = {
        "link": "jfk-nyc",
        "topic": "flights",
        "partition": 0,
        "source_from": 3,
        "source_to": None,
        "records_count": None,
        "reason": "too_large",
        "noticed_at_ms": 0,
        "detail": "the target says: [bold] is no topic",
    }
    print_gaps([gap])
    line = capsys.readouterr().out.splitlines()[1]
    assert line.split()[:5] == ["jfk-nyc", "flights-0", "3", "-", "-"]
    assert "the target says: [bold] is no topic" in line


def test_a_problem_is_said_with_its_reason_and_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = {"subject": "link l", "state": "held", "reason": "why [not]", "remedy": "resume it"}
    for printed in (print_status, print_bootstraps):
        printed(status(state="degraded", problems=[problem]))
        lines = capsys.readouterr().out.splitlines()
        assert lines[-3:] == ["not well:", "  link l: held: why [not]", "      resume it"]


def test_people_see_where_workers_and_aggregators_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mirror = {"cluster": "nyc", "url": "http://127.0.0.1:8083", "state": "running"}
    aggregator = {"cluster": "nyc", "url": None, "state": "stopped"}
    for printed in (print_status, print_bootstraps):
        printed(status(mirrors=[mirror], aggregators=[aggregator]))
        out = capsys.readouterr().out
        assert "mirror into nyc: http://127.0.0.1:8083 running\n" in out
        assert "aggregator of nyc: - stopped\n" in out


RESTART = Step(action="restart", key="b", label="broker 1 of ewr", reasons=("config",))


@pytest.mark.parametrize("steps", [[], [RESTART]])
def test_up_says_what_it_does_and_not_yet_how_it_went(
    steps: list[Step], capsys: pytest.CaptureFixture[str]
) -> None:
    UpProgress(enabled=True).plan("d", steps)
    said = capsys.readouterr().err
    assert said.startswith("restart broker 1 of ewr" if steps else "d: nothing to start, change")
    assert "runs" not in said


PROBE: dict[str, Any] = {
    "state": "ok",
    "reason": None,
    "sent": 9,
    "received": 8,
    "latency_ms": {"p50": 2.04, "p99": 40.0, "last": 3.0},
}
UNKNOWN_PROBE = {
    "state": "unknown",
    "reason": "the aggregator of nyc does not answer",
    "sent": None,
    "received": None,
    "latency_ms": {"p50": None, "p99": None, "last": None},
}


@pytest.mark.parametrize(
    ("probe", "line"),
    [
        (PROBE, "probe of l: ok; 8 of 9 records arrived; p50 2.0 ms, p99 40.0 ms"),
        (
            {**PROBE, "state": "degraded", "reason": "1 record lost (sequence number 3)"},
            "probe of l: degraded; 1 record lost (sequence number 3); 8 of 9 records arrived; "
            "p50 2.0 ms, p99 40.0 ms",
        ),
        (UNKNOWN_PROBE, "probe of l: unknown; the aggregator of nyc does not answer"),
    ],
)
def test_a_probed_link_has_a_line(
    probe: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("topics", "partitions", "lag_records", "lag_seconds", "gaps", "paused", "throttle")
    figures = dict.fromkeys(names)
    link = {"name": "l", "source": "a", "target": "b", "state": "running", **figures}
    print_status(status(links=[{**link, "probe": probe}, {**link, "name": "m", "probe": None}]))
    lines = capsys.readouterr().out.splitlines()
    assert [each for each in lines if each.startswith("probe")] == [line]
