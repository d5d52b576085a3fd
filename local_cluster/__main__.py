"""`python -m local_cluster --settings FILE`: one broker."""

from __future__ import annotations

import sys
from collections.abc import Callable

from local_cluster.starting import run


def _import_main() -> Callable[[], int]:
    from local_cluster.server.process import main

    return main


if __name__ == "__main__":
    sys.exit(run(_import_main))
