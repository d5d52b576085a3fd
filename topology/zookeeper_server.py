"""Run an embedded ZooKeeper server with the Java and the jars of this host.

`python -m topology.zookeeper_server --config FILE` becomes the server. It is for units and
containers, which are written on one host and run on another one.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from topology.deployment.zookeeper import (
    LOGGING_FILE,
    ZooKeeperUnavailable,
    server_command,
)

EXIT_FAILED = 1
_NODE = re.compile(r"^server\.\d+=", re.MULTILINE)


def main() -> int:
    """Become the server; return an exit code only if that is impossible."""
    parser = argparse.ArgumentParser(
        prog="python -m topology.zookeeper_server", description=__doc__
    )
    parser.add_argument("--config", type=Path, required=True, help="config file of the server")
    config: Path = parser.parse_args().config
    try:
        is_node = _NODE.search(config.read_text()) is not None
        argv = server_command(config, config.with_name(LOGGING_FILE), is_node=is_node)
        os.execv(argv[0], argv)
    except (OSError, ZooKeeperUnavailable) as error:
        print(error, file=sys.stderr)  # noqa: T201
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
