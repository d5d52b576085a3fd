"""Checks a file for another host, in a process of its own: the package that is installed may be
newer than the one that the supervisor runs."""

from __future__ import annotations

import asyncio
from typing import Final

from topology.deployment.deployment import python_command
from topology.deployment.state_dir import StateDir

CHECK_S_MAX: Final = 18.0
"""Seconds that a check may take; then its process is killed."""
CHECKS_MAX: Final = 4
"""Checks that run or wait at the same time; they run one after the other."""
REPORT_BYTES_MAX: Final = 1024 * 1024


class CheckFailure(Exception):
    """There is no report; the message says why."""


class HostChecks:
    """The checks of one supervisor."""

    def __init__(self, state: StateDir) -> None:
        self._command = python_command("topology.hosts.check_job", "--state-dir", str(state.path))
        self._turn = asyncio.Lock()
        self._count = 0

    async def check(self, file_text: str) -> bytes:
        """Return the report of a check as JSON. Raises CheckFailure."""
        if self._count >= CHECKS_MAX:
            raise CheckFailure(f"{CHECKS_MAX} checks wait already")
        self._count += 1
        try:
            async with asyncio.timeout(CHECK_S_MAX), self._turn:
                return await self._run(file_text)
        except TimeoutError as error:
            raise CheckFailure(f"the check takes more than {CHECK_S_MAX:g} s") from error
        except OSError as error:
            raise CheckFailure(f"the check cannot be started: {error}") from error
        finally:
            self._count -= 1

    async def _run(self, file_text: str) -> bytes:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe
        )
        try:
            report, complaint = await process.communicate(file_text.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0 or len(report) > REPORT_BYTES_MAX:
            lines = complaint.decode(errors="replace").strip().splitlines()
            raise CheckFailure(f"the check failed: {lines[-1] if lines else 'it says nothing'}")
        return report
