"""The machine that a bench ran on, for people and for JSON."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import subprocess
import time
from pathlib import Path
from typing import Final

import psutil

DISK_MEGABYTES: Final = 256
FSYNCS: Final = 50


def describe(directory: Path) -> dict[str, str]:
    """Cores, memory, kernel, file system under `directory`, its speed, and versions."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": _processor(),
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "kernel": platform.release(),
        "filesystem": _filesystem(directory),
        "disk": _disk(directory),
        "load before": " ".join(f"{each:.2f}" for each in os.getloadavg()),
        "open files limit": str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        "python": platform.python_version(),
        "java": _java(),
        "heliograph": importlib.metadata.version("heliograph"),
    }


def raise_open_files_limit() -> None:
    """Thousands of partitions and connections need as many files; children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _filesystem(directory: Path) -> str:
    """Of the longest mount point above the directory."""
    path = directory.resolve()
    above = [
        part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)
    ]
    best = max(above, key=lambda part: len(part.mountpoint), default=None)
    return f"{best.fstype} on {best.device}" if best is not None else "unknown"


def _disk(directory: Path) -> str:
    """Writing and fsync of a big file, and fsync of 4 kB appended, as measured now."""
    path = directory / "disk-speed"
    block = os.urandom(1 << 20)
    with path.open("wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(DISK_MEGABYTES):
            file.write(block)
        os.fsync(file.fileno())
        big = DISK_MEGABYTES * len(block) / (time.perf_counter() - start) / 1e6
        start = time.perf_counter()
        for _ in range(FSYNCS):
            file.write(block[:4096])
            os.fsync(file.fileno())
        small = (time.perf_counter() - start) / FSYNCS * 1000
    path.unlink()
    return f"{big:.0f} MB/s written and fsynced, {small:.2f} ms per fsync of 4 kB"


def _java() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[0] if done.stderr else "absent"
