"""The alert rules, as Prometheus reads them. Pure.

Each names a runbook: docs/operations/runbooks/<name>.md, by the name in kebab-case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule: it fires once `expr` has had a result for `wait`."""

    name: str
    expr: str
    wait: str
    """How long, as Prometheus writes durations."""
    severity: Severity
    summary: str

    @property
    def runbook(self) -> str:
        """The file name of its runbook."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", self.name).lower() + ".md"


ALERTS: Final = (
    Alert(
        "BrokerDown",
        'up{role="broker"} == 0',
        "1m",
        "critical",
        "broker {{ $labels.broker }} of {{ $labels.cluster }} does not answer",
    ),
    Alert(
        "OfflinePartitions",
        "sum by (cluster) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        "30s",
        "critical",
        "{{ $value }} partitions of {{ $labels.cluster }} have no leader",
    ),
    Alert(
        "AbnormalControllerCount",
        "sum by (cluster) (kafka_controller_kafkacontroller_activecontrollercount) != 1",
        "1m",
        "critical",
        "{{ $labels.cluster }} has {{ $value }} controllers",
    ),
    Alert(
        "UnderMinIsr",
        "sum by (cluster) (kafka_server_replicamanager_underminisrpartitioncount) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions of {{ $labels.cluster }} refuse acks=all",
    ),
    Alert(
        "UnderReplicated",
        "sum by (cluster) (kafka_server_replicamanager_underreplicatedpartitions) > 0",
        "5m",
        "warning",
        "{{ $value }} partitions of {{ $labels.cluster }} lack a replica",
    ),
    Alert(
        "UncleanElection",
        "sum by (cluster) "
        "(increase(kafka_controller_controllerstats_uncleanleaderelections_total[10m])) > 0",
        "0s",
        "critical",
        "{{ $labels.cluster }} elected a leader outside the ISR: committed records may be lost",
    ),
    Alert(
        "OfflineLogDirectory",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        "0s",
        "critical",
        "a log directory of broker {{ $labels.broker }} of {{ $labels.cluster }} failed",
    ),
    Alert(
        "DiskAlmostFull",
        "heliograph_log_dir_usable_bytes / heliograph_log_dir_total_bytes < 0.15",
        "5m",
        "warning",
        "{{ $labels.logDirectory }} of broker {{ $labels.broker }} has less than 15 % left",
    ),
    Alert(
        "EventLoopOverloaded",
        'heliograph_event_loop_delay_seconds{quantile="0.99"} > 0.1',
        "10m",
        "warning",
        "broker {{ $labels.broker }} of {{ $labels.cluster }} answers more than 100 ms late",
    ),
    Alert(
        "ZooKeeperAway",
        "heliograph_zookeeper_connected == 0",
        "1m",
        "warning",
        "broker {{ $labels.broker }} of {{ $labels.cluster }} has no ZooKeeper",
    ),
    Alert(
        "CertificateExpires",
        "heliograph_certificate_expiry_timestamp_seconds - time() < 14 * 86400",
        "1h",
        "warning",
        "a certificate of broker {{ $labels.broker }} of {{ $labels.cluster }} expires in "
        "{{ $value | humanizeDuration }}",
    ),
    Alert(
        "GroupWithoutProgress",
        "sum by (cluster, consumergroup, topic) (kafka_consumergroup_lag) > 0 and "
        "sum by (cluster, consumergroup, topic) "
        "(increase(kafka_consumergroup_current_offset[15m])) == 0",
        "15m",
        "warning",
        "group {{ $labels.consumergroup }} has a lag on {{ $labels.topic }} and commits nothing",
    ),
    Alert(
        "LinkPartitionStopped",
        "sum by (link) (heliograph_mirror_failed) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions of link {{ $labels.link }} wait for an operator",
    ),
    Alert(
        "LinkLag",
        "max by (link) (heliograph_mirror_lag_seconds) > 300",
        "10m",
        "warning",
        "link {{ $labels.link }} is more than 5 minutes behind",
    ),
    Alert(
        "AuditFindings",
        "sum by (link, verdict) (heliograph_audit_findings) > 0",
        "0s",
        "critical",
        "the audit of link {{ $labels.link }} finds {{ $value }} batches {{ $labels.verdict }}",
    ),
    Alert(
        "ProbeRecordsLost",
        "sum by (link) (heliograph_probe_lost_records) > 0",
        "0s",
        "critical",
        "the probe of link {{ $labels.link }} lost records",
    ),
    Alert(
        "ProbeDegraded",
        "max by (link) (heliograph_probe_degraded) > 0",
        "2m",
        "critical",
        "the probe of link {{ $labels.link }} does not arrive, or arrives wrong",
    ),
    Alert(
        "MirrorWorkerDown",
        'up{role="mirror"} == 0',
        "2m",
        "warning",
        "the mirror worker at {{ $labels.instance }} into {{ $labels.cluster }} does not answer",
    ),
    Alert(
        "AggregatorDown",
        'up{role="aggregator"} == 0',
        "2m",
        "warning",
        "the aggregator of {{ $labels.cluster }} does not answer: probes and audits stand still",
    ),
    Alert(
        "SupervisorDown",
        'up{role="supervisor"} == 0',
        "5m",
        "warning",
        "the supervisor at {{ $labels.instance }} does not answer: what ends there stays down",
    ),
    Alert(
        "ProcessRestarts",
        "increase(heliograph_supervisor_daemon_restarts_total[15m]) > 3",
        "0s",
        "warning",
        "{{ $labels.daemon }} ended by itself {{ $value | humanize }} times in 15 minutes",
    ),
)


def rules(alerts: Sequence[Alert], runbooks: str) -> dict[str, Any]:
    """Return the rule file; `runbooks` is the address of the folder of runbooks."""
    return {
        "groups": [
            {
                "name": "heliograph",
                "rules": [
                    {
                        "alert": f"Heliograph{each.name}",
                        "expr": each.expr,
                        "for": each.wait,
                        "labels": {"severity": each.severity},
                        "annotations": {
                            "summary": each.summary,
                            "runbook_url": f"{runbooks.rstrip('/')}/{each.runbook}",
                        },
                    }
                    for each in alerts
                ],
            }
        ]
    }
