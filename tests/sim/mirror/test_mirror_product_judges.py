"""The judges of the mirror's product notice every fault planted into their evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from local_cluster.client.model import TopicPartition
from local_cluster.records.batch import Record
from mirror_maker.formats import (
    Gap,
    GapJournal,
    MapTopic,
    Run,
    decode_key,
    encode_gap,
    encode_record,
    map_topic_name,
)
from mirror_maker.formats.gaps import GapKind
from mirror_maker.formats.verdict_topic import VerdictTopic
from mirror_maker.formats.verdicts import Finding, Verdict, finding_record
from tests.sim.cluster.names import Anomaly
from tests.sim.mirror_product.cells import Cell
from tests.sim.mirror_product.evidence import Evidence, LinkEvidence, SourceLog, committed
from tests.sim.mirror_product.judges import judge
from tests.sim.mirror_product.play import run_world
from tests.sim.mirror_product.world import ProductWorld
from tests.sim.mirror_product.writing import NAME_HEADER
from tests.sim.virtual_time import run_virtually

AT = TopicPartition("t", 0)
Log = dict[int, Record]


@cache
def sound() -> Evidence:
    """Return the evidence of a link that copied transactions, so its map has several runs."""
    cell = Cell("prefixed", "transactions", "own", "few", "none")
    evidence, _ = run_virtually(run_world(ProductWorld(cell, 3), Random(3)))
    assert isinstance(evidence, Evidence)
    return evidence


def link() -> LinkEvidence:
    return sound().links[0]


def source() -> SourceLog:
    (log,) = link().sources[AT]
    return log


def with_link(changed: LinkEvidence) -> Evidence:
    return replace(sound(), links=(changed,))


def with_log(change: Callable[[Log], Mapping[int, Record]]) -> Evidence:
    at = link().copy_of(AT)
    log = dict(change(dict(link().target_logs[at])))
    return with_link(replace(link(), target_logs={**link().target_logs, at: log}))


def test_true_evidence_passes() -> None:
    assert judge(sound()) == sum(len(log.records) for log in link().every_log())
    assert len(source().records) > 10


# -- records --------------------------------------------------------------------------------------


def _removed(log: Log) -> Log:
    del log[sorted(log)[3]]
    return log


def _doubled(log: Log) -> Log:
    end = max(log) + 1
    return {**log, end: log[sorted(log)[3]]._replace(offset=end)}


def _altered(**fields: object) -> Callable[[Log], Log]:
    def alter(log: Log) -> Log:
        offset = sorted(log)[3]
        return {**log, offset: log[offset]._replace(**fields)}  # type: ignore[arg-type]

    return alter


def _with_another_header(log: Log) -> Log:
    offset = sorted(log)[3]
    record = log[offset]
    return {**log, offset: record._replace(headers=(("x", b"1"), *record.headers))}


def _swapped(log: Log) -> Log:
    one, other = sorted(log)[3:5]
    return {**log, one: log[other]._replace(offset=one), other: log[one]._replace(offset=other)}


def _foreign(log: Log) -> Log:
    end = max(log) + 1
    return {**log, end: Record(end, 1, None, b"foreign", ((NAME_HEADER, b"who#1"),))}


@pytest.mark.parametrize(
    "fault",
    [
        _removed, _doubled, _altered(key=b"other"), _altered(value=b"other"),
        _altered(timestamp_ms=7), _with_another_header, _swapped, _foreign,
    ],
    ids=["removed", "doubled", "key", "value", "timestamp", "header", "swapped", "foreign"],
)  # fmt: skip
def test_a_record_that_is_not_as_it_was_written(fault: Callable[[Log], Log]) -> None:
    with pytest.raises(Anomaly):
        judge(with_log(fault))


def test_an_intruder_that_is_not_in_the_journal() -> None:
    evidence = replace(with_log(_foreign), intruded=frozenset({b"who#1"}))
    with pytest.raises(Anomaly, match="of intruders, in the journal are"):
        judge(evidence)


def test_a_lost_record_that_is_not_in_the_journal() -> None:
    log = link().target_logs[link().copy_of(AT)]
    last = max(log)
    gone = frozenset({max(source().records)})
    sources = {**link().sources, AT: (replace(source(), gone=gone),)}
    changed = replace(
        link(),
        sources=sources,
        target_logs={
            **link().target_logs,
            link().copy_of(AT): {offset: each for offset, each in log.items() if offset != last},
        },
    )
    with pytest.raises(Anomaly, match="lost, but not in the journal"):
        judge(with_link(changed))


# -- the journal ----------------------------------------------------------------------------------


def _entry(**fields: object) -> Gap:
    flow = link().flow(source())
    assert flow is not None
    plain = {
        "flow": flow, "producer_epoch": 0, "nonce": 1, "link": "a-b", "target_topic": "a.t",
        "source_from": 0, "source_to": 0, "records_count": None, "reason": "out_of_range",
        "detail": "", "target_offset": 0, "noticed_at_ms": 0, "worker_id": "w",
    }  # fmt: skip
    return Gap(**{**plain, **fields})  # type: ignore[arg-type]


def with_entry(gap: Gap) -> Evidence:
    journal = GapJournal()
    journal.replay(*encode_gap(gap))
    return with_link(replace(link(), journal=journal))


def test_a_copied_record_that_the_journal_calls_lost() -> None:
    offset = min(source().records)
    with pytest.raises(Anomaly, match="lost by the journal"):
        judge(with_entry(_entry(source_from=offset, source_to=offset + 1)))


def test_an_existing_topic_that_the_journal_calls_ended() -> None:
    with pytest.raises(Anomaly, match="lost by the journal"):
        judge(with_entry(_entry(source_from=min(source().records), source_to=None)))


def test_copies_that_the_journal_calls_sourceless() -> None:
    entry = _entry(
        kind=GapKind.COPIED, source_from=0, source_to=max(source().records) + 1,
        target_offset=0, target_to=1_000, copied_count=1,
    )  # fmt: skip
    with pytest.raises(Anomaly, match="not mapped"):
        judge(with_entry(entry))


def test_own_copies_that_the_journal_calls_foreign() -> None:
    entry = _entry(kind=GapKind.FOREIGN, target_offset=0, target_to=1)
    with pytest.raises(Anomaly, match="of intruders"):
        judge(with_entry(entry))


# -- the map --------------------------------------------------------------------------------------


def with_runs(change: Callable[[list[Run]], list[Run]]) -> Evidence:
    """Return the map topic with other runs in the last block of the flow."""
    flow = link().flow(source())
    assert flow is not None
    block = link().map_topic.last_block(flow, 0)
    assert block is not None
    runs = tuple(change(list(block.runs)))
    end = max(block.source_next, runs[-1].source_next)
    topic = MapTopic()
    for record in committed(link().target.topics[map_topic_name("a-b")].partitions[0]).values():
        if record.key is not None and decode_key(record.key).flow == flow:
            continue
        topic.replay(record.key, record.value)
    opening = link().map_topic.opening(flow)
    assert opening is not None
    topic.replay(*encode_record(opening))
    topic.replay(*encode_record(replace(block, runs=runs, source_next=end)))
    return with_link(replace(link(), map_topic=topic))


def test_a_true_map_passes() -> None:
    judge(with_runs(lambda runs: runs))


@pytest.mark.parametrize(
    "change",
    [
        lambda runs: runs[:-1],
        lambda runs: runs[1:],
        lambda runs: [*runs[:-1], runs[-1]._replace(target_offset=runs[-1].target_offset + 1)],
        lambda runs: [*runs[:-1], runs[-1]._replace(source_offset=runs[-1].source_offset - 1)],
        lambda runs: [*runs[:-1], runs[-1]._replace(records_count=runs[-1].records_count + 1)],
    ],
    ids=["without its end", "without its beginning", "target", "source", "too long"],
)
def test_a_false_map(change: Callable[[list[Run]], list[Run]]) -> None:
    with pytest.raises(Anomaly):
        judge(with_runs(change))


# -- the audit ------------------------------------------------------------------------------------


def test_an_audit_without_verdicts() -> None:
    with pytest.raises(Anomaly, match="0 COMPLETE"):
        judge(with_link(replace(link(), verdicts=VerdictTopic())))


def test_an_audit_with_a_false_finding() -> None:
    flow = link().flow(source())
    assert flow is not None
    finding = Finding(
        verdict=Verdict.LOST, target_from=0, target_to=1, source_from=0, source_to=1,
        records_count=1, start_ms=0, detail="", noticed_at_ms=0,
    )  # fmt: skip
    topic = VerdictTopic()
    key, value = finding_record(flow, finding)
    topic.replay(key, value)
    with pytest.raises(Anomaly, match="a finding"):
        judge(with_link(replace(link(), verdicts=topic)))
