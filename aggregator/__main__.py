"""`python -m aggregator --settings FILE`: one aggregator."""

from __future__ import annotations

import sys

from local_cluster.starting import run

if __name__ == "__main__":
    sys.exit(run("aggregator.process"))
