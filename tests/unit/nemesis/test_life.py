"""A workload whose checker saw nothing has not passed, nor one that goes on in part only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, cast

import pytest

from local_cluster.client.model import NewTopic
from tests.nemesis import life as life_module
from tests.nemesis.checkers.findings import Findings
from tests.nemesis.cluster import Cluster
from tests.nemesis.faults.table import FAULTS
from tests.nemesis.life import Life, is_possible, live, options_for
from tests.nemesis.outcome import ANOMALY, FAILED, NO_PROGRESS, NOT_RUN, OK, Outcome
from tests.nemesis.plan import Step
from tests.nemesis.workloads.admin_churn import AdminChurn
from tests.nemesis.workloads.rights_churn import RightsChurn
from tests.nemesis.workloads.table import WORKLOADS
from tests.nemesis.workloads.workload import Workload


class FakeCluster:
    """Makes nothing, and is in sync."""

    system = "ours"
    watched_topic = ""

    async def create_topics(self, *topics: NewTopic) -> None:
        pass

    async def until_in_sync(self, topics: Sequence[str]) -> None:
        pass


class Scripted(Workload):
    """Finds what it was told to find."""

    name: ClassVar = "scripted"
    title: ClassVar = ""
    progress_wanted: ClassVar = 0
    must_check: ClassVar = ("read", "polled")
    checked: Mapping[str, int]
    anomaly = False
    fails = False

    @property
    def topics(self) -> Sequence[NewTopic]:
        # Its replicas are not compared.
        return [NewTopic(name="t", assignments={}, configs={"cleanup.policy": "compact"})]

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        if self.fails:
            raise RuntimeError("client p hangs")

    async def check(self) -> Findings:
        findings = Findings()
        findings.checked.update(self.checked)
        if self.anomaly:
            findings.add("lost-write", "a")
        return findings


async def lived(
    directory: Path, checked: Mapping[str, int], *, anomaly: bool = False, fails: bool = False
) -> Outcome:
    cluster = cast("Cluster", FakeCluster())
    workload = Scripted(cluster, directory, 0)
    workload.checked, workload.anomaly, workload.fails = checked, anomaly, fails
    life = Life(cluster, [workload], lambda _: None)
    await life.play([])
    return life.outcome(workload, "none", 0)


async def test_what_must_be_checked_was_checked(tmp_path: Path) -> None:
    assert (await lived(tmp_path, {"read": 1, "polled": 1})).verdict == OK


@pytest.mark.parametrize("checked", [{"read": 1}, {"read": 1, "polled": 0}])
async def test_a_history_without_it_fails(tmp_path: Path, checked: Mapping[str, int]) -> None:
    outcome = await lived(tmp_path, checked)
    assert outcome.verdict == FAILED
    assert outcome.reason == "the checker saw none of: polled"


async def test_what_else_is_wrong_is_told_first(tmp_path: Path) -> None:
    assert (await lived(tmp_path, {}, anomaly=True)).verdict == ANOMALY
    failed = await lived(tmp_path, {}, fails=True)
    assert failed.verdict == FAILED
    assert "client p hangs" in failed.reason


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_says_what_it_must_check(name: str) -> None:
    assert WORKLOADS[name].must_check


def test_brokers_of_an_older_version_have_no_users() -> None:
    older, none = FAULTS["rolling-upgrade"], FAULTS["none"]
    assert is_possible([none], RightsChurn)
    assert not is_possible([none, older], RightsChurn)
    assert is_possible([older], AdminChurn)
    assert options_for([none], [AdminChurn, RightsChurn]).users
    assert not options_for([none], [AdminChurn]).users


async def test_what_is_not_possible_is_not_run(tmp_path: Path) -> None:
    step = Step(("rolling-upgrade",), 0.0)
    (outcome,) = await live("ours", "f", [step], ["rights-churn"], tmp_path, 1, print)
    assert (outcome.workload, outcome.verdict) == ("rights-churn", NOT_RUN)


class Halting(Scripted):
    """Of its two kinds of operation one goes on, or both do."""

    progress_wanted: ClassVar = 1
    halts = True

    @property
    def gone_on(self) -> Sequence[int]:
        self.progress += 1
        return [self.progress, 0 if self.halts else self.progress]


@pytest.mark.parametrize(("halts", "verdict"), [(True, NO_PROGRESS), (False, OK)])
async def test_every_kind_of_operation_has_to_go_on(
    halts: bool, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if halts:
        monkeypatch.setattr(life_module, "WARM_UP_SECONDS_MAX", 0.1)
    cluster = cast("Cluster", FakeCluster())
    workload = Halting(cluster, tmp_path, 0)
    workload.checked = {"read": 1, "polled": 1}
    workload.halts = halts
    life = Life(cluster, [workload], lambda _: None)
    await life.play([])
    assert life.outcome(workload, "none", 0).verdict == verdict


class Looking(Scripted):
    """Looks at whether it is measured, whenever it is asked how far it is."""

    progress_wanted: ClassVar = 3

    def __init__(self, cluster: Cluster, directory: Path, seed: int) -> None:
        super().__init__(cluster, directory, seed)
        self.looks: list[bool] = []

    @property
    def gone_on(self) -> Sequence[int]:
        self.looks.append(self.is_measured)
        return [len(self.looks)]


@pytest.mark.parametrize("wanted", [3, 1_000_000])
async def test_a_workload_knows_when_it_is_measured(
    wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Looking, "progress_wanted", wanted)
    if wanted > 3:
        monkeypatch.setattr(life_module, "WARM_UP_SECONDS_MAX", 0.1)
    cluster = cast("Cluster", FakeCluster())
    workload = Looking(cluster, tmp_path, 0)
    life = Life(cluster, [workload], lambda _: None)
    await life.play([])
    before, *meanwhile = workload.looks
    assert not before
    assert all(meanwhile)
    assert not workload.is_measured
