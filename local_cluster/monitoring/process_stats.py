"""What the system says about this process and its disks. Reads /proc and statvfs: use a thread."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from local_cluster.prometheus_text import Family, Sample, counter, gauge, samples

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def process_families(log_dirs: Sequence[str]) -> list[Family]:
    """Return CPU, memory, descriptors, disk traffic, and the space of the log directories.

    What the system does not tell is left out.
    """
    return [*_cpu(), *_memory(), *_descriptors(), *_disk_traffic(), *_space(log_dirs)]


def _cpu() -> Iterator[Family]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield counter(
        "process_cpu_seconds_total",
        "CPU time of the process, all threads.",
        Sample(used.ru_utime + used.ru_stime),
    )


def _memory() -> Iterator[Family]:
    try:
        pages = Path("/proc/self/statm").read_text().split()
        started_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        boot = next(
            line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime")
        )
    except (OSError, ValueError, IndexError, StopIteration):
        return
    yield gauge(
        "process_resident_memory_bytes", "Resident memory.", Sample(int(pages[1]) * _PAGE_BYTES)
    )
    yield gauge(
        "process_start_time_seconds",
        "Start of the process, in Unix time.",
        Sample(int(boot.split()[1]) + started_ticks / _TICKS_PER_SECOND),
    )


def _descriptors() -> Iterator[Family]:
    try:
        # Linux counts them in the size since 6.2; before it is 0.
        folder = Path("/proc/self/fd")
        opened = folder.stat().st_size or sum(1 for _ in folder.iterdir())
    except OSError:
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield gauge("process_open_fds", "Open file descriptors.", Sample(opened))
    yield gauge("process_max_fds", "Limit of open file descriptors.", Sample(soft))


def _disk_traffic() -> Iterator[Family]:
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return
    values = {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}
    for name, key in (("read", "read_bytes"), ("write", "write_bytes")):
        if key in values:
            yield gauge(
                f"kafka_server_kafkaserver_linux_disk_{name}_bytes",
                "Bytes that went to or came from disks since the start.",
                Sample(values[key]),
            )


def _space(log_dirs: Sequence[str]) -> Iterator[Family]:
    usable: list[tuple[str, int]] = []
    total: list[tuple[str, int]] = []
    for each in log_dirs:
        try:
            usage = shutil.disk_usage(each)
        except OSError:
            continue
        usable.append((each, usage.free))
        total.append((each, usage.total))
    label = "logDirectory"
    yield gauge("heliograph_log_dir_usable_bytes", "Free space.", *samples(label, usable))
    yield gauge("heliograph_log_dir_total_bytes", "Size of the disk.", *samples(label, total))
