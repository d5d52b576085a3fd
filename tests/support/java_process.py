"""Java programs with Kafka's jars on their class path, as processes of tests."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.kafka_from_maven import java_command


@dataclass
class JavaProcess:
    """A program that runs until it ends or is ended; what it prints goes to a file."""

    program: str
    """A class of Kafka's, or the path of a source file."""
    arguments: tuple[str, ...]
    output: Path
    jars: Path | None = None
    """Its class path, if `java_command` does not know it."""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*java_command(self.program, jars=self.jars), *self.arguments],
                stdout=output,
                stderr=output,
            )

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def check_running(self) -> None:
        """Fails with what the program printed where it has ended by itself."""
        assert self.process is not None
        assert self.process.poll() is None, self.text()[-6000:]

    async def kill(self) -> None:
        """kill -9 and wait."""
        if self.process is not None:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)

    async def terminate(self, seconds_max: float = 60.0) -> int:
        """SIGTERM and wait; the exit code."""
        assert self.process is not None
        self.process.terminate()
        return await asyncio.wait_for(asyncio.to_thread(self.process.wait), seconds_max)


async def run_java(
    program: str,
    *arguments: str,
    lines: str = "",
    options: Sequence[str] = (),
    jars: Path | None = None,
    seconds_max: float = 120.0,
) -> str:
    """Run a program to its end; what it printed. A failure shows its errors.

    `options` are more ones of the JVM. `jars` is its class path, if `java_command` does not know
    it.
    """
    java, *rest = java_command(program, jars=jars)
    done = await asyncio.to_thread(
        subprocess.run,
        [java, *options, *rest, *arguments],
        input=lines,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)
