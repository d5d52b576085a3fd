"""The fate of copies whose source topics are gone: only certain and wanted deletions happen."""

from __future__ import annotations

import random
import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import (
    ClusterMetadata,
    ListedOffset,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.formats import FlowKey, Gap, MapTopic, Opening, encode_record
from mirror_maker.formats.naming import TopicNames
from mirror_maker.link.link import LinkWorker
from mirror_maker.ports import DataSink, SystemClock
from mirror_maker.settings import Limits, LinkSettings
from mirror_maker.stores.journal_store import GapStore
from mirror_maker.topic_sync.copy_deletion import CopyDeleter
from mirror_maker.topic_sync.deletion_rules import Fate, GoneTopic, decide_fate

GRACE_MS = 10_000
GONE = GoneTopic(
    topic="t",
    copy="a.t",
    answer=ErrorCode.unknown_topic_or_partition,
    gone_ms=GRACE_MS,
    source_shows_topics=True,
    is_ours=True,
    has_topic_ids=True,
    other_links=(),
    has_own_records=False,
    is_held=False,
)


def link(**changes: Any) -> LinkSettings:
    settings = {"deletions": "mirror", "deletion_grace_ms": GRACE_MS, **changes}
    return LinkSettings(name="x", source_alias="a", source_bootstrap="-", **settings)


def test_a_copy_is_deleted_when_its_topic_has_been_gone_for_long_enough() -> None:
    assert decide_fate(GONE, link()) == (Fate.DELETED, "it has been gone for 10 s")
    early = GONE._replace(gone_ms=GRACE_MS - 1)
    assert decide_fate(early, link()) == (
        Fate.WAITING,
        "its copy is deleted in 1 s, if it does not come back",
    )


@pytest.mark.parametrize(
    ("change", "fate", "reason"),
    [
        ({"answer": ErrorCode.topic_authorization_failed}, Fate.UNSURE, "authorization"),
        ({"answer": ErrorCode.leader_not_available}, Fate.UNSURE, "leader_not"),
        ({"answer": ErrorCode.none}, Fate.UNSURE, "it exists"),
        ({"other_links": ("b-all", "c-all")}, Fate.KEPT, "b-all, c-all"),
        ({"is_ours": False}, Fate.KEPT, "has not made"),
        ({"has_own_records": True}, Fate.KEPT, "are no copies"),
        ({"has_topic_ids": False}, Fate.KEPT, "topic ids"),
        ({"source_shows_topics": False}, Fate.KEPT, "no topic at all"),
        ({"is_held": True}, Fate.WAITING, "paused"),
    ],
)
def test_each_reason_against_a_deletion_keeps_the_copy(
    change: dict[str, Any], fate: Fate, reason: str
) -> None:
    found, said = decide_fate(GONE._replace(**change), link())
    assert found is fate
    assert reason in said


def test_a_gone_topic_is_only_reported_without_mirrored_deletions() -> None:
    assert decide_fate(GONE, link(deletions="report"))[0] is Fate.REPORTED
    assert decide_fate(GONE, link(names=TopicNames(merge=("t",))))[0] is Fate.KEPT


class Cluster:
    """Answers about topics by name; `error` for all of it."""

    def __init__(self, *topics: str) -> None:
        self.topics = {name: _topic(name) for name in topics}
        self.answers: dict[str, ErrorCode] = {}
        """Of topics that are not listed, asked for by name."""
        self.error: KafkaError | None = None
        self.deleted: list[str] = []
        self.ends: dict[TopicPartition, int] = {}
        """Of partitions that have records."""

    async def metadata(
        self, names: list[str] | None = None, *, last: ClusterMetadata | None = None
    ) -> ClusterMetadata:
        if self.error is not None:
            raise self.error
        wanted = list(self.topics) if names is None else names
        missing = ErrorCode.unknown_topic_or_partition
        found = {
            name: self.topics.get(name)
            or TopicMetadata(name, None, self.answers.get(name, missing), False, {})
            for name in wanted
        }
        return ClusterMetadata("S", 1, {}, found)

    async def list_offsets(
        self, timestamps: dict[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        return {
            at: ListedOffset(
                ErrorCode.none, self.ends.get(at, 0) if time == LATEST_TIMESTAMP else 0, -1, -1
            )
            for at, time in timestamps.items()
        }

    async def delete_topics(self, names: list[str]) -> dict[str, KafkaError | None]:
        self.deleted += names
        for name in names:
            del self.topics[name]
        return dict.fromkeys(names)


def _id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


def _topic(name: str) -> TopicMetadata:
    partitions = {
        each: PartitionMetadata(each, 0, 0, (0,), (0,), ErrorCode.none) for each in (0, 1)
    }
    return TopicMetadata(name, _id(name), ErrorCode.none, False, partitions)


class World:
    """A link that has copied partition 0 of `t`, its clusters, and a clock."""

    def __init__(self) -> None:
        self.source, self.target = Cluster("other"), Cluster("a.t", "a.other")
        self.now_ms = 0
        self.gaps: list[Gap] = []
        state = MapTopic()
        opening = Opening(
            flow=FlowKey("t", 0, _id("t"), _id("a.t")),
            producer_id=1,
            producer_epoch=0,
            nonce=1,
            target_topic="a.t",
            source_offset=0,
            target_offset=0,
            opened_at_ms=0,
            worker_id="w",
        )
        state.replay(*encode_record(opening))
        clock = SimpleNamespace(monotonic_ms=lambda: self.now_ms, now_ms=lambda: self.now_ms)
        journal = GapStore(
            cast(DataSink, self.target),
            link="x",
            worker_id="w",
            replication_factor=1,
            clock=SystemClock(),
            random=random.Random(1),
        )
        worker = SimpleNamespace(
            name="x",
            settings=link(),
            limits=Limits(),
            sink=self.target,
            directory=SimpleNamespace(is_loaded=True, source=self.source.topics),
            map_store=SimpleNamespace(
                is_open=True,
                state=state,
                topic="own",
                check_source=lambda cluster_id: None,
            ),
            journal=SimpleNamespace(note=self._note, new_entry=journal.new_entry),
            clock=clock,
            new_backoff=lambda: Backoff(1, 1, random.Random(1), SystemClock()),
            is_first_worker=True,
        )
        self.deletions = CopyDeleter(
            cast(LinkWorker, worker),
            cast(KafkaClient, self.source),
            cast(KafkaClient, self.target),
            "b",
        )

    async def _note(self, gap: Gap) -> Gap:
        assert not self.target.deleted, "the journal has it first"
        self.gaps.append(gap)
        return gap

    async def look(self, later_ms: int) -> list[str]:
        """The fates after a look some time later."""
        self.now_ms += later_ms
        await self.deletions.sync()
        return [each["fate"] for each in self.deletions.status()["gone"]]


async def test_a_topic_must_be_gone_at_every_look_of_the_grace_period() -> None:
    world = World()
    assert await world.look(0) == ["waiting"]
    assert await world.look(GRACE_MS - 1) == ["waiting"]
    # The source does not answer, or the topic is back for a moment: the time starts over.
    world.source.error = KafkaError(ErrorCode.network_exception, "away")
    with pytest.raises(KafkaError):
        await world.look(GRACE_MS)
    world.source.error = None
    assert await world.look(GRACE_MS) == ["waiting"]
    world.source.topics["t"] = _topic("t")
    assert await world.look(GRACE_MS) == []
    del world.source.topics["t"]
    assert await world.look(GRACE_MS) == ["waiting"]
    assert world.target.deleted == []
    assert await world.look(GRACE_MS) == ["deleted"]
    assert world.target.deleted == ["a.t"]
    assert [(gap.flow.source_topic, gap.reason) for gap in world.gaps] == [("t", "source_deleted")]
    assert await world.look(GRACE_MS) == []
    assert world.deletions.status()["deleted"] == 1


@pytest.mark.parametrize(
    "answer",
    [ErrorCode.topic_authorization_failed, ErrorCode.leader_not_available, ErrorCode.none],
)
async def test_a_hidden_or_existing_topic_restarts_the_grace_period(
    answer: ErrorCode,
) -> None:
    world = World()
    assert await world.look(0) == ["waiting"]
    world.source.answers["t"] = answer
    assert await world.look(GRACE_MS) == await world.look(GRACE_MS) == ["unsure"]
    # A broker that has just started, or a topic that is being re-created.
    del world.source.answers["t"]
    assert await world.look(1) == await world.look(GRACE_MS - 1) == ["waiting"]
    assert world.target.deleted == []
    assert await world.look(1) == ["deleted"]


async def test_the_grace_period_does_not_count_while_a_topic_is_hidden() -> None:
    world = World()
    world.source.answers["t"] = ErrorCode.topic_authorization_failed
    assert await world.look(0) == ["unsure"]
    del world.source.answers["t"]
    assert await world.look(2 * GRACE_MS) == ["waiting"]


async def test_another_topic_of_the_copys_name_is_left_alone() -> None:
    world = World()
    world.target.topics["a.t"] = world.target.topics["a.t"]._replace(topic_id=_id("anew"))
    assert await world.look(0) == await world.look(2 * GRACE_MS) == []
    assert world.target.deleted == []


async def test_a_copy_with_records_in_a_partition_that_was_never_opened_is_kept() -> None:
    world = World()
    world.target.ends[TopicPartition("a.t", 1)] = 1
    assert await world.look(0) == await world.look(2 * GRACE_MS) == ["kept"]
    assert world.target.deleted == []
    world.target.ends.clear()  # retention has taken it
    assert await world.look(0) == ["deleted"]
