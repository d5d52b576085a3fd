"""Each alert fires on planted series, and none on those of a sound deployment: Prometheus decides.

`promtool test rules` plays the series against the rules that `heliograph dashboards` writes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from topology.dashboards.alerts import ALERTS, Alert, rules

pytestmark = pytest.mark.real

MINUTES = 90
DAY_SECONDS = 86_400
CLUSTER = {"cluster": "jfk"}
BROKER = {**CLUSTER, "broker": "1"}
LINK = {"link": "jfk-nyc"}
GROUP = {**CLUSTER, "consumergroup": "boards", "topic": "flights"}


@dataclass(frozen=True)
class Plan:
    """Series of one metric: labels, and samples of each minute as promtool writes them."""

    metric: str
    labels: dict[str, str]
    sound: str
    faulty: str

    def series(self, *, is_faulty: bool) -> dict[str, str]:
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        values = self.faulty if is_faulty else self.sound
        return {"series": f"{self.metric}{{{labels}}}", "values": values}


def constant(value: float) -> str:
    return f"{value:g}+0x{MINUTES}"


def growing(step: int) -> str:
    return f"0+{step}x{MINUTES}"


PLANS = {
    "BrokerDown": [Plan("up", {**BROKER, "role": "broker"}, constant(1), constant(0))],
    "OfflinePartitions": [
        Plan(
            "kafka_controller_kafkacontroller_offlinepartitionscount",
            CLUSTER,
            constant(0),
            constant(2),
        )
    ],
    "AbnormalControllerCount": [
        Plan(
            "kafka_controller_kafkacontroller_activecontrollercount",
            CLUSTER,
            constant(1),
            constant(0),
        )
    ],
    "UnderMinIsr": [
        Plan(
            "kafka_server_replicamanager_underminisrpartitioncount",
            CLUSTER,
            constant(0),
            constant(1),
        )
    ],
    "UnderReplicated": [
        Plan(
            "kafka_server_replicamanager_underreplicatedpartitions",
            CLUSTER,
            constant(0),
            constant(1),
        )
    ],
    "UncleanElection": [
        Plan(
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            CLUSTER,
            constant(3),
            growing(1),
        )
    ],
    "OfflineLogDirectory": [
        Plan("kafka_log_logmanager_offlinelogdirectorycount", BROKER, constant(0), constant(1))
    ],
    "DiskAlmostFull": [
        Plan(
            "heliograph_log_dir_usable_bytes",
            {**BROKER, "logDirectory": "/d"},
            constant(50),
            constant(10),
        ),
        Plan(
            "heliograph_log_dir_total_bytes",
            {**BROKER, "logDirectory": "/d"},
            constant(100),
            constant(100),
        ),
    ],
    "EventLoopOverloaded": [
        Plan(
            "heliograph_event_loop_delay_seconds",
            {**BROKER, "quantile": "0.99"},
            constant(0.01),
            constant(0.2),
        )
    ],
    "ZooKeeperAway": [Plan("heliograph_zookeeper_connected", BROKER, constant(1), constant(0))],
    "CertificateExpires": [
        Plan(
            "heliograph_certificate_expiry_timestamp_seconds",
            {**BROKER, "listener": "SECURE"},
            constant(90 * DAY_SECONDS),
            constant(3 * DAY_SECONDS),
        )
    ],
    "GroupWithoutProgress": [
        Plan("kafka_consumergroup_lag", GROUP, constant(7), constant(7)),
        Plan("kafka_consumergroup_current_offset", GROUP, growing(5), constant(5)),
    ],
    "LinkPartitionStopped": [Plan("heliograph_mirror_failed", LINK, constant(0), constant(1))],
    "LinkLag": [Plan("heliograph_mirror_lag_seconds", LINK, constant(2), constant(400))],
    "AuditFindings": [
        Plan("heliograph_audit_findings", {**LINK, "verdict": "LOST"}, constant(0), constant(1))
    ],
    "ProbeRecordsLost": [Plan("heliograph_probe_lost_records", LINK, constant(0), constant(1))],
    "ProbeDegraded": [Plan("heliograph_probe_degraded", LINK, constant(0), constant(1))],
    "MirrorWorkerDown": [Plan("up", {**CLUSTER, "role": "mirror"}, constant(1), constant(0))],
    "AggregatorDown": [Plan("up", {**CLUSTER, "role": "aggregator"}, constant(1), constant(0))],
    "SupervisorDown": [Plan("up", {"role": "supervisor"}, constant(1), constant(0))],
    "ProcessRestarts": [
        Plan(
            "heliograph_supervisor_daemon_restarts_total",
            {"daemon": "mirror-nyc", "role": "mirror"},
            constant(9),
            growing(1),
        )
    ],
}


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool: it comes with Prometheus")
    return found


def fired(tool: str, directory: Path, faulty: set[str]) -> set[str]:
    """Play the series of all plans, those of `faulty` alerts faulty; return the alerts that fire.

    Promtool names each alert that fires although the test expects none.
    """
    series = [
        plan.series(is_faulty=name in faulty) for name, plans in PLANS.items() for plan in plans
    ]
    silent = [
        {"eval_time": f"{MINUTES}m", "alertname": f"Heliograph{each.name}", "exp_alerts": []}
        for each in ALERTS
    ]
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": silent}],
    }
    yaml = YAML()
    yaml.dump(rules(ALERTS, "https://docs.example"), directory / "rules.yml")
    yaml.dump(test, directory / "test.yml")
    done = subprocess.run(
        [tool, "test", "rules", "test.yml"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    names = set(re.findall(r"alertname: Heliograph(\w+)", said))
    assert bool(names) == bool(done.returncode), said
    return names


def test_there_is_a_plan_for_each_alert() -> None:
    assert set(PLANS) == {each.name for each in ALERTS}


def test_a_sound_deployment_fires_nothing(promtool: str, tmp_path: Path) -> None:
    assert fired(promtool, tmp_path, set()) == set()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda each: each.name)
def test_an_alert_fires_on_its_fault(alert: Alert, promtool: str, tmp_path: Path) -> None:
    assert fired(promtool, tmp_path, {alert.name}) == {alert.name}
