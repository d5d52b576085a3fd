"""A source, an aggregate and the mirror between them, by `heliograph up`."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spark_global.views import Aggregate, global_topics
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.quiet_ports import quiet_ports
from topology.deployment.aggregate_view import aggregate_view
from topology.deployment.deployment import read_deployment
from topology.deployment.state_dir import StateDir

TOPIC: Final = "flights"
AGGREGATE: Final = "nyc"
TOPOLOGY: Final = """\
name: bench
zookeepers: [{{name: zookeeper, port: {zookeeper}}}]
clusters:
  - name: ewr
    brokers: [{{id: 1, port: {source}}}]
    topic_defaults: {{partitions: {partitions}}}
  - name: nyc
    kind: aggregate
    brokers: [{{id: 1, port: {aggregate}}}]
links:
  - {{source: ewr, target: nyc, topics: [flights]}}
"""
START_SECONDS_MAX: Final = 120.0
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Deployed:
    """The processes, and where they are."""

    command: HeliographCommand
    source_port: int
    aggregate: Aggregate
    mirror_pids: list[int]
    broker_pids: list[int]

    @property
    def source_bootstrap(self) -> str:
        return f"127.0.0.1:{self.source_port}"


@contextlib.contextmanager
def deployed(directory: Path, partitions: int) -> Iterator[Deployed]:
    """Start all in a new directory; TOPIC is at the source and its copy at the aggregate.

    Raises RuntimeError where the copy is not created in time.
    """
    directory.mkdir(parents=True)
    zookeeper, source, aggregate = quiet_ports(3)
    command = HeliographCommand(directory)
    command.file.write_text(
        TOPOLOGY.format(
            zookeeper=zookeeper, source=source, aggregate=aggregate, partitions=partitions
        )
    )
    status = command.up()
    try:
        running = Deployed(
            command=command,
            source_port=source,
            aggregate=aggregate_view(read_deployment(StateDir(command.state_dir)), AGGREGATE),
            mirror_pids=_of(status, "mirror"),
            broker_pids=_of(status, "broker"),
        )
        create = ["topic", "create", TOPIC, "--bootstrap", running.source_bootstrap]
        subprocess.run([sys.executable, "-m", "topology", *create], check=True, capture_output=True)
        _wait_for_copy(running.aggregate)
        yield running
    finally:
        command.run("down", "--purge")


def _wait_for_copy(aggregate: Aggregate) -> None:
    ends = time.monotonic() + START_SECONDS_MAX
    while TOPIC not in global_topics(aggregate):
        if time.monotonic() > ends:
            raise RuntimeError(f"no copy of {TOPIC} after {START_SECONDS_MAX:.0f} s")
        time.sleep(_POLL_SECONDS)


def _of(status: Any, kind: str) -> list[int]:
    return [pid for key, pid in pids(status).items() if key.startswith(kind)]
