"""Compile the hot modules; see `compile`."""

import sys

from local_cluster.compilation.compile import main

if __name__ == "__main__":
    sys.exit(main())
