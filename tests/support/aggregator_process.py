"""An aggregator as a process, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from aggregator.settings import AggregatorSettings, render_settings

START_SECONDS_MAX = 60.0


@contextlib.asynccontextmanager
async def running_aggregator(
    settings: AggregatorSettings, directory: Path
) -> AsyncIterator[tuple[subprocess.Popen[bytes], aiohttp.ClientSession]]:
    """`python -m aggregator`, with its log in `directory`; yields once its ready file names it."""
    path, log_path = directory / "aggregator.json", directory / "aggregator.log"
    path.write_text(render_settings(settings))
    ready_file = Path(settings.ready_file)
    ready_file.unlink(missing_ok=True)  # left by one that was killed
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "aggregator", "--settings", str(path)],
            stderr=log,
            cwd=Path(__file__).parents[2],
        )
    try:
        async with asyncio.timeout(START_SECONDS_MAX):
            while not ready_file.exists():
                assert process.poll() is None, log_path.read_text()
                await asyncio.sleep(0.02)
        ready = json.loads(ready_file.read_text())
        assert ready["pid"] == process.pid
        async with aiohttp.ClientSession(f"http://127.0.0.1:{ready['http_port']}") as session:
            yield process, session
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
