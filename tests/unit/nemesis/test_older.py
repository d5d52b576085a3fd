"""Brokers of the older version run its code, and understand what the tests tell them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from local_cluster.settings import BrokerSettings, Listener, dump_settings
from local_cluster.wire.api import ApiKey
from tests.nemesis import older
from tests.nemesis.cluster import NODES, Cluster, ClusterOptions
from tests.nemesis.faults.table import FAULTS
from tests.nemesis.life import options_for
from tests.support.cluster import PRESENT_CODE, BrokerProcess

PROGRAM = """
import sys
from pathlib import Path
import local_cluster.settings
print(local_cluster.settings.__file__)
print(local_cluster.settings.load_settings(Path(sys.argv[1])).broker_id)
"""
SETTINGS = BrokerSettings(
    cluster="c",
    broker_id=7,
    listeners=(Listener(name="PLAINTEXT", host="127.0.0.1", port=0, advertised_port=1),),
    inter_broker_listener="PLAINTEXT",
    zookeeper_connect="127.0.0.1:1/c",
    log_dirs=("log",),
    ready_file="ready.json",
)


def test_a_process_started_there_has_the_older_code_and_reads_todays_settings(
    tmp_path: Path,
) -> None:
    reason = older.why_not()
    if reason is not None:
        pytest.skip(reason)
    code = older.unpacked(tmp_path)
    assert code == older.code(tmp_path)
    (tmp_path / "settings.json").write_bytes(dump_settings(SETTINGS))
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "settings.json")],
        cwd=code,
        capture_output=True,
        text=True,
        check=True,
    )
    file, broker_id = ran.stdout.split()
    assert Path(file).resolve() == (code / "local_cluster" / "settings.py").resolve()
    assert int(broker_id) == SETTINGS.broker_id


def test_without_git_or_the_commit_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(older, "REVISION", "0" * 40)
        reason = older.why_not()
        assert reason is not None
    monkeypatch.setenv("PATH", "")
    assert older.why_not() == "there is no git on this machine"


def test_only_a_life_with_an_upgrade_begins_with_older_code() -> None:
    upgrade = FAULTS["rolling-upgrade"]
    others = [fault for fault in FAULTS.values() if fault is not upgrade]
    assert options_for([FAULTS["none"], upgrade], []).older_version
    assert not options_for(others, []).older_version
    assert options_for([FAULTS["none"]], []) == ClusterOptions()


class FakeCluster:
    """Brokers that only have code: what was done to them, in order."""

    directory = Path("life")
    watched_topic = "t"

    def __init__(self) -> None:
        older_code = older.code(self.directory)
        self.nodes = {
            node: BrokerProcess(SETTINGS, self.directory, code=older_code) for node in NODES
        }
        self.stopped: set[int] = set()
        self.done: list[object] = []

    async def stop(self, node: int) -> None:
        assert not self.stopped, "one at a time"
        self.stopped.add(node)

    async def start(self, node: int) -> None:
        self.stopped.remove(node)
        is_older = self.nodes[node].code == older.code(self.directory)
        self.done.append((node, "older" if is_older else "present"))

    async def until_in_sync(self, topics: Sequence[str]) -> None:
        self.done.append("in sync")

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.done.append("serves")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[FakeCluster]:
        yield self

    async def call_controller(self, api: ApiKey, fields: dict[str, Any]) -> None:
        assert fields["topic_partitions"] is None, "everywhere"
        self.done.append(api.name)


async def test_one_after_the_other_is_upgraded_and_one_goes_back_and_on() -> None:
    cluster = FakeCluster()
    await FAULTS["rolling-upgrade"].inject(cast("Cluster", cluster))
    runs = [(1, "present"), (2, "present"), (3, "present"), (1, "older"), (1, "present")]
    assert cluster.done == [
        each for run in runs for each in (run, "in sync", "ELECT_LEADERS", "serves")
    ]
    assert {broker.code for broker in cluster.nodes.values()} == {PRESENT_CODE}
