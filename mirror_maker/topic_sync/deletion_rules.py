"""What becomes of a copy whose source topic is gone. Pure.

It is always reported. It is deleted only where the link says `deletions: mirror`, and only where
the source itself says that there is no such topic, at every look for `deletion_grace_ms`; never

- while the source does not answer, answers as another cluster, or hides the topic (a principal
  without DESCRIBE is told the same of topics that are there);
- where the source shows no topic at all: a cluster that lost everything is no reason to;
- where another link writes into the copy, or it is a topic of `merge`;
- where the link has neither made the copy nor alone may write under its name;
- where the copy has records that are no copies: they would be lost, and exist nowhere else;
- where a side has no topic ids, which tell one topic of a name from the next.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from local_cluster.wire.errors import ErrorCode
from mirror_maker.settings import LinkSettings


class Fate(StrEnum):
    """What is done about one copy."""

    REPORTED = "reported"
    """Nothing, since the link does not mirror deletions."""
    UNSURE = "unsure"
    """Nothing, since the source does not say that the topic is gone."""
    KEPT = "kept"
    """Nothing, since the copy is more than a copy, or not the link's."""
    WAITING = "waiting"
    """It will be deleted when the topic has been gone for long enough."""
    DELETED = "deleted"


class GoneTopic(NamedTuple):
    """A topic that was copied, and that the source's list of topics no longer has."""

    topic: str
    copy: str
    answer: int
    """Error code of the source, asked for this topic by name."""
    gone_ms: int
    """For how long the source has said at every look that there is no such topic."""
    source_shows_topics: bool
    """Whether there are others."""
    is_ours: bool
    """Whether the link has made the copy, or its name tells where it came from."""
    has_topic_ids: bool
    other_links: tuple[str, ...]
    """That write into the copy too."""
    has_own_records: bool
    """Whether something in the copy is not known to be a copy."""
    is_held: bool
    """Whether an operator has paused it."""


def decide_fate(gone: GoneTopic, settings: LinkSettings) -> tuple[Fate, str]:
    """What to do about a copy that is there, and why."""
    if gone.answer != ErrorCode.unknown_topic_or_partition:
        said = ErrorCode(gone.answer).name if gone.answer else "it is there"
        return Fate.UNSURE, f"the source does not say that it is gone: {said}"
    if settings.deletions != "mirror":
        return Fate.REPORTED, "`deletions: mirror` would delete its copy"
    kept = _why_kept(gone, settings)
    if kept is not None:
        return Fate.KEPT, kept
    if gone.is_held:
        return Fate.WAITING, "it is paused"
    if gone.gone_ms < settings.deletion_grace_ms:
        left_s = -(-(settings.deletion_grace_ms - gone.gone_ms) // 1000)
        return Fate.WAITING, f"its copy is deleted in {left_s} s, if it does not come back"
    return Fate.DELETED, f"it has been gone for {gone.gone_ms // 1000} s"


def _why_kept(gone: GoneTopic, settings: LinkSettings) -> str | None:
    if settings.names.is_merged(gone.topic):
        return "several links write into its copy"
    if gone.other_links:
        return f"{', '.join(gone.other_links)} writes into its copy too"
    if not gone.is_ours:
        return "the link has not made its copy"
    if gone.has_own_records:
        return "its copy has records that are no copies"
    if not gone.has_topic_ids:
        return "a side has no topic ids"
    if not gone.source_shows_topics:
        return "the source shows no topic at all"
    return None
