"""Asks a cluster where a stream can go on, and plans its batches. Shell, on the driver.

Guarantees: a position never goes back, and never passes the last stable offset. With `wait_for_map`
it never passes the offsets whose origin is known either, so a batch that runs again gives the same
source offsets. Where links merge, records without a map hold others back for a minute only.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, ParamSpec, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_random_exponential,
)

from local_cluster.client.model import ClusterMetadata, TopicPartition
from local_cluster.wire.constants import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from local_cluster.wire.errors import ErrorCode, KafkaError
from spark_global.followed_links import FollowedLinks
from spark_global.source.coverage import PartitionEnds, ReadTopic, aggregate_ranges, choose_topics
from spark_global.source.maps import Maps
from spark_global.source.options import ReadOptions
from spark_global.source.planning import is_bookkeeping, list_offsets, unknown_topic
from spark_global.source.pruning import cut_range
from spark_global.source.reading import TRANSIENT
from spark_global.source.splits import Split, by_source_topic, split_ranges
from spark_global.streaming.discovery import MapWaits, Stop, known_end, with_discovered
from spark_global.streaming.following import MapFollower, topic_ids_of
from spark_global.streaming.positions import (
    StreamPositions,
    TopicGoneError,
    check_identity,
    check_log_starts,
)
from spark_global.streaming.sharing import Limits, share_bytes, share_limit, unread
from spark_global.streaming.sizes import SizeEstimates
from spark_global.streaming.starting import first_offsets

CLUSTER_SECONDS_MAX: Final = 60.0
"""Seconds that a stream waits for a cluster that does not answer, before the query fails."""
CLUSTER_WAIT_SECONDS_MAX: Final = 2.0
GONE_SECONDS_MAX: Final = 10.0
"""Seconds for a topic of the checkpoint to appear: a broker that starts may not know it yet."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What the cluster holds for the stream at one moment."""

    metadata: ClusterMetadata
    topic_ids: Mapping[str, str]
    options: ReadOptions
    """The options of the stream, with the links that were discovered."""
    topics: Mapping[str, list[ReadTopic]]
    maps: Maps
    stable_ends: Mapping[TopicPartition, int]
    """Last stable offset of each partition to read that has a leader."""
    stops: Mapping[TopicPartition, Stop]
    """Where reading must stop for now."""
    unseen: list[TopicPartition]
    """Partitions and map topics that the cluster cannot serve at present."""

    @property
    def known_ends(self) -> dict[TopicPartition, int]:
        return {at: stop.known for at, stop in self.stops.items()}


