"""The programs in Go and JavaScript: fetched by their lock files, built once, run to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.fetched_program import built, finished

HERE: Final = Path(__file__).parent
RUN_SECONDS_MAX: Final = 120.0
KAFKAJS: Final = "kafkajs"
GO_CLIENTS: Final = ("franz", "sarama")
LIST_TOPICS: Final = "--topics"
"""Instead of a prefix: the program prints the names of the topics, and ends."""
READ: Final = "--read"
"""Instead of a prefix, with a topic: prints each value, and DENIED without the right to read."""
DENIED: Final = "denied"
TRANSACTION: Final = "--transaction"
"""Instead of a prefix, with a topic and milliseconds: a transaction with a pause in it."""


async def run_client(
    client: str,
    bootstrap: str,
    prefix: str,
    environment: Mapping[str, str] | None = None,
    *more: str,
) -> str:
    """Run the program of a client, and return what it prints; a failure shows its output.

    The test is skipped where the program cannot be fetched.
    """
    command, directory = await asyncio.to_thread(client_command, client)
    arguments = [*command, bootstrap, prefix, *more]
    done = await asyncio.to_thread(finished, arguments, directory, RUN_SECONDS_MAX, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def client_command(client: str) -> tuple[list[str], Path]:
    """Return the command of a client's program, and its directory."""
    if client == KAFKAJS:
        fetch = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        check = ["node", "--check", "client.js"]
        return ["node", "client.js"], built(HERE / "js", "npm", fetch, check)
    fetch = ["go", "mod", "download"]
    build = ["go", "build", "-mod=readonly", "-o", "bin/", "./..."]
    directory = built(HERE / "go", "go", fetch, build)
    return [str(directory / "bin" / client)], directory
