"""A control plane in this process on a real ZooKeeper, and the end of another client's session."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from kazoo.client import KazooClient

from local_cluster.clock import SystemClock
from local_cluster.controller.member.control_plane import ControlPlane
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.controller.zk.session_file import SESSION_FILE
from local_cluster.settings import BrokerSettings, Listener
from tests.support.quiet_ports import quiet_port

SESSION_TIMEOUT_MS = 4_000


class Member:
    """A control plane in this process, without a server: other brokers cannot reach it."""

    def __init__(self, chroot: str, directory: Path, broker_id: int = 1) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.cache = MetadataCache()
        self.changes: list[Changes] = []
        listener = Listener(name="CLIENT", host="0.0.0.0", port=0, advertised_host="127.0.0.1")
        self.plane = ControlPlane(
            BrokerSettings(
                cluster="c",
                broker_id=broker_id,
                rack="r1",
                listeners=(listener,),
                inter_broker_listener="CLIENT",
                zookeeper_connect=chroot,
                zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
                log_dirs=(str(directory),),
                ready_file="unused",
            ),
            SystemClock(),
            self.cache,
            self.changes.append,
            bound_ports={"CLIENT": quiet_port()},
        )

    def session(self) -> tuple[int, bytes]:
        saved = json.loads((self.directory / SESSION_FILE).read_bytes())
        return saved["session_id"], bytes.fromhex(saved["password"])


@contextlib.asynccontextmanager
async def running(member: Member) -> AsyncIterator[Member]:
    await member.plane.start()
    try:
        yield member
    finally:
        await member.plane.stop()


def end_session(chroot: str, session: tuple[int, bytes]) -> None:
    """End another client's session, as the server does after a timeout."""
    thief = KazooClient(chroot, client_id=session)
    thief.start()
    assert thief.client_id[0] == session[0]
    thief.stop()
    thief.close()
