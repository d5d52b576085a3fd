"""What happens to a copy whose source topic is gone. Pure.

It is always reported. It is deleted only if the link has `deletions: mirror`, and the source itself
says at every look for `deletion_grace_ms` that the topic does not exist. A copy is kept, or the
time starts over:

- while the source does not answer, is another cluster, or hides the topic (a principal without
  DESCRIBE gets the same response for existing topics);
- while the source shows no topic at all, because it may have lost everything;
- if another link writes into the copy, or the topic is one of `merge`;
- if the link neither created the copy nor has its name for itself;
- if the copy has records that are no copies: they exist nowhere else and would be lost;
- if a side has no topic ids, which tell two topics of one name apart.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from local_cluster.wire.errors import ErrorCode
from mirror_maker.settings import LinkSettings


class Fate(StrEnum):
    """What happens to one copy."""

    REPORTED = "reported"
    """Nothing, because the link does not mirror deletions."""
    UNSURE = "unsure"
    """Nothing, because the source does not say that the topic is gone."""
    KEPT = "kept"
    """Nothing, because the copy may hold more than copies, or is not the link's."""
    WAITING = "waiting"
    """It will be deleted when the topic has been gone for long enough."""
    DELETED = "deleted"


class GoneTopic(NamedTuple):
    """A topic that was copied and is absent from the source's list of topics."""

    topic: str
    copy: str
    answer: int
    """Error code of the source for this topic by name."""
    gone_ms: int
    """How long the source has said at every look that the topic does not exist."""
    source_shows_topics: bool
    """Whether the source lists other topics."""
    is_ours: bool
    """Whether the link created the copy, or the copy's name tells its origin."""
    has_topic_ids: bool
    other_links: tuple[str, ...]
    """Other links that write into the copy."""
    has_own_records: bool
    """Whether the copy holds records that are not known to be copies."""
    is_held: bool
    """Whether an operator has paused it."""


def decide_fate(gone: GoneTopic, settings: LinkSettings) -> tuple[Fate, str]:
    """Decide what to do about an existing copy, and why."""
    if gone.answer != ErrorCode.unknown_topic_or_partition:
        answer = ErrorCode(gone.answer).name if gone.answer else "it exists"
        return Fate.UNSURE, f"the source does not say that it is gone: {answer}"
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
