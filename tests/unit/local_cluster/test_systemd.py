"""Notifications to systemd: ready, alive, stopping."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_cluster.systemd import notifying, watchdog_s


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


async def received(listener: socket.socket) -> bytes:
    async with asyncio.timeout(20):
        return await asyncio.get_running_loop().sock_recv(listener, 100)


async def test_ready_only_when_the_ready_file_names_this_process(
    systemd: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    ready = tmp_path / "ready.json"
    ready.write_text(json.dumps({"pid": 1, "state": "running"}))
    async with notifying(ready):
        assert await received(systemd) == b"WATCHDOG=1", "it is alive before it is ready"
        ready.write_text(json.dumps({"pid": os.getpid(), "state": "running"}))
        while (message := await received(systemd)) == b"WATCHDOG=1":
            pass
        assert message == b"READY=1"
        assert await received(systemd) == b"WATCHDOG=1"
    while (message := await received(systemd)) == b"WATCHDOG=1":
        pass
    assert message == b"STOPPING=1"


async def test_nothing_happens_without_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    async with notifying(tmp_path / "ready.json"):
        assert len(asyncio.all_tasks()) == 1


async def test_a_systemd_that_went_away_stops_nothing(
    systemd: socket.socket, tmp_path: Path
) -> None:
    ready = tmp_path / "ready.json"
    ready.write_text(json.dumps({"pid": os.getpid()}))
    async with notifying(ready):
        systemd.close()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "7"}, 1.0),
        ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "8"}, None),
    ],
)
def test_the_watchdog_is_for_this_process(
    environment: dict[str, str], expected: float | None
) -> None:
    assert watchdog_s(environment, 7) == expected
