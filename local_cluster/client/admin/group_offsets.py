"""Consumer groups as an administrator sees them: which there are, where they stand.

Groups are asked of their coordinators many at a time where the broker can (FindCoordinator v4,
OffsetFetch v8: KIP-699, KIP-709), else one by one.

Who looks again and again keeps a `WatchedGroups`: a cluster of which nobody has committed anything
since is asked, but its answers are not decoded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from local_cluster.client.client import KafkaClient
from local_cluster.client.last_answer import LastAnswer
from local_cluster.client.model import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import GROUP_KEY_TYPE, NO_GENERATION
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import get

KNOWN_FIND_VERSION: Final = 6
"""The newest FindCoordinator known here; from v4 on it takes many keys."""
MANY_GROUPS_VERSION: Final = 8
"""OffsetFetch from this version on takes many groups."""
NAMED_TOPICS_VERSION_MAX: Final = 9
"""The last version of OffsetCommit and OffsetFetch that names topics, not their ids."""
GROUPS_PER_REQUEST_MAX: Final = 500


class ListedGroup(NamedTuple):
    """One entry of ListGroups; the state is empty before v4 (Kafka 2.6)."""

    group_id: str
    protocol_type: str
    state: str


class CommittedOffset(NamedTuple):
    """A group's position in a partition."""

    offset: int
    leader_epoch: int
    metadata: str


GroupPositions = dict[str, dict[TopicPartition, CommittedOffset]]


async def commit_offsets(
    client: KafkaClient, group_id: str, positions: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, ErrorCode]:
    """Commit for a group that has no members; per partition the broker's answer.

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
    """Every group of the cluster, by id. Raises KafkaError."""
    return await WatchedGroups(client).listed()


async def committed_offsets(client: KafkaClient, group_ids: Iterable[str]) -> GroupPositions:
    """All positions of the groups, as `WatchedGroups.positions`. Raises KafkaError."""
    return await WatchedGroups(client).positions(group_ids)


class WatchedGroups:
    """The groups of a cluster, for who looks again and again; one look at a time.

    What has not changed since the last look is given as the same object.
    """

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._answers: dict[Hashable, LastAnswer] = {}
        """By question; as many as a look has."""
        self._read: dict[Hashable, tuple[Any, GroupPositions]] = {}
        """The responses that hold positions, with what was read of each."""
        self._positions: GroupPositions = {}

    async def listed(self) -> dict[str, ListedGroup]:
        """Every group of the cluster, by id. Raises KafkaError."""
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
        """All positions of the groups. Raises KafkaError.

        A group without any, or that nobody knows, has an empty mapping. One that is refused, or
        whose coordinator cannot tell at present, is left out: nobody knows where it stands.

        A group's mapping is the same object as in the last look where it says the same.
        """
        found: GroupPositions = {}
        read: dict[Hashable, tuple[Any, GroupPositions]] = {}
        for node_id, groups in (await self._by_coordinator(sorted(group_ids))).items():
            connection = await self._client.connection(node_id)
            version = connection.choose_version(ApiKey.OFFSET_FETCH, NAMED_TOPICS_VERSION_MAX)
            step = GROUPS_PER_REQUEST_MAX if version >= MANY_GROUPS_VERSION else 1
            for start in range(0, len(groups), step):
                # A group of its own is a question of its own, whatever came before it.
                key: Hashable = (node_id, start if step > 1 else groups[start])
                response = await self._fetch(node_id, groups[start : start + step], key)
                known = self._read.get(key)
                if known is None or known[0] is not response:
                    known = response, self._read_positions(response, groups[start])
                read[key] = known
                found.update(known[1])
        for key in self._read.keys() - read.keys():
            self._answers.pop((ApiKey.OFFSET_FETCH, key), None)
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
        """Of the groups of a response; `first` is the one of a response that names none."""
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
        """Groups by the node that coordinates them; those without a coordinator are left out."""
        nodes: dict[int, list[str]] = {}
        for start in range(0, len(group_ids), GROUPS_PER_REQUEST_MAX):
            asked = group_ids[start : start + GROUPS_PER_REQUEST_MAX]
            for group_id, node_id in await self._find(asked, start):
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

    def _last(self, api: ApiKey, key: Hashable) -> LastAnswer:
        return self._answers.setdefault((api, key), LastAnswer())


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
