"""The audits of all links, in memory: the topics that they are put together from, and answers.

`TopicFollower` fills what is followed here; nothing is read per question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aggregator.audit.link_audit import PartitionAudit, audit_partition
from aggregator.maps.followed_topic import Followed
from aggregator.maps.link_map import LinkMap, TopicIds
from aggregator.maps.translation import LinkMaps
from local_cluster.records.batch import Record
from mirror_maker.formats import FlowKey, GapJournal, gaps_topic_name
from mirror_maker.formats.probe import is_probe_topic
from mirror_maker.formats.verdicts import FlowVerdicts, VerdictTopic, verdicts_topic_name

SourceEnds = Mapping[tuple[str, int], int]
"""(topic, partition) -> where the source ends now, as far as workers tell."""


class LinkAudits:
    """Verdicts and journals by link name."""

    def __init__(self, maps: LinkMaps, links: Iterable[str]) -> None:
        self._maps = maps
        self._built: dict[str, dict[FlowKey, tuple[object, PartitionAudit]]] = {}
        """Per link what was put together last, and of what: most partitions stand still."""
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
        built = self._built.setdefault(link, {})
        verdicts, journal = self._verdicts[link].value, self._journals[link].value
        audits = link_audit(link_map, verdicts, journal, target_ids, source_ends, built)
        for flow in built.keys() - {each.flow for each in audits}:
            del built[flow]
        return audits


def link_audit(
    link_map: LinkMap,
    verdicts: VerdictTopic | None,
    journal: GapJournal | None,
    target_ids: TopicIds,
    source_ends: SourceEnds,
    built: dict[FlowKey, tuple[object, PartitionAudit]] | None = None,
) -> list[PartitionAudit]:
    """Every mapped partition of a link, ascending. `built` keeps what was put together, of what.
    Raises MapFormatError."""
    audits = []
    for flow, target_topic, offset_map in link_map.current_flows(target_ids):
        if is_probe_topic(flow.source_topic):
            continue
        at = flow.source_topic, flow.partition
        told = FlowVerdicts() if verdicts is None else verdicts.flow(flow)
        entries = [] if journal is None else journal.partition_entries(*at)
        mine = [each for each in entries if each.flow == flow]
        made_of = (
            target_topic,
            (id(verdicts), told.version),
            (id(journal), len(mine)),
            (id(offset_map), offset_map.source_next, offset_map.target_next),
            offset_map.target_start,
            source_ends.get(at),
        )
        known = None if built is None else built.get(flow)
        if known is not None and known[0] == made_of:
            audits.append(known[1])
            continue
        audit = audit_partition(flow, target_topic, offset_map, told, mine, source_ends.get(at))
        audits.append(audit)
        if built is not None:
            built[flow] = made_of, audit
    return sorted(audits, key=lambda each: (each.flow.source_topic, each.flow.partition))


def _replay_verdict(topic: VerdictTopic, record: Record) -> None:
    topic.replay(record.key, record.value)


def _replay_gap(journal: GapJournal, record: Record) -> None:
    journal.replay(record.key, record.value)
