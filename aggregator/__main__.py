"""`python -m aggregator --settings FILE`: one aggregator."""

from __future__ import annotations

import sys
from collections.abc import Callable

from local_cluster.starting import run


def _import_main() -> Callable[[], int]:
    from aggregator.process import main

    return main


if __name__ == "__main__":
    sys.exit(run(_import_main))
