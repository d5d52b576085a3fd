"""Rules on declared client quotas: each names the line, the key and what was expected."""

from __future__ import annotations

import pytest

from topology.file.load import parse_topology
from topology.model.quotas import QuotaKey
from topology.model.rights import RIGHTS_MAX
from topology.problems import InvalidTopology

DECLARED = """\
name: limited
clusters:
  - name: jfk
    brokers: [{id: 1, port: 9092}]
    quotas:
      - {user: alice, client_id: etl, producer_byte_rate: 1048576, request_percentage: 12.5}
      - {default_user: true, consumer_byte_rate: 2000000}
      - {user: alice, default_client_id: true, controller_mutation_rate: 10}
      - {ip: 10.0.0.7, connection_creation_rate: 20}
      - {default_ip: true, connection_creation_rate: 100}
"""
OF_CLIENTS = "producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate"


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(text, file="t.yaml")
    return caught.value.lines()


def test_each_entry_is_a_quota_per_rate() -> None:
    (jfk,) = parse_topology(DECLARED).clusters
    pair = (("user", "alice"), ("client-id", "etl"))
    assert dict(each for rule in jfk.quotas for each in rule.quotas()) == {
        QuotaKey(pair, "producer_byte_rate"): 1048576.0,
        QuotaKey(pair, "request_percentage"): 12.5,
        QuotaKey((("user", None),), "consumer_byte_rate"): 2e6,
        QuotaKey((("user", "alice"), ("client-id", None)), "controller_mutation_rate"): 10.0,
        QuotaKey((("ip", "10.0.0.7"),), "connection_creation_rate"): 20.0,
        QuotaKey((("ip", None),), "connection_creation_rate"): 100.0,
    }


WHOSE = "whose quotas these are: user, client_id or ip, or the default of one, such as default_user"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "producer_byte_rate",
            "producer_rate",
            "6:39: clusters[0].quotas[0].producer_rate: unknown key; expected one of client_id,"
            " connection_creation_rate, consumer_byte_rate, controller_mutation_rate,"
            " default_client_id, default_ip, default_user, ip, producer_byte_rate,"
            " request_percentage, user; did you mean 'producer_byte_rate'?",
        ),
        (
            "10.0.0.7, connection",
            "10.0.0.7, producer_byte_rate: 9, connection",
            "9:24: clusters[0].quotas[3].producer_byte_rate: absent: quotas of an address are"
            " connection_creation_rate",
        ),
        (
            "consumer_byte_rate: 2000000",
            "connection_creation_rate: 9, consumer_byte_rate: 2000000",
            "7:30: clusters[0].quotas[1].connection_creation_rate: absent: quotas of users and"
            f" client ids are {OF_CLIENTS}",
        ),
        ("default_user: true, ", "", f"7:9: clusters[0].quotas[1]: {WHOSE}"),
        (
            "default_user: true",
            "user: bob, default_user: true",
            "7:9: clusters[0].quotas[1]: `user` or `default_user`, not both",
        ),
        (
            "ip: 10.0.0.7",
            "ip: 10.0.0.7, user: alice",
            "9:9: clusters[0].quotas[3]: an address without users and client ids: it has quotas of"
            " its own",
        ),
        (
            "10.0.0.7",
            "broker.example",
            "9:9: clusters[0].quotas[3]: broker.example is not a valid IP address.",
        ),
        (
            ", consumer_byte_rate: 2000000",
            "",
            f"7:9: clusters[0].quotas[1]: a quota: {OF_CLIENTS}",
        ),
        (
            "consumer_byte_rate: 2000000",
            "consumer_byte_rate: 0.5",
            "7:50: clusters[0].quotas[1].consumer_byte_rate: consumer_byte_rate cannot be a"
            " fractional value.",
        ),
        (
            "consumer_byte_rate: 2000000",
            "consumer_byte_rate: 0",
            "7:50: clusters[0].quotas[1].consumer_byte_rate: input should be greater than 0, not 0",
        ),
        (
            "consumer_byte_rate: 2000000",
            "consumer_byte_rate: 2MiB",
            "7:50: clusters[0].quotas[1].consumer_byte_rate: a number, not '2MiB'",
        ),
        (
            "{default_user: true,",
            "{user: alice, client_id: etl,",
            "7:9: clusters[0].quotas[1]: one entry for user alice, client-id etl; quotas[0] has it"
            " too",
        ),
    ],
)
def test_a_problem_has_its_line(old: str, new: str, expected: str) -> None:
    assert f"t.yaml:{expected}" in problems(DECLARED.replace(old, new, 1))


def test_there_are_not_too_many() -> None:
    rules = [f"      - {{client_id: c{n}, request_percentage: 1}}\n" for n in range(RIGHTS_MAX)]
    expected = f"at most {RIGHTS_MAX} users, ACLs and quotas of one cluster, not {RIGHTS_MAX + 6}"
    assert problems(DECLARED + "".join(rules)) == [f"t.yaml:5:5: clusters[0].quotas: {expected}"]


def test_an_external_cluster_has_none() -> None:
    text = "name: a\nclusters:\n  - {name: b, external: 'k:9092', quotas: []}\n"
    expected = "absent: nothing is started for an external cluster"
    assert [each.partition(": ")[2] for each in problems(text)] == [
        f"clusters[0].quotas: {expected}"
    ]
