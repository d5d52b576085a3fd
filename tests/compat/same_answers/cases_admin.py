"""Invalid requests of admin clients, and requests about features that are not set up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import AlterOperation, ConfigResourceType
from tests.compat.same_answers.asking import UNKNOWN_ID, Ask
from tests.compat.same_answers.case import Case, case

TOPIC, BROKER, BROKER_LOGGER, METRICS, GROUP = ConfigResourceType
SESSION = "consumer.session.timeout.ms"
TIMED = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    }
)
"""Requests that have a timeout."""


def ask(api: int, version: int, **fields: Any) -> Ask:
    return Ask(api, version, {"timeout": 10_000, **fields} if api in TIMED else fields)


# -- topics -----------------------------------------------------------------------------------


def new_topic(name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": (),
        "configs": (),
        **fields,
    }


def placed(name: str, *replicas: tuple[int, tuple[int, ...]]) -> dict[str, Any]:
    assignments = [{"partition_index": index, "broker_ids": ids} for index, ids in replicas]
    return new_topic(name, -1, -1, assignments=assignments)


def with_config(name: str, **configs: str | None) -> dict[str, Any]:
    given = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return new_topic(name, configs=given)


def create_topics_cases() -> Iterator[Case]:
    wrong: Mapping[str, list[dict[str, Any]]] = {
        "existing": [new_topic("t")],
        "internal": [new_topic("__cluster_metadata")],
        "empty name": [new_topic("")],
        "dots": [new_topic("."), new_topic("..")],
        "illegal name": [new_topic("a b")],
        "long name": [new_topic("x" * 250)],
        "not ascii": [new_topic("h\u00f6")],
        "no partitions": [new_topic("n", 0)],
        "negative partitions": [new_topic("n", -2)],
        "no replicas": [new_topic("n", 1, 0)],
        "negative replicas": [new_topic("n", 1, -2)],
        "too many replicas": [new_topic("n", 1, 5)],
        "far too many replicas": [new_topic("n", 1, 32_767)],
        "far too many partitions": [new_topic("n", 100_000_000)],
        "twice": [new_topic("n"), new_topic("n", 2)],
        "two of one name and one good": [new_topic("n"), new_topic("n"), new_topic("t")],
        "colliding": [new_topic("with_under")],
        "unknown config": [with_config("n", no_such="1")],
        "config of a wrong type": [with_config("n", retention_ms="soon")],
        "config out of bounds": [with_config("n", retention_ms="-2")],
        "config of a wrong choice": [with_config("n", cleanup_policy="forget")],
        "boolean that is none": [with_config("n", preallocate="maybe")],
        "null config": [with_config("n", retention_ms=None)],
        "empty config": [with_config("n", cleanup_policy="")],
        "lags crossed": [with_config("n", min_compaction_lag_ms="9", max_compaction_lag_ms="5")],
        "unknown broker": [placed("n", (0, (9,)))],
        "replica twice": [placed("n", (0, (1, 1)))],
        "no replicas in a list": [placed("n", (0, ()))],
        "gap in partitions": [placed("n", (1, (1,)))],
        "partition twice": [placed("n", (0, (1,)), (0, (1,)))],
        "negative partition": [placed("n", (-1, (1,)))],
        "negative broker": [placed("n", (0, (-1,)))],
        "lists of unequal length": [placed("n", (0, (1,)), (1, (1, 2)))],
        "placed and counted": [placed("n", (0, (1,))) | {"num_partitions": 1}],
        "placed and replicated": [placed("n", (0, (1,))) | {"replication_factor": 1}],
        "nothing": [],
    }
    for version in range(2, 8):
        for name, topics in wrong.items():
            yield case(
                f"create topics v{version} {name}",
                ask(ApiKey.CREATE_TOPICS, version, topics=topics, validate_only=True),
            )
        tried = [new_topic("tried", 2), with_config("tried-too", retention_ms="5")]
        yield case(
            f"create topics v{version} validated only",
            ask(ApiKey.CREATE_TOPICS, version, topics=tried, validate_only=True),
        )
        made = [with_config(f"made-v{version}", retention_ms="5", cleanup_policy="compact")]
        yield case(
            f"create topics v{version} made",
            ask(ApiKey.CREATE_TOPICS, version, topics=made, validate_only=False),
        )
    yield case(
        "create topics v4 by default",
        ask(ApiKey.CREATE_TOPICS, 4, topics=[new_topic("default", -1, -1)], validate_only=True),
    )
    yield case("create topics v2 null topics", Ask(ApiKey.CREATE_TOPICS, 2, b"\xff" * 4 + bytes(5)))


def delete_topics_cases() -> Iterator[Case]:
    for version in range(1, 7):
        for name, names in {
            "unknown": ["absent"],
            "empty name": [""],
            "illegal name": ["a b"],
            "long name": ["x" * 250],
            "unknown twice": ["absent", "absent"],
            "internal": ["__cluster_metadata"],
            "nothing": [],
        }.items():
            topics = [{"name": each, "topic_id": None} for each in names]
            yield case(
                f"delete topics v{version} {name}",
                ask(ApiKey.DELETE_TOPICS, version, topics=topics, topic_names=names),
            )
    yield case(
        "delete topics v6 unknown id",
        ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": UNKNOWN_ID}]),
    )
    yield case(
        "delete topics v6 neither",
        ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": None}]),
    )
    yield case(
        "delete topics v6 both",
        ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "absent", "topic_id": UNKNOWN_ID}]),
    )
    yield case(
        "delete topics v6 unknown id twice",
        ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": UNKNOWN_ID}] * 2),
    )


def create_partitions_cases() -> Iterator[Case]:
    def grown(name: str, count: int, *replicas: tuple[int, ...]) -> dict[str, Any]:
        given = [{"broker_ids": ids} for ids in replicas] if replicas else None
        return {"name": name, "count": count, "assignments": given}

    for version in range(4):
        for name, topics in {
            "unknown": [grown("absent", 3)],
            "illegal name": [grown("a b", 3)],
            "as many": [grown("t", 2)],
            "fewer": [grown("t", 1)],
            "none": [grown("t", 0)],
            "negative": [grown("t", -1)],
            "far too many": [grown("t", 100_000_000)],
            "twice": [grown("t", 3), grown("t", 4)],
            "too few lists": [grown("t", 4, (1,))],
            "too many lists": [grown("t", 3, (1,), (1,))],
            "unknown broker": [grown("t", 3, (9,))],
            "replica twice": [grown("t", 3, (1, 1))],
            "no replicas in a list": [grown("t", 3, ())],
            "lists of unequal length": [grown("t", 4, (1,), (1, 9))],
            "nothing": [],
        }.items():
            yield case(
                f"create partitions v{version} {name}",
                ask(ApiKey.CREATE_PARTITIONS, version, topics=topics, validate_only=True),
            )


def delete_records_cases() -> Iterator[Case]:
    for version in range(3):
        for name, (topic, index, offset) in {
            "beyond the end": ("t", 0, 99),
            "negative": ("t", 0, -2),
            "from the start": ("t", 0, 0),
            "unknown topic": ("absent", 0, 0),
            "unknown partition": ("t", 9, 0),
            "negative partition": ("t", -1, 0),
            "compacted": ("compacted", 0, 0),
            "empty": ("empty", 0, -1),
        }.items():
            entry = {"partition_index": index, "offset": offset}
            topics = [{"name": topic, "partitions": [entry]}]
            yield case(
                f"delete records v{version} {name}",
                ask(ApiKey.DELETE_RECORDS, version, topics=topics),
            )
        yield case(
            f"delete records v{version} nothing", ask(ApiKey.DELETE_RECORDS, version, topics=[])
        )


# -- configs ----------------------------------------------------------------------------------


def resource(kind: int, name: str, *keys: str) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configuration_keys": list(keys) or None,
    }


def describe_configs_cases() -> Iterator[Case]:
    for version in range(1, 5):
        for name, resources in {
            "unknown topic": [resource(TOPIC, "absent")],
            "illegal topic": [resource(TOPIC, "a b")],
            "empty topic": [resource(TOPIC, "")],
            "unknown key": [resource(TOPIC, "t", "no.such")],
            "key twice": [resource(TOPIC, "t", "retention.ms", "retention.ms")],
            "topic twice": [resource(TOPIC, "t", "retention.ms")] * 2,
            "some keys": [resource(TOPIC, "compacted", "cleanup.policy", "retention.ms")],
            "another broker": [resource(BROKER, "9")],
            "broker that is no number": [resource(BROKER, "one")],
            "all brokers": [resource(BROKER, "")],
            "unknown key of a broker": [resource(BROKER, "1", "no.such")],
            "loggers of another broker": [resource(BROKER_LOGGER, "9")],
            "loggers of all brokers": [resource(BROKER_LOGGER, "")],
            "loggers of a broker that is no number": [resource(BROKER_LOGGER, "one")],
            "unknown logger": [resource(BROKER_LOGGER, "1", "no.such.logger")],
            "group": [resource(GROUP, "g")],
            "group empty": [resource(GROUP, "")],
            "group unknown key": [resource(GROUP, "g", "no.such")],
            "metrics": [resource(METRICS, "m")],
            "metrics empty": [resource(METRICS, "")],
            "type 0": [resource(0, "t")],
            "type 3": [resource(3, "t")],
            "type 99": [resource(99, "t")],
            "nothing": [],
        }.items():
            yield case(
                f"describe configs v{version} {name}",
                ask(
                    ApiKey.DESCRIBE_CONFIGS,
                    version,
                    resources=resources,
                    include_synonyms=True,
                    include_documentation=False,
                ),
            )


def altered(kind: int, name: str, *configs: tuple[str, int, str | None]) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": key, "config_operation": operation, "value": value}
            for key, operation, value in configs
        ],
    }


SET, DELETE, APPEND, SUBTRACT = AlterOperation


def _without_operations(resources: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the resources for AlterConfigs, which can only set values."""
    return [
        resource
        | {"configs": [{"name": c["name"], "value": c["value"]} for c in resource["configs"]]}
        for resource in resources
    ]


