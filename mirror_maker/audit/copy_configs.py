"""The configs of copies that explain why a log differs from its receipts. Shell."""

from __future__ import annotations

from typing import Final, NamedTuple

from local_cluster.client.model import TopicConfigs
from local_cluster.wire.errors import KafkaError
from mirror_maker.ports import Clock, LogReader

CONFIGS_MS: Final = 60_000
"""Between two lookups of the configs of a copy."""


class CopyConfigs(NamedTuple):
    """Configs of a copy that decide what its log may look like."""

    is_compacted: bool
    is_rewritten: bool
    """The target gives batches its own codec or timestamps."""

    @classmethod
    def of(cls, configs: TopicConfigs) -> CopyConfigs:
        """Read them from the topic's configs."""
        policy = configs.get("cleanup.policy", (None, True))[0] or ""
        codec = configs.get("compression.type", (None, True))[0] or "producer"
        timestamps = configs.get("message.timestamp.type", (None, True))[0] or "CreateTime"
        is_rewritten = codec != "producer" or timestamps != "CreateTime"
        return cls("compact" in policy, is_rewritten)


UNKNOWN_CONFIGS: Final = CopyConfigs(is_compacted=True, is_rewritten=True)
"""If the target does not describe them: nothing is a finding that a config may explain."""


class ConfigCache:
    """The configs of copies, looked up again after `CONFIGS_MS`."""

    def __init__(self, sink: LogReader, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._known: dict[str, tuple[int, CopyConfigs]] = {}
        """Per topic: time of the lookup, and the answer."""

    @property
    def oldest(self) -> str | None:
        """The topic whose lookup is the oldest."""
        return min(self._known, key=lambda topic: self._known[topic][0], default=None)

    def expire(self, topic: str) -> None:
        """Look the topic up at the next `get`."""
        if topic in self._known:
            self._known[topic] = -CONFIGS_MS, self._known[topic][1]

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)

    async def get(self, topic: str) -> CopyConfigs:
        """Return the configs of a topic; the former ones if it cannot be described now."""
        now_ms = self._clock.monotonic_ms()
        asked_ms, known = self._known.get(topic, (0, None))
        if known is None or now_ms > asked_ms + CONFIGS_MS:
            answer = (await self._sink.ask_topic_configs([topic])).get(topic)
            if answer is not None and not isinstance(answer, KafkaError):
                known = CopyConfigs.of(answer)
            elif known is None:
                known = UNKNOWN_CONFIGS
            self._known[topic] = now_ms, known
        return known
