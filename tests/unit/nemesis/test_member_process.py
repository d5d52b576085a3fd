"""A client in a process tells, is stopped, ends or fails, and never outlives its harness."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.nemesis.cluster import until
from tests.nemesis.workloads.member_process import ROOT, MemberProcess

MODULE = "member_of_a_test"
COUNTING = """\
import json, os, signal, sys
told = lambda **counts: print(json.dumps(counts), flush=True)
signal.signal(signal.SIGCONT, lambda *_: told(back=1))
told(ready=1)
line = sys.stdin.readline()
told(ended=1)
sys.exit(0 if line == "end\\n" else 3)
"""
FAILING = "raise RuntimeError('no such group')"
FAILING_LATER = COUNTING.replace("sys.exit", "raise RuntimeError('not known'); sys.exit")


@pytest.fixture
def told() -> Counter[str]:
    return Counter()


@asynccontextmanager
async def member(
    program: str, told: Counter[str], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MemberProcess]:
    (directory / f"{MODULE}.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(directory))
    process = MemberProcess("m", [MODULE], directory / "m.log", told.update)
    try:
        yield process
    finally:
        await process.kill()


async def test_it_is_stopped_and_continued_and_ends(
    told: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with member(COUNTING, told, tmp_path, monkeypatch) as process:
        await process.start()
        process.pause()
        await until(lambda: status(process.pid) == psutil.STATUS_STOPPED, "it is stopped")
        assert not process.is_back
        process.resume()
        await until(lambda: process.is_back, "it was continued")
        await process.end()
        assert told == {"back": 1, "ended": 1}


async def test_a_stopped_one_is_continued_to_end(
    told: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with member(COUNTING, told, tmp_path, monkeypatch) as process:
        await process.start()
        process.pause()
        await process.end()
        assert told["ended"] == 1


async def test_a_stopped_one_is_killed(
    told: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with member(COUNTING, told, tmp_path, monkeypatch) as process:
        await process.start()
        process.pause()
        await process.kill()
        assert not psutil.pid_exists(process.pid)


async def test_what_fails_says_why(
    told: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with member(FAILING, told, tmp_path, monkeypatch) as process:
        with pytest.raises(RuntimeError, match=r"client m failed with 1:\n(?s:.*)no such group"):
            await process.start()
    async with member(FAILING_LATER, told, tmp_path, monkeypatch) as process:
        await process.start()
        with pytest.raises(RuntimeError, match=r"client m failed with 1:\n(?s:.*)not known"):
            await process.end()


HARNESS = f"""\
import asyncio, sys
from pathlib import Path
from tests.nemesis.workloads.member_process import MemberProcess

async def run():
    process = MemberProcess("m", ["{MODULE}"], Path(sys.argv[1]) / "m.log", lambda _: None)
    await process.start()
    if sys.argv[2] == "stopped":
        process.pause()
    print(process.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(run())
"""


@pytest.mark.parametrize("state", ["running", "stopped"])
async def test_it_dies_with_its_harness(state: str, tmp_path: Path) -> None:
    (tmp_path / f"{MODULE}.py").write_text(COUNTING)
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    harness = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HARNESS, str(tmp_path), state),
        env={**os.environ, "PYTHONPATH": path},
        stdout=asyncio.subprocess.PIPE,
    )
    assert harness.stdout is not None
    pid = int(await harness.stdout.readline())
    if state == "stopped":
        await until(lambda: status(pid) == psutil.STATUS_STOPPED, "it is stopped")
    harness.send_signal(signal.SIGKILL)
    await harness.wait()
    await until(lambda: status(pid) in ("gone", psutil.STATUS_ZOMBIE), "it is gone")


def status(pid: int) -> str:
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return "gone"
