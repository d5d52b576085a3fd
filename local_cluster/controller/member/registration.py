"""SHELL: joins a cluster: the layout of znodes, the cluster id, the registration of this broker.

Each function is idempotent: call it again after a lost connection, when the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.member.registered_access import KEY, access_of, encode_access
from local_cluster.controller.model import broker_znodes, format_level, znode_paths
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.zk.coordination import CommitConflict, Coordination, Create
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 20
REGISTRATION_POLL_MS: Final = 200
REGISTRATION_WAIT_FACTOR: Final = 1.5
"""How many session timeouts to wait for the end of another registration of this broker id."""


async def ensure_layout(coordination: Coordination) -> None:
    """Create the persistent znodes that are missing, in one commit."""
    for _ in range(ATTEMPTS_MAX):
        znodes_found = await asyncio.gather(*map(coordination.read, znode_paths.PERSISTENT_PATHS))
        missing = [
            path
            for path, znode in zip(znode_paths.PERSISTENT_PATHS, znodes_found, strict=True)
            if znode is None
        ]
        if not missing:
            return
        # A conflict means that another broker starts at the same time: read again.
        with contextlib.suppress(CommitConflict):
            await coordination.commit([Create(path) for path in missing])
            return
    raise KafkaError(ErrorCode.unknown_server_error, "other brokers keep changing the znode layout")


async def check_format_level(coordination: Coordination) -> None:
    """Check that this version reads the cluster's formats.

    Raises KafkaError(unsupported_version).
    """
    znode = await coordination.read(znode_paths.FORMAT_LEVEL)
    if znode is None:
        return
    try:
        problem = format_level.level_problem(format_level.decode_level(znode.payload))
    except UnreadableZnodeError as error:
        problem = f"{znode_paths.FORMAT_LEVEL}: {error}"
    if problem is not None:
        raise KafkaError(ErrorCode.unsupported_version, problem)


async def ensure_cluster_id(coordination: Coordination, proposal: str) -> str:
    """Return the cluster id; store `proposal` if there is none."""
    for _ in range(ATTEMPTS_MAX):
        znode = await coordination.read(znode_paths.CLUSTER_ID)
        if znode is not None:
            return broker_znodes.decode_cluster_id(znode.payload)
        with contextlib.suppress(CommitConflict):
            op = Create(znode_paths.CLUSTER_ID, broker_znodes.encode_cluster_id(proposal))
            await coordination.commit([op])
            return proposal
    raise KafkaError(
        ErrorCode.unknown_server_error, f"cannot read or create {znode_paths.CLUSTER_ID}"
    )


def registration_payload(
    settings: BrokerSettings, bound_ports: Mapping[str, int], now_ms: int
) -> bytes:
    """Encode the registration of this broker, with the ports that were really bound."""
    endpoints = []
    for listener in settings.listeners:
        port = listener.advertised_port or bound_ports.get(listener.name, listener.port)
        assert port > 0, f"listener {listener.name} has no port to advertise"
        endpoints.append((listener.name, listener.advertised_host or listener.host, port))
    return broker_znodes.encode_broker(
        endpoints,
        {listener.name: listener.security_protocol for listener in settings.listeners},
        rack=settings.rack,
        timestamp_ms=now_ms,
        own_keys={KEY: encode_access(access_of(settings))},
    )


async def register(
    coordination: Coordination, settings: BrokerSettings, payload: bytes, clock: Clock
) -> int:
    """Register this broker; return the broker epoch.

    If another session has registered the same id, wait for its end: it may belong to a killed
    process of this broker and time out. Raises KafkaError(duplicate_broker_registration) if it
    stays, because it then belongs to another live broker.
    """
    path = znode_paths.broker_id_path(settings.broker_id)
    wait_ms = settings.zookeeper_session_timeout_ms * REGISTRATION_WAIT_FACTOR
    deadline_ms = clock.monotonic_ms() + wait_ms
    while True:
        with contextlib.suppress(CommitConflict):
            await coordination.commit([Create(path, payload, ephemeral=True)])
        znode = await coordination.read(path)
        if znode is not None and znode.ephemeral_owner == coordination.session_id:
            return znode.created_zxid
        if clock.monotonic_ms() > deadline_ms:
            raise KafkaError(
                ErrorCode.duplicate_broker_registration,
                f"another live broker has registered id {settings.broker_id} at {path}",
            )
        log.info("waiting until another registration of broker %d ends", settings.broker_id)
        await asyncio.sleep(REGISTRATION_POLL_MS / 1000)
