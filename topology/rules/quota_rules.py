"""Rules on the client quotas that one of our own clusters declares. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from local_cluster.quotas.alterations import checked_entity
from local_cluster.quotas.entity import IP, Entity
from local_cluster.quotas.quota_keys import ADDRESS_KEYS, CLIENT_KEYS, encode_value
from local_cluster.wire.errors import KafkaError
from topology.model import Cluster
from topology.model.quotas import QuotaRule, entity_text
from topology.problems import Finding, Location

_PARTS: Final = (
    "whose quotas these are: user, client_id or ip, or the default of one, such as default_user"
)


def check_quotas(cluster: Cluster, here: Location) -> Iterator[Finding]:
    """Yield what is wrong with the declared quotas."""
    seen: dict[Entity, int] = {}
    for index, rule in enumerate(cluster.quotas):
        at = (*here, "quotas", index)
        if problem := _problem_of_parts(rule):
            yield Finding(at, problem)
            continue
        yield from _check_rates(rule, at)
        first = seen.setdefault(rule.entity, index)
        if first != index:
            expected = f"one entry for {entity_text(rule.entity)}; quotas[{first}] has it too"
            yield Finding(at, expected)


def _problem_of_parts(rule: QuotaRule) -> str | None:
    """Return what is wrong with the parts of an entity."""
    if not rule.parts:
        return _PARTS
    for kind, name, is_default in rule.parts:
        if name is not None and is_default:
            key = kind.replace("-", "_")
            return f"`{key}` or `default_{key}`, not both"
    kinds = [kind for kind, _, _ in rule.parts]
    if IP in kinds and len(kinds) > 1:
        return "an address without users and client ids: it has quotas of its own"
    try:
        checked_entity(dict(rule.entity))
    except KafkaError as error:
        return error.message
    return None


def _check_rates(rule: QuotaRule, here: Location) -> Iterator[Finding]:
    is_address = rule.entity[0][0] == IP
    known = ADDRESS_KEYS if is_address else CLIENT_KEYS
    whose = "an address" if is_address else "users and client ids"
    if not rule.rates:
        yield Finding(here, f"a quota: {', '.join(known)}")
    for name, rate in rule.rates.items():
        if name not in known:
            expected = f"absent: quotas of {whose} are {', '.join(known)}"
            yield Finding((*here, name), expected, at_key=True)
            continue
        try:
            encode_value(rule.entity, name, rate)
        except KafkaError as error:
            yield Finding((*here, name), error.message)
