"""Subscriptions of client metrics: who is asked for what."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from local_cluster.client_metrics.subscriptions import (
    Wanted,
    combine,
    instance_text,
    read_subscriptions,
)

JAVA = {"client_id": "billing-1", "client_software_name": "apache-kafka-java"}


def wanted(configs: Mapping[str, Mapping[str, str]], attributes: Mapping[str, str]) -> Wanted:
    entities = {f"client-metrics/{name}": each for name, each in configs.items()}
    return combine(read_subscriptions({"groups/g": {"metrics": "x"}, **entities}), attributes)


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, Wanted((), 300_000)),
        ({"a": {"interval.ms": "1000"}}, Wanted((), 1000)),
        ({"a": {"metrics": "b. , a."}}, Wanted(("a.", "b."), 300_000)),
        ({"a": {"metrics": "a."}, "b": {"metrics": "*"}}, Wanted(("*",), 300_000)),
        ({"a": {"metrics": "a.", "match": "client_id=billing"}}, Wanted((), 300_000)),
        ({"a": {"metrics": "a.", "match": "client_id=billing.*"}}, Wanted(("a.",), 300_000)),
        (
            {"a": {"metrics": "a.", "match": "client_id=b.*, client_software_name=librdkafka"}},
            Wanted((), 300_000),
        ),
        (
            {
                "a": {"metrics": "a.", "interval.ms": "5000"},
                "b": {"metrics": "b.,a.", "interval.ms": "900"},
                "c": {"metrics": "c.", "interval.ms": "100", "match": "client_id=other"},
            },
            Wanted(("a.", "b."), 900),
        ),
        (
            {"a": {}, "b": {"interval.ms": "soon"}, "c": {"match": "client_id=("}},
            Wanted((), 300_000),
        ),
    ],
)
def test_a_client_gets_the_union_of_what_matches(
    configs: Mapping[str, Mapping[str, str]], expected: Wanted
) -> None:
    assert wanted(configs, JAVA) == expected


def test_the_subscription_id_depends_on_the_configs_and_the_client() -> None:
    some = Wanted(("a.",), 1000)
    ids = [
        each.subscription_id(uuid.UUID(int=client))
        for client in (5, 6)
        for each in (some, Wanted(("a.",), 1001), Wanted(("b.",), 1000))
    ]
    assert len(set(ids)) == 6
    assert all(-(1 << 31) <= each < 1 << 31 for each in ids)
    assert some.subscription_id(uuid.UUID(int=5)) == ids[0]


def test_an_instance_id_is_written_as_in_kafka() -> None:
    # Kafka: new Uuid(3, 4).toString()
    assert instance_text(uuid.UUID(int=(3 << 64) | 4)) == "AAAAAAAAAAMAAAAAAAAABA"
