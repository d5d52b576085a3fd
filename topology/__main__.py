"""The `heliograph` command, also as `python -m topology`."""

from __future__ import annotations

import sys

from local_cluster.starting import run


def main() -> int | None:
    """Run the command; return its exit code."""
    return run("topology.main")


if __name__ == "__main__":
    sys.exit(main())
