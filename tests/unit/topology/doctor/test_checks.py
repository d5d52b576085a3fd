"""What the doctor says about planted faults, and about what is well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from topology.doctor.checks import DoctorFacts, doctor_document, doctor_lines, examine
from topology.why.facts import ClusterFacts, PartitionFacts, TopicFacts

PART = PartitionFacts(1, (1, 2), (1, 2))
CLUSTER = ClusterFacts(
    name="dc1", brokers=frozenset({1, 2}), topics={"t": TopicFacts(partitions={0: PART})}
)
WELL = DoctorFacts(
    status={"problems": [], "daemons": []},
    clusters=[CLUSTER],
    links=[],
    own_clusters=frozenset({"dc1"}),
    open_files_max=100_000,
    free_bytes={"/state": 10**12},
)


def cluster(**values: Any) -> DoctorFacts:
    return replace(WELL, clusters=[replace(CLUSTER, **values)])


def partition(part: PartitionFacts, **configs: str) -> DoctorFacts:
    return cluster(topics={"t": TopicFacts(partitions={0: part}, configs=configs)})


PROBLEM = {"subject": "broker 1 of dc1", "state": "stopped", "reason": "x", "remedy": "start it"}
RESTARTED = {"label": "broker 1", "state": "running", "restarts": 3, "log": "/l"}
CASES: dict[str, tuple[DoctorFacts, str, bool, str]] = {
    "a process that is down": (
        replace(WELL, status={"problems": [PROBLEM], "daemons": []}), "status", True, "start it"
    ),
    "a process that was restarted": (
        replace(WELL, status={"problems": [], "daemons": [RESTARTED]}), "restarted", False, "/l"
    ),
    "a file that is not valid": (
        replace(WELL, file_problem="f:1:1: x"), "file_invalid", True, "f:1:1"
    ),
    "a file that was not applied": (
        replace(WELL, plan=["start broker 3"]), "not_applied", False, "start broker 3"
    ),
    "too few open files": (replace(WELL, open_files_max=1024), "open_files", False, "ulimit"),
    "a full disk of the host": (replace(WELL, free_bytes={"/d": 1}), "disk_full", True, "/d has 1"),
    "a clock that differs": (
        replace(
            WELL,
            status={**WELL.status, "hosts": [{"host": "10.0.0.2", "clock_ahead_ms": -9_000}]},
        ),
        "clock",
        True,
        "10.0.0.2 is 9.0 s behind",
    ),
    "a secret that all may read": (
        replace(WELL, readable_secrets=["/s"]), "readable_secret", False, "chmod 600 /s"
    ),
    "a cluster that is silent": (
        cluster(silent="certificate has expired"), "certificate_expired", True, "renew"
    ),
    "a partition without a leader": (
        partition(PART._replace(leader=None)), "no_leader", True, "t-0"
    ),
    "a partition under its minimum": (
        partition(PART._replace(isr=(1,)), **{"min.insync.replicas": "2"}),
        "under_min_isr", True, "is 2",
    ),
    "a broker that is away": (
        cluster(brokers=frozenset({1})), "under_replicated", True, "broker 2 does not run"
    ),
    "a failed disk of a broker": (
        cluster(log_dirs=((1, "/d", "KAFKA_STORAGE_ERROR", None),)), "log_dir_offline", True, "/d"
    ),
    "topics with one replica": (
        partition(PartitionFacts(1, (1,), (1,))), "single_replica", False, "factor of 3"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_planted_fault_is_found(name: str) -> None:
    facts, code, is_fault, words = CASES[name]
    (finding,) = examine(facts)
    assert (finding.code, finding.is_fault) == (code, is_fault)
    assert words in f"{finding.sentence}; {finding.remedy}"
    lines = doctor_lines(doctor_document([finding], checked={"topics": 1}))
    assert lines[0].startswith("fault: " if is_fault else "advice: ")
    assert lines[-1] == f"{'not well' if is_fault else 'well'}; looked at 1 topics"


def test_a_deployment_that_is_well() -> None:
    assert examine(WELL) == []


def test_faults_come_first_and_a_list_has_an_end() -> None:
    topics = {"t": TopicFacts(partitions=dict.fromkeys(range(30), PART._replace(leader=None)))}
    found = examine(replace(cluster(topics=topics), open_files_max=1))
    assert [each.is_fault for each in found] == [True] * 21 + [False]
    assert "10 more partitions" in found[20].sentence
