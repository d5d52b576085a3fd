"""TxnOffsetCommit at a broker that does not serve the group's partition."""

from __future__ import annotations

import uuid
from typing import Any, Final

import pytest

import local_cluster.handlers.transactions.p28_txn_offset_commit  # noqa: F401
from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.groups.doubles import FakeBroker

UNKNOWN_ID: Final = uuid.UUID(int=7)


def named(broker: FakeBroker, version: int, topic: str) -> dict[str, Any]:
    """A topic as the version names it."""
    if version < 6:
        return {"name": topic}
    known = broker.metadata.topics.get(topic)
    return {"topic_id": UNKNOWN_ID if known is None else known.topic_id}


async def commit(broker: FakeBroker, version: int, topic: str, partition: int) -> Any:
    """Commit one offset of a group in a transaction; return the response."""
    return await broker.send(
        ApiKey.TXN_OFFSET_COMMIT,
        version,
        transactional_id="x",
        group_id="boards",
        producer_id=1,
        producer_epoch=0,
        topics=[
            {
                **named(broker, version, topic),
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": 5,
                        "committed_metadata": None,
                    }
                ],
            }
        ],
    )


@pytest.mark.parametrize(
    "code",
    [ErrorCode.kafka_storage_error, ErrorCode.not_leader_or_follower],
    ids=["log-dir-failed", "led-elsewhere"],
)
@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("is_verifying", [True, False], ids=["verifying", "unverified"])
async def test_a_broker_without_the_partition_is_not_the_coordinator(
    code: ErrorCode, version: int, is_verifying: bool
) -> None:
    """As in Kafka. Producers look for another coordinator after this error; the partition's own
    error would be fatal to them."""
    setting = {"transaction.partition.verification.enable": str(is_verifying).lower()}
    broker = FakeBroker(config=setting)
    broker.add_topic(OFFSETS_TOPIC, 2)
    broker.add_topic("flights", 1)

    broker.replicas.refusal = code
    response = await commit(broker, version, "flights", 0)
    ((result,),) = [topic.partitions for topic in response.topics]
    assert result.error_code is ErrorCode.not_coordinator


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("topic", ["flights", "nowhere"])
async def test_what_does_not_exist_is_refused(version: int, topic: str) -> None:
    broker = FakeBroker()
    broker.add_topic(OFFSETS_TOPIC, 2)
    broker.add_topic("flights", 1)
    response = await commit(broker, version, topic, 9)
    ((result,),) = [topic.partitions for topic in response.topics]
    expected = ErrorCode.unknown_topic_or_partition
    if version >= 6 and topic == "nowhere":
        expected = ErrorCode.unknown_topic_id
    assert result.error_code is expected
    if version >= 6:
        assert response.topics[0].topic_id == named(broker, version, topic)["topic_id"]
