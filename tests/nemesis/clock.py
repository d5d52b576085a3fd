"""A wall clock that can be set under a running Python process; see `skew/sitecustomize.py`.

Not by libfaketime: under 0.9.10 every `time.sleep` of Python fails with EINVAL, which ends kazoo's
threads, and handing work to a thread takes ten times as long.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SKEW: Final = Path(__file__).parent / "skew"


def environment(home: Path) -> dict[str, str]:
    """For a process whose offset is in `home`; the file says +0 to begin with."""
    set_offset(home, 0)
    paths = [str(SKEW), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"NEMESIS_CLOCK": str(_file(home)), "PYTHONPATH": os.pathsep.join(paths)}


def set_offset(home: Path, seconds: int) -> None:
    """From now on the process is that many seconds ahead (or behind)."""
    partial = _file(home).with_suffix(".partial")
    partial.write_text(f"{seconds:+d}\n")
    partial.replace(_file(home))


def _file(home: Path) -> Path:
    return home / "clock"
