"""SHELL: creates and deletes ACLs for the APIs. Any broker does it, not only the controller."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from local_cluster.security.authorization.acl_filter import AclFilter, matching
from local_cluster.security.authorization.acl_image import Entry, Resource, split
from local_cluster.security.authorization.acl_store import AclStore
from local_cluster.security.authorization.new_acls import check_size, find_problem
from local_cluster.wire.constants import Acl
from local_cluster.wire.errors import ErrorCode, KafkaError


async def create_acls(store: AclStore, acls: Sequence[Acl]) -> list[KafkaError | None]:
    """Create ACLs; return the error of each, in order. One that exists is no error.

    Raises CoordinationUnavailable.
    """
    problems = [find_problem(acl) for acl in acls]
    added: dict[Resource, set[Entry]] = {}
    for acl, problem in zip(acls, problems, strict=True):
        if problem is None:
            resource, entry = split(acl)
            added.setdefault(resource, set()).add(entry)
    results = await store.change(
        {resource: partial(_with, frozenset(entries)) for resource, entries in added.items()}
    )
    return [
        problem if problem is not None else results[split(acl)[0]]
        for acl, problem in zip(acls, problems, strict=True)
    ]


async def delete_acls(
    store: AclStore, filters: Sequence[AclFilter]
) -> list[KafkaError | list[tuple[Acl, KafkaError | None]]]:
    """Delete what filters match; return per filter its error, or (ACL, error) of each match.

    An ACL that two filters match is reported for both. Raises CoordinationUnavailable.
    """
    valid = [each for each in filters if each.unknown_part() is None]
    exact = [resource for each in valid if (resource := each.exact_resource()) is not None]
    image = await store.read_again(exact)
    matched = {each: list(matching(image, each)) for each in valid}
    removed: dict[Resource, set[Entry]] = {}
    for acls in matched.values():
        for resource, entry in map(split, acls):
            removed.setdefault(resource, set()).add(entry)
    results = await store.change(
        {resource: partial(_without, frozenset(entries)) for resource, entries in removed.items()}
    )
    return [
        [(acl, results[split(acl)[0]]) for acl in matched[each]]
        if (unknown := each.unknown_part()) is None
        else KafkaError(ErrorCode.invalid_request, f"Unknown {unknown}.")
        for each in filters
    ]


def _with(added: frozenset[Entry], present: frozenset[Entry]) -> frozenset[Entry]:
    wanted = present | added
    check_size(wanted)
    return wanted


def _without(removed: frozenset[Entry], present: frozenset[Entry]) -> frozenset[Entry]:
    return present - removed
