"""A client in a process of its own: it can be stopped by SIGSTOP, and tells what it counts."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.nemesis.workloads.workload import THREAD_END_SECONDS_MAX

_LIBC: Final = ctypes.CDLL(None)
_PR_SET_PDEATHSIG: Final = 1
ROOT: Final = Path(__file__).parents[3]
LOG_CHARACTERS_MAX: Final = 4_000
START_SECONDS_MAX: Final = 60.0


def _die_with_parent() -> None:
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class MemberProcess:
    """`python -m` of a module that prints JSON objects of counts, and ends after the line "end".

    When the harness dies, however that comes, the kernel kills it, stopped or not (Linux).
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        told: Callable[[Mapping[str, int]], None],
    ) -> None:
        """`command`: the module and its arguments; `log`: its standard error."""
        self.name = name
        self._command = command
        self._log = log
        self._told = told
        self._process: asyncio.subprocess.Process | None = None
        self._following: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._stops = 0
        self._backs = 0

    @property
    def is_back(self) -> bool:
        """Whether it has reported "back" as often as it was stopped."""
        return self._backs == self._stops

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Until it has told something. Raises RuntimeError where it has ended, TimeoutError."""
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *self._command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                preexec_fn=_die_with_parent,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS_MAX):
            first = await self._process.stdout.readline()
            if not first:
                raise RuntimeError(self._failed(await self._process.wait()))
        self._following = asyncio.create_task(self._follow(self._process.stdout))

    def pause(self) -> None:
        """SIGSTOP. One that has ended by itself is left alone: `end` tells why it did."""
        self._is_stopped = True
        self._stops += 1
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT, where it is stopped."""
        if self._is_stopped:
            self._is_stopped = False
            self._signal(signal.SIGCONT)

    async def end(self) -> None:
        """Tell it to, and wait. Raises RuntimeError where it failed or hangs."""
        assert self._process is not None and self._process.stdin is not None
        assert self._following is not None
        self.resume()
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(b"end\n")
            await self._process.stdin.drain()
        try:
            code = await asyncio.wait_for(self._process.wait(), THREAD_END_SECONDS_MAX)
        except TimeoutError:
            raise RuntimeError(f"client {self.name} hangs") from None
        await self._following
        if code != 0:
            raise RuntimeError(self._failed(code))

    async def kill(self) -> None:
        """kill -9, stopped or not; also where it was never started."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _failed(self, code: int) -> str:
        text = self._log.read_text(errors="replace")[-LOG_CHARACTERS_MAX:]
        return f"client {self.name} failed with {code}:\n{text}"

    async def _follow(self, output: asyncio.StreamReader) -> None:
        # The last line of one that was killed may be cut.
        while (line := await output.readline()).endswith(b"\n"):
            counts = json.loads(line)
            self._backs += counts.get("back", 0)
            self._told(counts)
