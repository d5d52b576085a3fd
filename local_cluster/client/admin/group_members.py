"""Describes the members of a classic group."""

from __future__ import annotations

from typing import Final, NamedTuple

from local_cluster.client.group import CoordinatorClient
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

_WITHOUT_MEMBERS: Final = frozenset({"Dead", "Empty"})
_STABLE: Final = "Stable"


class DescribedMember(NamedTuple):
    """A member, as its coordinator describes it."""

    member_id: str
    client_host: str
    """Its address, as the coordinator sees it."""
    metadata: bytes
    """The metadata that it joined with."""


async def describe_members(
    client: CoordinatorClient, group_id: str
) -> list[DescribedMember] | None:
    """Return the members of a group, [] if the group does not exist.

    Return None during a rebalance: a coordinator does not describe the members' metadata then.
    Raises KafkaError. Source: DescribeGroups, GroupMetadata.summary.
    """
    response = await client.call_coordinator(
        group_id,
        ApiKey.DESCRIBE_GROUPS,
        {"groups": [group_id], "include_authorized_operations": False},
    )
    (group,) = response.groups
    if group.error_code == ErrorCode.group_id_not_found or (
        not group.error_code and group.group_state in _WITHOUT_MEMBERS
    ):
        return []
    if group.error_code:
        raise KafkaError(group.error_code, f"group {group_id}")
    if group.group_state != _STABLE:
        return None
    return [
        DescribedMember(
            member.member_id,
            # Java writes an address as "name/address", mostly without the name.
            member.client_host.rpartition("/")[2],
            bytes(member.member_metadata),
        )
        for member in group.members
    ]
