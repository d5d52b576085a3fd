"""`metadata_response` against kio, whose classes are generated from Kafka's schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.wire import messages, metadata_response
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode

INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.text(max_size=200)
BROKER_IDS = st.lists(INT32, max_size=130).map(tuple)
CODES = st.sampled_from([ErrorCode.none, ErrorCode.leader_not_available])
BROKERS = st.lists(
    st.fixed_dictionaries(
        {"node_id": INT32, "host": NAMES, "port": INT32, "rack": st.none() | NAMES}
    ),
    max_size=3,
)
PARTITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "error_code": CODES,
            "partition_index": INT32,
            "leader_id": INT32,
            "leader_epoch": INT32,
            "replica_nodes": BROKER_IDS,
            "isr_nodes": BROKER_IDS,
            "offline_replicas": BROKER_IDS,
        }
    ),
    max_size=3,
)
TOPICS = st.lists(
    st.fixed_dictionaries(
        {
            "error_code": CODES,
            "name": NAMES,
            "topic_id": st.none() | st.uuids(),
            "is_internal": st.booleans(),
            "partitions": PARTITIONS,
            "topic_authorized_operations": INT32,
        }
    ),
    max_size=3,
)


@given(
    version=st.integers(0, 13),
    brokers=BROKERS,
    cluster_id=st.none() | NAMES,
    controller_id=INT32,
    topics=TOPICS,
    operations=INT32,
)
def test_bytes_equal_kios(
    version: int,
    brokers: Any,
    cluster_id: str | None,
    controller_id: int,
    topics: list[Any],
    operations: int,
) -> None:
    kios = messages.encode_response(
        ApiKey.METADATA,
        version,
        {
            "error_code": ErrorCode.none,
            "brokers": brokers,
            "cluster_id": cluster_id,
            "controller_id": controller_id,
            "topics": topics,
            "cluster_authorized_operations": operations,
        },
    )
    ours = metadata_response.encode_head(
        version,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics_count=len(topics),
    )
    for topic in topics:
        ours += metadata_response.encode_topic(version, topic)
        ours += metadata_response.encode_topic_end(version, topic["topic_authorized_operations"])
    ours += metadata_response.encode_end(version, operations)
    assert ours == kios


def test_a_null_name_needs_version_12() -> None:
    topic: Any = {"error_code": ErrorCode.none, "name": None, "partitions": ()}
    assert metadata_response.encode_topic(12, topic)[2] == 0
    with pytest.raises(TypeError, match="v11 has no null name"):
        metadata_response.encode_topic(11, topic)
