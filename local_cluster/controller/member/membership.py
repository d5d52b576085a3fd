"""Joining a cluster: the layout of znodes, the cluster's id, the registration, the election.

Each function is idempotent: after a lost connection, when nobody knows what became of the last
call, it is simply called again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.model import znodes
from local_cluster.controller.model.cluster_image import NO_EPOCH
from local_cluster.controller.zk.coordination import (
    CheckVersion,
    CommitConflict,
    Coordination,
    Create,
    Delete,
    SetPayload,
    ZkOp,
    Znode,
)
from local_cluster.controller.zk.term import Term
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 20
REGISTRATION_POLL_MS: Final = 200
REGISTRATION_WAIT_FACTOR: Final = 1.5
"""How many session timeouts to wait for a former registration of this broker id to end."""

_FIRST_EPOCH: Final = Create(
    znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(znodes.INITIAL_CONTROLLER_EPOCH)
)


async def ensure_layout(coordination: Coordination) -> None:
    """Create the persistent znodes that are missing, in one commit."""
    for _ in range(ATTEMPTS_MAX):
        znodes_found = await asyncio.gather(*map(coordination.read, znodes.PERSISTENT_PATHS))
        missing = [
            path
            for path, znode in zip(znodes.PERSISTENT_PATHS, znodes_found, strict=True)
            if znode is None
        ]
        if not missing:
            return
        # A conflict means that another broker starts at the same time: look again.
        with contextlib.suppress(CommitConflict):
            await coordination.commit([Create(path) for path in missing])
            return
    raise KafkaError(ErrorCode.unknown_server_error, "the znode layout changes all the time")


async def ensure_cluster_id(coordination: Coordination, proposal: str) -> str:
    """The cluster's id; `proposal` becomes it where there is none."""
    for _ in range(ATTEMPTS_MAX):
        znode = await coordination.read(znodes.CLUSTER_ID)
        if znode is not None:
            return znodes.decode_cluster_id(znode.payload)
        with contextlib.suppress(CommitConflict):
            op = Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(proposal))
            await coordination.commit([op])
            return proposal
    raise KafkaError(ErrorCode.unknown_server_error, "the cluster id comes and goes")


async def read_controller_epoch(coordination: Coordination) -> int:
    """The epoch of the newest election, NO_EPOCH before the first one."""
    znode = await coordination.read(znodes.CONTROLLER_EPOCH)
    return NO_EPOCH if znode is None else znodes.decode_controller_epoch(znode.payload)


def registration_payload(
    settings: BrokerSettings, bound_ports: Mapping[str, int], now_ms: int
) -> bytes:
    """What this broker says of itself, with the ports that were really bound."""
    endpoints = []
    for listener in settings.listeners:
        port = listener.advertised_port or bound_ports.get(listener.name, listener.port)
        assert port > 0, f"listener {listener.name} has no port to advertise"
        endpoints.append((listener.name, listener.advertised_host or listener.host, port))
    return znodes.encode_broker(
        endpoints,
        {listener.name: listener.security_protocol for listener in settings.listeners},
        rack=settings.rack,
        timestamp_ms=now_ms,
    )


async def register(
    coordination: Coordination, settings: BrokerSettings, payload: bytes, clock: Clock
) -> int:
    """Register this broker; the broker epoch of the registration.

    A registration of the same id by another session is waited for: it may be a killed run of this
    broker that has not timed out yet. Raises KafkaError(duplicate_broker_registration) where it
    stays, because then it is another live broker.
    """
    path = znodes.broker_id_path(settings.broker_id)
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
                f"broker id {settings.broker_id} is registered by another broker: {path}",
            )
        log.info("waiting for another registration of broker %d to end", settings.broker_id)
        await asyncio.sleep(REGISTRATION_POLL_MS / 1000)


async def elect(
    coordination: Coordination, broker_id: int, clock: Clock, heard_epoch: int = NO_EPOCH
) -> tuple[int, Term | None]:
    """(id of the elected controller, the term where that is this broker's session).

    A term is of no lower epoch than was heard of: brokers refuse the images of such a one. Leaves
    a watch on the /controller znode.
    """
    for _ in range(ATTEMPTS_MAX):
        # In this order: where another is elected in between, the fence is of the term before, and
        # fails. The other way round it would be of that other's term, and two would control.
        epoch = await coordination.read(znodes.CONTROLLER_EPOCH)
        controller = await coordination.read(znodes.CONTROLLER, watch=True)
        if controller is not None and controller.ephemeral_owner != coordination.session_id:
            return znodes.decode_controller(controller.payload), None
        stored = NO_EPOCH if epoch is None else znodes.decode_controller_epoch(epoch.payload)
        if epoch is None:
            await _prepare_election(coordination, _FIRST_EPOCH, controller)
        elif controller is None:
            raised = max(stored, heard_epoch) + 1
            if await _take_control(coordination, broker_id, clock, raised, epoch.version):
                log.info("broker %d is the controller, epoch %d", broker_id, raised)
        elif stored < heard_epoch:
            log.warning("controller epoch %d is too low: %d was heard of", stored, heard_epoch)
            unless_another = CheckVersion(znodes.CONTROLLER_EPOCH, epoch.version)
            await _prepare_election(coordination, unless_another, controller)
        else:
            # Ours, and the epoch was raised in the same commit.
            return broker_id, Term(stored, epoch.version)
    raise KafkaError(ErrorCode.unknown_server_error, "the controller changes all the time")


async def _prepare_election(
    coordination: Coordination, epoch: ZkOp, controller: Znode | None
) -> None:
    """Nobody controls by an epoch that is missing, or that somebody put back: not we either."""
    ops = [epoch]
    if controller is not None:
        ops.append(Delete(znodes.CONTROLLER, controller.version))
    # On a conflict somebody else does this: look again.
    with contextlib.suppress(CommitConflict):
        await coordination.commit(ops)


async def _take_control(
    coordination: Coordination, broker_id: int, clock: Clock, epoch: int, zk_version: int
) -> bool:
    """Whether this broker was elected; else somebody else was, and is to be looked for."""
    payload = znodes.encode_controller(broker_id, timestamp_ms=clock.now_ms())
    raised = znodes.encode_controller_epoch(epoch)
    try:
        await coordination.commit(
            [
                Create(znodes.CONTROLLER, payload, ephemeral=True),
                SetPayload(znodes.CONTROLLER_EPOCH, raised, zk_version),
            ]
        )
    except CommitConflict:
        return False
    return True


async def ensure_feature(coordination: Coordination, term: Term) -> None:
    """Write the /feature znode where it is missing, as every controller of Kafka 3.9 does."""
    if await coordination.read(znodes.FEATURE) is None:
        with contextlib.suppress(CommitConflict):
            await term.commit(coordination, [Create(znodes.FEATURE, znodes.encode_feature())])


async def reserve_producer_ids(coordination: Coordination, broker_id: int) -> range:
    """Take the next block of producer ids. Raises KafkaError where that keeps failing."""
    for _ in range(ATTEMPTS_MAX):
        znode = await coordination.read(znodes.PRODUCER_ID_BLOCK)
        if znode is None:
            await ensure_layout(coordination)
            continue
        block = znodes.next_producer_id_block(znode.payload)
        payload = znodes.encode_producer_id_block(broker_id, block)
        with contextlib.suppress(CommitConflict):
            await coordination.commit(
                [SetPayload(znodes.PRODUCER_ID_BLOCK, payload, znode.version)]
            )
            return block
    raise KafkaError(ErrorCode.coordinator_not_available, "no block of producer ids")
