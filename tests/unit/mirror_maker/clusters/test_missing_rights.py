"""The rights that a principal lacks, in words, until they are granted."""

from __future__ import annotations

from types import SimpleNamespace as Answer
from typing import Any

import pytest

from local_cluster.client.auth.security import ClientSecurity, OauthLogin, Secret
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from mirror_maker.clusters.missing_rights import (
    MISSING_MAX,
    MissingRights,
    Right,
    answered_rights,
    topic_right,
)
from tests.support.mirror_rights import read_table, resources_of

OF_TOPIC = ErrorCode.topic_authorization_failed
OF_GROUP = ErrorCode.group_authorization_failed
OF_CLUSTER = ErrorCode.cluster_authorization_failed
READER = ClientSecurity(
    protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="reader", password=Secret(env="X")
)


def told(rights: MissingRights, now_ms: int = 0) -> list[str]:
    return [rights.sentence(right) for right in rights.known(now_ms)]


def test_a_refusal_is_new_once_and_listed_until_it_is_granted() -> None:
    rights = MissingRights("a", READER)
    read = topic_right("READ", "t")
    assert rights.note([(read, OF_TOPIC)], 0) == [read]
    assert rights.note([(read, OF_TOPIC)], 5) == [], "it is listed already"
    assert told(rights, 10) == ["User:reader may not READ topic t at a"]
    assert rights
    rights.note([(read, ErrorCode.none)], 20)
    assert not rights
    assert told(rights, 20) == []


def test_a_right_that_is_not_requested_again_is_forgotten_and_new_later() -> None:
    rights = MissingRights("b", ClientSecurity(), forgotten_ms=100)
    create, write = topic_right("CREATE", "a.t"), topic_right("WRITE", "a.t")
    rights.note([(create, OF_TOPIC), (write, OF_TOPIC)], 0)
    rights.note([(write, OF_TOPIC)], 50)
    assert told(rights, 99) == [
        "User:ANONYMOUS may not CREATE topic a.t at b",
        "User:ANONYMOUS may not WRITE topic a.t at b",
    ]
    assert told(rights, 100) == ["User:ANONYMOUS may not WRITE topic a.t at b"]
    assert rights.note([(create, OF_TOPIC), (write, OF_TOPIC)], 149) == [create]
    assert told(rights, 249) == []
    assert not rights


def test_the_oldest_rights_beyond_the_limit_are_dropped() -> None:
    rights = MissingRights("b", ClientSecurity())
    many = [(topic_right("WRITE", str(number)), OF_TOPIC) for number in range(MISSING_MAX + 5)]
    rights.note(many, 1)
    assert len(rights.known(1)) == MISSING_MAX


def test_a_principal_with_a_certificate_is_named_by_its_file() -> None:
    rights = MissingRights("b", ClientSecurity(protocol="SSL", certificate_file="/x/me.pem"))
    rights.note([(Right("ALTER", "the cluster"), OF_CLUSTER)], 0)
    assert told(rights) == ["the principal of /x/me.pem may not ALTER the cluster at b"]


def test_a_principal_with_a_token_is_named_by_its_client_id() -> None:
    login = OauthLogin(
        token_url="https://i/t", client_id="mirror", client_secret=Secret(env="SECRET")
    )
    security = ClientSecurity(protocol="SASL_SSL", mechanism="OAUTHBEARER", oauth=login)
    rights = MissingRights("b", security)
    rights.note([(Right("ALTER", "the cluster"), OF_CLUSTER)], 0)
    assert told(rights) == ["the principal of client mirror may not ALTER the cluster at b"]


def topics(code: int, **more: Any) -> list[Answer]:
    return [Answer(name="t", error_code=code, **more)]


def partitions(code: int) -> list[Answer]:
    return [Answer(name="t", partitions=[Answer(error_code=0), Answer(error_code=code)])]


