"""The members of a classic group, as an administrator sees them."""

from __future__ import annotations

from typing import Final, NamedTuple

from local_cluster.client.group import Coordinated
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

_WITHOUT_MEMBERS: Final = frozenset({"Dead", "Empty"})
_STABLE: Final = "Stable"


class DescribedMember(NamedTuple):
    """What a coordinator tells of a member."""

    member_id: str
    client_host: str
    """The address that it is connected from, as the coordinator sees it."""
    metadata: bytes
    """What it said when it joined."""


async def describe_members(client: Coordinated, group_id: str) -> list[DescribedMember] | None:
    """The members of a group; none of one that is not there.

    None while the group rebalances, for then no coordinator tells what members said. Raises
    KafkaError. Source: DescribeGroups, GroupMetadata.summary.
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
