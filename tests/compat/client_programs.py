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


async def run_client(
    client: str, bootstrap: str, prefix: str, environment: Mapping[str, str] | None = None
) -> str:
    """Run the program of a client, and return what it prints; a failure shows its output.

    The test is skipped where the program cannot be fetched.
    """
    if client == KAFKAJS:
        fetch = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        check = ["node", "--check", "client.js"]
        directory = await asyncio.to_thread(built, HERE / "js", "npm", fetch, check)
        command = ["node", "client.js"]
    else:
        fetch = ["go", "mod", "download"]
        build = ["go", "build", "-mod=readonly", "-o", "bin/", "./..."]
        directory = await asyncio.to_thread(built, HERE / "go", "go", fetch, build)
        command = [str(directory / "bin" / client)]
    done = await asyncio.to_thread(
        finished, [*command, bootstrap, prefix], directory, RUN_SECONDS_MAX, environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)