def alter_configs_cases() -> Iterator[Case]:
    wrong: dict[str, list[dict[str, Any]]] = {
        "unknown topic": [altered(TOPIC, "absent", ("retention.ms", SET, "5"))],
        "illegal topic": [altered(TOPIC, "a b", ("retention.ms", SET, "5"))],
        "empty topic": [altered(TOPIC, "", ("retention.ms", SET, "5"))],
        "unknown config": [altered(TOPIC, "t", ("no.such", SET, "5"))],
        "wrong value": [altered(TOPIC, "t", ("retention.ms", SET, "soon"))],
        "out of bounds": [altered(TOPIC, "t", ("retention.ms", SET, "-2"))],
        "null value": [altered(TOPIC, "t", ("retention.ms", SET, None))],
        "resource twice": [altered(TOPIC, "t", ("retention.ms", SET, "5"))] * 2,
        "key twice": [altered(TOPIC, "t", ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))],
        "good": [altered(TOPIC, "altered", ("retention.ms", SET, "7"))],
        "another broker": [altered(BROKER, "9", ("log.retention.ms", SET, "5"))],
        "broker that is no number": [altered(BROKER, "one", ("log.retention.ms", SET, "5"))],
        "static config of a broker": [altered(BROKER, "1", ("log.dirs", SET, "/x"))],
        "unknown config of a broker": [altered(BROKER, "1", ("no.such", SET, "5"))],
        "wrong value of a broker": [altered(BROKER, "1", ("log.retention.ms", SET, "soon"))],
        "group": [altered(GROUP, "g", (SESSION, SET, "50000"))],
        "group out of range": [altered(GROUP, "g", (SESSION, SET, "1"))],
        "group below the bound": [altered(GROUP, "g", (SESSION, SET, "0"))],
        "group no number": [altered(GROUP, "g", (SESSION, SET, "x"))],
        "group unknown config": [altered(GROUP, "g", ("no.such", SET, "1"))],
        "group empty": [altered(GROUP, "", (SESSION, SET, "50000"))],
        "group shares": [altered(GROUP, "g", ("share.record.lock.duration.ms", SET, "1"))],
        "group choice": [altered(GROUP, "g", ("share.isolation.level", SET, "x"))],
        "metrics": [altered(METRICS, "m", ("interval.ms", SET, "100"))],
        "metrics out of range": [altered(METRICS, "m", ("interval.ms", SET, "1"))],
        "metrics unknown config": [altered(METRICS, "m", ("no.such", SET, "1"))],
        "metrics empty": [altered(METRICS, "", ("interval.ms", SET, "100"))],
        "metrics pattern": [altered(METRICS, "m", ("match", SET, "a=b"))],
        "metrics expression": [altered(METRICS, "m", ("match", SET, "client_id=("))],
        "type 0": [altered(0, "t", ("retention.ms", SET, "5"))],
        "type 3": [altered(3, "t", ("retention.ms", SET, "5"))],
        "type 99": [altered(99, "t", ("retention.ms", SET, "5"))],
        "no configs": [altered(TOPIC, "altered")],
        "nothing": [],
    }
    operations: dict[str, list[dict[str, Any]]] = {
        "append to a number": [altered(TOPIC, "t", ("retention.ms", APPEND, "5"))],
        "subtract from a number": [altered(TOPIC, "t", ("retention.ms", SUBTRACT, "5"))],
        "unknown operation": [altered(TOPIC, "t", ("retention.ms", 4, "5"))],
        "negative operation": [altered(TOPIC, "t", ("retention.ms", -1, "5"))],
        "delete with a value": [altered(TOPIC, "altered", ("retention.ms", DELETE, "5"))],
        "delete what is not set": [altered(TOPIC, "altered", ("segment.ms", DELETE, None))],
        "delete an unknown": [altered(TOPIC, "altered", ("no.such", DELETE, None))],
        "null to append": [altered(TOPIC, "t", ("cleanup.policy", APPEND, None))],
        "append": [altered(TOPIC, "altered", ("cleanup.policy", APPEND, "compact"))],
        "subtract all": [altered(TOPIC, "altered", ("cleanup.policy", SUBTRACT, "delete,compact"))],
        "key by two operations": [
            altered(TOPIC, "t", ("retention.ms", SET, "5"), ("retention.ms", DELETE, None))
        ],
        "logger": [altered(BROKER_LOGGER, "1", ("no.such.logger", SET, "INFO"))],
        "logger of another broker": [altered(BROKER_LOGGER, "9", ("kafka", SET, "INFO"))],
        "logger of all": [altered(BROKER_LOGGER, "", ("kafka", SET, "INFO"))],
    }
    loggers = {
        "logger": [altered(BROKER_LOGGER, "1", ("kafka", SET, "INFO"))],
        "logger without configs": [altered(BROKER_LOGGER, "1")],
        "logger of another broker": [altered(BROKER_LOGGER, "9", ("kafka", SET, "INFO"))],
    }
    for version in range(3):
        for name, resources in (wrong | loggers).items():
            if name == "resource twice":
                continue  # Kafka 4.4 never responds
            fields = {"resources": _without_operations(resources), "validate_only": True}
            yield case(
                f"alter configs v{version} {name}", ask(ApiKey.ALTER_CONFIGS, version, **fields)
            )
    for version in range(2):
        for name, resources in (wrong | operations).items():
            yield case(
                f"incremental alter configs v{version} {name}",
                ask(
                    ApiKey.INCREMENTAL_ALTER_CONFIGS,
                    version,
                    resources=resources,
                    validate_only=True,
                ),
            )


