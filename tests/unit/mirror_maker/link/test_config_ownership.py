"""The link that owns a copy, so that configs and ACLs do not circulate between two clusters."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any, cast

import pytest

from mirror_maker.formats import MapTopic, Registration, encode_record
from mirror_maker.formats.marks import OwnedCopy
from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.records import MapRecord, encode_key
from mirror_maker.link.config_ownership import CopyPair, ownership_mark, why_not_owned
from mirror_maker.link.owned_copies import LinkMarks, OwnedCopies
from mirror_maker.settings import LinkSettings
from mirror_maker.stores.cluster_maps import ClusterMaps
from mirror_maker.stores.map_store import MapStore

HERE, THERE, OTHER = (uuid.UUID(int=number) for number in (1, 2, 3))
ORDERS = CopyPair("orders", HERE, "orders", THERE)
IDENTITY = TopicNames(otherwise="identity")


def link(**changes: Any) -> LinkSettings:
    settings = LinkSettings(name="x", source_alias="a", source_bootstrap="-", names=IDENTITY)
    return replace(settings, **changes)


def test_a_copy_whose_name_tells_its_origin_is_owned() -> None:
    pair = ORDERS._replace(copy="a.orders")
    assert why_not_owned(pair, link(names=TopicNames()), None, []) is None


@pytest.mark.parametrize(
    "names", [IDENTITY, TopicNames(map={"orders": "o"}), TopicNames(pattern="o(.*)", to="p$1")]
)
def test_any_other_copy_belongs_to_the_link_that_created_it(names: TopicNames) -> None:
    settings = link(names=names)
    made = ownership_mark(ORDERS, is_created=True)
    assert why_not_owned(ORDERS, settings, made, []) is None
    assert "existed before" in (why_not_owned(ORDERS, settings, None, []) or "")
    # A copy that was re-created by others is not the one that the link created.
    again = ORDERS._replace(target_topic_id=OTHER)
    assert "existed before" in (why_not_owned(again, settings, made, []) or "")


def test_a_merged_topic_belongs_to_no_link() -> None:
    settings = link(names=TopicNames(merge=("orders",)), leads=(".*",))
    reason = why_not_owned(ORDERS, settings, ownership_mark(ORDERS, is_created=True), [])
    assert reason is not None
    assert "several links" in reason


def test_settings_claim_a_copy_but_not_against_the_opposite_link() -> None:
    settings = link(leads=("ord.*",))
    assert why_not_owned(ORDERS, settings, None, []) is None
    assert why_not_owned(ORDERS._replace(topic="returns"), settings, None, []) is not None
    opposite = OwnedCopy(
        topic="orders",
        target_topic_id=HERE,
        source_topic="orders",
        source_topic_id=THERE,
        is_created=True,
    )
    assert "from the target owns" in (why_not_owned(ORDERS, settings, None, [opposite]) or "")
    # The mark is about another topic, or another topic of that name.
    for other in (
        replace(opposite, target_topic_id=OTHER),
        replace(opposite, topic="returns"),
        replace(opposite, source_topic_id=OTHER),
    ):
        assert why_not_owned(ORDERS, settings, None, [other]) is None


class Cluster:
    """The map topic of one link into a cluster."""

    def __init__(self, source_id: str, target_id: str) -> None:
        self.state = LinkMarks()
        self.registration = Registration(
            producer_id=1,
            producer_epoch=0,
            link="x",
            source_cluster_id=source_id,
            target_cluster_id=target_id,
            registered_at_ms=0,
            worker_id="w",
        )
        self.state.replay(*encode_record(self.registration))

    async def append(self, records: list[MapRecord], deleted: list[bytes] | None = None) -> None:
        await asyncio.sleep(0)  # others may look before it is written
        for record in records:
            self.state.replay(*encode_record(record))
        for key in deleted or ():
            self.state.replay(key, None)

    async def catch_up(self) -> None: ...

    async def find(self) -> None: ...

    async def read(self) -> None: ...

    def states(self) -> dict[str, MapTopic]:
        return {"theirs": self.state}


def owned_copies(settings: LinkSettings, target: Cluster, source: Cluster) -> OwnedCopies:
    return OwnedCopies(settings, cast(MapStore, target), cast(ClusterMaps, source))


async def test_of_two_links_that_claim_a_copy_at_once_neither_owns_it() -> None:
    east, west = Cluster("W", "E"), Cluster("E", "W")
    settings = link(leads=("orders",))
    forth, back = owned_copies(settings, west, east), owned_copies(settings, east, west)
    other_way = CopyPair("orders", THERE, "orders", HERE)
    # Each link writes its claim first, and then looks again.
    for _ in range(2):
        one, other = await asyncio.gather(forth.find([ORDERS]), back.find([other_way]))
        assert one == other == []
    assert "from the target owns" in forth.not_owned["orders"]
    # One of them drops its claim.
    quiet = owned_copies(link(), east, west)
    assert await quiet.find([other_way]) == []
    assert await forth.find([ORDERS]) == ["orders"]
    assert forth.not_owned == {}
    # And the first claim holds.
    assert await back.find([other_way]) == await back.find([other_way]) == []
    assert await forth.find([ORDERS]) == ["orders"]


async def test_a_created_copy_is_owned_from_the_first_look_and_only_there() -> None:
    east, west = Cluster("W", "E"), Cluster("E", "W")
    forth = owned_copies(link(), west, east)
    back = owned_copies(link(leads=("orders",)), east, west)
    await forth.note_created([ORDERS])
    assert await forth.find([ORDERS]) == ["orders"]
    other_way = CopyPair("orders", THERE, "orders", HERE)
    assert await back.find([other_way]) == await back.find([other_way]) == []
    mark = west.state.owned_copy("orders")
    assert mark is not None
    west.state.replay(encode_key(mark), None)
    assert await forth.find([ORDERS]) == []
