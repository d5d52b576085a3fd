"""The fetchers of one link: one for each source broker that leads some of its partitions. Shell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from local_cluster.client.model import TopicPartition
from mirror_maker.backoff import NewBackoff
from mirror_maker.flow.fetcher import Fetcher, SourceAccess
from mirror_maker.flow.flow import Flow
from mirror_maker.flow.topic_confirmer import TopicConfirmer
from mirror_maker.ports import Clock
from mirror_maker.settings import Limits


class FetcherPool:
    """One `Fetcher` and one `TopicConfirmer` per source broker of a link."""

    def __init__(
        self,
        access: SourceAccess,
        flows: Mapping[TopicPartition, Flow],
        *,
        limits: Limits,
        clock: Clock,
        new_backoff: NewBackoff,
        on_failure: Callable[[int, str | None], None],
    ) -> None:
        """`on_failure` gets a broker's id and why it does not answer, or None."""
        self._access = access
        self._flows = flows
        self._limits = limits
        self._clock = clock
        self._new_backoff = new_backoff
        self._on_failure = on_failure
        self._fetchers: dict[int, Fetcher] = {}

    def ensure(self, brokers: Iterable[int], tasks: asyncio.TaskGroup) -> None:
        """Read from these brokers too."""
        for node_id in brokers:
            if node_id not in self._fetchers:
                confirmer = TopicConfirmer(
                    self._access.requests,
                    node_id,
                    backoff=self._new_backoff(),
                    hurry=self._access.hurry,
                )
                fetcher = Fetcher(
                    self._access,
                    node_id,
                    self._flows,
                    confirmer,
                    limits=self._limits,
                    clock=self._clock,
                    backoff=self._new_backoff(),
                    on_failure=partial(self._on_failure, node_id),
                )
                self._fetchers[node_id] = fetcher
                tasks.create_task(fetcher.run())
                tasks.create_task(confirmer.run())

    def look_at(self, at: TopicPartition) -> None:
        """See `Fetcher.look_at`."""
        for fetcher in self._fetchers.values():
            fetcher.look_at(at)

    def look_at_all(self) -> None:
        """Look at every partition: an operator's controls changed, or leaders moved."""
        for at in self._flows:
            self.look_at(at)
