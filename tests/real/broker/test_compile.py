"""A small project, compiled with the C compiler of this machine; and what this process runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local_cluster.compilation import compile as compilation
from local_cluster.compilation.builds import PURE_VARIABLE, present_build

pytestmark = pytest.mark.real

MODULE = "local_cluster.hot"
PROGRAM = """
import sys
from pathlib import Path
from local_cluster.compilation import finder
finder.EXTENSIONS = {"local_cluster.hot", finder.LIBRARY}
sys.meta_path.insert(0, finder.CompiledModules(Path(sys.argv[1])))
import local_cluster.hot as hot
print(hot.__file__.endswith(".so"), hot.halved(42))
hot.halved("no number")
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one module to compile."""
    if compilation.c_compiler() is None:
        pytest.skip("no C compiler on this machine")
    monkeypatch.delenv(PURE_VARIABLE, raising=False)
    monkeypatch.setattr(compilation, "COMPILED_MODULES", (MODULE,))
    for package in ("local_cluster", "mirror_maker"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "local_cluster" / "hot.py").write_text(
        "def halved(n: int) -> int:\n    return n // 2\n"
    )
    (tmp_path / "pyproject.toml").write_text("[tool.mypy]\nstrict = true\n")
    return tmp_path


def test_a_module_is_compiled_and_imported_and_its_errors_name_the_line(root: Path) -> None:
    builds = root / "builds"
    assert compilation.build(builds, root) == ""
    build = present_build([builds], root)
    assert build.directory is not None
    assert [entry.name for entry in builds.iterdir()] == [build.directory.name], "no work is left"
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(build.directory)],
        env=os.environ | {PURE_VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.split() == ["True", "21"]
    assert 'File "local_cluster/hot.py", line 1, in halved' in ran.stderr
    assert "TypeError: int object expected; got str" in ran.stderr


def test_an_error_leaves_no_build(root: Path) -> None:
    builds = root / "builds"
    (root / "local_cluster" / "hot.py").write_text(
        "def halved(n: int) -> int:\n    return str(n)\n"
    )
    error = compilation.build(builds, root)
    assert "local_cluster/hot.py:2: error: Incompatible return value type" in error
    assert list(builds.iterdir()) == []
    assert present_build([builds], root).directory is None
