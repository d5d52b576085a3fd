"""The journal as a store: entries of a later worker beyond an earlier entry are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from unittest import mock

from mirror_maker.formats import Gap
from mirror_maker.formats.gaps import GapKind
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.stores.state_topic import Pair
from tests.sim.kafka_double.client import SimClient
from tests.sim.kafka_double.cluster import SimCluster
from tests.sim.kafka_double.network import Network
from tests.sim.mirror.world import VirtualClock
from tests.sim.virtual_time import run_virtually
from tests.unit.mirror_maker.formats.test_gaps import FLOW, GAP

LOST = replace(GAP, source_from=100, source_to=120)
COPIED = replace(
    GAP, source_from=100, source_to=110, kind=GapKind.COPIED, copied_count=4, target_to=94
)


def new_store(cluster: SimCluster) -> GapStore:
    return GapStore(
        SimClient(cluster, Network(Random(1))),
        link="a-b",
        worker_id="w",
        replication_factor=-1,
        clock=VirtualClock(),
        random=Random(1),
    )


def noted(*gaps: Gap) -> list[Gap]:
    """Return the entries that hold after these were noted in turn."""

    async def scenario() -> list[Gap]:
        cluster = SimCluster("b", Random(1))
        store = new_store(cluster)
        cluster.create(store.records.name, 1)
        for number, gap in enumerate(gaps):
            await store.note(replace(gap, nonce=number))
        return store.state.partition_entries(FLOW.source_topic, FLOW.partition)

    found: list[Gap] = run_virtually(scenario())
    return found


def test_an_entry_is_noted_once() -> None:
    assert noted(LOST, LOST, COPIED, COPIED) == [
        replace(LOST, nonce=0),
        replace(COPIED, nonce=2),
    ]


def test_records_lost_beyond_an_entry_get_an_entry_of_their_own() -> None:
    """The next worker begins at the same offset, because the map was not written in between."""
    longer = replace(LOST, source_to=150)
    assert [(each.source_from, each.source_to) for each in noted(LOST, longer)] == [
        (100, 120),
        (120, 150),
    ]


def test_an_entry_without_an_end_exists_beside_a_gap_at_its_start() -> None:
    ended = replace(LOST, source_to=None)
    entries = noted(LOST, ended, ended)
    assert sorted(each.source_to or 0 for each in entries) == [0, 120]


def test_an_entry_with_more_copies_replaces_one_with_fewer() -> None:
    more = replace(COPIED, source_to=130, copied_count=7, target_to=97)
    assert noted(COPIED, more) == [replace(more, nonce=1)]
    assert noted(more, COPIED) == [replace(more, nonce=0)], "a stale worker knows less"


def test_what_another_workers_entry_leaves_out_is_noted_too() -> None:
    """Both begin at one offset, and the shorter one of the other worker comes first."""
    longer = replace(LOST, source_to=150, nonce=1)

    async def scenario() -> list[Gap]:
        cluster = SimCluster("b", Random(1))
        store, other = new_store(cluster), new_store(cluster)
        cluster.create(store.records.name, 1)
        write = store.records.append

        async def write_late(pairs: Sequence[Pair]) -> None:
            await other.note(LOST)
            await write(pairs)

        with mock.patch.object(store.records, "append", write_late):
            await store.note(longer)
        return store.state.partition_entries(FLOW.source_topic, FLOW.partition)

    entries: list[Gap] = run_virtually(scenario())
    assert [(each.source_from, each.source_to) for each in entries] == [(100, 120), (120, 150)]
