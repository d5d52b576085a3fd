"""The audits of all links, in memory: the topics that they are put together from, and answers.

`TopicFollower` fills what is followed here; nothing is read per question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from local_cluster.records.batch import Record
from mirror_maker.formats import GapJournal, gaps_topic_name
from mirror_maker.formats.probe import is_probe_topic
from mirror_maker.formats.verdicts import FlowVerdicts, VerdictTopic, verdicts_topic_name

from .followed import Followed
from .link_audit import PartitionAudit, audit_partition
from .link_map import LinkMap, TopicIds
from .translation import LinkMaps

SourceEnds = Mapping[tuple[str, int], int]
"""(topic, partition) -> where the source ends now, as far as workers tell."""


class LinkAudits:
    """Verdicts and journals by link name."""

    def __init__(self, maps: LinkMaps, links: Iterable[str]) -> None:
        self._maps = maps
        self._verdicts = {
            link: Followed(verdicts_topic_name(link), VerdictTopic, _replay_verdict)
            for link in links
        }
        self._journals = {
            link: Followed(gaps_topic_name(link), GapJournal, _replay_gap) for link in links
        }

    def followed(self) -> Iterator[Followed[Any]]:
        """Everything that is to be read."""
        yield from self._verdicts.values()
        yield from self._journals.values()

    def verdicts(self, link: str) -> Followed[VerdictTopic]:
        """The link's verdicts topic."""
        return self._verdicts[link]

    def journal(self, link: str) -> Followed[GapJournal]:
        """The link's journal."""
        return self._journals[link]

    def problem(self, link: str) -> str | None:
        """Why the link's audit is not known, or not known to its end; None while it is."""
        for followed in (self._maps.topic(link), self._verdicts[link], self._journals[link]):
            if followed.problem is not None:
                return followed.problem
        return None

    def partitions(
        self, link: str, target_ids: TopicIds, source_ends: SourceEnds
    ) -> list[PartitionAudit]:
        """Every source partition of the link that is mapped, ascending; the probe's is left out."""
        link_map = self._maps.topic(link).value
        if link_map is None:
            return []
        return link_audit(
            link_map,
            self._verdicts[link].value,
            self._journals[link].value,
            target_ids,
            source_ends,
        )


def link_audit(
    link_map: LinkMap,
    verdicts: VerdictTopic | None,
    journal: GapJournal | None,
    target_ids: TopicIds,
    source_ends: SourceEnds,
) -> list[PartitionAudit]:
    """Every mapped partition of a link, ascending. Raises MapFormatError."""
    audits = []
    for flow, target_topic, offset_map in link_map.current_flows(target_ids):
        if is_probe_topic(flow.source_topic):
            continue
        at = flow.source_topic, flow.partition
        entries = [] if journal is None else journal.partition_entries(*at)
        audits.append(
            audit_partition(
                flow,
                target_topic,
                offset_map,
                FlowVerdicts() if verdicts is None else verdicts.flow(flow),
                [each for each in entries if each.flow == flow],
                source_ends.get(at),
            )
        )
    return sorted(audits, key=lambda each: (each.flow.source_topic, each.flow.partition))


def _replay_verdict(topic: VerdictTopic, record: Record) -> None:
    topic.replay(record.key, record.value)


def _replay_gap(journal: GapJournal, record: Record) -> None:
    journal.replay(record.key, record.value)
