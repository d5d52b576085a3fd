"""What only brokers may ask each other, asked by a connection of a test."""

from __future__ import annotations

from local_cluster.client.connection import Connection
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey


async def act_as_broker(connection: Connection) -> list[int]:
    """Send what only brokers may send, about topic t; return the error codes."""

    async def ask(api: ApiKey, version: int, fields: messages.Fields) -> memoryview:
        body = messages.encode_request(api, version, fields)
        frame, position = await connection.send(api, version, (body,))
        return frame[position:]

    isr = await ask(ApiKey.ALTER_PARTITION, 3, {"broker_id": 9, "broker_epoch": 9, "topics": []})
    marker = {
        "producer_id": 1,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": [0, 1]}],
    }
    markers = messages.decode_response(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        await ask(ApiKey.WRITE_TXN_MARKERS, 1, {"markers": [marker]}),
        0,
    )
    fetched = messages.decode_response(
        ApiKey.FETCH,
        11,
        await ask(
            ApiKey.FETCH,
            11,
            {
                "replica_id": 2,
                "max_wait": 0,
                "min_bytes": 0,
                "max_bytes": 1000,
                "isolation_level": 0,
                "session_id": 0,
                "session_epoch": -1,
                "topics": [
                    {
                        "topic": "t",
                        "partitions": [
                            {
                                "partition": index,
                                "current_leader_epoch": -1,
                                "fetch_offset": 0,
                                "log_start_offset": 0,
                                "partition_max_bytes": 1000,
                            }
                            for index in range(2)
                        ],
                    }
                ],
                "forgotten_topics_data": [],
                "rack_id": "",
            },
        ),
        0,
    )
    handed, _ = await connection.send(ApiKey.HAND_OVER, 0, (b"{}",))
    codes = [
        int.from_bytes(bytes(isr[4:6]), "big", signed=True),
        *(
            each.error_code
            for marked in markers.markers
            for topic in marked.topics
            for each in topic.partitions
        ),
        *(each.error_code for topic in fetched.responses for each in topic.partitions),
    ]
    assert handed
    await connection.close()
    return codes
