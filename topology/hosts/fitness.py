"""Whether this host can run its part: room on its disks, open files, its clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

DISK_BYTES_MIN: Final = 64 * 1024 * 1024
"""A directory with fewer free bytes counts as full."""
OPEN_FILES_MIN: Final = 10_000
"""A broker opens three files per segment, and one per connection."""
CLOCK_MS_MAX: Final = 1_000
"""A larger difference of clocks is told: certificates, tokens, retention and completeness go by
time."""


class HostFacts(NamedTuple):
    """What is known of this host, and of the clocks of others."""

    open_files_max: int | None
    """The hard limit, to which a broker raises its own; None without any."""
    free_bytes: Mapping[str, int]
    """Free bytes where daemons that start keep their data, by directory."""
    clocks_ahead_ms: Mapping[str, int]
    """By other host, how far its clock is ahead of ours at least."""


def room_problems(facts: HostFacts) -> list[str]:
    """Return why daemons cannot start, one line each."""
    return [
        f"{directory} has {free} bytes left, and {DISK_BYTES_MIN} are needed: make room"
        for directory, free in facts.free_bytes.items()
        if free < DISK_BYTES_MIN
    ]


def host_warnings(facts: HostFacts) -> list[str]:
    """Return what an operator should know, though everything can start."""
    return [*_of_files(facts), *clock_lines(facts.clocks_ahead_ms)]


def _of_files(facts: HostFacts) -> Iterator[str]:
    if facts.open_files_max is not None and facts.open_files_max < OPEN_FILES_MIN:
        yield (
            f"a process on this host may open {facts.open_files_max} files: raise the hard limit to"
            f" {OPEN_FILES_MIN} or more (`ulimit -Hn`, LimitNOFILE)"
        )


def clock_lines(clocks_ahead_ms: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each host whose clock differs too much."""
    for host, ahead_ms in clocks_ahead_ms.items():
        if abs(ahead_ms) > CLOCK_MS_MAX:
            way = "ahead of" if ahead_ms > 0 else "behind"
            yield (f"the clock of {host} is {abs(ahead_ms) / 1000:.1f} s {way} that of this host")
