"""What commands on a deployment print for people and for programs, over one that is stopped.

Where a command would need a cluster, the function that asks the cluster is replaced.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.asked_commands import AskedCommands, stopped_deployment
from topology.deployment.deployment import Deployment
from topology.deployment.plan import Step
from topology.deployment.state_dir import StateDir
from topology.operate.up import Up
from topology.operate.znode_acls import Counts
from topology.problems import DeployError
from topology.status.observe import current_status
from topology.upgrade.plan_znode import StoredPlan
from topology.upgrade.upgrade_plan import HostTurn, UpgradePlan

TOPOLOGY = """\
name: shop
zookeepers: [{name: main, port: 12181}]
clusters:
  - {name: ewr, brokers: [{id: 1, port: 19091}]}
  - {name: nyc, kind: aggregate, brokers: [{id: 1, port: 19092}]}
links:
  - {source: ewr, target: nyc, topics: [flights]}
"""
EXTERNAL = """\
name: shop
clusters: [{name: a, external: "127.0.0.1:1"}, {name: b, external: "127.0.0.1:2"}]
links: [{source: a, target: b, topics: [t]}]
"""
GAP = {
    "link": "ewr-nyc", "topic": "flights", "partition": 0, "source_from": 3, "source_to": 5,
    "records_count": None, "reason": "EXPIRED", "noticed_at_ms": 0, "detail": "gone",
}  # fmt: skip
ZNODES = {"/cluster/id": b"{}", "/brokers/topics/flights": b'{"version": 1}'}


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    found = StateDir(tmp_path / "state")
    found.create()
    return found


@pytest.fixture
def shop(state: StateDir) -> Deployment:
    return stopped_deployment(state, TOPOLOGY)


@pytest.fixture
def on(state: StateDir) -> AskedCommands:
    return AskedCommands("--state-dir", str(state.path))


def test_up(
    on: AskedCommands, state: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(EXTERNAL)
    stopped_deployment(state, EXTERNAL)
    step = Step(action="start", key="mirror-b", label="mirror into b")
    result = Up(
        steps=(step,),
        status={**current_status(state), "state": "running", "problems": []},
        rights={},
        warnings=("the clock is late",),
    )
    monkeypatch.setattr("topology.operate.up.up", lambda *_, **__: result)
    lines = on.lines("up", str(file))
    assert lines[:3] == ["shop: running", "cluster kind bootstrap", "a external 127.0.0.1:1"]
    assert lines[-1] == "note: the clock is late"
    document = on.json("up", str(file))
    assert (document["state"], document["warnings"]) == ("running", ["the clock is late"])
    assert [each["key"] for each in document["steps"]] == ["mirror-b"]

    def refuse(*_: object, **__: object) -> Up:
        raise DeployError("port 1 is in use", ["by somebody"])

    monkeypatch.setattr("topology.operate.up.up", refuse)
    assert on.refusal("up", str(file)) == "heliograph: port 1 is in use\nby somebody\n"


def test_dashboards(on: AskedCommands, shop: Deployment, tmp_path: Path) -> None:
    directory = tmp_path / "monitoring"
    lines = on.lines("dashboards", "-d", str(directory))
    assert lines == sorted(str(path) for path in directory.iterdir())
    assert on.json("dashboards", "-d", str(directory)) == {"files": lines}
    (tmp_path / "file").touch()
    assert "cannot write" in on.refusal("dashboards", "-d", str(tmp_path / "file" / "below"))


def test_gaps(on: AskedCommands, shop: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topology.mirror.gaps.read_gaps", lambda _: [GAP])
    assert on.lines("gaps")[1].startswith("ewr-nyc flights-0 3 5 - EXPIRED 1970-01-01T00:00:00Z")
    assert on.json("gaps") == {"gaps": [GAP]}
    monkeypatch.setattr("topology.mirror.gaps.read_gaps", lambda _: [])
    assert on.lines("gaps") == ["nothing was skipped"]


def test_audit(on: AskedCommands, shop: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    link: dict[str, Any] = {
        "link": "ewr-nyc", "source": "ewr", "target": "nyc", "age_seconds": 1.0,
        "problem": None, "partitions": [], "is_well": True,
    }  # fmt: skip
    monkeypatch.setattr("topology.audit.reading.read_audit", lambda *_, **__: [link])
    assert on.lines("audit") == ["link ewr-nyc: ewr -> nyc: nothing is mapped yet"]
    assert on.json("audit") == {"links": [link]}
    link["is_well"] = False
    assert on.json("audit", code=4)["links"] == [link]
    assert "neither a duration" in on.refusal("audit", "--since", "soon", code=2)


def test_completeness(on: AskedCommands, shop: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = {
        "datacenter": "ewr", "topic": "flights", "partition": None, "reason": "behind",
        "since_ms": None,
    }  # fmt: skip
    part = {
        "datacenter": "ewr", "complete_through_ms": 0, "state": "complete", "gaps": 0,
        "held_back_by": holder,
    }  # fmt: skip
    answer = {"complete_through_ms": 0, "state": "complete", "held_back_by": holder}
    found: dict[str, Any] = {
        "strict": answer,
        "fast": {**answer, "missing": [holder]},
        "topics": [{"topic": "flights", "datacenters": [part]}],
    }
    monkeypatch.setattr("topology.supervisor.control_client.supervisor_status", lambda _: {})
    monkeypatch.setattr("topology.status.reports.fetch_completeness", lambda *_: {"nyc": found})
    lines = on.lines("completeness")
    assert lines[0] == (
        "nyc: complete through 1970-01-01T00:00:00.000Z; held back by ewr flights: behind"
    )
    assert lines[-1] == "flights ewr 1970-01-01T00:00:00.000Z complete 0 ewr flights: behind"
    assert on.json("completeness") == {"aggregates": [{**found, "aggregate": "nyc"}]}
    monkeypatch.setattr("topology.status.reports.fetch_completeness", lambda *_: {"nyc": None})
    assert "for a topic 'x'" in on.refusal("completeness", "--topic", "x")


def test_rebalance(on: AskedCommands, shop: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    move = {"topic": "flights", "partition": 0, "from": [1], "to": [2], "bytes": 1500}
    document = {"moves": [move], "under_way": [], "bytes": 1500, "brokers": [], "done": True}

    def moved(_: object, *, on_plan: Any, on_progress: Any) -> dict[str, Any]:
        on_plan(document)
        return document

    monkeypatch.setattr("topology.rebalance.run.rebalance", moved)
    assert on.lines("rebalance", "ewr")[1:3] == [
        "flights-0 1 2 1.5 kB",
        "1 partitions, 1.5 kB to copy",
    ]
    assert on.json("rebalance", "ewr") == document
    assert "no cluster 'ewt'; did you mean 'ewr'?" in on.refusal("rebalance", "ewt", code=2)
    assert "there are: ewr, nyc" in on.refusal("rebalance", code=2)


def test_backup_and_restore(
    on: AskedCommands, shop: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.backup.znodes.read_znodes", lambda _: ZNODES)
    file, topology = tmp_path / "backup.json", tmp_path / "state" / "topology.yaml"
    lines = on.lines("backup", "--to", str(file), "--cluster", "ewr")
    assert lines == [
        "ewr: 2 znodes, 1 topics",
        f"{file} holds credentials; only its owner can read it (mode 0600)",
    ]
    other = tmp_path / "other.json"
    document = on.json("backup", "--to", str(other), "--cluster", "ewr")
    assert document == {"file": str(other), "clusters": {"ewr": {"znodes": 2, "topics": 1}}}
    assert json.loads(other.read_text())["clusters"].keys() == {"ewr"}
    assert "exists; nothing was written" in on.refusal("backup", "--to", str(file), code=2)
    wrong = on.refusal("backup", "--to", str(tmp_path / "x"), "--cluster", "ewt")
    assert "did you mean 'ewr'?" in wrong

    written: list[Any] = []
    monkeypatch.setattr("topology.backup.command._start_zookeepers", lambda *_: None)
    monkeypatch.setattr(
        "topology.backup.znodes.write_znodes", lambda place, found: written.append(found)
    )
    lines = on.lines("restore", str(file), str(topology))
    assert lines == [
        "ewr: restored 2 znodes, 1 topics",
        f"`heliograph up {topology}` starts the brokers",
    ]
    document = on.json("restore", str(file), str(topology))
    assert document == {"clusters": {"ewr": {"znodes": 2, "topics": 1}}}
    assert [each.keys() for each in written] == [ZNODES.keys()] * 2
    file.write_text("{}")
    assert str(file) in on.refusal("restore", str(file), str(topology), code=2)


def test_doctor(on: AskedCommands, shop: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = {
        "subject": "ewr", "code": "disk_full", "sentence": "a disk is full", "remedy": "free some",
        "is_fault": True,
    }  # fmt: skip
    document = {"is_well": False, "checked": {"links": 1}, "findings": [finding]}
    monkeypatch.setattr("topology.doctor.command._examine", lambda *_: document)
    lines = on.lines("doctor", code=4)
    assert any("a disk is full" in line for line in lines) and "free some" in " ".join(lines)
    assert on.json("doctor", code=4) == document


def test_support_bundle(
    on: AskedCommands, shop: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.doctor.command._examine", lambda *_: {"is_well": True})
    out = tmp_path / "bundle.tar.gz"
    first, second = on.lines("support-bundle", "--out", str(out))
    assert first.startswith(f"wrote {out}: ") and "(hidden)" in second
    assert "name another file" in on.refusal("support-bundle", "--out", str(out), code=2)
    out.unlink()
    document = on.json("support-bundle", "--out", str(out))
    assert (document["bundle"], document["bytes"]) == (str(out), out.stat().st_size)
    assert "doctor.json" in document["files"]


def test_why(on: AskedCommands, shop: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    cause = {"code": "paused", "sentence": "it is paused", "remedy": "resume it", "is_fault": True}
    answer = {"link": "ewr-nyc", "is_well": False, "causes": [cause]}
    document = {"name": "t", "kind": "topic", "is_well": False, "answers": [answer]}
    monkeypatch.setattr("topology.why.command._explain", lambda *_: document)
    assert on.lines("why", "t", code=4) == ["topic t, link ewr-nyc:", "it is paused", "resume it"]
    assert on.json("why", "t", code=4) == document
    assert "did you mean 'ewr-nyc'?" in on.refusal("why", "t", "--link", "ewr-nyd", code=2)


def test_zookeeper(on: AskedCommands, shop: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(open=2, secured=3)
    monkeypatch.setattr("topology.operate.znode_acls.count_acls", lambda _: counts)
    assert on.lines("zookeeper", "status")[0] == "ewr: 5 znodes: 3 with Kafka's ACLs, 2 open"
    clusters = on.json("zookeeper", "status")["clusters"]
    assert clusters["ewr"] == {"open": 2, "secured": 3, "other": 0, "changed": 0}
    assert "no cluster" in on.refusal("zookeeper", "status", "-c", "ewt")
    for action in ("secure", "unsecure"):
        said = on.refusal("zookeeper", action)
        assert "have no user in ZooKeeper; nothing was changed" in said
    monkeypatch.setattr("topology.rights.zookeeper_command._migrate", lambda *_, secure: counts)
    for action in ("secure", "unsecure"):
        assert on.lines("zookeeper", action)[1].startswith("nyc: 5 znodes: 3 with Kafka's ACLs")


def test_upgrade(on: AskedCommands, shop: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = UpgradePlan(
        number=1,
        wanted="2.0",
        former="1.0",
        hosts=(HostTurn(name="h1", state="failed", reason="no disk"),),
        timeout_s=1.0,
        begun_by="h1",
        begun_at="now",
    )
    stored = StoredPlan(plan=plan, turn=None)
    monkeypatch.setattr("topology.upgrade.plan_znode.read_plan", lambda _: stored)
    monkeypatch.setattr("topology.upgrade.plan_znode.read_levels", lambda _: {"ewr": 1})
    lines = on.lines("upgrade", "--status", code=4)
    assert lines[:4] == [
        "shop: upgrade from 1.0 to 2.0 is failed (begun by h1, now)",
        "h1: failed",
        "no disk",
        "format levels: ewr 1",
    ]
    document = on.json("upgrade", "--status", code=4)
    assert (document["state"], document["plan"]["wanted"]) == ("failed", "2.0")
