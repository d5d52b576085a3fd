"""The names of a link's copies on the target. Pure.

The first rule that fits a topic holds:

1. MirrorMaker 2's heartbeats are always `<source alias>.heartbeats`, as in each of its policies.
   The link's probe topic gets a name that stays internal, whatever `map` and `pattern` say: one
   that all links with `merge` share, or else the name by `otherwise`.
2. A topic that a pattern of `merge` matches keeps its name, and shares it with other links.
3. A topic of `map` gets the name given there.
4. A topic that `pattern` matches gets `to`, in which `$1` is the pattern's group.
5. Every other topic is `<source alias>.<topic>` (MirrorMaker 2's DefaultReplicationPolicy), or
   keeps its name if `otherwise` is `identity` (its IdentityReplicationPolicy).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from mirror_maker.formats.mm2 import is_heartbeats_topic
from mirror_maker.formats.probe import MERGED_PROBE_COPY, is_probe_topic

SEPARATOR: Final = "."
GROUP_MARK: Final = "$1"
PATTERNS_CACHED_MAX: Final = 1_000


def remote_topic(source_alias: str, topic: str) -> str:
    """Return the copy's name, as DefaultReplicationPolicy.formatRemoteTopic does."""
    return f"{source_alias}{SEPARATOR}{topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNames:
    """The naming of one link."""

    otherwise: Literal["prefixed", "identity"] = "prefixed"
    """Names of topics that no other rule names."""
    map: Mapping[str, str] = field(default_factory=dict)
    """Source topic to target topic."""
    pattern: str | None = None
    """A regular expression with one group, matched in full."""
    to: str | None = None
    """Name for topics that `pattern` matches; `$1` stands for its group."""
    merge: tuple[str, ...] = ()
    """Full-match patterns of topics that keep their names and that several links write into."""

    def __post_init__(self) -> None:
        if (self.pattern is None) != (self.to is None):
            raise ValueError("`pattern` and `to` belong together")
        if self.pattern is not None and re.compile(self.pattern).groups != 1:
            raise ValueError(f"{self.pattern!r} must have one group")
        if self.to is not None and GROUP_MARK not in self.to:
            raise ValueError(f"{self.to!r} must contain {GROUP_MARK}, or all copies had one name")

    @property
    def is_prefixed(self) -> bool:
        """Return whether every copy has its source's alias in front, which tells its origin."""
        return self == TopicNames()

    def target_topic(self, source_alias: str, topic: str) -> str:
        """Return the name of a topic's copy."""
        if is_heartbeats_topic(topic):
            return remote_topic(source_alias, topic)
        if self.is_merged(topic):
            return MERGED_PROBE_COPY if is_probe_topic(topic) else topic
        if is_probe_topic(topic):
            return self._unnamed(source_alias, topic)
        if topic in self.map:
            return self.map[topic]
        if self.pattern is not None and self.to is not None:
            found = _compiled((self.pattern,)).fullmatch(topic)
            if found is not None:
                return self.to.replace(GROUP_MARK, found.group(1) or "")
        return self._unnamed(source_alias, topic)

    def _unnamed(self, source_alias: str, topic: str) -> str:
        return topic if self.otherwise == "identity" else remote_topic(source_alias, topic)

    def is_merged(self, topic: str) -> bool:
        """Return whether several links write into the topic's copy.

        That is so if `merge` selects the topic, and for the probe topic of a link that merges
        anything.
        """
        if is_probe_topic(topic):
            return bool(self.merge)
        return not is_heartbeats_topic(topic) and _matches(self.merge, topic)

    def is_shared(self, topic: str) -> bool:
        """Return whether others may write into the topic's copy, because it has the original's
        name.
        """
        if is_heartbeats_topic(topic):
            return False
        if self.is_merged(topic):
            return True
        is_named = not is_probe_topic(topic) and (
            topic in self.map or (self.pattern is not None and _matches((self.pattern,), topic))
        )
        return self.otherwise == "identity" and not is_named

    def tells_origin(self, source_alias: str, topic: str) -> bool:
        """Return whether the copy's name has the source's alias in front, so nothing else is in it.

        A copy of any other name may hold records of several origins: others may write there, or it
        may be copied back.
        """
        return self.target_topic(source_alias, topic) == remote_topic(source_alias, topic)

    def source_topic(self, source_alias: str, target_topic: str) -> str | None:
        """Return the source topic of a copy if its name alone tells it, else None.

        A shared name tells nothing, and a pattern is not reversed.
        """
        for source, target in self.map.items():
            if target == target_topic and not _matches(self.merge, source):
                return source
        prefix = source_alias + SEPARATOR
        name = target_topic.removeprefix(prefix)
        if name == target_topic or not name:
            return None
        return name if self.target_topic(source_alias, name) == target_topic else None


def _matches(patterns: Sequence[str], topic: str) -> bool:
    return bool(patterns) and _compiled(tuple(patterns)).fullmatch(topic) is not None


@lru_cache(maxsize=PATTERNS_CACHED_MAX)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    if len(patterns) == 1:
        return re.compile(patterns[0])
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
