"""The archive for executors: complete, plain, the same for the same sources."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from spark_global.shipping import (
    EXECUTOR_PACKAGES,
    MORE_EXECUTOR_PACKAGES,
    PACKAGES,
    ArchiveError,
    shipped_modules,
    write_archive,
)

IMPORT = """
import json, sys
ours = tuple(sys.argv[2:])
before = set(sys.modules)
sys.path[:] = [sys.argv[1], *(path for path in sys.path if path)]
import spark_global.source.data_source
import spark_global.iceberg.file_writing
loaded = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
print(json.dumps({
    "ours": {name: file for name, file in loaded.items() if name.partition(".")[0] in ours},
    "others": sorted({name.partition(".")[0] for name in set(loaded) - before}),
}))
"""


def test_the_archive_has_all_that_executors_import(tmp_path: Path) -> None:
    archive = tmp_path / "heliograph.zip"
    assert write_archive(archive) == len(shipped_modules())
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, str(archive), *PACKAGES, "topology", "aggregator"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert "spark_global.source.reading" in found["ours"]
    assert all(file.startswith(str(archive)) for file in found["ours"].values()), found["ours"]
    distributions = packages_distributions()
    needed = {name for each in found["others"] for name in distributions.get(each, ())}
    assert set(EXECUTOR_PACKAGES) <= needed


def test_the_archive_is_plain_and_the_same_for_the_same_sources(tmp_path: Path) -> None:
    first, second = tmp_path / "a.zip", tmp_path / "b.zip"
    write_archive(first)
    write_archive(second)
    assert first.read_bytes() == second.read_bytes()
    names = zipfile.ZipFile(first).namelist()
    assert all(name.endswith(".py") for name in names)
    assert not any(name.startswith("local_cluster/server/") for name in names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "b.zip"]


def test_an_archive_cannot_be_made_from_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    write_archive(archive)
    with pytest.raises(ArchiveError, match="no directory with the sources"):
        write_archive(tmp_path / "b.zip", archive)


def test_the_executors_packages_are_dependencies_of_ours() -> None:
    declared = metadata.requires("heliograph") or []
    known = {re.split(r"[<>=; ]", each)[0].partition("[")[0] for each in declared}
    listed = {each for packages in MORE_EXECUTOR_PACKAGES.values() for each in packages}
    assert {each.partition("[")[0] for each in listed} <= known
