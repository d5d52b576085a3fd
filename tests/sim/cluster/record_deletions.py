"""DeleteRecords by an operator of a simulated cluster, without a retry."""

from __future__ import annotations

from typing import Final

from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.committed_log import CommittedLog
from tests.sim.cluster.names import Anomaly, Log

VERSION: Final = 2
TIMEOUT_MS: Final = 3_000


async def delete_records(client: SimClient, log: Log, committed: CommittedLog, offset: int) -> None:
    """Delete the records before an offset. It may be refused, or the response may be lost.

    `offset` is not beyond the committed end. Raises Anomaly for an impossible response.
    """
    committed.requested.append(offset)
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
        # The only refusal after which surely nothing was deleted.
        committed.requested.remove(offset)
    elif found.error_code == ErrorCode.none and not (
        offset <= found.low_watermark <= committed.start_offset_max
    ):
        raise Anomaly(
            f"{log}: the response to a deletion before {offset} has low watermark "
            f"{found.low_watermark}; deletion was requested up to {committed.start_offset_max}"
        )