@pytest.mark.parametrize(
    ("api", "fields", "response", "expected"),
    [
        (ApiKey.LIST_OFFSETS, {}, Answer(topics=partitions(OF_TOPIC)), "DESCRIBE topic t"),
        (ApiKey.CREATE_TOPICS, {}, Answer(topics=topics(OF_TOPIC)), "CREATE topic t"),
        (ApiKey.DELETE_TOPICS, {}, Answer(responses=topics(OF_TOPIC)), "DELETE topic t"),
        (ApiKey.CREATE_PARTITIONS, {}, Answer(results=topics(OF_TOPIC)), "ALTER topic t"),
        (
            ApiKey.DESCRIBE_CONFIGS,
            {},
            Answer(results=[Answer(resource_name="t", error_code=OF_TOPIC)]),
            "DESCRIBE_CONFIGS topic t",
        ),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            {},
            Answer(responses=[Answer(resource_name="t", error_code=OF_TOPIC)]),
            "ALTER_CONFIGS topic t",
        ),
        (
            ApiKey.FIND_COORDINATOR,
            {},
            Answer(coordinators=[Answer(key="g", error_code=OF_GROUP)]),
            "DESCRIBE group g",
        ),
        (
            ApiKey.FIND_COORDINATOR,
            {"key": "g", "key_type": 0},
            Answer(error_code=OF_GROUP),
            "DESCRIBE group g",
        ),
        (
            ApiKey.OFFSET_FETCH,
            {},
            Answer(groups=[Answer(group_id="g", error_code=OF_GROUP)]),
            "DESCRIBE group g",
        ),
        (ApiKey.OFFSET_FETCH, {"group_id": "g"}, Answer(error_code=OF_GROUP), "DESCRIBE group g"),
        (
            ApiKey.OFFSET_COMMIT,
            {"group_id": "g"},
            Answer(topics=partitions(OF_GROUP)),
            "READ group g",
        ),
        (
            ApiKey.OFFSET_COMMIT,
            {"group_id": "g"},
            Answer(topics=partitions(OF_TOPIC)),
            "READ topic t",
        ),
        (ApiKey.JOIN_GROUP, {"group_id": "g"}, Answer(error_code=OF_GROUP), "READ group g"),
        (ApiKey.DESCRIBE_ACLS, {}, Answer(error_code=OF_CLUSTER), "DESCRIBE the cluster"),
        (
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            {},
            Answer(error_code=OF_CLUSTER),
            "DESCRIBE_CONFIGS the cluster",
        ),
        (
            ApiKey.ALTER_CLIENT_QUOTAS,
            {},
            Answer(entries=[Answer(error_code=0), Answer(error_code=OF_CLUSTER)]),
            "ALTER_CONFIGS the cluster",
        ),
        (
            ApiKey.CREATE_ACLS,
            {},
            Answer(results=[Answer(error_code=0), Answer(error_code=OF_CLUSTER)]),
            "ALTER the cluster",
        ),
        (
            ApiKey.DELETE_ACLS,
            {},
            Answer(filter_results=[Answer(error_code=OF_CLUSTER)]),
            "ALTER the cluster",
        ),
        (
            ApiKey.INIT_PRODUCER_ID,
            {},
            Answer(error_code=OF_CLUSTER),
            "WRITE any topic",
        ),
    ],
)
def test_each_refusal_names_the_operation_and_the_resource(
    api: ApiKey, fields: dict[str, Any], response: Answer, expected: str
) -> None:
    rights = MissingRights("a", READER)
    rights.note(answered_rights(api, fields, response), 0)
    assert told(rights) == [f"User:reader may not {expected} at a"]


def test_other_errors_are_not_missing_rights() -> None:
    rights = MissingRights("a", READER)
    answer = Answer(topics=topics(ErrorCode.topic_already_exists))
    assert rights.note(answered_rights(ApiKey.CREATE_TOPICS, {}, answer), 0) == []
    assert not rights


def test_the_table_of_rights_is_parsed() -> None:
    """The tests that grant its rights, row by row, parse it."""
    table = read_table()
    assert {row.side for row in table} == {"source", "target"}
    for row in table:
        assert row.operations
        assert resources_of(
            row,
            target_alias="b",
            source_aliases=("a",),
            topics=("t",),
            copies=("a.t",),
            group="app",
            source_group="lag",
            probed_link="a-b",
        )
