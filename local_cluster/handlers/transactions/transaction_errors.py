"""Errors of the transaction coordinator, as the version of a request knows them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from local_cluster.wire.errors import ErrorCode, KafkaError

PRODUCER_FENCED_SINCE: Final = 2
"""Of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn."""


def error_for_version(error: ErrorCode, version: int) -> ErrorCode:
    """Return the error, or its older equivalent where the version does not know it (KIP-588)."""
    if error is ErrorCode.producer_fenced and version < PRODUCER_FENCED_SINCE:
        return ErrorCode.invalid_producer_epoch
    return error


async def error_of(ask: Callable[[], Awaitable[ErrorCode]]) -> ErrorCode:
    """Return the coordinator's answer, or the error that it failed with."""
    try:
        return await ask()
    except KafkaError as error:
        return error.code
