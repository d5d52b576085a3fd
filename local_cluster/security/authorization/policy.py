"""The rights that the broker's configs give. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from local_cluster.broker_configs import (
    AUTHORIZERS,
    RESERVED_TYPES_DEFAULT,
    ReservedType,
    principals_of,
)
from local_cluster.security.authorization.decision import Policy
from local_cluster.security.authorization.reserved_names import RESERVED_TYPES, ReservedNames


def is_authorizer_configured(config: Mapping[str, str]) -> bool:
    """Return whether authorizer.class.name names an authorizer."""
    return config.get("authorizer.class.name", "").strip() in AUTHORIZERS


def policy_of(
    config: Mapping[str, str],
    brokers: Iterable[str] = (),
    writers: Mapping[str, Iterable[str]] | None = None,
    reserved_types: Iterable[ReservedType] = RESERVED_TYPES_DEFAULT,
) -> Policy:
    """Return super.users and allow.everyone.if.no.acl.found, as Kafka reads them.

    The principals of `brokers` are super users too: no ACL locks brokers out of each other.
    With `writers`, principals by prefixes of names, internal names of mirrors are reserved:
    those of `reserved_types`.
    """
    named = principals_of(config.get("super.users", ""))
    allows = config.get("allow.everyone.if.no.acl.found", "false")
    return Policy(
        super_users=frozenset(each.strip() for each in (*named, *brokers) if each.strip()),
        allow_if_no_acl=allows.strip().lower() == "true",
        reserved=None
        if writers is None
        else ReservedNames(
            {prefix: frozenset(of) for prefix, of in writers.items()},
            frozenset(int(RESERVED_TYPES[each]) for each in reserved_types),
        ),
    )
