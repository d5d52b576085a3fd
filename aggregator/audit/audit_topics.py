"""The topics from which the audits of all links are assembled, in memory.

`TopicFollower` keeps them up to date, so no audit waits for I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aggregator.audit.link_audit import BuiltAudits, PartitionAudit, SourceEnds, link_audit
from aggregator.maps.followed_topic import Followed
from aggregator.maps.link_map import TopicIds
from aggregator.maps.translation import LinkMaps
from local_cluster.records.batch import Record
from mirror_maker.formats import GapJournal, gaps_topic_name
from mirror_maker.formats.verdict_topic import VerdictTopic
from mirror_maker.formats.verdicts import verdicts_topic_name


class AuditTopics:
    """The verdicts topics and journals, by link name."""

    def __init__(
        self, maps: LinkMaps, links: Sequence[str], kept: AuditTopics | None = None
    ) -> None:
        """Links that `kept` has go on with its topics."""
        self._maps = maps
        self._built: dict[str, BuiltAudits] = {}
        """By link: the last audits, which are reused for partitions without changes."""
        verdicts = {} if kept is None else kept._verdicts
        journals = {} if kept is None else kept._journals
        self._verdicts: dict[str, Followed[VerdictTopic]] = {
            link: verdicts.get(link)
            or Followed(verdicts_topic_name(link), VerdictTopic, _replay_verdict)
            for link in links
        }
        self._journals: dict[str, Followed[GapJournal]] = {
            link: journals.get(link) or Followed(gaps_topic_name(link), GapJournal, _replay_gap)
            for link in links
        }

    def followed(self) -> Iterator[Followed[Any]]:
        """Yield every topic to follow."""
        yield from self._verdicts.values()
        yield from self._journals.values()

    def verdicts(self, link: str) -> Followed[VerdictTopic]:
        """Return the link's verdicts topic."""
        return self._verdicts[link]

    def journal(self, link: str) -> Followed[GapJournal]:
        """Return the link's journal."""
        return self._journals[link]

    def problem(self, link: str) -> str | None:
        """Return why the link's audit is unknown or incomplete; None if it is complete."""
        for followed in (self._maps.topic(link), self._verdicts[link], self._journals[link]):
            if followed.problem is not None:
                return followed.problem
        return None

    def partitions(
        self, link: str, target_ids: TopicIds, source_ends: SourceEnds
    ) -> list[PartitionAudit]:
        """Return the audit of every mapped source partition, without the probe's, in order.

        Raises MapFormatError.
        """
        link_map = self._maps.topic(link).value
        if link_map is None:
            return []
        built = self._built.setdefault(link, {})
        verdicts, journal = self._verdicts[link].value, self._journals[link].value
        audits = link_audit(link_map, verdicts, journal, target_ids, source_ends, built)
        for flow in built.keys() - {each.flow for each in audits}:
            del built[flow]
        return audits


def _replay_verdict(topic: VerdictTopic, record: Record) -> None:
    topic.replay(record.key, record.value)


def _replay_gap(journal: GapJournal, record: Record) -> None:
    journal.replay(record.key, record.value)
