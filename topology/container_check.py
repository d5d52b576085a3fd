"""Check the process of a container: `python -m topology.container_check http URL`.

Exits with 0 if it is well, else with 1. `zookeeper FILE` asks the server of a config file whether
it serves clients. A certificate is not verified: the process is in the same container.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from topology.supervisor.readiness import zookeeper_serves

TIMEOUT_S: Final = 5.0
_ADDRESS: Final = re.compile(r"^clientPort(Address)?=(.+)$", re.MULTILINE)


def main() -> int:
    """Check, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m topology.container_check", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("http").add_argument("url")
    kinds.add_parser("zookeeper").add_argument("config", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.kind == "http":
            problem = _ask(arguments.url)
        else:
            problem = _ask_zookeeper(arguments.config.read_text())
    except OSError as error:
        problem = str(error)
    if problem is not None:
        print(problem, file=sys.stderr)  # noqa: T201
    return 0 if problem is None else 1


def _ask(url: str) -> str | None:
    """Return what is wrong with an HTTP address; None if it answers 200."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        urllib.request.urlopen(url, timeout=TIMEOUT_S, context=context).close()
    except urllib.error.HTTPError as error:
        return f"{url} answers {error.code}"
    return None


def _ask_zookeeper(config: str) -> str | None:
    """Return what is wrong with the server of a config; None if it serves clients."""
    found = dict(_ADDRESS.findall(config))
    host, port = found.get("Address", "127.0.0.1"), int(found.get("", "2181"))
    serves = asyncio.run(zookeeper_serves(host, port))
    return None if serves else f"{host}:{port} does not serve clients"


if __name__ == "__main__":
    sys.exit(main())
