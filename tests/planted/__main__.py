"""Run a module of the product with a planted fault.

python -m tests.planted merge-collision -- mirror_maker --settings settings.json
"""

from __future__ import annotations

import os
import sys

from tests.planted.planting import environment
from tests.planted.table import FAULTS


def main(arguments: list[str]) -> None:
    """Become `python -m MODULE ARGUMENTS` with the fault."""
    if len(arguments) < 3 or arguments[0] not in FAULTS or arguments[1] != "--":
        names = "\n".join(f"  {name}: {fault.title}" for name, fault in FAULTS.items())
        sys.exit(f"usage: python -m tests.planted FAULT -- MODULE [ARGUMENT...]\n\n{names}")
    command = [sys.executable, "-m", *arguments[2:]]
    os.execve(sys.executable, command, os.environ | environment(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
