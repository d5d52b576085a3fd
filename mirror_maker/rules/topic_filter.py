"""Which topics a link copies: MirrorMaker 2's defaults. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mirror_maker.formats.mm2 import is_heartbeats_topic
from mirror_maker.formats.naming import SEPARATOR


def is_internal_topic(topic: str) -> bool:
    """Topics of the machinery itself, as ReplicationPolicy.isInternalTopic has them."""
    return topic.startswith(("__", ".")) or topic.endswith(("-internal", ".internal"))


_PLAIN: Final = re.compile(r"[a-zA-Z0-9._\-]+")


class NameFilter:
    """Selects names by full-match patterns."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = _any_of(include)
        self._exclude = _any_of(exclude)
        plain = (pattern for pattern in include if _PLAIN.fullmatch(pattern))
        self.plain_names = frozenset(name for name in plain if self.selects(name))
        """Patterns that are names as they stand: what of them is not listed can be asked for."""

    def includes(self, name: str) -> bool:
        """Whether it is meant, be it excluded or not."""
        return self._include.fullmatch(name) is not None

    def selects(self, name: str) -> bool:
        return self._include.fullmatch(name) is not None and self._exclude.fullmatch(name) is None


class TopicFilter:
    """Selects topics by full-match patterns; internal topics are never selected, but for the link's
    own probe topic, which is selected whatever the patterns say.

    So a probe topic travels one hop: no other link selects it, nor its copy.

    `heartbeats` topics are selected beside the patterns where MirrorMaker 2's topics are wanted
    (its `heartbeats.replication.enabled`). A topic that has come from the target, or through it, is
    left out: copying it back would make a loop. Where every hop puts its source's alias in front,
    that is any topic with the target's alias among its parts but the last, as MirrorMaker 2 has it
    (MirrorSourceConnector.isCycle); where names are others, only one with the alias in front.
    """

    def __init__(
        self,
        include: Sequence[str],
        exclude: Sequence[str],
        target_alias: str,
        *,
        heartbeats: bool = False,
        is_prefixed: bool = True,
        probe_topic: str | None = None,
    ) -> None:
        """`is_prefixed`: copies are called `<source alias>.<topic>` by every link. `probe_topic` is
        the link's own, the only internal topic that is selected."""
        self._names = NameFilter(include, exclude)
        self._heartbeats = heartbeats
        self._is_prefixed = is_prefixed
        self._target_prefix = target_alias + SEPARATOR
        self._probe_topic = probe_topic
        names = self._names.plain_names | ({probe_topic} if probe_topic is not None else set())
        self.plain_names = frozenset(name for name in names if self.selects(name))

    def leaves_out(self, topic: str) -> bool:
        """Whether the patterns mean it, and it is not copied all the same."""
        return self._names.includes(topic) and not self.selects(topic)

    def selects(self, topic: str) -> bool:
        if topic == self._probe_topic:
            return True
        return (
            not is_internal_topic(topic)
            and not self._has_been_there(topic)
            and (self._names.selects(topic) or (self._heartbeats and is_heartbeats_topic(topic)))
        )

    def _has_been_there(self, topic: str) -> bool:
        """Whether its name says that the target has it."""
        if topic.startswith(self._target_prefix):
            return True
        # Heartbeats are prefixed by every link.
        shows_hops = self._is_prefixed or is_heartbeats_topic(topic)
        return shows_hops and SEPARATOR + self._target_prefix in topic


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    # An empty list matches nothing, not even the empty string.
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")
