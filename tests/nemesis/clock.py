"""A clock that can be set under a running process, by libfaketime.

The process loads the library and reads its offset from a file at every call; monotonic clocks are
left alone, as a clock that is set leaves them alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

LIBRARY_PLACES: Final = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
    "/opt/homebrew/lib/faketime/libfaketimeMT.so.1",
)


def library() -> Path | None:
    """Where libfaketime is installed (Debian: apt-get install libfaketime), or None."""
    for place in LIBRARY_PLACES:
        for found in sorted(Path("/").glob(place.removeprefix("/"))):
            return found
    return None


def environment(home: Path) -> dict[str, str]:
    """For a process whose offset is in `home`; the file says +0 to begin with."""
    found = library()
    assert found is not None, "a fault that needs libfaketime asks for it first"
    set_offset(home, 0)
    return {
        "LD_PRELOAD": str(found),
        "FAKETIME_TIMESTAMP_FILE": str(_file(home)),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def set_offset(home: Path, seconds: int) -> None:
    """From now on the process is that many seconds ahead (or behind)."""
    partial = _file(home).with_suffix(".partial")
    partial.write_text(f"{seconds:+d}\n")
    partial.replace(_file(home))


def _file(home: Path) -> Path:
    return home / "clock"
