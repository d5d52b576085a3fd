"""What the mirrors publish of their copies: verdicts of audits, and journals of gaps. Shell."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from local_cluster.client.client import KafkaClient
from local_cluster.client.reader import read_topic
from mirror_maker.formats import FlowKey, Gap, GapJournal, gaps_topic_name
from mirror_maker.formats.probe import is_probe_topic
from mirror_maker.formats.verdict_topic import FlowVerdicts, VerdictTopic
from mirror_maker.formats.verdicts import Progress, verdicts_topic_name


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPartition:
    """What the audit of a link has found in one source partition."""

    link: str
    flow: FlowKey
    progress: Progress
    verdicts: FlowVerdicts


async def read_verdicts(client: KafkaClient, links: Iterable[str]) -> list[AuditedPartition]:
    """Return what the audits of these links say; a link without verdicts says nothing.

    Raises KafkaError and MapFormatError.
    """
    topics = (await client.metadata()).topics
    topic_ids = {name: topic.topic_id for name, topic in topics.items()}
    names = {link: verdicts_topic_name(link) for link in links}
    replayed = await _replay(client, topics, names, VerdictTopic)
    return [
        each
        for link, topic in replayed.items()
        for each in audited_partitions(link, topic, topic_ids)
    ]


def audited_partitions(
    link: str, topic: VerdictTopic, topic_ids: Mapping[str, uuid.UUID | None]
) -> list[AuditedPartition]:
    """Return the newest verdicts of each source partition whose copy is still the same topic.

    `topic_ids` are those of the cluster with the copies.
    """
    newest: dict[tuple[str, int], AuditedPartition] = {}
    for flow, verdicts in topic.flows():
        progress = verdicts.progress
        if progress is None or is_probe_topic(flow.source_topic):
            continue
        if topic_ids.get(progress.target_topic) != flow.target_topic_id:
            continue  # the copy was deleted, or re-created
        at = flow.source_topic, flow.partition
        known = newest.get(at)
        if known is None or progress.written_at_ms > known.progress.written_at_ms:
            newest[at] = AuditedPartition(
                link=link, flow=flow, progress=progress, verdicts=verdicts
            )
    return [newest[at] for at in sorted(newest)]


def select(
    partitions: Iterable[AuditedPartition], topic: str | None, numbers: frozenset[int]
) -> list[AuditedPartition]:
    """Return the partitions of a source topic (None: all) with these numbers (none: all)."""
    return [
        each
        for each in partitions
        if topic in (None, each.flow.source_topic)
        and (not numbers or each.flow.partition in numbers)
    ]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An entry of a link's journal."""

    link: str
    gap: Gap
    is_current: bool
    """Whether the topic with the copies is still the one that the entry is about."""


async def read_journals(client: KafkaClient, links: Iterable[str]) -> list[JournalEntry]:
    """Return every entry that holds, of the journals of these links; a link without one has none.

    Raises KafkaError and MapFormatError.
    """
    topics = (await client.metadata()).topics
    names = {link: gaps_topic_name(link) for link in links}
    found = []
    for link, journal in (await _replay(client, topics, names, GapJournal)).items():
        for gap in journal.all_entries():
            copy = topics.get(gap.target_topic)
            is_current = copy is not None and copy.topic_id == gap.flow.target_topic_id
            found.append(JournalEntry(link, gap, is_current))
    return found


class _Replayed(Protocol):
    """What is built from the records of a topic."""

    def replay(self, key: bytes | None, value: bytes | None) -> object: ...


_T = TypeVar("_T", bound=_Replayed)


async def _replay(
    client: KafkaClient,
    topics: Container[str],
    names: Mapping[str, str],
    create: Callable[[], _T],
) -> dict[str, _T]:
    """Return what is built from each link's topic, in order; `topics` are those of the cluster."""
    found: dict[str, _T] = {}
    for link, name in sorted(names.items()):
        if name in topics:
            found[link] = create()
            async for record in read_topic(client, name):
                found[link].replay(record.key, record.value)
    return found


def select_entries(
    entries: Iterable[JournalEntry], topic: str | None, partitions: frozenset[int]
) -> list[JournalEntry]:
    """Return the entries of a source topic (None: all, but for probes) and these partitions."""
    return [
        each
        for each in entries
        if topic in (None, each.gap.flow.source_topic)
        and not is_probe_topic(each.gap.flow.source_topic)
        and (not partitions or each.gap.flow.partition in partitions)
    ]
