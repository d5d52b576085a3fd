"""SHELL: elects the controller: /controller and /controller_epoch.

Each function is idempotent: call it again after a lost connection, when the outcome is unknown.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from local_cluster.clock import Clock
from local_cluster.controller.model import broker_znodes, znode_paths
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
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 20

_FIRST_EPOCH: Final = Create(
    znode_paths.CONTROLLER_EPOCH,
    broker_znodes.encode_controller_epoch(broker_znodes.INITIAL_CONTROLLER_EPOCH),
)


async def read_controller_epoch(coordination: Coordination) -> int:
    """Return the epoch of the newest election, NO_EPOCH before the first one."""
    znode = await coordination.read(znode_paths.CONTROLLER_EPOCH)
    return NO_EPOCH if znode is None else broker_znodes.decode_controller_epoch(znode.payload)


async def elect(
    coordination: Coordination, broker_id: int, clock: Clock, known_epoch: int = NO_EPOCH
) -> tuple[int, Term | None]:
    """Take part in the election; return (controller id, the term if this broker won).

    The epoch of a term is never below `known_epoch`: brokers would refuse its images. Sets a watch
    on the /controller znode.
    """
    for _ in range(ATTEMPTS_MAX):
        # Read the epoch first. If another broker is elected between the two reads, the fence is
        # that of the earlier term, and fails. The other way round it would be the fence of that
        # broker's term, and two controllers would write.
        epoch = await coordination.read(znode_paths.CONTROLLER_EPOCH)
        controller = await coordination.read(znode_paths.CONTROLLER, watch=True)
        if controller is not None and controller.ephemeral_owner != coordination.session_id:
            return broker_znodes.decode_controller(controller.payload), None
        stored = NO_EPOCH if epoch is None else broker_znodes.decode_controller_epoch(epoch.payload)
        if epoch is None:
            await _prepare_election(coordination, _FIRST_EPOCH, controller)
        elif controller is None:
            raised = max(stored, known_epoch) + 1
            if await _take_control(coordination, broker_id, clock, raised, epoch.version):
                log.info("broker %d is the controller, epoch %d", broker_id, raised)
        elif stored < known_epoch:
            log.warning("controller epoch %d is too low: %d is known", stored, known_epoch)
            unless_another = CheckVersion(znode_paths.CONTROLLER_EPOCH, epoch.version)
            await _prepare_election(coordination, unless_another, controller)
        else:
            # Our session won; the same commit raised the epoch.
            return broker_id, Term(stored, epoch.version)
    raise KafkaError(ErrorCode.unknown_server_error, "the controller keeps changing")


async def _prepare_election(
    coordination: Coordination, epoch: ZkOp, controller: Znode | None
) -> None:
    """Repair an epoch that is missing or was lowered by hand, and end our own term under it."""
    ops = [epoch]
    if controller is not None:
        ops.append(Delete(znode_paths.CONTROLLER, controller.version))
    # A conflict means that another broker does the same: the caller reads again.
    with contextlib.suppress(CommitConflict):
        await coordination.commit(ops)


async def _take_control(
    coordination: Coordination, broker_id: int, clock: Clock, epoch: int, zk_version: int
) -> bool:
    """Return whether this broker was elected; otherwise another one was."""
    payload = broker_znodes.encode_controller(broker_id, timestamp_ms=clock.now_ms())
    raised = broker_znodes.encode_controller_epoch(epoch)
    try:
        await coordination.commit(
            [
                Create(znode_paths.CONTROLLER, payload, ephemeral=True),
                SetPayload(znode_paths.CONTROLLER_EPOCH, raised, zk_version),
            ]
        )
    except CommitConflict:
        return False
    return True


async def ensure_feature(coordination: Coordination, term: Term) -> None:
    """Write a missing /feature znode, as every controller of Kafka 3.9 does."""
    if await coordination.read(znode_paths.FEATURE) is None:
        with contextlib.suppress(CommitConflict):
            await term.commit(
                coordination, [Create(znode_paths.FEATURE, broker_znodes.encode_feature())]
            )