class StreamPlanner:
    """Plans the batches of one stream; one call at a time."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._links = FollowedLinks(options.links, options.links_file)
        self._client = options.cluster.client()
        self._maps_client = self._client
        if options.maps != options.cluster:
            self._maps_client = options.maps.client()
        self._follower = MapFollower()
        self._sizes = SizeEstimates()
        self._waits = MapWaits(clock)
        self._survey: Survey | None = None
        self._are_log_starts_checked = False

    async def close(self) -> None:
        await self._client.close()
        if self._maps_client is not self._client:
            await self._maps_client.close()

    @property
    def survey(self) -> Survey | None:
        """What the last call saw; None before the first one."""
        return self._survey

    @property
    def stable_ends(self) -> Mapping[TopicPartition, int]:
        """The last stable offsets of the last survey."""
        return {} if self._survey is None else self._survey.stable_ends

    @property
    def datacenters(self) -> Mapping[str, str | None]:
        """The datacenter of each topic in the last survey; several are joined by `+`."""
        found: dict[str, str | None] = {}
        if self._survey is not None:
            for topic, origins in self._survey.topics.items():
                names = sorted({each.origin.datacenter or "" for each in origins})
                found[topic] = "+".join(names) or None
        return found

    @property
    def is_waiting(self) -> bool:
        """Whether records without a map hold others back, at the last look."""
        stops = {} if self._survey is None else self._survey.stops
        return any(stop.known < stop.mapped for stop in stops.values())

    async def known_ends(self) -> Mapping[TopicPartition, int]:
        """Return where the stream could read to now. Raises KafkaError as `target_ends`."""
        return (await self._look_everywhere()).known_ends

    async def target_ends(self) -> Mapping[TopicPartition, int]:
        """Return the end of a query that reads what is there now.

        Records without a map that hold others back lie before it; they are waited for.

        Raises KafkaError, also if some partition or map cannot be read: the end would lie before
        it.
        """
        return {at: stop.mapped for at, stop in (await self._look_everywhere()).stops.items()}

    async def _look_everywhere(self) -> Survey:
        async def look_everywhere() -> Survey:
            survey = await self._look(StreamPositions(topic_ids={}, offsets={}))
            if survey.unseen:
                raise KafkaError(
                    ErrorCode.leader_not_available,
                    f"{survey.unseen[0]} cannot be read, so it is unknown what is available",
                )
            return survey

        return await _patiently(look_everywhere)

    async def advance(
        self,
        held: StreamPositions,
        limits: Limits,
        target: Mapping[TopicPartition, int] | None,
        *,
        is_first_batch: bool,
    ) -> StreamPositions:
        """Return the end of the batch that begins at `held`.

        `target` bounds it, and partitions outside of it do not join. Raises KafkaError, and
        CheckpointError if `held` does not belong to this cluster.
        """
        survey = await _patiently(self._look, held)
        if not self._are_log_starts_checked:
            await _patiently(self._check_log_starts, held, survey)
            self._are_log_starts_checked = True
        ends = survey.known_ends
        if target is not None:
            ends = {at: min(end, target[at]) for at, end in ends.items() if at in target}
        joining = [at for at in ends if at not in held.offsets]
        joined = await _patiently(
            first_offsets,
            self._client,
            survey.options,
            joining,
            survey.stable_ends,
            survey.topics,
            survey.maps,
            is_first_batch=is_first_batch,
        )
        advanced = await self._limited(held, unread(held.offsets, ends), limits, survey)
        offsets = {at: offset + advanced.get(at, 0) for at, offset in held.offsets.items()} | joined
        topics = {at.topic for at in offsets}
        passed = held.passed
        if offsets != held.offsets:  # else nothing is new, and the positions are the same
            marks = {at: max(passed.get(at, 0), stop.passed) for at, stop in survey.stops.items()}
            passed = {at: end for at, end in marks.items() if end > held.offsets.get(at, end)}
        return StreamPositions(
            cluster_id=survey.metadata.cluster_id or "",
            topic_ids={name: held.topic_ids.get(name) or survey.topic_ids[name] for name in topics},
            offsets=offsets,
            passed=passed,
        )

    async def splits(self, start: StreamPositions, end: StreamPositions) -> list[Split]:
        """Return the splits of a batch. Raises KafkaError and CheckpointError."""
        spans = {
            at: PartitionEnds(start.offsets[at], end_offset)
            for at, end_offset in sorted(end.offsets.items())
            if start.offsets.get(at, end_offset) < end_offset
        }
        survey = self._survey
        if survey is None or _unreached(survey, spans):
            survey = await _patiently(self._look_as_far_as, end, spans)
        ranges = [
            one
            for at, span in spans.items()
            for whole in aggregate_ranges(
                survey.options, survey.topics[at.topic], at, span, survey.maps.get(at, [])
            )
            for one in by_source_topic(whole)
        ]
        bounds = survey.options.bounds
        cut = [part for part in (cut_range(one, bounds) for one in ranges) if part is not None]
        return list(split_ranges(cut, self._options.split_records_max))

    async def _look_as_far_as(
        self, end: StreamPositions, spans: Mapping[TopicPartition, PartitionEnds]
    ) -> Survey:
        """Return a survey that knows the origins of a batch that was planned before a restart.

        A map that cannot be read at present is waited for.
        """
        starts = {at: span.log_start_offset for at, span in spans.items()}
        survey = await self._look(replace(end, offsets={**end.offsets, **starts}))
        if unreached := _unreached(survey, spans):
            raise KafkaError(
                ErrorCode.offset_not_available,
                f"{unreached[0]} and {len(unreached) - 1} more: the log or the offset map ends "
                "before the batch that the checkpoint has, or the options select other topics",
            )
        return survey

    async def _look(self, held: StreamPositions) -> Survey:
        metadata = await self._client.metadata()
        topic_ids = topic_ids_of(metadata)
        check_identity(held, metadata.cluster_id or "", topic_ids)
        options = replace(self._options, links=self._links.now())
        candidates = options.topics or tuple(n for n in metadata.topics if not is_bookkeeping(n))
        for name in candidates:
            if name not in metadata.topics:
                raise unknown_topic(name, options.bootstrap)
        # The ends come first: a link announces a copy in its map before it writes the first record.
        stable_ends = await self._stable_ends(metadata, candidates, held)
        if self._maps_client is self._client:
            unseen = await self._follower.poll(self._client, metadata)
        else:
            unseen = await self._follower.poll(
                self._maps_client, await self._maps_client.metadata()
            )
        maps = self._follower.maps(topic_ids)
        mapped = list(chain.from_iterable(maps.values()))
        if options.discover_links:
            options = replace(options, links=with_discovered(options.links, mapped))
        topics = choose_topics(options, candidates, mapped)
        if options.discover_links and not options.links and not options.topics:
            topics = {}  # no mirror has written anything yet
        if options.datacenters:
            wanted = set(options.datacenters)
            topics = {
                name: origins
                for name, origins in topics.items()
                if any(each.origin.datacenter in wanted for each in origins)
            }
        stable_ends = {at: end for at, end in stable_ends.items() if at.topic in topics}
        unseen += [at for at in self._partitions(metadata, sorted(topics)) if at not in stable_ends]
        self._survey = Survey(
            metadata=metadata,
            unseen=unseen,
            topic_ids=topic_ids,
            options=options,
            topics=topics,
            maps=maps,
            stable_ends=stable_ends,
            stops={
                at: self._stop(at, topics[at.topic], maps, held, end)
                for at, end in stable_ends.items()
            },
        )
        return self._survey

    def _partitions(self, metadata: ClusterMetadata, topics: Sequence[str]) -> list[TopicPartition]:
        return [
            TopicPartition(name, partition)
            for name in topics
            for partition in sorted(metadata.topics[name].partitions)
            if not self._options.partitions or partition in self._options.partitions
        ]

    async def _stable_ends(
        self, metadata: ClusterMetadata, topics: tuple[str, ...], held: StreamPositions
    ) -> dict[TopicPartition, int]:
        """Return last stable offsets. A partition without a leader is left out for now."""
        partitions = [
            at
            for at in self._partitions(metadata, sorted(topics))
            if metadata.topics[at.topic].partitions[at.partition].leader >= 0
        ]
        if not partitions:
            return {}
        listed = await self._client.list_offsets(
            dict.fromkeys(partitions, LATEST_TIMESTAMP), isolation_level=READ_COMMITTED
        )
        for at, entry in listed.items():
            if entry.error and entry.error not in TRANSIENT:
                raise KafkaError(entry.error, f"ListOffsets of {at}")
            position = held.offsets.get(at, 0)
            if not entry.error and entry.offset < position:
                raise KafkaError(
                    ErrorCode.offset_not_available,
                    f"{at} ends at {entry.offset}, before the position {position} of the stream: "
                    "its log was truncated",
                )
        return {at: entry.offset for at, entry in listed.items() if not entry.error}

    def _stop(
        self,
        at: TopicPartition,
        topics: list[ReadTopic],
        maps: Maps,
        held: StreamPositions,
        end: int,
    ) -> Stop:
        links = [topic.link for topic in topics if topic.link is not None]
        runs = [entry.runs for entry in maps.get(at, [])]
        is_mapped = runs or any(link.name in self._follower.links for link in links)
        if not self._options.wait_for_map or not links or not is_mapped:
            return Stop(end, end)
        start = max(held.offsets.get(at, 0), held.passed.get(at, 0))
        if len(topics) == 1:
            known = known_end(runs, start, end)
            return Stop(known, known)
        return self._waits.stop(at, runs, start, end)

    async def _check_log_starts(self, held: StreamPositions, survey: Survey) -> None:
        partitions = [at for at in held.offsets if at in survey.stable_ends]
        if partitions:
            listed = await list_offsets(
                self._client, partitions, EARLIEST_TIMESTAMP, READ_UNCOMMITTED
            )
            check_log_starts(held, {at: entry.offset for at, entry in listed.items()})

    async def _limited(
        self,
        held: StreamPositions,
        backlogs: Mapping[TopicPartition, int],
        limits: Limits,
        survey: Survey,
    ) -> Mapping[TopicPartition, int]:
        # The positions grow with every batch, so each partition has its turn.
        turn = sum(held.offsets.values())
        granted = backlogs
        if limits.records_max is not None:
            granted = share_limit(granted, limits.records_max, turn)
        if limits.bytes_max is not None:
            waiting = {at: held.offsets[at] for at, n in granted.items() if n > 0}
            await _patiently(self._sizes.refresh, self._client, survey.metadata, waiting)
            granted = share_bytes(granted, self._sizes.of(granted), limits.bytes_max, turn)
        return granted


def _unreached(
    survey: Survey, spans: Mapping[TopicPartition, PartitionEnds]
) -> list[TopicPartition]:
    """Return the partitions of a batch that a survey does not cover."""
    ends = survey.known_ends
    return [at for at, span in spans.items() if ends.get(at, 0) < span.last_stable_offset]


def _stop(state: RetryCallState) -> bool:
    error = state.outcome.exception() if state.outcome is not None else None
    is_gone = isinstance(error, TopicGoneError)
    seconds_max = GONE_SECONDS_MAX if is_gone else CLUSTER_SECONDS_MAX
    return (state.seconds_since_start or 0.0) >= seconds_max


async def _patiently(ask: Callable[_P, Awaitable[_T]], *args: _P.args, **named: _P.kwargs) -> _T:
    """Repeat a question while the cluster cannot answer it. Raises what the last try raised."""
    return await AsyncRetrying(
        stop=_stop,
        wait=wait_random_exponential(multiplier=0.05, max=CLUSTER_WAIT_SECONDS_MAX),
        retry=retry_if_exception(
            lambda error: (
                isinstance(error, TopicGoneError)
                or (isinstance(error, KafkaError) and error.code in TRANSIENT)
            )
        ),
        reraise=True,
    )(ask, *args, **named)
