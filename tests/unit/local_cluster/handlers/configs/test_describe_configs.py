"""DescribeConfigs at each served version."""

from __future__ import annotations

from typing import Any

import pytest

from local_cluster.controller.decisions.dynamic_broker_configs import FOLLOWER_RATE, LEADER_RATE
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
            (16, "", ErrorCode.invalid_request),
            (32, "", ErrorCode.invalid_request),
            (64, "1", ErrorCode.invalid_request),
        ],
    )
    async def test_refusals(self, broker: Broker, kind: int, name: str, code: ErrorCode) -> None:
        result = await self.describe(broker, 4, kind, name)
        assert (result.error_code, result.configs) == (code, ())

    async def test_dynamic_configs_of_brokers(self, broker: Broker) -> None:
        entities = {"1": {LEADER_RATE: "5"}, "<default>": {LEADER_RATE: "7", FOLLOWER_RATE: "8"}}
        broker.metadata.broker_configs = entities
        result = await self.describe(broker, 4, 4, "1", include_synonyms=True)
        configs = {config.name: config for config in result.configs}
        assert (configs[LEADER_RATE].value, configs[LEADER_RATE].read_only) == ("5", False)
        assert [each.source for each in configs[LEADER_RATE].synonyms] == [2, 3]
        assert configs[FOLLOWER_RATE].config_source == 3
        for_all = await self.describe(broker, 4, 4, "", include_synonyms=True)
        assert [config.value for config in for_all.configs] == ["8", "7"]
        broker.metadata.broker_configs = {}
        assert (await self.describe(broker, 4, 4, "")).configs == ()

    async def test_a_config_without_effect_says_so(self, broker: Broker) -> None:
        result = await self.describe(broker, 4, 4, "1", include_documentation=True)
        docs = {config.name: config.documentation for config in result.configs}
        assert docs["background.threads"].startswith("Has no effect: ")
        assert docs["log.preallocate"].startswith("Has no effect: files are never preallocated. ")
        assert not docs["num.partitions"].startswith("Has no effect")

    async def test_a_group(self) -> None:
        broker = Broker(FakeZooKeeper(), group_consumer_heartbeat_interval_ms="6000")
        broker.metadata.entity_configs = {
            "groups/a%2Fb": {"consumer.session.timeout.ms": "50000"},
        }
        result = await self.describe(broker, 4, 32, "a/b", include_synonyms=True)
        configs = {config.name: config for config in result.configs}
        session = configs["consumer.session.timeout.ms"]
        assert (session.value, session.config_source, session.config_type) == ("50000", 8, 3)
        assert [(s.name, s.value, s.source) for s in session.synonyms] == [
            ("consumer.session.timeout.ms", "50000", 8),
            ("group.consumer.session.timeout.ms", "45000", 5),
        ]
        heartbeat = configs["consumer.heartbeat.interval.ms"]
        assert (heartbeat.value, heartbeat.config_source) == ("6000", 4)

    async def test_client_metrics(self, broker: Broker) -> None:
        broker.metadata.entity_configs = {"client-metrics/m": {"interval.ms": "1000"}}
        result = await self.describe(broker, 4, 16, "m")
        values = {config.name: (config.value, config.config_source) for config in result.configs}
        assert values == {"interval.ms": ("1000", 7), "match": ("", 5), "metrics": ("", 5)}
