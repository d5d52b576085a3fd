"""Which source topics are compacted: looked up while their flows move. Shell."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from local_cluster.client.model import TopicConfigs
from local_cluster.wire.errors import KafkaError
from mirror_maker.backoff import Backoff
from mirror_maker.periodic import PeriodicTask
from mirror_maker.ports import Clock

LOOKUP_MS: Final = 60_000
"""Between two lookups of one topic."""
LOOKUP_TOPICS_MAX: Final = 100
"""Topics of one request."""


class ConfigReader(Protocol):
    """A cluster that describes the configs of its topics."""

    async def ask_topic_configs(
        self, names: Sequence[str]
    ) -> dict[str, TopicConfigs | KafkaError]: ...


class CompactedTopics:
    """The source topics with `compact` in their cleanup.policy; `run` until cancelled.

    A topic that nobody asks for costs no request.
    """

    def __init__(self, source: ConfigReader, clock: Clock, *, link: str, backoff: Backoff) -> None:
        self._source = source
        self._clock = clock
        self._known: dict[str, tuple[int, bool]] = {}
        """Per topic: time of the lookup, and whether it is compacted."""
        self._requested: set[str] = set()
        self._is_requested = asyncio.Event()
        self.run = PeriodicTask(
            self._look_up,
            link=link,
            what_failed="configs of source topics",
            pause=self._wait_for_request,
            backoff=backoff,
        ).run

    def is_compacted(self, topic: str) -> bool:
        """Return the last answer of the source; False until the first one."""
        asked_ms, answer = self._known.get(topic, (-LOOKUP_MS, False))
        if self._clock.monotonic_ms() >= asked_ms + LOOKUP_MS:
            self._requested.add(topic)
            self._is_requested.set()
        return answer

    async def _wait_for_request(self) -> None:
        await self._is_requested.wait()

    async def _look_up(self) -> None:
        """Ask for requested topics. Raises KafkaError, and asks again then."""
        names = sorted(self._requested)[:LOOKUP_TOPICS_MAX]
        answers = await self._source.ask_topic_configs(names) if names else {}
        now_ms = self._clock.monotonic_ms()
        for name in names:
            configs = answers.get(name)
            _, is_compacted = self._known.get(name, (0, False))
            if configs is not None and not isinstance(configs, KafkaError):
                is_compacted = "compact" in (configs.get("cleanup.policy", (None, True))[0] or "")
            self._known[name] = now_ms, is_compacted
        self._requested.difference_update(names)
        if not self._requested:
            self._is_requested.clear()
