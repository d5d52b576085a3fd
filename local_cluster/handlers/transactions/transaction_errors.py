"""What the handlers of transactions share."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from local_cluster.wire.errors import ErrorCode, KafkaError

VERSION_WITH_PRODUCER_FENCED: Final = 2
"""From here on AddPartitionsToTxn, AddOffsetsToTxn and EndTxn may answer PRODUCER_FENCED."""


def told(error: ErrorCode, version: int) -> ErrorCode:
    """The error as this version of the request knows it (KIP-588)."""
    if error is ErrorCode.producer_fenced and version < VERSION_WITH_PRODUCER_FENCED:
        return ErrorCode.invalid_producer_epoch
    return error


async def error_of(answer: Awaitable[ErrorCode]) -> ErrorCode:
    """The coordinator's answer, or why it could give none."""
    try:
        return await answer
    except KafkaError as error:
        return error.code


async def error_code(answer: Awaitable[ErrorCode], version: int) -> dict[str, Any]:
    """An answer that is nothing but an error code."""
    return {"error_code": told(await error_of(answer), version)}
