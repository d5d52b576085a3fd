"""Where the archive of Spark's classes is, and when a session has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_global import session as session_module
from spark_global.jvm import archiving, class_archive
from spark_global.session import SHORT_JOB, with_java_options


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    class_archive.archive_of.cache_clear()
    yield tmp_path
    class_archive.archive_of.cache_clear()


def test_without_an_archive_a_jvm_has_no_option(cache: Path) -> None:
    assert class_archive.archive_path().is_relative_to(cache)
    assert class_archive.archive_options(class_archive.archive_path()) == ()


def test_a_present_archive_is_named() -> None:
    archive = class_archive.archive_path()
    archive.parent.mkdir(parents=True)
    archive.touch()
    options = class_archive.archive_options(archive)
    assert options == (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")
    assert session_module._quoted(options) == f'"{options[0]}" "-Xlog:disable"'


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = class_archive.archive_path()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    class_archive.archive_of.cache_clear()
    second = class_archive.archive_path()
    os.utime(java, (1, 1))
    class_archive.archive_of.cache_clear()
    assert len({first, second, class_archive.archive_path()}) == 3


def test_jars_that_are_installed_again_have_another_archive(tmp_path: Path) -> None:
    """The JVM ignores an archive whose jars have other times, though their versions are equal."""
    jars = tmp_path / "jars"
    found = {class_archive.archive_of(jars, "classes-")}
    jars.mkdir()
    for changed in (1, 2):
        os.utime(_touched(jars / "a.jar"), (changed, changed))
        class_archive.archive_of.cache_clear()
        found.add(class_archive.archive_of(jars, "classes-"))
    class_archive.archive_of.cache_clear()
    found.add(class_archive.archive_of(jars, "classes-"))
    assert len(found) == 3


def test_the_oldest_archives_are_removed(cache: Path) -> None:
    made = class_archive.archive_path()
    made.parent.mkdir(parents=True)
    for age, name in enumerate(("d", "c", "b", "a")):
        path = made.with_name(f"spark-classes-{name}.jsa")
        path.touch()
        os.utime(path, (1_000 - age, 1_000 - age))
    os.utime(_touched(made), (1, 1))
    archiving._remove_old(made)
    left = {path.name for path in made.parent.iterdir()}
    assert left == {made.name, "spark-classes-d.jsa", "spark-classes-c.jsa"}


def test_options_of_a_job_are_kept() -> None:
    settings = with_java_options(SHORT_JOB, "-Dx=1")
    options = settings[session_module._JAVA_OPTIONS]
    assert options.startswith(SHORT_JOB[session_module._JAVA_OPTIONS])
    assert options.endswith(" -Dx=1")


def _touched(path: Path) -> Path:
    path.touch()
    return path