# -- the cluster ------------------------------------------------------------------------------


def cluster_cases() -> Iterator[Case]:
    for version in range(3):
        for endpoint_type in (1, 2, 3, 0, -1) if version else (1,):
            for asked in (False, True):
                yield case(
                    f"describe cluster v{version} type {endpoint_type} operations {asked}",
                    ask(
                        ApiKey.DESCRIBE_CLUSTER,
                        version,
                        endpoint_type=endpoint_type,
                        include_cluster_authorized_operations=asked,
                        include_fenced_brokers=asked,
                    ),
                )
    for version in range(1, 6):
        for name, topics in {
            "one": [{"topic": "t", "partitions": [0]}],
            "unknown": [{"topic": "absent", "partitions": [0]}],
            "unknown partition": [{"topic": "t", "partitions": [9]}],
            "no partitions": [{"topic": "t", "partitions": []}],
            "nothing": [],
        }.items():
            yield case(
                f"describe log dirs v{version} {name}",
                ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics),
            )
    for name, asked_topics in {
        "all": None,
        "none": [],
        "unknown": [{"name": "absent", "partition_indexes": [0]}],
        "known": [{"name": "t", "partition_indexes": [0, 9]}],
    }.items():
        yield case(
            f"list reassignments {name}",
            ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=asked_topics),
        )
    for name, (topic, index) in {
        "one": ("t", 0),
        "unknown topic": ("absent", 0),
        "unknown partition": ("t", 9),
        "illegal topic": ("a b", 0),
    }.items():
        topics = [{"name": topic, "partition_indexes": [index]}]
        yield case(f"describe producers {name}", ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics))
    for version in range(3):
        for pattern in (None, "", "a.*", "(", "[", "a{1001}") if version >= 2 else (None,):
            yield case(
                f"list transactions v{version} {pattern}",
                ask(
                    ApiKey.LIST_TRANSACTIONS,
                    version,
                    state_filters=("Ongoing", "Unheard"),
                    producer_id_filters=(5,),
                    duration_filter=1,
                    transactional_id_pattern=pattern,
                ),
            )
    yield case("describe transactions none", ask(ApiKey.DESCRIBE_TRANSACTIONS, 0))
    yield from topic_pages()


