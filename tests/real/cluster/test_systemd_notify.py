"""A real broker tells systemd that it is ready, that it is alive, and that it stops."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.cluster import running_broker

pytestmark = pytest.mark.real


async def test_a_broker_notifies_systemd(
    zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "2000000")
        async with running_broker(zookeeper, tmp_path) as broker:
            messages = {systemd.recv(100) for _ in range(2)}
            assert {b"READY=1", b"WATCHDOG=1"} >= messages
            while b"READY=1" not in messages:
                messages.add(systemd.recv(100))
            assert await broker.stop() == 0
        while b"STOPPING=1" not in messages:
            messages.add(systemd.recv(100))
        assert messages == {b"READY=1", b"WATCHDOG=1", b"STOPPING=1"}
