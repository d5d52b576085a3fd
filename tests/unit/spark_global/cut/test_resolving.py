"""The cut of a read: what it covers, and what has none, with the reason."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.model import TopicPartition
from mirror_maker.formats import Block, FlowKey, MapTopic, Run, encode_record
from mirror_maker.formats.completeness.cut import CutRefusal, CutSample, PartitionCut
from spark_global.cut.offsets import (
    Cut,
    CutKey,
    CutOffsets,
    CutRefusedError,
    decode_offsets,
    describe,
    encode_offsets,
)
from spark_global.cut.resolving import HeldLogs, LinkVector, Vectors, resolve_cut
from spark_global.links import MirrorLink
from spark_global.source.coverage import PartitionEnds, ReadTopic, aggregate_ranges, cut_ranges
from spark_global.source.maps import mapped_partitions
from spark_global.source.options import ReadOptions, parse_options
from spark_global.source.pruning import Bounds, Interval
from spark_global.source.splits import Origin

SOURCE_ID, TARGET_ID, OTHER_ID = UUID(int=1), UUID(int=2), UUID(int=3)
JFK = MirrorLink(name="jfk-nyc", source="jfk", datacenter="JFK")
EWR = MirrorLink(name="ewr-nyc", source="ewr", datacenter="EWR")
COPY = ReadTopic("jfk.flights", Origin("JFK", "flights"), JFK)
KEY = CutKey("jfk-nyc", "jfk.flights", 0)
RUNS = (Run(100, 0, 40), Run(141, 40, 9), Run(150, 52, 8))
"""Offset 140 is a control record at the source; the aggregate has three foreign records at 49."""
AS_OF_MS = 1_700_000_000_000


def map_topic(
    runs: tuple[Run, ...] = RUNS, source_next: int = 158, source_id: UUID = SOURCE_ID
) -> MapTopic:
    found = MapTopic()
    block = Block(
        flow=FlowKey("flights", 0, source_id, TARGET_ID),
        producer_id=1,
        producer_epoch=0,
        nonce=1,
        target_topic="jfk.flights",
        source_start=runs[0].source_offset if runs else 100,
        target_start=0,
        source_next=source_next,
        next_sequence=sum(run.records_count for run in runs),
        runs=runs,
    )
    found.replay(*encode_record(block))
    return found


def ended(end: int, topic_id: UUID = SOURCE_ID) -> LinkVector:
    sample = CutSample(AS_OF_MS - 700, end, 3)
    return LinkVector({("flights", 0): PartitionCut(topic_id, sample, True, None, None)})


def refused(why: CutRefusal) -> LinkVector:
    earlier = CutSample(AS_OF_MS - 99_000, 90, 3)
    return LinkVector({("flights", 0): PartitionCut(SOURCE_ID, None, False, why, earlier)})


def held(**changed: Any) -> HeldLogs:
    fields: dict[str, Any] = {
        "topics": {"jfk.flights": [COPY]},
        "topic_ids": {"jfk.flights": TARGET_ID},
        "ends": {TopicPartition("jfk.flights", 0): PartitionEnds(0, 60)},
        "maps": {"jfk-nyc": map_topic()},
        "not_kept": {},
    }
    return HeldLogs(**{**fields, **changed})


def resolved(
    vector: LinkVector, logs: HeldLogs | None = None, bounds: Bounds | None = None, **more: Any
) -> Cut:
    since = more.pop("since", None)
    vectors = Vectors({"jfk-nyc": vector}, None if since is None else {"jfk-nyc": since})
    return resolve_cut(AS_OF_MS, vectors, logs or held(), bounds or Bounds(), **more)


def why(cut: Cut) -> str:
    ((left_out,), partitions) = cut.left_out, cut.partitions
    assert not partitions
    with pytest.raises(CutRefusedError, match=r"JFK flights-0: .*allow_missing"):
        cut.check_whole()
    return left_out.why


def test_a_cut_ends_right_behind_the_copies_before_the_sources_end() -> None:
    ends = {100: 0, 101: 1, 140: 40, 141: 40, 150: 49, 151: 53, 158: 60}
    found = {end: resolved(ended(end)).offsets()[KEY] for end in ends}
    assert found == {end: CutOffsets(0, target) for end, target in ends.items()}
    cut = resolved(ended(141))
    cut.check_whole()
    assert describe(cut)[1] == "  JFK flights: 1 partition, sampled at 2023-11-14T22:13:19.300Z"


def test_a_cut_begins_where_an_earlier_one_ended() -> None:
    assert resolved(ended(151), since=ended(120)).offsets()[KEY] == CutOffsets(20, 53)
    assert resolved(ended(120), since=ended(120)).offsets()[KEY] == CutOffsets(0, 0)
    other = resolved(ended(151), since=ended(120, topic_id=OTHER_ID))
    assert "re-created" in why(other)


def test_what_was_not_copied_yet_is_refused() -> None:
    assert "come to source offset 158" in why(resolved(ended(159)))
    not_stable = held(ends={TopicPartition("jfk.flights", 0): PartitionEnds(0, 59)})
    assert "ends at offset 59" in why(resolved(ended(158), not_stable))


def test_what_was_deleted_is_refused_unless_the_cut_begins_behind_it() -> None:
    trimmed = held(ends={TopicPartition("jfk.flights", 0): PartitionEnds(20, 60)})
    assert "begins at offset 20, and the cut at 0" in why(resolved(ended(150), trimmed))
    assert "and the cut at 19" in why(resolved(ended(150), trimmed, since=ended(119)))
    behind = (
        resolved(ended(150), trimmed, since=ended(120)),
        resolved(ended(150), trimmed, Bounds(aggregate_offsets=Interval(20))),
        resolved(ended(150), trimmed, Bounds(offsets=Interval(120))),
    )
    assert [each.offsets()[KEY] for each in behind] == [CutOffsets(20, 49)] * 3


def test_other_topics_and_compacted_ones_are_refused() -> None:
    assert "another topic id" in why(resolved(ended(150, topic_id=OTHER_ID)))
    other_source = held(maps={"jfk-nyc": map_topic(source_id=OTHER_ID)})
    assert "another topic id" in why(resolved(ended(150), other_source))
    assert "no offset map" in why(resolved(ended(150), held(topic_ids={"jfk.flights": OTHER_ID})))
    assert "no offset map" in why(resolved(ended(150), held(maps={})))
    compacted = held(not_kept={"jfk.flights": "jfk.flights is compacted"})
    assert "compacted" in why(resolved(ended(150), compacted))
    assert resolved(ended(0), compacted).offsets()[KEY] == CutOffsets(0, 0)


@pytest.mark.parametrize("refusal", CutRefusal)
def test_what_has_no_sample_is_refused_with_the_time_of_the_one_before(
    refusal: CutRefusal,
) -> None:
    assert why(resolved(refused(refusal))).endswith("is of 2023-11-14T22:11:41.000Z")
    assert why(resolved(ended(150), since=refused(refusal))).startswith("at the start of the cut")


def test_a_partition_without_any_sample_is_named_if_it_is_asked_for() -> None:
    assert "has nothing of it" in why(resolved(LinkVector({})))
    assert "do not exist" in why(resolved(LinkVector({}, "the samples do not exist")))
    foreign = held(topics={"jfk.flights": [ReadTopic("jfk.flights", COPY.origin, None)]})
    assert "no link copies it" in why(resolved(LinkVector({}), foreign))
    outside = Bounds(datacenters=frozenset({"EWR"})), Bounds(partitions=frozenset({1}))
    for bounds in outside:
        assert resolved(LinkVector({}), None, bounds).left_out == ()


def test_a_source_topic_without_a_copy_is_named() -> None:
    nothing = held(topics={}, ends={})
    asked: Any = {"links": (JFK,), "source_topic": "flights"}
    assert "no copy" in why(resolved(ended(5), nothing, **asked))
    assert resolved(ended(0), nothing, **asked).left_out == ()
    assert resolved(ended(5), nothing, links=(JFK,), source_topic="gates").left_out == ()


def test_where_links_merge_each_has_its_own_cut() -> None:
    topics = [
        ReadTopic("flights", Origin("EWR", "flights"), EWR),
        ReadTopic("flights", Origin("JFK", "flights"), JFK),
    ]
    at = TopicPartition("flights", 0)
    logs = held(
        topics={"flights": topics},
        topic_ids={"flights": TARGET_ID},
        ends={at: PartitionEnds(0, 60), TopicPartition("flights", 1): PartitionEnds(0, 0)},
    )
    vectors = Vectors({"jfk-nyc": ended(141), "ewr-nyc": ended(0)}, None)
    cut = resolve_cut(AS_OF_MS, vectors, logs, Bounds())
    cut.check_whole()
    mapped = mapped_partitions(logs.maps)[TopicPartition("jfk.flights", 0)]
    options = ReadOptions(bootstrap="h:1", links=(EWR, JFK))
    ranges = aggregate_ranges(options, topics, at, logs.ends[at], mapped)
    (one,) = cut_ranges(topics, ranges, cut.offsets())
    assert (one.origin.datacenter, one.start, one.end) == ("JFK", 0, 40)


def test_a_log_that_was_cut_meanwhile_is_not_read() -> None:
    at = TopicPartition("jfk.flights", 0)
    cut = {KEY: CutOffsets(10, 50)}
    options = ReadOptions(bootstrap="h:1", links=(JFK,))
    for ends in (PartitionEnds(11, 60), PartitionEnds(0, 49)):
        ranges = aggregate_ranges(options, [COPY], at, ends, [])
        with pytest.raises(CutRefusedError, match=r"jfk\.flights-0 holds"):
            cut_ranges([COPY], ranges, cut)


def test_a_cut_as_the_text_of_an_option() -> None:
    offsets = {KEY: CutOffsets(10, 50), CutKey("ewr-nyc", "e", 7): CutOffsets(0, 0)}
    assert decode_offsets(encode_offsets(offsets)) == offsets
    plain = {"bootstrap": "h:1"}
    for more, message in (
        ({"cut": "[5]"}, "option cut"),
        ({"as_of": "yesterday"}, "option as_of"),
        ({"as_of": "2026-01-01", "table": "groups"}, "only table 'records' has a past"),
        ({"since": "2026-01-01"}, "need as_of"),
        ({"allow_missing": "true"}, "need as_of"),
        ({"as_of": "2026-01-01", "since": "2026-01-01"}, "before as_of"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_options({**plain, **more})


pieces = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=8
)


@given(pieces, st.integers(0, 8), st.integers(0, 100))
def test_the_rows_of_a_cut_are_the_records_before_the_sources_end_and_stay(
    layout: list[tuple[int, int, int]], copied: int, end: int
) -> None:
    runs, source, target = [], 100, 0
    for skipped, foreign, count in layout:
        source, target = source + skipped, target + foreign
        runs.append(Run(source, target, count))
        source, target = source + count, target + count
    end = min(100 + end, source)

    def rows(known: list[Run]) -> set[int] | None:
        last = known[-1] if known else Run(100, 0, 0)
        logs = held(
            maps={"jfk-nyc": map_topic(tuple(known), last.source_next)},
            ends={TopicPartition("jfk.flights", 0): PartitionEnds(0, target)},
        )
        found = resolved(ended(end), logs).offsets().get(KEY)
        if found is None:
            return None
        return {
            run.source_offset + index
            for run in runs
            for index in range(run.records_count)
            if found.start <= run.target_offset + index < found.end
        }

    wanted = {
        offset
        for run in runs
        for offset in range(run.source_offset, run.source_next)
        if offset < end
    }
    early = rows(runs[:copied])
    assert early is None or early == wanted
    assert rows(runs) == wanted
