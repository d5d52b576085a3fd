"""`python -m mirror_maker --settings FILE`: one mirror worker."""

from __future__ import annotations

import sys
from collections.abc import Callable

from local_cluster.starting import run


def _import_main() -> Callable[[], int]:
    from mirror_maker.worker.process import main

    return main


if __name__ == "__main__":
    sys.exit(run(_import_main))
