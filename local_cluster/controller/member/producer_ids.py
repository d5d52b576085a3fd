"""SHELL: reserves blocks of producer ids in ZooKeeper, from any broker."""

from __future__ import annotations

import contextlib
from typing import Final

from local_cluster.controller.member.registration import ensure_layout
from local_cluster.controller.model import broker_znodes, znode_paths
from local_cluster.controller.model.znode_json import UnreadableZnodeError
from local_cluster.controller.zk.coordination import (
    CommitConflict,
    Coordination,
    CoordinationUnavailable,
    SetPayload,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

ATTEMPTS_MAX: Final = 20


async def reserve_producer_ids(coordination: Coordination, broker_id: int) -> range:
    """Reserve the next block of producer ids.

    Raises KafkaError: coordinator_not_available, unknown_server_error if none can be reserved.
    """
    try:
        return await _reserve(coordination, broker_id)
    except CoordinationUnavailable as error:
        raise KafkaError(
            ErrorCode.coordinator_not_available, f"ZooKeeper does not answer: {error}"
        ) from error


async def _reserve(coordination: Coordination, broker_id: int) -> range:
    for _ in range(ATTEMPTS_MAX):
        znode = await coordination.read(znode_paths.PRODUCER_ID_BLOCK)
        if znode is None:
            await ensure_layout(coordination)
            continue
        try:
            block = broker_znodes.next_producer_id_block(znode.payload)
        except (UnreadableZnodeError, OverflowError) as error:
            raise KafkaError(
                ErrorCode.unknown_server_error, f"{znode_paths.PRODUCER_ID_BLOCK}: {error}"
            ) from error
        payload = broker_znodes.encode_producer_id_block(broker_id, block)
        with contextlib.suppress(CommitConflict):
            await coordination.commit(
                [SetPayload(znode_paths.PRODUCER_ID_BLOCK, payload, znode.version)]
            )
            return block
    raise KafkaError(ErrorCode.coordinator_not_available, "cannot reserve a block of producer ids")
