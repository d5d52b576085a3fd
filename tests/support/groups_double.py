"""A cluster of one broker that knows consumer groups and nothing else, in memory.

Answers are bytes of the version that is asked, so that who asks decodes them as a broker's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from local_cluster.client.admin.group_offsets import CommittedOffset
from local_cluster.client.connection import LastResponse
from local_cluster.client.model import ClusterMetadata, TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.messages import decode_response, encode_request, encode_response
from local_cluster.wire.metadata import BrokerAddress

NODE = 7


@dataclass
class FakeGroup:
    """A group as its coordinator has it."""

    state: str = "Empty"
    positions: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)


class GroupsDouble:
    """Stands in for a `KafkaClient`."""

    def __init__(self, *, asks_many: bool = True) -> None:
        """`asks_many`: it knows FindCoordinator v4 and OffsetFetch v8."""
        self.groups: dict[str, FakeGroup] = {}
        self.refused: dict[str, ErrorCode] = {}
        """Groups that nothing is told of."""
        self.unlisted: set[str] = set()
        """Groups that a coordinator leaves out of the list, because it has just come up."""
        self.lost: set[str] = set()
        """Groups that have no coordinator at present, as far as the broker knows."""
        self.is_down = False
        self.calls: Counter[ApiKey] = Counter()
        self.decoded: Counter[ApiKey] = Counter()
        """Answers that said something new."""
        self._versions = {
            ApiKey.LIST_GROUPS: 4,
            ApiKey.FIND_COORDINATOR: 6 if asks_many else 3,
            ApiKey.OFFSET_FETCH: 9 if asks_many else 7,
            ApiKey.OFFSET_COMMIT: 8,
        }

    def commit(self, group: str, at: TopicPartition, offset: int, metadata: str = "") -> None:
        """As a member of the group does."""
        found = self.groups.setdefault(group, FakeGroup())
        found.positions[at] = CommittedOffset(offset, 3, metadata)

    # -- what a KafkaClient does ------------------------------------------------------------------

    async def metadata(self, topics: object) -> ClusterMetadata:
        if self.is_down:
            raise KafkaError(ErrorCode.network_exception, "down")
        return ClusterMetadata("c", NODE, {NODE: BrokerAddress(NODE, "h", 1)}, {})

    async def connection(self, node_id: int) -> Any:
        assert node_id == NODE
        return SimpleNamespace(choose_version=self._choose_version)

    async def call(
        self,
        api: ApiKey,
        fields: Mapping[str, Any],
        *,
        node_id: int | None = None,
        version_max: int | None = None,
        last: LastResponse | None = None,
    ) -> Any:
        if self.is_down:
            raise KafkaError(ErrorCode.network_exception, "down")
        version = self._choose_version(api, version_max)
        encode_request(api, version, fields)  # the fields must be those of the version
        answer = {
            ApiKey.LIST_GROUPS: self._list,
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.OFFSET_FETCH: self._fetch,
            ApiKey.OFFSET_COMMIT: self._commit,
        }[api](version, fields)
        body = memoryview(encode_response(api, version, answer))
        self.calls[api] += 1
        if last is None:
            return decode_response(api, version, body, 0)
        before = last.response
        response = last.decode(api, version, body, 0)
        self.decoded[api] += response is not before
        return response

    async def call_coordinator(
        self, group_id: str, api: ApiKey, fields: Mapping[str, Any], **options: Any
    ) -> Any:
        return await self.call(api, fields, **options)

    def _choose_version(self, api: ApiKey, version_max: int | None = None) -> int:
        return min(self._versions[api], 99 if version_max is None else version_max)

    # -- its answers ------------------------------------------------------------------------------

    def _list(self, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "error_code": ErrorCode.none,
            "groups": [
                {"group_id": name, "protocol_type": "consumer", "group_state": group.state}
                for name, group in self.groups.items()
                if name not in self.unlisted
            ],
        }

    def _find(self, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        found = {"node_id": NODE, "host": "h", "port": 1, "error_message": None}
        keys = fields.get("coordinator_keys", ())
        return {
            **found,
            "error_code": self._code_of(fields["key"]),
            "coordinators": [
                {"key": key, "error_code": self._code_of(key), **found} for key in keys
            ],
        }

    def _code_of(self, group: str) -> ErrorCode:
        return ErrorCode.coordinator_not_available if group in self.lost else ErrorCode.none

    def _fetch(self, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        names = [each["group_id"] for each in fields["groups"]]
        answers = [self._fetched(name) for name in names]
        if version >= 8:
            return {"groups": answers}
        return {key: value for key, value in answers[0].items() if key != "group_id"}

    def _fetched(self, name: str) -> dict[str, Any]:
        if name in self.refused:
            return {"group_id": name, "topics": [], "error_code": self.refused[name]}
        group = self.groups.get(name, FakeGroup())
        topics: dict[str, list[dict[str, Any]]] = {}
        for at, position in group.positions.items():
            topics.setdefault(at.topic, []).append(
                {
                    "partition_index": at.partition,
                    "committed_offset": position.offset,
                    "committed_leader_epoch": position.leader_epoch,
                    "metadata": position.metadata,
                    "error_code": ErrorCode.none,
                }
            )
        return {
            "group_id": name,
            "topics": [{"name": each, "partitions": found} for each, found in topics.items()],
            "error_code": ErrorCode.none,
        }

    def _commit(self, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        group = self.groups.setdefault(fields["group_id"], FakeGroup())
        is_quiet = group.state in ("Empty", "Dead")
        code = ErrorCode.none if is_quiet else ErrorCode.unknown_member_id
        for topic in fields["topics"] if is_quiet else ():
            for entry in topic["partitions"]:
                group.positions[TopicPartition(topic["name"], entry["partition_index"])] = (
                    CommittedOffset(
                        entry["committed_offset"],
                        entry["committed_leader_epoch"],
                        entry["committed_metadata"],
                    )
                )
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        {"partition_index": each["partition_index"], "error_code": code}
                        for each in topic["partitions"]
                    ],
                }
                for topic in fields["topics"]
            ]
        }
