"""DescribeCluster at each served version."""

from __future__ import annotations

import pytest

from local_cluster.handlers.cluster.p60_describe_cluster import describe_cluster
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import OPERATIONS_NOT_REQUESTED
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.handlers.admin_broker import Broker, ask


class TestDescribeCluster:
    @pytest.mark.parametrize("version", [0, 1, 2])
    async def test_every_version(self, broker: Broker, version: int) -> None:
        fields = {"include_cluster_authorized_operations": False, "include_fenced_brokers": True}
        answer = await ask(describe_cluster, ApiKey.DESCRIBE_CLUSTER, version, broker, fields)
        assert (answer.error_code, answer.controller_id) == (ErrorCode.none, 1)
        assert answer.cluster_id == broker.metadata.cluster_id
        assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
            (1, "127.0.0.1", 1, "r1")
        ]
        assert answer.cluster_authorized_operations == OPERATIONS_NOT_REQUESTED

    async def test_controllers_are_not_described(self, broker: Broker) -> None:
        fields = {"include_cluster_authorized_operations": False, "endpoint_type": 2}
        answer = await ask(describe_cluster, ApiKey.DESCRIBE_CLUSTER, 1, broker, fields)
        assert answer.error_code is ErrorCode.mismatched_endpoint_type

    async def test_operations(self, broker: Broker) -> None:
        fields = {"include_cluster_authorized_operations": True}
        answer = await ask(describe_cluster, ApiKey.DESCRIBE_CLUSTER, 0, broker, fields)
        assert answer.cluster_authorized_operations == 0b1_1111_1010_0000