def topic_pages() -> Iterator[Case]:
    def page(name: str, names: list[str], limit: int = 100, cursor: Any = None) -> Case:
        return case(
            f"topic page {name}",
            ask(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                topics=[{"name": each} for each in names],
                response_partition_limit=limit,
                cursor=cursor,
            ),
        )

    def at(topic: str, index: int) -> dict[str, Any]:
        return {"topic_name": topic, "partition_index": index}

    yield page("one", ["t"])
    yield page("unknown", ["absent"])
    yield page("illegal name", ["a b", ""])
    yield page("twice", ["t", "t"])
    yield page("limit 1", ["t"], 1)
    yield page("limit 0", ["t"], 0)
    yield page("limit -1", ["t"], -1)
    yield page("at a cursor", ["t", "empty"], 100, at("t", 1))
    yield page("at a cursor beyond the topic", ["t", "empty"], 100, at("t", 9))
    yield page("at a cursor of an unknown topic", ["t", "empty"], 100, at("f", 0))
    yield page("at a negative cursor", ["t"], 100, at("t", -1))


# -- security and quotas, with nothing set up --------------------------------------------------


def security_cases() -> Iterator[Case]:
    pattern = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    entry = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    for version in range(1, 4):
        yield case(f"describe acls v{version}", ask(ApiKey.DESCRIBE_ACLS, version, **pattern))
        yield case(f"create acls v{version}", ask(ApiKey.CREATE_ACLS, version, creations=[entry]))
        yield case(f"create no acls v{version}", ask(ApiKey.CREATE_ACLS, version, creations=[]))
        two = [entry, entry | {"resource_type": 99}]
        yield case(f"create odd acls v{version}", ask(ApiKey.CREATE_ACLS, version, creations=two))
        yield case(
            f"delete acls v{version}", ask(ApiKey.DELETE_ACLS, version, filters=[pattern] * 2)
        )
        yield case(f"delete no acls v{version}", ask(ApiKey.DELETE_ACLS, version, filters=[]))
        for field in ("resource_type_filter", "operation", "permission_type"):
            odd = pattern | {field: 99}
            yield case(
                f"describe acls v{version} {field} 99", ask(ApiKey.DESCRIBE_ACLS, version, **odd)
            )


