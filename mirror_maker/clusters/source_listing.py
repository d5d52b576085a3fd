"""Which topics and partitions the source has, as of the newest Metadata response. Pure.

A partition that is new in a topic which the listing before had did not exist then: a response names
all partitions of a topic. Of a new topic that is not certain. It may have been there before,
without the right to see it.
"""

from __future__ import annotations

from collections.abc import Mapping

from local_cluster.client.model import TopicMetadata
from mirror_maker.formats.completeness.listing import ListedTopic, Listing
from mirror_maker.formats.records import NO_TOPIC_ID


class SourceListing:
    """The topics that a link copies, listed again and again."""

    def __init__(self) -> None:
        self.newest: Listing | None = None
        """None before the first response."""
        self._seen: Mapping[str, TopicMetadata] | None = None

    def note(self, wanted: Mapping[str, TopicMetadata], asked_ms: int) -> None:
        """Take what a response named; `asked_ms` is the wall clock when its request was written.

        The same mapping means that nothing has changed. A response with fewer partitions of a topic
        is from a broker that has not learned of them yet, so it proves nothing.
        """
        before = self.newest
        if before is None or wanted is not self._seen:
            known = {} if before is None else {each.name: each for each in before.topics}
            absent_ms = None if before is None else before.asked_ms
            topics = [_listed(wanted[name], known.get(name), absent_ms) for name in sorted(wanted)]
            if any(_is_older(each, known.get(each.name)) for each in topics):
                return
            if before is None or topics != before.topics:
                before = Listing(asked_ms, topics)
        self._seen = wanted
        self.newest = before._replace(asked_ms=asked_ms)


def _is_older(topic: ListedTopic, before: ListedTopic | None) -> bool:
    """Return whether a topic has lost partitions, which no topic ever does."""
    if before is None or topic.topic_id == NO_TOPIC_ID or topic.topic_id != before.topic_id:
        return False
    return topic.partitions_count < before.partitions_count


def _listed(topic: TopicMetadata, before: ListedTopic | None, absent_ms: int | None) -> ListedTopic:
    # Numbers without a hole: the highest one counts, if one of them is left out by an error.
    count = max(topic.partitions, default=-1) + 1
    topic_id = topic.topic_id or NO_TOPIC_ID
    if before is None or before.topic_id != topic_id or before.partitions_count > count:
        return ListedTopic(topic.name, topic_id, count, count, None)
    if before.partitions_count == count:
        return before
    return ListedTopic(topic.name, topic_id, count, before.partitions_count, absent_ms)
