"""The table of Kafka's configs: defaults are valid, and are those that the code uses."""

from __future__ import annotations

import pytest

from local_cluster.broker_configs import DEFAULTS, KNOWN_BROKER_CONFIGS, find_problem
from local_cluster.controller.active import active_controller
from local_cluster.controller.decisions import auto_created_topics
from local_cluster.fetch_sessions import session_cache
from local_cluster.groups import coordinator
from local_cluster.groups.consumer.requests import ConsumerGroupLimits
from local_cluster.groups.requests import GroupLimits
from local_cluster.kafka_configs.definition import ConfigDefinition, ConfigType
from local_cluster.kafka_configs.table import ConfigKind, kafka_configs
from local_cluster.log.config.log_config import PRODUCER_ID_EXPIRATION_MS
from local_cluster.replication import rate_quota, replica_set
from local_cluster.replication.follower import fetch_session, replica_fetcher
from local_cluster.server import housekeeping, log_cleaner
from local_cluster.server.accept.limits import ConnectionSettings

GROUPS, CONSUMERS = GroupLimits(), ConsumerGroupLimits()
USED = {
    "group.consumer.assignment.interval.ms": CONSUMERS.group_consumer_assignment_interval_ms,
    "group.consumer.heartbeat.interval.ms": CONSUMERS.group_consumer_heartbeat_interval_ms,
    "group.consumer.max.size": CONSUMERS.group_consumer_max_size,
    "group.consumer.session.timeout.ms": CONSUMERS.group_consumer_session_timeout_ms,
    "group.initial.rebalance.delay.ms": GROUPS.group_initial_rebalance_delay_ms,
    "group.max.session.timeout.ms": GROUPS.group_max_session_timeout_ms,
    "group.max.size": GROUPS.group_max_size,
    "group.min.session.timeout.ms": GROUPS.group_min_session_timeout_ms,
    "leader.imbalance.check.interval.seconds": active_controller.REBALANCE_INTERVAL_S,
    "log.cleaner.backoff.ms": log_cleaner.BACKOFF_MS,
    "log.cleaner.dedupe.buffer.size": log_cleaner.DEDUPE_BUFFER_BYTES,
    "log.retention.check.interval.ms": housekeeping.RETENTION_CHECK_INTERVAL_MS,
    "max.incremental.fetch.session.cache.slots": session_cache.SLOTS_MAX_DEFAULT,
    "offset.metadata.max.bytes": GROUPS.offset_metadata_max_bytes,
    "offsets.retention.check.interval.ms": coordinator.EXPIRY_INTERVAL_MS_DEFAULT,
    "offsets.retention.minutes": coordinator.RETENTION_MINUTES_DEFAULT,
    "offsets.topic.num.partitions": auto_created_topics.OFFSETS_PARTITIONS_DEFAULT,
    "offsets.topic.replication.factor": auto_created_topics.INTERNAL_REPLICATION_FACTOR,
    "offsets.topic.segment.bytes": auto_created_topics.OFFSETS_SEGMENT_BYTES_DEFAULT,
    "producer.id.expiration.ms": PRODUCER_ID_EXPIRATION_MS,
    "queued.max.request.bytes": ConnectionSettings().request_bytes_max,
    "replica.fetch.backoff.ms": replica_fetcher.BACKOFF_MS,
    "replica.fetch.max.bytes": fetch_session.PARTITION_BYTES_MAX,
    "replica.fetch.response.max.bytes": fetch_session.RESPONSE_BYTES_MAX,
    "replica.fetch.wait.max.ms": fetch_session.WAIT_MS_MAX,
    "replica.lag.time.max.ms": replica_set.LAG_MS_MAX,
    "replication.quota.window.num": rate_quota.WINDOWS_DEFAULT,
    "socket.request.max.bytes": ConnectionSettings().frame_bytes_max,
    "socket.send.buffer.bytes": ConnectionSettings().send_buffer_bytes,
    "transaction.state.log.min.isr": auto_created_topics.TRANSACTIONS_MIN_ISR_DEFAULT,
    "transaction.state.log.num.partitions": auto_created_topics.TRANSACTIONS_PARTITIONS_DEFAULT,
    "transaction.state.log.replication.factor": auto_created_topics.INTERNAL_REPLICATION_FACTOR,
}


@pytest.mark.parametrize("name", USED)
def test_the_default_that_is_shown_is_the_one_in_use(name: str) -> None:
    shown = DEFAULTS.get(name, kafka_configs("broker")[name].default)
    assert shown == str(USED[name])


def test_every_other_default_is_a_real_one() -> None:
    for name, default in DEFAULTS.items():
        assert default != kafka_configs("broker")[name].default, "Kafka's: take it off the list"


@pytest.mark.parametrize("kind", ["broker", "topic", "group", "client_metrics"])
def test_every_default_is_valid(kind: ConfigKind) -> None:
    configs = kafka_configs(kind).values()
    assert [c.name for c in configs if c.default and c.problem(c.default)] == []


def test_the_size_of_the_table() -> None:
    kinds: tuple[ConfigKind, ...] = ("broker", "topic", "group", "client_metrics")
    assert [len(kafka_configs(kind)) for kind in kinds] == [350, 37, 21, 3]


def test_what_a_settings_file_may_set_has_kafkas_default_as_a_valid_value() -> None:
    known = kafka_configs("broker")
    for name in KNOWN_BROKER_CONFIGS & known.keys():
        default = known[name].default
        assert default is None or find_problem(name, default) is None, name


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (ConfigType.INT, "x", "Not a number of type INT"),
        (ConfigType.INT, "-2147483649", "Not a number of type INT"),
        (ConfigType.SHORT, "40000", "Not a number of type SHORT"),
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.DOUBLE, "x", "Not a number of type DOUBLE"),
        (ConfigType.LIST, "a,b", None),
    ],
)
def test_values(kind: ConfigType, value: str, problem: str | None) -> None:
    config = ConfigDefinition(name="a", type=kind, default=None, doc="")
    assert config.problem(value) == problem


def test_bounds_and_choices() -> None:
    broker = kafka_configs("broker")
    policy = broker["group.consumer.migration.policy"]
    assert policy.problem("bidirectional") is None
    assert policy.problem("both") is not None
    assert kafka_configs("topic")["compression.gzip.level"].problem("10") is not None
    assert kafka_configs("group")["consumer.session.timeout.ms"].problem("0") == (
        "Value must be at least 1"
    )
