"""Lists consumer groups, and reads and writes their committed offsets.

Requests to coordinators name many groups at a time if the broker can read that (FindCoordinator
v4, OffsetFetch v8: KIP-699, KIP-709), else one.

For repeated reads keep a `WatchedGroups`: if nothing was committed since the last read, the
requests are sent, but their responses are not decoded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import LastResponse
from local_cluster.client.model import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import GROUP_KEY_TYPE, NO_GENERATION
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

KNOWN_FIND_VERSION: Final = 6
"""The newest FindCoordinator version known here. From v4 on it has many keys."""
MANY_GROUPS_VERSION: Final = 8
"""From this version on OffsetFetch has many groups."""
NAMED_TOPICS_VERSION_MAX: Final = 9
"""The last version of OffsetCommit and OffsetFetch that has topic names, not topic ids."""
GROUPS_PER_REQUEST_MAX: Final = 500


class ListedGroup(NamedTuple):
    """One group of a ListGroups response. The state is empty before v4 (Kafka 2.6)."""

    group_id: str
    protocol_type: str
    state: str


class CommittedOffset(NamedTuple):
    """The committed offset of a group in a partition."""

    offset: int
    leader_epoch: int
    metadata: str


GroupPositions = dict[str, dict[TopicPartition, CommittedOffset]]


async def commit_offsets(
    client: KafkaClient, group_id: str, positions: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, ErrorCode]:
    """Commit offsets for a group without members. Return the error code of each partition.

    A group with members refuses with UNKNOWN_MEMBER_ID. Raises KafkaError.
    """
    topics: dict[str, list[dict[str, Any]]] = {}
    for at, position in sorted(positions.items()):
        topics.setdefault(at.topic, []).append(
            {
                "partition_index": at.partition,
                "committed_offset": position.offset,
                "committed_leader_epoch": position.leader_epoch,
                "committed_metadata": position.metadata,
            }
        )
    response = await client.call_coordinator(
        group_id,
        ApiKey.OFFSET_COMMIT,
        {
            "group_id": group_id,
            "generation_id_or_member_epoch": NO_GENERATION,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": name, "partitions": entries} for name, entries in topics.items()],
        },
        version_max=NAMED_TOPICS_VERSION_MAX,
    )
    return {
        TopicPartition(topic.name, int(entry.partition_index)): ErrorCode(entry.error_code)
        for topic in response.topics
        for entry in topic.partitions
    }


async def list_groups(client: KafkaClient) -> dict[str, ListedGroup]:
    """Return every group of the cluster, by id. Raises KafkaError."""
    return await WatchedGroups(client).listed()


async def committed_offsets(client: KafkaClient, group_ids: Iterable[str]) -> GroupPositions:
    """Return all committed offsets of groups, as `WatchedGroups.positions`. Raises KafkaError."""
    return await WatchedGroups(client).positions(group_ids)


class WatchedGroups:
    """The groups of a cluster, for repeated reads; one read at a time.

    What has not changed since the last read is returned as the same object.
    """

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._responses: dict[Hashable, LastResponse] = {}
        """The last responses by request."""
        self._read: dict[Hashable, tuple[Any, GroupPositions]] = {}
        """The OffsetFetch responses by request, with the offsets in them."""
        self._positions: GroupPositions = {}

    async def listed(self) -> dict[str, ListedGroup]:
        """Return every group of the cluster, by id. Raises KafkaError."""
        groups: dict[str, ListedGroup] = {}
        for node_id in (await self._client.metadata([])).brokers:
            response = await self._client.call(
                ApiKey.LIST_GROUPS,
                {"states_filter": [], "types_filter": []},
                node_id=node_id,
                last=self._last(ApiKey.LIST_GROUPS, node_id),
            )
            if response.error_code:
                raise KafkaError(response.error_code, f"ListGroups of broker {node_id}")
            for group in response.groups:
                groups[group.group_id] = ListedGroup(
                    group.group_id, group.protocol_type, get(group, "group_state", "")
                )
        return groups

    async def positions(self, group_ids: Iterable[str]) -> GroupPositions:
        """Return all committed offsets of groups. Raises KafkaError.

        A group without commits, or that does not exist, has an empty mapping. A group is missing
        if the request for it is refused, or if its coordinator cannot answer at present: its
        offsets are unknown.

        An unchanged mapping is the same object as in the last read.
        """
        found: GroupPositions = {}
        read: dict[Hashable, tuple[Any, GroupPositions]] = {}
        for node_id, groups in (await self._by_coordinator(sorted(group_ids))).items():
            connection = await self._client.connection(node_id)
            version = connection.choose_version(ApiKey.OFFSET_FETCH, NAMED_TOPICS_VERSION_MAX)
            step = GROUPS_PER_REQUEST_MAX if version >= MANY_GROUPS_VERSION else 1
            for start in range(0, len(groups), step):
                # A request for one group is the same request, whichever groups came before it.
                key: Hashable = (node_id, start if step > 1 else groups[start])
                response = await self._fetch(node_id, groups[start : start + step], key)
                known = self._read.get(key)
                if known is None or known[0] is not response:
                    known = response, self._read_positions(response, groups[start])
                read[key] = known
                found.update(known[1])
        for key in self._read.keys() - read.keys():
            self._responses.pop((ApiKey.OFFSET_FETCH, key), None)
        self._read, self._positions = read, found
        return found

    async def _fetch(self, node_id: int, groups: list[str], key: Hashable) -> Any:
        return await self._client.call(
            ApiKey.OFFSET_FETCH,
            {
                "group_id": groups[0],
                "topics": None,
                "groups": [
                    {"group_id": g, "topics": None, "member_id": None, "member_epoch": -1}
                    for g in groups
                ],
                "require_stable": False,
            },
            node_id=node_id,
            version_max=NAMED_TOPICS_VERSION_MAX,
            last=self._last(ApiKey.OFFSET_FETCH, key),
        )

    def _read_positions(self, response: Any, first: str) -> GroupPositions:
        """Return the offsets in a response. Before v8 it names no group: it is that of `first`."""
        many = get(response, "groups", None)
        if many is not None:
            found = {each.group_id: _positions(each.topics) for each in many if not each.error_code}
        elif get(response, "error_code", 0):
            found = {}
        else:
            found = {first: _positions(response.topics)}
        for group_id, positions in found.items():
            last = self._positions.get(group_id)
            if last == positions:
                found[group_id] = last
        return found

    async def _by_coordinator(self, group_ids: list[str]) -> dict[int, list[str]]:
        """Return the groups by the node of their coordinator. Groups without one are missing."""
        nodes: dict[int, list[str]] = {}
        for start in range(0, len(group_ids), GROUPS_PER_REQUEST_MAX):
            requested = group_ids[start : start + GROUPS_PER_REQUEST_MAX]
            for group_id, node_id in await self._find(requested, start):
                nodes.setdefault(node_id, []).append(group_id)
        return nodes

    async def _find(self, group_ids: list[str], start: int) -> list[tuple[str, int]]:
        response = await self._client.call(
            ApiKey.FIND_COORDINATOR,
            {"key": group_ids[0], "key_type": GROUP_KEY_TYPE, "coordinator_keys": group_ids},
            version_max=KNOWN_FIND_VERSION,
            last=self._last(ApiKey.FIND_COORDINATOR, start),
        )
        answers = get(response, "coordinators", None)
        if answers is not None:
            return [(each.key, int(each.node_id)) for each in answers if not each.error_code]
        found = [] if response.error_code else [(group_ids[0], int(response.node_id))]
        for group_id in group_ids[1:]:
            answer = await self._client.call(
                ApiKey.FIND_COORDINATOR, {"key": group_id, "key_type": GROUP_KEY_TYPE}
            )
            if not answer.error_code:
                found.append((group_id, int(answer.node_id)))
        return found

    def _last(self, api: ApiKey, key: Hashable) -> LastResponse:
        return self._responses.setdefault((api, key), LastResponse())


def _positions(topics: Iterable[Any]) -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition(topic.name, int(entry.partition_index)): CommittedOffset(
            int(entry.committed_offset),
            int(get(entry, "committed_leader_epoch", -1)),
            entry.metadata or "",
        )
        for topic in topics
        for entry in topic.partitions
        if not entry.error_code and entry.committed_offset >= 0
    }
