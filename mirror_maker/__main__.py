"""`python -m mirror_maker --settings FILE`: one mirror worker."""

from __future__ import annotations

import sys

from local_cluster.starting import run

if __name__ == "__main__":
    sys.exit(run("mirror_maker.worker.process"))
