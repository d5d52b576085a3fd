"""TxnOffsetCommit at a broker that does not serve the group's partition."""

from __future__ import annotations

import pytest

import local_cluster.handlers.transactions.p28_txn_offset_commit  # noqa: F401
from local_cluster.controller.model.cluster_image import OFFSETS_TOPIC
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.groups.doubles import FakeBroker


@pytest.mark.parametrize(
    "code",
    [ErrorCode.kafka_storage_error, ErrorCode.not_leader_or_follower],
    ids=["log-dir-failed", "led-elsewhere"],
)
@pytest.mark.parametrize("version", range(6))
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
    response = await broker.send(
        ApiKey.TXN_OFFSET_COMMIT,
        version,
        transactional_id="x",
        group_id="boards",
        producer_id=1,
        producer_epoch=0,
        topics=[
            {
                "name": "flights",
                "partitions": [
                    {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
                ],
            }
        ],
    )
    ((result,),) = [topic.partitions for topic in response.topics]
    assert result.error_code is ErrorCode.not_coordinator
