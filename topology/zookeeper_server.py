"""Run an embedded ZooKeeper server with the Java and the jars of this host.

`python -m topology.zookeeper_server --config FILE` becomes the server. It is for units and
containers, which are written on one host and run on another one. `--jars` is for images.

With `--member`, the members of the ensemble can change while it runs (ensemble/). The supervisor
starts its nodes so.
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
    find_jars,
    server_command,
)
from topology.ensemble.members import decode_membership
from topology.ensemble.node_files import write_node_files

EXIT_FAILED = 1
_NODE = re.compile(r"^server\.\d+=", re.MULTILINE)
_DATA_DIR = re.compile(r"^dataDir=(.+)$", re.MULTILINE)


def main() -> int:
    """Become the server; return an exit code only if that is impossible."""
    parser = argparse.ArgumentParser(
        prog="python -m topology.zookeeper_server", description=__doc__
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", type=Path, help="config file of the server")
    what.add_argument("--jars", action="store_true", help="print the paths of its jars, and end")
    parser.add_argument("--myid", type=int, help="number of the node, for its data directory")
    parser.add_argument("--member", action="append", default=[], help="a node: server.N=ADDRESSES")
    parser.add_argument("--former-data", type=Path, help="its data directory as the only node")
    arguments = parser.parse_args()
    try:
        if arguments.jars:
            print(*find_jars(), sep="\n")  # noqa: T201
            return 0
        config: Path = arguments.config
        text = config.read_text()
        logging_file = config.with_name(LOGGING_FILE)
        members: list[str] = arguments.member
        is_node = bool(members) or _NODE.search(text) is not None
        if is_node and arguments.myid is not None:
            _write_myid(text, arguments.myid)
        if members:
            wanted = decode_membership("\n".join(members)).members
            config = write_node_files(text, wanted, arguments.former_data)
        argv = server_command(config, logging_file, is_node=is_node)
        os.execv(argv[0], argv)
    except (OSError, ValueError, ZooKeeperUnavailable) as error:
        print(error, file=sys.stderr)  # noqa: T201
    return EXIT_FAILED


def _write_myid(config: str, number: int) -> None:
    """Write the file that tells a node its number. Raises OSError.

    An ensemble would take a node with the data of another one for that one.
    """
    directory = _DATA_DIR.search(config)
    if directory is None:
        raise OSError("the config has no dataDir")
    file = Path(directory.group(1), "myid")
    if file.exists() and file.read_text().strip() != str(number):
        raise OSError(f"{file} says that this is node {file.read_text().strip()}, not {number}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{number}\n")


if __name__ == "__main__":
    sys.exit(main())
