"""Groups that may not be described are not listed; missing ones are looked up by name."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from local_cluster.client.model import TopicPartition
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from mirror_maker.backoff import Backoff
from mirror_maker.group_sync.group_syncer import GroupSyncer
from mirror_maker.ports import SystemClock
from mirror_maker.settings import Limits, LinkSettings
from tests.support.groups_double import GroupsDouble

AT = TopicPartition("t", 0)


class Source(GroupsDouble):
    """Does not list refused groups, and records lookups by name."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()
        """Groups of the last round's lookup."""

    async def call(self, api: ApiKey, fields: Mapping[str, Any], **options: Any) -> Any:
        if api is ApiKey.FIND_COORDINATOR:
            self.asked = set(fields["coordinator_keys"])
        return await super().call(api, fields, **options)

    def _list(self, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        answer = super()._list(version, fields)
        answer["groups"] = [
            each for each in answer["groups"] if each["group_id"] not in self.refused
        ]
        return answer


async def test_seen_and_named_groups_are_looked_up_until_they_are_surely_deleted() -> None:
    source = Source()
    flow = SimpleNamespace(target=AT, replicator=SimpleNamespace(offset_map=None))
    link = SimpleNamespace(
        name="x",
        settings=LinkSettings(
            name="x", source_alias="a", source_bootstrap="-", groups=("named", "app-.*")
        ),
        limits=Limits(),
        clock=SystemClock(),
        map_store=SimpleNamespace(state=SimpleNamespace(mirrored_commits=list)),
        new_backoff=lambda: Backoff(1, 1, Random(1), SystemClock()),
        flows={AT: flow},
        watch=set,
    )
    nothing = cast(Any, None)
    sync = GroupSyncer(cast(Any, link), cast(Any, source), nothing, None, nothing)
    for name in ("app-1", "app-2", "other"):
        source.commit(name, TopicPartition("elsewhere", 0), 1)
    refused = ErrorCode.group_authorization_failed
    source.refused["named"] = refused
    await sync.sync()
    assert source.asked == {"named", "app-1", "app-2"}
    source.refused["app-1"] = refused
    await sync.sync()
    assert source.asked == {"named", "app-1", "app-2"}, "it is missing in the list"
    del source.groups["app-2"]
    await sync.sync()
    await sync.sync()
    assert source.asked == {"named", "app-1"}, "a deleted group is forgotten"
