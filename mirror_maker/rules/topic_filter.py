"""Which topics a link selects, with MirrorMaker 2's defaults. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mirror_maker.formats.mm2 import is_heartbeats_topic
from mirror_maker.formats.naming import SEPARATOR


def is_internal_topic(topic: str) -> bool:
    """Return whether the name is internal, as ReplicationPolicy.isInternalTopic decides."""
    return topic.startswith(("__", ".")) or topic.endswith(("-internal", ".internal"))


_PLAIN: Final = re.compile(r"[a-zA-Z0-9._\-]+")
_SIMPLE: Final = re.compile(r"(?:[a-zA-Z0-9_\-.]|\\[.\-])*")
"""A name in which a dot stands for any character, unless it is escaped."""
ANY_REST: Final = ".*"


class NameFilter:
    """Selects names by full-match patterns."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = _any_of(include)
        self._exclude = _any_of(exclude)
        self._patterns = tuple(include), tuple(exclude)
        plain = (pattern for pattern in include if _PLAIN.fullmatch(pattern))
        self.plain_names = frozenset(name for name in plain if self.selects(name))
        """Patterns without wildcards: names to look up if a cluster does not list them."""

    def includes(self, name: str) -> bool:
        """Return whether the include patterns match, excluded or not."""
        return self._include.fullmatch(name) is not None

    def selects(self, name: str) -> bool:
        return self._include.fullmatch(name) is not None and self._exclude.fullmatch(name) is None

    def selects_every(self, prefix: str) -> bool:
        """Return whether every name with this prefix is surely selected.

        False also if that cannot be decided: the patterns that matter are not a name, or a name
        with `.*` behind it.
        """
        include, exclude = self._patterns
        return any(_covers(each, prefix) for each in include) and not any(
            _may_match_below(each, prefix) for each in exclude
        )


class TopicFilter:
    """Selects topics by full-match patterns.

    - Internal topics are never selected, except the link's own probe topic, which is always
      selected. So a probe topic travels one hop: no other link selects it or its copy.
    - `heartbeats` topics are selected in addition if MirrorMaker 2's topics are wanted (its
      `heartbeats.replication.enabled`).
    - A topic that came from the target or through it is not selected: copying it back would make a
      loop. If every hop prefixes its source's alias, that is any topic with the target's alias
      among its parts. The last part does not count, as in MirrorMaker 2
      (MirrorSourceConnector.isCycle). With other names it is only a topic that begins with the
      target's alias.
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
        """`is_prefixed`: every link calls its copies `<source alias>.<topic>`. `probe_topic` is the
        link's own, the only internal topic that is selected."""
        self._names = NameFilter(include, exclude)
        self._heartbeats = heartbeats
        self._is_prefixed = is_prefixed
        self._target_prefix = target_alias + SEPARATOR
        self._probe_topic = probe_topic
        names = self._names.plain_names | ({probe_topic} if probe_topic is not None else set())
        self.plain_names = frozenset(name for name in names if self.selects(name))

    def leaves_out(self, topic: str) -> bool:
        """Return whether the include patterns match a topic that is nevertheless not copied."""
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
        """Return whether the name says that the topic came from the target or through it."""
        if topic.startswith(self._target_prefix):
            return True
        # Every link prefixes heartbeats.
        shows_hops = self._is_prefixed or is_heartbeats_topic(topic)
        return shows_hops and SEPARATOR + self._target_prefix in topic


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    # An empty list matches nothing, not even the empty string.
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")


def _head(pattern: str) -> tuple[list[str | None], bool] | None:
    """Return the characters of a simple pattern, None for any, and whether any rest may follow.

    None if the pattern is not simple.
    """
    is_open = pattern.endswith(ANY_REST) and not pattern.endswith("\\" + ANY_REST)
    body = pattern.removesuffix(ANY_REST) if is_open else pattern
    if not _SIMPLE.fullmatch(body):
        return None
    found = re.findall(r"\\?.", body)
    return [None if each == "." else each[-1] for each in found], is_open


def _fits(head: Sequence[str | None], name: str) -> bool:
    """Return whether both agree as far as both reach."""
    return all(each in (None, char) for each, char in zip(head, name, strict=False))


def _covers(pattern: str, prefix: str) -> bool:
    """Return whether the pattern surely matches every name with the prefix."""
    simple = _head(pattern)
    if simple is None:
        return False
    head, is_open = simple
    return is_open and len(head) <= len(prefix) and _fits(head, prefix)


def _may_match_below(pattern: str, prefix: str) -> bool:
    """Return whether the pattern may match a name with the prefix."""
    simple = _head(pattern)
    if simple is None:
        return True
    head, is_open = simple
    return (is_open or len(head) >= len(prefix)) and _fits(head, prefix)
