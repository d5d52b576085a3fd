"""CreateTopics, DeleteTopics and CreatePartitions at each served version."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from local_cluster.handlers.topics.p19_create_topics import create_topics
from local_cluster.handlers.topics.p20_delete_topics import delete_topics
from local_cluster.handlers.topics.p37_create_partitions import create_partitions
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.zk.fake_zookeeper import FakeZooKeeper
from tests.unit.local_cluster.handlers.admin_broker import Broker, ask, named


class TestTopicApis:
    @pytest.mark.parametrize("version", range(2, 8))
    async def test_create(self, broker: Broker, version: int) -> None:
        configs = [{"name": "retention.ms", "value": "5"}]
        asked = [
            {"name": "a", "num_partitions": 2, "replication_factor": 1, "configs": configs},
            {"name": "b", "num_partitions": 1, "replication_factor": 3},
        ]
        fields = {"topics": asked, "timeout": 1_000}
        answer = await ask(create_topics, ApiKey.CREATE_TOPICS, version, broker, fields)
        results = {each.name: each for each in answer.topics}
        assert results["a"].error_code is ErrorCode.none
        assert results["b"].error_code is ErrorCode.invalid_replication_factor
        assert results["b"].error_message
        if version >= 5:
            assert (results["a"].num_partitions, results["a"].replication_factor) == (2, 1)
            values = {config.name: config.value for config in results["a"].configs}
            assert values["retention.ms"] == "5"
        if version >= 7:
            assert results["a"].topic_id == broker.metadata.topics["a"].topic_id

    async def test_a_name_given_twice(self, broker: Broker) -> None:
        one = {"name": "a", "num_partitions": 1, "replication_factor": 1}
        fields = {"topics": [one, one], "timeout": 1_000}
        (result,) = (await ask(create_topics, ApiKey.CREATE_TOPICS, 7, broker, fields)).topics
        assert result.error_code is ErrorCode.invalid_request
        assert "a" not in broker.metadata.topics

    @pytest.mark.parametrize("version", range(1, 7))
    async def test_delete(self, broker: Broker, version: int) -> None:
        made = {"topics": [{"name": "a", "num_partitions": 1, "replication_factor": 1}]}
        await ask(create_topics, ApiKey.CREATE_TOPICS, 7, broker, made | {"timeout": 1_000})
        fields = {
            "topic_names": ["a", "missing"],
            "topics": named("a", "missing"),
            "timeout": 1_000,
        }
        answer = await ask(delete_topics, ApiKey.DELETE_TOPICS, version, broker, fields)
        assert {each.name: each.error_code for each in answer.responses} == {
            "a": ErrorCode.none,
            "missing": ErrorCode.unknown_topic_or_partition,
        }
        assert broker.metadata.topics == {}

    async def test_delete_by_id(self, broker: Broker) -> None:
        made = {"topics": [{"name": "a", "num_partitions": 1, "replication_factor": 1}]}
        await ask(create_topics, ApiKey.CREATE_TOPICS, 7, broker, made | {"timeout": 1_000})
        known, unknown = broker.metadata.topics["a"].topic_id, uuid.UUID(int=9)
        asked: list[dict[str, Any]] = [
            {"name": None, "topic_id": known},
            {"name": None, "topic_id": unknown},
        ]
        asked.append({"name": "a", "topic_id": known})
        fields = {"topics": asked, "timeout": 1_000}
        answer = await ask(delete_topics, ApiKey.DELETE_TOPICS, 6, broker, fields)
        codes = [(each.name, each.topic_id, each.error_code) for each in answer.responses]
        assert sorted(codes, key=str) == sorted(
            [
                ("a", known, ErrorCode.none),
                (None, unknown, ErrorCode.unknown_topic_id),
                ("a", known, ErrorCode.invalid_request),
            ],
            key=str,
        )

    async def test_deletion_may_be_disabled(self) -> None:
        broker = Broker(FakeZooKeeper(), delete_topic_enable="false")
        await broker.control_plane.start()
        fields = {"topic_names": ["a"], "timeout": 1_000}
        answer = await ask(delete_topics, ApiKey.DELETE_TOPICS, 3, broker, fields)
        assert answer.responses[0].error_code is ErrorCode.topic_deletion_disabled
        await broker.control_plane.stop()

    @pytest.mark.parametrize("version", range(4))
    async def test_create_partitions(self, broker: Broker, version: int) -> None:
        made = {"topics": [{"name": "a", "num_partitions": 1, "replication_factor": 1}]}
        await ask(create_topics, ApiKey.CREATE_TOPICS, 7, broker, made | {"timeout": 1_000})
        asked = [
            {"name": "a", "count": 3, "assignments": None},
            {"name": "missing", "count": 3, "assignments": None},
        ]
        fields = {"topics": asked, "timeout": 1_000, "validate_only": False}
        answer = await ask(create_partitions, ApiKey.CREATE_PARTITIONS, version, broker, fields)
        assert {each.name: each.error_code for each in answer.results} == {
            "a": ErrorCode.none,
            "missing": ErrorCode.unknown_topic_or_partition,
        }
        assert len(broker.metadata.topics["a"].partitions) == 3

    async def test_another_broker_returns_not_controller(self, broker: Broker) -> None:
        second = Broker(broker.member.coordination.server, 2)
        await second.control_plane.start()
        asked = [{"name": "a", "num_partitions": 1, "replication_factor": 1}]
        fields = {"topics": asked, "timeout": 1_000}
        (made,) = (await ask(create_topics, ApiKey.CREATE_TOPICS, 7, second, fields)).topics
        assert made.error_code is ErrorCode.not_controller
        fields = {"topics": named("a"), "timeout": 1_000}
        gone = (await ask(delete_topics, ApiKey.DELETE_TOPICS, 6, second, fields)).responses
        assert gone[0].error_code is ErrorCode.not_controller
        asked = [{"name": "a", "count": 3, "assignments": None}]
        fields = {"topics": asked, "timeout": 1_000, "validate_only": False}
        (grown,) = (
            await ask(create_partitions, ApiKey.CREATE_PARTITIONS, 3, second, fields)
        ).results
        assert grown.error_code is ErrorCode.not_controller
        await second.control_plane.stop()
