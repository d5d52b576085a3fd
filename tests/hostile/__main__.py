"""`make hostile`: see tests/hostile/run.py. Worker processes import that module by its name."""

import sys

from tests.hostile.run import main

if __name__ == "__main__":
    sys.exit(main())