def quota_cases() -> Iterator[Case]:
    def component(kind: str, match_type: int, match: str | None = None) -> dict[str, Any]:
        return {"entity_type": kind, "match_type": match_type, "match": match}

    for version in range(2):
        for name, components in {
            "all": [],
            "a user": [component("user", 0, "a")],
            "default user": [component("user", 1)],
            "any user": [component("user", 2)],
            "unknown match": [component("user", 3)],
            "unknown entity": [component("moon", 2)],
            "empty entity": [component("", 2)],
            "exact without a name": [component("user", 0)],
            "any with a name": [component("user", 2, "a")],
            "ip and user": [component("ip", 2), component("user", 2)],
            "user twice": [component("user", 2), component("user", 2)],
            "no address": [component("ip", 0, "not an address")],
        }.items():
            for strict in (False, True):
                yield case(
                    f"describe quotas v{version} {name} strict {strict}",
                    ask(
                        ApiKey.DESCRIBE_CLIENT_QUOTAS,
                        version,
                        components=components,
                        strict=strict,
                    ),
                )
    for name, users in {
        "all": None,
        "no list": [],
        "one": [{"name": "a"}],
        "twice": [{"name": "a"}, {"name": "a"}],
        "empty name": [{"name": ""}],
    }.items():
        yield case(
            f"describe scram {name}",
            ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users),
        )
    for version in range(2):
        for kinds in (
            (),
            (TOPIC,),
            (BROKER,),
            (BROKER_LOGGER,),
            (METRICS,),
            (GROUP,),
            (99,),
        ):
            if version or not kinds:
                yield case(
                    f"list config resources v{version} {kinds}",
                    ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=kinds),
                )
