"""Which build a process takes, and which module the finder answers with."""

from __future__ import annotations

import ast
import json
import os
import re
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path

import pytest

from local_cluster.compilation.builds import (
    MANIFEST,
    PURE_VARIABLE,
    ROOT,
    Build,
    build_name,
    interpreter,
    present_build,
    sources,
    stamp,
)
from local_cluster.compilation.finder import LIBRARY, CompiledModules, install
from local_cluster.compilation.modules import COMPILED_MODULES

SOURCE = "local_cluster/hot.py"
PACKAGES = ("local_cluster", "mirror_maker", "aggregator", "spark_global", "topology", "tests")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one source."""
    monkeypatch.delenv(PURE_VARIABLE, raising=False)
    (tmp_path / "local_cluster").mkdir()
    (tmp_path / SOURCE).write_text("A = 1\n")
    return tmp_path


def made(root: Path, *, made_for: str = "") -> Path:
    """Make a build of the project; return its directory."""
    stamps = {source: stamp(root / source) for source in sources(root)}
    directory = root / "builds" / build_name(stamps)
    directory.mkdir(parents=True)
    manifest = {"interpreter": made_for or interpreter(), "sources": stamps}
    (directory / MANIFEST).write_text(json.dumps(manifest))
    return directory


def present(root: Path) -> Build:
    return present_build((root / "nowhere", root / "builds"), root)


def test_a_build_of_the_same_sources_is_taken(root: Path) -> None:
    assert Build(made(root)) == present(root)


def test_a_source_that_was_only_touched_is_the_same(root: Path) -> None:
    made(root)
    os.utime(root / SOURCE, ns=(1, 1))
    assert present(root).directory is not None


@pytest.mark.parametrize("text", ["A = 2\n", "A = 1\nB = 2\n"], ids=["same size", "longer"])
def test_a_changed_source_makes_it_stale(root: Path, text: str) -> None:
    made(root)
    (root / SOURCE).write_text(text)
    os.utime(root / SOURCE, ns=(1, 1))
    found = present(root)
    assert found.directory is None
    assert found.is_stale
    assert SOURCE in found.reason


def test_an_older_build_fits_again_when_the_sources_do(root: Path) -> None:
    first = made(root)
    (root / SOURCE).write_text("A = 2\n")
    second = made(root)
    assert present(root) == Build(second)
    (root / SOURCE).write_text("A = 1\n")
    assert present(root) == Build(first)


def test_a_new_or_deleted_source_makes_it_stale(root: Path) -> None:
    made(root)
    new = root / "local_cluster" / "new.py"
    new.write_text("")
    assert present(root).is_stale
    new.unlink()
    (root / SOURCE).unlink()
    assert present(root).is_stale


def test_plain_python_can_be_forced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(root)
    monkeypatch.setenv(PURE_VARIABLE, "1")
    assert present(root) == Build(None, f"{PURE_VARIABLE}=1")


def test_without_a_build_everything_is_plain(root: Path) -> None:
    assert present(root) == Build(None, "not compiled")


def test_a_build_of_another_interpreter_is_not_taken(root: Path) -> None:
    made(root, made_for="cpython-39")
    assert present(root) == Build(None, "not compiled for this interpreter")


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_damaged_manifest_is_no_build(root: Path, text: str) -> None:
    (made(root) / MANIFEST).write_text(text)
    assert present(root).directory is None


def test_the_finder_names_extensions_of_the_build(tmp_path: Path) -> None:
    finder = CompiledModules(tmp_path)
    for name in (COMPILED_MODULES[0], LIBRARY):
        spec = finder.find_spec(name, None)
        assert spec is not None
        assert isinstance(spec.loader, ExtensionFileLoader)
        assert spec.origin == str(tmp_path / f"{name}{EXTENSION_SUFFIXES[0]}")
    assert finder.find_spec("json", None) is None


def test_the_process_runs_the_build_that_it_reports() -> None:
    build = install()
    for name in COMPILED_MODULES:
        assert import_module(name).__file__ is not None
        is_extension = str(import_module(name).__file__).endswith(EXTENSION_SUFFIXES[0])
        assert is_extension == (build.directory is not None), name


def test_no_compiled_module_has_coroutines() -> None:
    """In one, an exception that its `except` has handled was raised again."""
    for name in COMPILED_MODULES:
        kinds = {type(each) for each in ast.walk(tree_of(name))}
        assert ast.AsyncFunctionDef not in kinds, name


def test_no_plain_class_inherits_from_a_compiled_one() -> None:
    """mypyc refuses the first instance of such a class, in whatever process that is."""
    compiled = {f"{name}.{each.name}" for name in COMPILED_MODULES for each in classes_of(name)}
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if name in COMPILED_MODULES:
                continue
            imported = {
                alias.asname or alias.name: f"{node.module}.{alias.name}"
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            found += [
                f"{path}:{each.lineno}: {each.name} inherits from {base.id}"
                for each in classes_of(name)
                for base in each.bases
                if isinstance(base, ast.Name) and imported.get(base.id) in compiled
            ]
    assert found == []


def classes_of(module: str) -> list[ast.ClassDef]:
    return [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.ClassDef)]


def tree_of(module: str) -> ast.Module:
    return ast.parse(ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text())


def test_every_compiled_module_exists_and_is_listed_once() -> None:
    assert list(COMPILED_MODULES) == sorted(set(COMPILED_MODULES))
    for module in COMPILED_MODULES:
        assert ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file(), module


def test_make_test_plays_the_rooms_of_compiled_modules_plain_too() -> None:
    root = Path(__file__).parents[4]
    text = (root / "Makefile").read_text().replace("\\\n", " ")
    (plain,) = re.findall(r"^PLAIN_TESTS := (.*)$", text, re.MULTILINE)
    rooms = [
        prefix + room
        for prefix, names in re.findall(r"\$\(addprefix ([^,]+),([^)]*)\)", plain)
        for room in names.split()
    ]
    assert rooms
    assert all((root / room).is_dir() for room in rooms)
    for module in COMPILED_MODULES:
        tests = f"tests/unit/{module.replace('.', '/')}"
        assert any(tests.startswith(f"{room}/") for room in rooms), module
