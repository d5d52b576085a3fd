"""The `heliograph` command, also as `python -m topology`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from local_cluster.starting import run


def main() -> int | None:
    """Run the command; return its exit code."""
    return run(_import_main)


def _import_main() -> Callable[[], None]:
    from topology.main import main

    return main


if __name__ == "__main__":
    sys.exit(main())
