"""An operator of a simulated cluster who deletes records, once; nobody asks again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.committed_log import CommittedLog
from tests.sim.cluster.names import Anomaly, Log

if TYPE_CHECKING:
    from tests.sim.cluster.world import SimWorld

VERSION: Final = 2
TIMEOUT_MS: Final = 3_000


async def delete_records(
    world: SimWorld, client: SimClient, log: Log, committed: CommittedLog, offset: int
) -> None:
    """Ask the leader of a partition. Whatever comes of it: it may be refused, or not be heard of.

    `offset` is not beyond what is committed. Raises Anomaly for an answer that cannot be.
    """
    committed.asked.append(offset)
    partition = {"partition_index": log.at.partition, "offset": offset}
    fields = {
        "topics": [{"name": log.at.topic, "partitions": [partition]}],
        "timeout": TIMEOUT_MS,
    }
    body = messages.encode_request(ApiKey.DELETE_RECORDS, VERSION, fields)
    try:
        frame, position = await client.ask_leader(
            log.at, ApiKey.DELETE_RECORDS, VERSION, bytes(body)
        )
    except (KafkaError, TimeoutError):
        return
    answer = messages.decode_response(ApiKey.DELETE_RECORDS, VERSION, frame, position)
    (found,) = answer.topics[0].partitions
    if found.error_code == ErrorCode.offset_out_of_range:
        # The only refusal after which nothing was deleted for sure.
        committed.asked.remove(offset)
    elif found.error_code == ErrorCode.none and not (
        offset <= found.low_watermark <= committed.may_begin
    ):
        raise Anomaly(
            f"{log}: records before {offset} are said to be deleted, those before "
            f"{found.low_watermark} are, and {committed.may_begin} was asked for"
        )
