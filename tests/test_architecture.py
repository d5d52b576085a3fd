"""The arrows between the packages, and what a core may not import (see the top README)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("local_cluster", "mirror_maker", "aggregator", "spark_global", "topology")

PURE = ("local_cluster.wire", "local_cluster.records")
CLIENT = "local_cluster.client"
FORMATS = "mirror_maker.formats"
SETTINGS = "local_cluster.settings"
LOG_CONFIG = "local_cluster.log.config"
CONTROLLER = "local_cluster.controller"
CONTROLLER_CORE = tuple(f"{CONTROLLER}.{room}" for room in ("model", "zk", "decisions"))

# Longest prefix wins. What a module may import of ours, as prefixes; its own part is implied.
ALLOWED: dict[str, tuple[str, ...]] = {
    "local_cluster.wire": (),
    "local_cluster.records": (),
    "local_cluster.client": PURE,
    "local_cluster": ("local_cluster",),
    f"{CONTROLLER}.model": PURE,
    f"{CONTROLLER}.zk": (f"{CONTROLLER}.model", *PURE),
    f"{CONTROLLER}.decisions": (f"{CONTROLLER}.model", LOG_CONFIG, SETTINGS, *PURE),
    f"{CONTROLLER}.active": (*CONTROLLER_CORE, SETTINGS, CLIENT, *PURE),
    "mirror_maker.formats": PURE,
    "mirror_maker": (*PURE, CLIENT),
    "aggregator": (*PURE, CLIENT, FORMATS),
    "spark_global": (*PURE, CLIENT, FORMATS),
    "topology": PACKAGES,
}

# The broker's own code must not depend on the client beside it, except where brokers talk.
IO_MODULES = {"asyncio", "socket", "os", "time", "random", "kazoo", "threading", "subprocess"}
CORES = (
    "local_cluster/wire/*.py",
    "local_cluster/records/*.py",
    "local_cluster/groups/shard.py",
    "local_cluster/groups/shard_state.py",
    "local_cluster/groups/offset_requests.py",
    "local_cluster/groups/record_reader.py",
    "local_cluster/groups/consumer/*.py",
    "local_cluster/groups/classic/group.py",
    "local_cluster/groups/classic/membership.py",
    "local_cluster/groups/classic/rebalance.py",
    "local_cluster/groups/requests.py",
    "local_cluster/groups/timers.py",
    "local_cluster/coordinator_runtime/outcome.py",
    "local_cluster/coordinator_runtime/batches.py",
    "local_cluster/coordinator_runtime/partitioning.py",
    "local_cluster/groups/classic/classic_fsm.py",
    "local_cluster/groups/offsets.py",
    "local_cluster/groups/classic/subscription.py",
    "local_cluster/groups/topic_deletions.py",
    "local_cluster/groups/records.py",
    "local_cluster/controller/model/*.py",
    "local_cluster/controller/decisions/*.py",
    "local_cluster/backoff.py",
    "local_cluster/broker_configs.py",
    "local_cluster/fetch_sessions/*.py",
    "local_cluster/replication/future_replica.py",
    "local_cluster/replication/in_sync.py",
    "local_cluster/replication/offline_replicas.py",
    "local_cluster/replication/rate_quota.py",
    "local_cluster/replication/replica_selector.py",
    "local_cluster/replication/stray_replicas.py",
    "local_cluster/replication/truncation.py",
    "local_cluster/replication/follower/fetch_session.py",
    "local_cluster/replication/follower/fetch_states.py",
    "local_cluster/replication/follower/response_rules.py",
    "mirror_maker/formats/*.py",
    "mirror_maker/rules/*.py",
    "mirror_maker/tail/*.py",
    "mirror_maker/copy/*.py",
    "mirror_maker/resume/pairing.py",
    "mirror_maker/audit/cpu_budget.py",
    "mirror_maker/audit/evidence.py",
    "mirror_maker/audit/explained_findings.py",
    "mirror_maker/audit/findings.py",
    "mirror_maker/audit/log_check.py",
    "mirror_maker/audit/receipt_queue.py",
    "mirror_maker/audit/tally.py",
    "mirror_maker/repair/plan.py",
    "mirror_maker/repair/orders.py",
    "mirror_maker/link/stalled_partitions.py",
    "aggregator/audit/audit_document.py",
    "aggregator/audit/link_audit.py",
    "aggregator/audit/reconciliation.py",
    "mirror_maker/metrics/exposition.py",
    "mirror_maker/metrics/latency.py",
    "aggregator/audit/alignment.py",
    "aggregator/maps/catalog.py",
    "aggregator/audit/fingerprint.py",
    "aggregator/link_lag.py",
    "aggregator/maps/link_map.py",
    "aggregator/maps/translation.py",
    "aggregator/probe/latencies.py",
    "aggregator/probe/ledger.py",
    "aggregator/probe/link_probe.py",
    "aggregator/probe/record.py",
    "aggregator/probe/settings.py",
    "aggregator/audit/record_audit.py",
    "aggregator/audit/record_findings.py",
    "topology/audit/document.py",
    "topology/deployment/plan.py",
    "topology/status/probes.py",
    "topology/deployment/removals.py",
    "topology/rebalance/planner.py",
    "topology/deployment/broker_daemons.py",
    "topology/deployment/link_daemons.py",
    "topology/deployment/render.py",
    "topology/file/mm2_keys.py",
    "topology/file/mm2_properties.py",
    "topology/file/pydantic_errors.py",
    "topology/model/*.py",
    "topology/rules/*.py",
    "spark_global/source/columns.py",
    "spark_global/source/coverage.py",
    "spark_global/source/decoding.py",
    "spark_global/source/provenance.py",
    "spark_global/source/pruning.py",
    "topology/supervisor/reconcile.py",
    "topology/status/diagnosis.py",
    "topology/operate/restart_stages.py",
)


def imported_modules(path: Path) -> set[str]:
    """Absolute names of everything that a file imports."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{module}.{alias.name}" for alias in node.names} | {module}
    return names


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def covered(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def test_arrows_point_one_way() -> None:
    wrong: list[str] = []
    for path in sources():
        module = module_name(path)
        home = max((prefix for prefix in ALLOWED if covered(module, prefix)), key=len)
        for name in imported_modules(path):
            ours = any(covered(name, package) for package in PACKAGES)
            allowed = (home, *ALLOWED[home])
            # `import local_cluster` alone, the parent of an allowed package, carries nothing.
            parent = any(covered(prefix, name) for prefix in allowed)
            if ours and not parent and not any(covered(name, prefix) for prefix in allowed):
                wrong.append(f"{module} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("pattern", CORES)
def test_cores_do_no_io(pattern: str) -> None:
    paths = sorted(ROOT.glob(pattern))
    assert paths, f"{pattern} names no file: update the list"
    for path in paths:
        top_levels = {name.split(".")[0] for name in imported_modules(path)}
        assert not top_levels & IO_MODULES, f"{path.name} imports {top_levels & IO_MODULES}"


def test_the_walk_sees_every_form_of_import(tmp_path: Path) -> None:
    sample = ROOT / "topology" / "supervisor" / "supervisor.py"
    names = imported_modules(sample)
    assert "asyncio" in names
    assert any(covered(name, "topology") for name in names)


SINGLE_BASES = {"NamedTuple", "Protocol", "TypedDict", "IntEnum", "Enum", "Exception", "ValueError"}


@pytest.mark.parametrize("folder", ["wire", "records", "handlers"])
def test_hot_modules_use_composition(folder: str) -> None:
    """mypyc compiles these rooms: one base at most, and no container of Python's as a base."""
    for path in sorted((ROOT / "local_cluster" / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
                assert len(bases) <= 1 and set(bases) <= SINGLE_BASES, f"{path}: {node.name}"
