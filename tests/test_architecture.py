"""Rules of imports: which folder may import which, and which modules do I/O (shells.txt)."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("local_cluster", "mirror_maker", "aggregator", "spark_global", "topology")

SHELLS = Path(__file__).with_name("shells.txt")

WIRE = ("local_cluster.wire", "local_cluster.records")
CLIENT = "local_cluster.client"
CONTROLLER = "local_cluster.controller"
CONTROLLER_CORE = tuple(f"{CONTROLLER}.{room}" for room in ("model", "zk", "decisions"))
COORDINATORS = "local_cluster.coordinator_runtime"
FORMATS = "mirror_maker.formats"
LOG = "local_cluster.log"
CONFIGS = "local_cluster.kafka_configs"
REPLICATION = "local_cluster.replication"
SETTINGS = "local_cluster.settings"
COUNTERS = "local_cluster.counters"
JSON = "local_cluster.foreign_json"
TEXT = "local_cluster.prometheus_text"
SYSTEMD = "local_cluster.systemd"
STARTING = "local_cluster.starting"
HTTP = "local_cluster.http_security"
PUSH = "local_cluster.monitoring.push"
BASE = tuple(f"local_cluster.{name}" for name in ("backoff", "clock", "network", "periodic"))
LEVELS = "local_cluster.log_levels"
LOGGING = (LEVELS, *(f"local_cluster.{name}" for name in ("log_format", "process_log")))

# Longest prefix wins. What a module may import of ours, as prefixes; its own part is implied.
ALLOWED: dict[str, tuple[str, ...]] = {
    "local_cluster.wire": (),
    "local_cluster.records": (),
    COUNTERS: (),
    TEXT: (),
    JSON: (),
    SYSTEMD: (),
    STARTING: (),
    PUSH: (TEXT, "local_cluster.periodic"),
    CLIENT: (JSON, *WIRE),
    CONFIGS: WIRE,
    LOG: ("local_cluster.clock", CONFIGS, *WIRE),
    "local_cluster.security.authentication": (
        JSON,
        f"{CLIENT}.auth",
        f"{CONTROLLER}.model",
        f"{CONTROLLER}.zk",
        *WIRE,
    ),
    HTTP: ("local_cluster.security.authentication", f"{CLIENT}.auth"),
    SETTINGS: (
        "local_cluster.broker_configs",
        f"{HTTP}.settings",
        "local_cluster.log_format",
        "local_cluster.security.authentication",
        f"{CLIENT}.auth",
    ),
    "local_cluster.fetch_sessions": WIRE,
    "local_cluster.security.authorization": (
        "local_cluster.security.authentication",
        f"{CONTROLLER}.model",
        f"{CONTROLLER}.zk",
        SETTINGS,
        "local_cluster.broker_configs",
        *BASE,
        *WIRE,
    ),
    "local_cluster.client_metrics": (f"{CONTROLLER}.model", SETTINGS, TEXT, *BASE, *WIRE),
    "local_cluster.quotas": (f"{CONTROLLER}.model", f"{CONTROLLER}.zk", SETTINGS, *BASE, *WIRE),
    f"{CONTROLLER}.model": (JSON, *WIRE),
    f"{CONTROLLER}.zk": (f"{CONTROLLER}.model", f"{CLIENT}.auth", *WIRE),
    f"{CONTROLLER}.decisions": (
        f"{CONTROLLER}.model",
        f"{LOG}.config",
        "local_cluster.broker_configs",
        CONFIGS,
        SETTINGS,
        *WIRE,
    ),
    f"{CONTROLLER}.active": (*CONTROLLER_CORE, SETTINGS, CLIENT, *WIRE),
    CONTROLLER: (SETTINGS, CLIENT, f"{LOG}.config", *BASE, *WIRE),
    REPLICATION: (CONTROLLER, COUNTERS, LOG, SETTINGS, *BASE, *WIRE),
    COORDINATORS: (CONTROLLER, LOG, REPLICATION, SETTINGS, *BASE, *WIRE),
    "local_cluster.groups": (COORDINATORS, CONFIGS, CONTROLLER, JSON, REPLICATION, SETTINGS, *WIRE),
    "local_cluster.transactions": (COORDINATORS, CONTROLLER, SETTINGS, *BASE, *WIRE),
    "local_cluster.handlers": (
        "local_cluster.broker_configs",
        "local_cluster.client_metrics",
        "local_cluster.features",
        "local_cluster.security",
        "local_cluster.fetch_sessions",
        "local_cluster.groups",
        "local_cluster.quotas",
        "local_cluster.security.authorization",
        "local_cluster.transactions",
        f"{CLIENT}.auth",
        CONFIGS,
        CONTROLLER,
        LEVELS,
        LOG,
        REPLICATION,
        SETTINGS,
        *BASE,
        *WIRE,
    ),
    "local_cluster": ("local_cluster",),
    FORMATS: (JSON, *WIRE, f"{HTTP}.addresses"),
    "mirror_maker": (*WIRE, CLIENT, HTTP, JSON, PUSH, TEXT, STARTING, SYSTEMD, *LOGGING),
    "aggregator": (*WIRE, CLIENT, FORMATS, HTTP, JSON, PUSH, STARTING, SYSTEMD, *LOGGING),
    "spark_global": (*WIRE, CLIENT, FORMATS),
    "topology": PACKAGES,
}

IO_MODULES = {
    "aiohttp",
    "aiokafka",
    "asyncio",
    "ctypes",
    "duckdb",
    "fcntl",
    "http",
    "kazoo",
    "mmap",
    "multiprocessing",
    "os",
    "pyiceberg",
    "pyspark",
    "random",
    "select",
    "shutil",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
}


def imported_modules(path: Path, *, at_runtime_only: bool = False) -> set[str]:
    """Return the absolute names of everything that a file imports.

    `at_runtime_only` leaves out imports under `if TYPE_CHECKING`.
    """
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    tree = ast.parse(path.read_text())
    for_types: set[ast.AST] = set()
    if at_runtime_only:
        blocks = (node for node in ast.walk(tree) if isinstance(node, ast.If))
        for block in (node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"):
            for_types |= {node for each in block.body for node in ast.walk(each)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if node in for_types:
            continue
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


@cache
def shells() -> frozenset[Path]:
    """Return the modules that do I/O, read a clock or draw random numbers, or import such a one."""
    modules = {module_name(path): path for path in sources() if path.name != "__init__.py"}
    imports = {name: imported_modules(path, at_runtime_only=True) for name, path in modules.items()}
    found = {
        name for name, of in imports.items() if {each.split(".")[0] for each in of} & IO_MODULES
    }
    while more := {name for name in imports if name not in found and imports[name] & found}:
        found |= more
    return frozenset(modules[name].relative_to(ROOT) for name in found)


def listed_shells() -> dict[str, set[Path]]:
    """Return the lines of shells.txt, each a path or a folder, with the modules that it names."""
    lines = [line.strip() for line in SHELLS.read_text().splitlines()]
    listed: dict[str, set[Path]] = {}
    for line in lines:
        if line and not line.startswith("#"):
            paths = ROOT.glob(f"{line}*.py" if line.endswith("/") else line)
            listed[line] = {p.relative_to(ROOT) for p in paths if p.name != "__init__.py"}
    return listed


def test_modules_are_pure_unless_they_are_listed_as_shells() -> None:
    listed = set().union(*listed_shells().values())
    unlisted = sorted(map(str, shells() - listed))
    assert not unlisted, "\n".join(["these do I/O or import a shell:", *unlisted])


def test_the_list_of_shells_names_shells_only() -> None:
    """A module that became pure leaves the list, and so stays pure."""
    are_shells = shells()
    for line, paths in listed_shells().items():
        assert paths, f"{line} names no module"
        pure = sorted(map(str, paths - are_shells))
        assert not pure, f"{line}: {', '.join(pure)} is pure: take it off the list"


def test_a_shell_is_recognised_through_its_imports() -> None:
    found = shells()
    assert Path("local_cluster/server/outbox.py") in found, "it imports asyncio"
    assert Path("local_cluster/handlers/data/p01_fetch.py") in found, "it imports a shell"
    assert Path("local_cluster/controller/decisions/fsm.py") not in found


def test_the_walk_sees_every_form_of_import() -> None:
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
