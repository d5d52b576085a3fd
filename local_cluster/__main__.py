"""`python -m local_cluster --settings FILE`: one broker."""

from __future__ import annotations

import sys

from local_cluster.starting import run

if __name__ == "__main__":
    sys.exit(run("local_cluster.server.process"))
