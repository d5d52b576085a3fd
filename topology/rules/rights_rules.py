"""Rules on the users and ACLs that one of our own clusters declares. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from local_cluster.security.authorization.new_acls import find_problem
from local_cluster.wire.constants import ResourceType
from topology.model import Cluster
from topology.model.rights import RIGHTS_MAX, AclRule
from topology.problems import Finding, Location

_OPERATIONS: Final[Mapping[ResourceType, str]] = {
    ResourceType.TOPIC: "ALTER, ALTER_CONFIGS, CREATE, DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ,"
    " WRITE",
    ResourceType.GROUP: "ALTER_CONFIGS, DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ",
    ResourceType.TRANSACTIONAL_ID: "DESCRIBE, TWO_PHASE_COMMIT, WRITE",
    ResourceType.CLUSTER: "ALTER, ALTER_CONFIGS, CLUSTER_ACTION, CREATE, DESCRIBE,"
    " DESCRIBE_CONFIGS, IDEMPOTENT_WRITE",
}
"""What can be done to a resource (kafka.security.authorizer AclEntry.supportedOperations)."""
_WORDS: Final[Mapping[ResourceType, str]] = {
    ResourceType.TOPIC: "a topic",
    ResourceType.GROUP: "a group",
    ResourceType.TRANSACTIONAL_ID: "a transactional id",
    ResourceType.CLUSTER: "the cluster",
}


def check_rights(cluster: Cluster, here: Location) -> Iterator[Finding]:
    """Yield what is wrong with the declared users and ACLs."""
    yield from _check_users(cluster, here)
    if cluster.acls and cluster.authorizer is None:
        expected = "absent, or with an `authorizer` that decides by them"
        yield Finding((*here, "acls"), expected, at_key=True)
    for index, rule in enumerate(cluster.acls):
        yield from _check_rule(rule, (*here, "acls", index))
    counts = {
        "users": len(cluster.users),
        "acls": sum(len(rule.acls()) for rule in cluster.acls),
        "quotas": sum(len(rule.rates) for rule in cluster.quotas),
    }
    count = sum(counts.values())
    if count > RIGHTS_MAX:
        expected = f"at most {RIGHTS_MAX} users, ACLs and quotas of one cluster, not {count}"
        yield Finding((*here, max(counts, key=lambda key: counts[key])), expected, at_key=True)


def _check_users(cluster: Cluster, here: Location) -> Iterator[Finding]:
    if cluster.users and not cluster.scram_mechanisms:
        expected = "absent, or with a SCRAM mechanism of a listener; only SCRAM knows these users"
        yield Finding((*here, "users"), expected, at_key=True)
    for name, place in cluster.users.items():
        at = (*here, "users", name)
        try:
            place.secret(Path())
        except ValueError as error:
            yield Finding(at, str(error), at_key=True)
        for listener in cluster.listeners:
            if listener.sasl is not None and name in listener.sasl.users:
                expected = f"absent: listener {listener.name} has a user of this name"
                yield Finding(at, expected, at_key=True)
        if name == cluster.security.username:
            expected = "a user of the listener (`sasl.users`), as `up` creates the others as it"
            yield Finding(at, expected, at_key=True)


def _check_rule(rule: AclRule, here: Location) -> Iterator[Finding]:
    if not rule.resources:
        yield Finding(here, "a resource: topics, groups, transactional_ids or on_cluster")
        return
    for resource in dict.fromkeys(kind for kind, _ in rule.resources):
        known = _OPERATIONS[resource]
        for index, name in enumerate(rule.operations):
            if name not in (*known.split(", "), "ALL"):
                expected = f"an operation of {_WORDS[resource]}: {known}, ALL"
                yield Finding((*here, "operations", index), expected)
    problems = (find_problem(acl) for acl in rule.acls())
    if (problem := next((each for each in problems if each is not None), None)) is not None:
        yield Finding(here, problem.message)
