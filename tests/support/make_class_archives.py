"""Makes the archives of Kafka's and of Spark's classes that are missing.

`make test` runs it: `python -m tests.support.make_class_archives`.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from spark_global.jvm.archiving import make_archive
from spark_global.jvm.class_archive import archive_path
from spark_global.session import SparkStartError
from tests.support import kafka_from_maven as kafka
from tests.support.quiet_ports import quiet_ports

END_SECONDS_MAX: Final = 120.0
"""What a JVM may take to end and to write its archive."""
NO_BROKER: Final = "127.0.0.1:1"
WAIT_MS: Final = 1_000


def main() -> None:
    """Make the missing archives; without Java, none."""
    if shutil.which("java") and not archive_path().exists():
        try:
            make_archive()
        except (OSError, SparkStartError) as error:
            sys.stderr.write(f"no archive of Spark's classes: {error!r}\n")
    for jars_of, load in ((kafka.broker_jars, _load_broker), (kafka.tool_jars, _load_tool)):
        try:
            archive = kafka.classes_of(jars_of())
        except pytest.skip.Exception as reason:
            sys.stderr.write(f"no archive of classes: {reason}\n")
            continue
        if not archive.exists():
            _make(archive, load)


def _make(archive: Path, load: Callable[[Path, tuple[str, ...]], None]) -> None:
    """Make an archive; the tests do without one that fails."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="classes-") as directory:
        partial = Path(directory) / archive.name
        try:
            load(Path(directory), (f"-XX:ArchiveClassesAtExit={partial}", "-Xlog:disable"))
            partial.rename(archive)
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            sys.stderr.write(f"no archive of classes: {error!r}\n")


def _load_broker(directory: Path, options: tuple[str, ...]) -> None:
    """Start a broker, and end it in order."""

    async def run() -> None:
        port, controller_port = quiet_ports(2)
        java_options = (*kafka.BROKER_OPTIONS, *options)
        broker = kafka.KafkaProcess(directory, port, controller_port, {}, java_options)
        try:
            await broker.start()
            assert broker.process is not None
            broker.process.terminate()
            await asyncio.to_thread(broker.process.wait, END_SECONDS_MAX)
        finally:
            await broker.kill()

    asyncio.run(run())


def _load_tool(directory: Path, options: tuple[str, ...]) -> None:
    """Run a tool that finds no broker."""
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    command = kafka.java_command(tool, options=(*kafka.TOOL_OPTIONS, *options))
    subprocess.run(
        [*command, "--bootstrap-server", NO_BROKER, "--list", "--timeout", str(WAIT_MS)],
        cwd=directory,
        capture_output=True,
        timeout=END_SECONDS_MAX,
        check=False,
    )


if __name__ == "__main__":
    main()
