"""DescribeConfigs at each served version."""

from __future__ import annotations

from typing import Any

import pytest

from local_cluster.handlers.configs.p32_describe_configs import describe_configs
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.samples import partition, topic
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper
from tests.unit.local_cluster.handlers.admin_broker import Broker, ask


class TestDescribeConfigs:
    async def describe(
        self, broker: Broker, version: int, kind: int, name: str, **fields: Any
    ) -> Any:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        resource |= {k: fields.pop(k) for k in list(fields) if k == "configuration_keys"}
        request = {"resources": [resource], **fields}
        answer = await ask(describe_configs, ApiKey.DESCRIBE_CONFIGS, version, broker, request)
        return answer.results[0]

    @pytest.mark.parametrize("version", range(1, 5))
    async def test_a_topic(self, broker: Broker, version: int) -> None:
        broker.show(topic("a", partition(0, 1), cleanup_policy="compact"))
        result = await self.describe(broker, version, 2, "a", include_synonyms=True)
        assert result.error_code is ErrorCode.none
        configs = {config.name: config for config in result.configs}
        policy = configs["cleanup.policy"]
        assert (policy.value, policy.config_source) == ("compact", 1)
        assert [s.value for s in policy.synonyms] == ["compact", "delete"]
        assert configs["retention.ms"].config_source == 5
        if version >= 3:
            assert policy.config_type == 7

    async def test_only_the_requested_configs(self, broker: Broker) -> None:
        broker.show(topic("a", partition(0, 1)))
        keys = {"configuration_keys": ["retention.ms"]}
        result = await self.describe(broker, 4, 2, "a", **keys, include_documentation=True)
        (config,) = result.configs
        assert config.name == "retention.ms"
        assert config.documentation
        assert config.synonyms == ()

    @pytest.mark.parametrize("version", range(1, 5))
    async def test_this_broker(self, version: int) -> None:
        broker = Broker(FakeZooKeeper(), num_partitions="3", sasl_jaas_config="hush")
        await broker.control_plane.start()
        result = await self.describe(broker, version, 4, "1")
        configs = {config.name: config for config in result.configs}
        assert configs["num.partitions"].value == "3"
        assert (configs["num.partitions"].config_source, configs["num.partitions"].read_only) == (
            4,
            True,
        )
        assert configs["sasl.jaas.config"].value is None
        assert configs["sasl.jaas.config"].is_sensitive
        assert configs["log.retention.ms"].config_source == 5
        assert len(result.configs) == len(configs), "every name once"
        await broker.control_plane.stop()

    @pytest.mark.parametrize(
        ("kind", "name", "code"),
        [
            (2, "missing", ErrorCode.unknown_topic_or_partition),
            (2, "no good", ErrorCode.invalid_topic_exception),
            (4, "9", ErrorCode.invalid_request),
            (8, "9", ErrorCode.invalid_request),
            (16, "1", ErrorCode.invalid_request),
        ],
    )
    async def test_refusals(self, broker: Broker, kind: int, name: str, code: ErrorCode) -> None:
        result = await self.describe(broker, 4, kind, name)
        assert (result.error_code, result.configs) == (code, ())
