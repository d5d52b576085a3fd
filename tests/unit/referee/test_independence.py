"""The referee shares no code with what it judges."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[3]
JUDGED = {"local_cluster", "mirror_maker", "aggregator", "spark_global", "topology"}


def imports(path: Path) -> set[str]:
    """Absolute names of all modules that a file may import, whatever form the import has."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names


def files_of(name: str) -> list[Path]:
    """The file of a module of this repository; none where it is not one."""
    path = ROOT.joinpath(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return [each for each in candidates if each.exists()]


def check_imports(found: dict[Path, set[str]]) -> None:
    """Fail if a module of `reached` imports a package that is judged."""
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path, names in found.items()
        for name in names
        if name.split(".")[0] in JUDGED
    }
    assert not wrong, "\n".join(sorted(wrong))


def reached(start: list[Path]) -> dict[Path, set[str]]:
    """Every file of the repository that these import, themselves included, with its imports."""
    found: dict[Path, set[str]] = {}
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = imports(path)
            waiting += [each for name in found[path] for each in files_of(name)]
    return found


def test_no_module_of_the_product_is_reached() -> None:
    start = sorted((ROOT / "tests" / "referee").rglob("*.py"))
    assert len(start) > 20
    found = reached(start)
    assert ROOT / "tests" / "support" / "quiet_ports.py" in found, (
        "helpers of tests/ are walked too"
    )
    check_imports(found)


def test_nothing_is_imported_by_name_at_run_time() -> None:
    for path in sorted((ROOT / "tests" / "referee").rglob("*.py")):
        text = path.read_text()
        assert "importlib" not in text and "__import__" not in text, path


def test_the_walk_sees_what_a_helper_imports() -> None:
    found = reached([ROOT / "tests" / "support" / "kafka_from_maven.py"])
    assert any("local_cluster" in name for names in found.values() for name in names)
    assert importlib.util.find_spec("tests.referee") is not None
