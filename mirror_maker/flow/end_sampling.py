"""Takes samples of ends from the responses of one fetch session. Pure.

A response names the partitions that have changed. For all others that the session held when its
request was written, it repeats what was reported before. So idle partitions cost nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from local_cluster.client.fetch_session import FetchSession
from local_cluster.client.model import SessionAnswer, TopicPartition
from mirror_maker.flow.copy_session import CopySession
from mirror_maker.flow.flow import Flow
from mirror_maker.metrics.lag import LastAnswer


class FetchedFlow(NamedTuple):
    """For whom a partition is fetched, from which position, and under which leader epoch."""

    flow: Flow
    session: CopySession
    position: int
    leader_epoch: int

    @property
    def is_current(self) -> bool:
        """Whether the flow has begun no other session since."""
        return self.flow.session is self.session


class EndSampler:
    """The samples of one fetch session, see `EndSamples`."""

    def __init__(
        self,
        session: FetchSession,
        last_answer: LastAnswer,
        on_sampled: Callable[[TopicPartition], None],
    ) -> None:
        """`on_sampled` is called when a partition has another end, or begins or stops to have
        samples."""
        self._session = session
        self._last_answer = last_answer
        self._on_sampled = on_sampled
        self._waiting: dict[TopicPartition, None] = {}
        """Partitions that await the first response since they were named under their epoch."""

    def begin(self, at: TopicPartition) -> None:
        """Sample a partition from the next response on."""
        self._waiting[at] = None

    def end(self, at: TopicPartition, fetched: FetchedFlow) -> None:
        """Note that later responses say nothing of a partition's end."""
        fetched.flow.ends.unfollow(self._last_answer)
        self._waiting.pop(at, None)
        self._on_sampled(at)

    def take(
        self, answer: SessionAnswer, asked_ms: int, wanted: Mapping[TopicPartition, FetchedFlow]
    ) -> None:
        """Take what a response proves that no quota throttled.

        `asked_ms` is the wall clock when its request was written, `wanted` is what the session held
        then.
        """
        for at, found in answer.partitions.items():
            fetched = wanted.get(at)
            if fetched is None:
                continue
            if found.error or found.diverging_epoch is not None:
                self.end(at, fetched)
            else:
                ends = found.high_watermark, found.last_stable_offset
                self._sample(at, fetched, *ends, asked_ms)
        waiting, self._waiting = self._waiting, {}
        for at in waiting.keys() - answer.partitions.keys():
            fetched, end = wanted.get(at), self._session.high_watermark(at)
            if fetched is not None and end is not None:
                self._sample(at, fetched, end, None, asked_ms)
        # Last: until here it is the time of the response before, which sessions follow.
        self._last_answer.asked_ms = asked_ms

    def _sample(
        self,
        at: TopicPartition,
        fetched: FetchedFlow,
        end: int,
        stable_end: int | None,
        asked_ms: int,
    ) -> None:
        if not fetched.is_current:
            return
        fetched.flow.ends.observe(
            end,
            stable_end,
            asked_ms,
            epoch=fetched.leader_epoch,
            topic_id=fetched.session.source_topic_id,
            session=self._last_answer,
        )
        self._on_sampled(at)
