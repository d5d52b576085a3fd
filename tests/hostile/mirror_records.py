"""Records of the topics that mirrors publish on their targets, where others may write too.

What is read must be the same after it is written and read again, and its ranges must ascend.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from local_cluster.wire.constants import Acl, CredentialName
from mirror_maker.formats import (
    Block,
    FlowKey,
    Gap,
    MapFormatError,
    MapTopic,
    OffsetMap,
    Opening,
    Registration,
    Run,
    Terms,
    TranslationState,
    decode_gap,
    decode_record,
    encode_gap,
    encode_record,
)
from mirror_maker.formats.completeness.cut import CutReader
from mirror_maker.formats.completeness.listing import ListedTopic
from mirror_maker.formats.completeness.replayed_topic import CompletenessTopic
from mirror_maker.formats.completeness.statement import (
    Entry,
    Hold,
    HoldKind,
    SourceSession,
    Statement,
    decode_statement,
    encode_statement,
)
from mirror_maker.formats.controls import Controls, PausedPart
from mirror_maker.formats.gaps import GapJournal, GapKind
from mirror_maker.formats.marks import MirroredCommit, OwnedCopy
from mirror_maker.formats.mm2 import (
    Checkpoint,
    Heartbeat,
    Mm2FormatError,
    OffsetSync,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
    decode_source_position,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
)
from mirror_maker.formats.receipts import Receipt, Receipts, decode_receipts, encode_receipts
from mirror_maker.formats.records import MapRecord
from mirror_maker.formats.verdict_topic import VerdictTopic
from mirror_maker.formats.verdicts import (
    AuditorState,
    AuditPlace,
    Finding,
    Progress,
    Tally,
    Verdict,
    auditor_record,
    bucket_record,
    finding_record,
    progress_record,
)
from mirror_maker.formats.written_rights import (
    QuotaName,
    WrittenCredential,
    WrittenQuota,
    WrittenRights,
    acl_record,
    quota_record,
    user_record,
)
from tests.hostile.target import Target, joined, split
from tests.support.listed_statements import with_listing

FLOW: Final = FlowKey("flights", 3, uuid.UUID(int=0x11), uuid.UUID(int=0x22))
NOW_MS: Final = 1_700_000_000_000
ENTRIES_SHOWN_MAX: Final = 100
"""Runs of a map that are translated back and forth."""


def _opening(epoch: int, source_offset: int, target_offset: int) -> Opening:
    return Opening(
        flow=FLOW,
        producer_id=4000,
        producer_epoch=epoch,
        nonce=5,
        target_topic="jfk.flights",
        source_offset=source_offset,
        target_offset=target_offset,
        opened_at_ms=NOW_MS,
        worker_id="w",
        has_older_copies=epoch == 2,
    )


def _block(epoch: int, target_start: int, runs: Sequence[Run], source_next: int) -> Block:
    return Block(
        flow=FLOW,
        producer_id=4000,
        producer_epoch=epoch,
        nonce=6,
        target_topic="jfk.flights",
        source_start=runs[0].source_offset,
        target_start=target_start,
        source_next=source_next,
        next_sequence=301,
        runs=tuple(runs),
    )


@lru_cache
def _map_records() -> tuple[MapRecord, ...]:
    paused = frozenset({PausedPart(), PausedPart("t"), PausedPart("t", 3)})
    return (
        Registration(
            producer_id=4000,
            producer_epoch=0,
            link="jfk-nyc",
            source_cluster_id="S",
            target_cluster_id="T",
            registered_at_ms=NOW_MS,
            worker_id="w",
        ),
        _opening(1, 10, 0),
        _block(1, 0, [Run(10, 0, 1), Run(12, 1, 300)], 500),
        _block(1, 301, [Run(500, 301, 50), Run(560, 360, 40)], 600),
        _opening(2, 400, 500),
        _block(2, 500, [Run(400, 500, 100)], 501),
        Terms(nonce=7, terms=(("origin", "local"),)),
        Controls(paused=paused, source_bytes_per_second=9),
        MirroredCommit(group_id="g", topic="t", partition=3, before=None, wanted=300),
        OwnedCopy(
            topic="t",
            target_topic_id=uuid.UUID(int=0x22),
            source_topic="s",
            source_topic_id=uuid.UUID(int=0x11),
            is_created=True,
        ),
    )


def read_map_record(pair: bytes) -> object:
    """Read a record among valid ones, and use the maps that they amount to."""
    key, value = split(pair)
    record = decode_record(key, value)
    assert decode_record(*encode_record(record)) == record, record
    topic = MapTopic()
    for each in _map_records():
        topic.replay(*encode_record(each))
    topic.replay(key, value)
    for flow in topic.every_flow():
        found = topic.offset_map(flow)
        assert found is not None, flow
        _check_map(found)
    topic.replay(key, None)
    return record


def _check_map(found: OffsetMap) -> None:
    runs = list(found.runs())
    for run in runs:
        assert run.records_count > 0 and run.source_offset >= found.source_start, run
        assert run.target_offset >= found.target_start, run
    for one, other in pairwise(runs):
        assert one.source_next <= other.source_offset, (one, other)
        assert one.target_next <= other.target_offset, (one, other)
    for start, end in found.holes():
        assert found.source_start <= start < end <= found.source_next, (start, end)
    reached = -1
    for run in runs[:ENTRIES_SHOWN_MAX]:
        for offset in (run.source_offset, run.source_next - 1):
            answer = found.translate(offset)
            if answer.state is TranslationState.EXACT:
                assert answer.target_offset is not None and answer.target_offset >= reached
                reached = answer.target_offset
        assert found.source_of(run.target_offset) == run.source_offset, run


@lru_cache
def _gaps() -> tuple[Gap, ...]:
    fields = {
        "flow": FLOW,
        "producer_epoch": 2,
        "nonce": 7,
        "link": "a-b",
        "target_topic": "a.t",
        "source_from": 100,
        "reason": "out_of_range",
        "detail": "gone",
        "target_offset": 90,
        "noticed_at_ms": NOW_MS,
        "worker_id": "w",
    }
    copied = {"kind": GapKind.COPIED, "copied_count": 7, "target_to": 97}
    foreign = {"kind": GapKind.FOREIGN, "target_to": 95, "source_to": 100, "records_count": 0}
    rest = ({"source_to": 120, "records_count": 3}, {"source_to": None, "records_count": None})
    return tuple(
        Gap(**fields, **each)  # type: ignore[arg-type]
        for each in (*rest, rest[0] | copied, foreign)
    )


def read_journal_record(pair: bytes) -> object:
    key, value = split(pair)
    gap = decode_gap(key, value)
    assert decode_gap(*encode_gap(gap)) == gap, gap
    assert gap.source_from >= 0 and gap.target_offset >= 0, gap
    assert gap.source_to is None or gap.source_from <= gap.source_to, gap
    assert gap.target_to is None or gap.target_offset <= gap.target_to, gap
    journal = GapJournal()
    for each in _gaps():
        journal.replay(*encode_gap(each))
    journal.replay(key, value)
    entries = list(journal.all_entries())
    assert entries, "an entry replaces others at its place, and only there"
    return gap


TALLY: Final = Tally(50, 2, 0, 60, 100, 150)


@lru_cache
def _verdict_pairs() -> tuple[bytes, ...]:
    progress = Progress(
        target_topic="jfk.flights",
        worker_id="w",
        audited_from=100,
        place=AuditPlace(audited_to=150, receipt_epoch=1, receipt_to=150, sequence=9),
        audited_at_ms=NOW_MS,
        waiting=0,
        receipts_topic_id="-",
        receipts_offset=7,
        source_end=None,
        target_log_start=0,
        written_at_ms=NOW_MS,
        buckets={600_000: {Verdict.COMPLETE: TALLY, Verdict.LATE: Tally(1, 1, 60, 61, None, None)}},
    )
    finding = Finding(
        verdict=Verdict.LOST,
        target_from=140,
        target_to=150,
        source_from=40,
        source_to=50,
        records_count=10,
        start_ms=0,
        detail="the target has nothing at that offset",
        noticed_at_ms=NOW_MS,
    )
    records = (
        progress_record(FLOW, progress),
        bucket_record(FLOW, 0, {Verdict.FOREIGN: TALLY}),
        finding_record(FLOW, finding),
        auditor_record(AuditorState(worker_id="w", at_ms=1, cpu_share=0.5, failure=None)),
    )
    return tuple(joined(key, value or b"") for key, value in records)


def read_verdict_record(pair: bytes) -> object:
    key, value = split(pair)
    topic = VerdictTopic()
    topic.replay(key, value)
    again = VerdictTopic()
    for flow, verdicts in topic.flows():
        records = [
            *(bucket_record(flow, at, each) for at, each in verdicts.closed.items()),
            *(finding_record(flow, each) for each in verdicts.findings.values()),
            *([] if verdicts.progress is None else [progress_record(flow, verdicts.progress)]),
        ]
        for record in records:
            again.replay(*record)
        known = again.flow(flow)
        assert known.progress == verdicts.progress, verdicts.progress
        assert known.closed == verdicts.closed and known.findings == verdicts.findings
        for bucket in verdicts.buckets().values():
            for tally in bucket.values():
                _check_side(tally.source_from, tally.source_to)
                _check_side(tally.target_from, tally.target_to)
        for finding in verdicts.findings.values():
            _check_side(finding.source_from, finding.source_to)
            _check_side(finding.target_from, finding.target_to)
    return topic


def _check_side(start: int | None, end: int | None) -> None:
    assert (start is None) == (end is None), (start, end)
    assert start is None or end is None or 0 <= start <= end, (start, end)


def _statements() -> tuple[Statement, ...]:
    """Return a listing, a vector and the changes after it."""
    sampled = (0, NOW_MS - 10, 9, NOW_MS - 10, None)
    entries = (
        Entry("flights", uuid.UUID(int=3), 0, 0, 9, 0, *sampled, 0, Hold(HoldKind.NONE)),
        Entry(
            *("flights", uuid.UUID(int=3), 1, 2, 7, None, -1, None, None, None, None, 1),
            Hold(HoldKind.OPEN_TRANSACTION, 77, NOW_MS),
        ),
        Entry(
            *("reports", uuid.UUID(int=4), 0, 0, 7, 0, *sampled, 1),
            Hold(HoldKind.STOPPED, state="failed"),
        ),
    )
    sessions = (SourceSession(0, NOW_MS - 5), SourceSession(1, None))
    vector = Statement(True, "w", 1, 1, 0, 1, NOW_MS, sessions, entries)
    listed = ListedTopic("flights", uuid.UUID(int=3), 3, 2, NOW_MS - 900)
    listing, proved = with_listing(vector, listed)
    return listing, proved, proved._replace(is_vector=False, round=2, entries=entries[:1])


def read_statement(value: bytes) -> object:
    """Read a statement, and then the topic that has it after a vector."""
    statement = decode_statement(value)
    assert decode_statement(encode_statement(statement)) == statement, statement
    topic, cut = CompletenessTopic(), CutReader(NOW_MS)
    for each in (*map(encode_statement, _statements()[:2]), value, value):
        topic.replay(None, each)
        cut.replay(each)
    for part in topic.partitions():
        assert (part.sampled_ms is None) == (part.end is None), part
    return cut.cuts()


@lru_cache
def _receipt_values() -> tuple[bytes, ...]:
    first = Receipt(100, 110, 7, 10, 0xDEADBEEF, NOW_MS)
    second = Receipt(112, 115, 17, 3, 5, NOW_MS + 4)
    return (
        encode_receipts(Receipts(1, 0, 0, (first,))),
        encode_receipts(Receipts(2**64 - 1, 3, 2**31 - 5, (first, second))),
    )


def read_receipts(value: bytes) -> object:
    found = decode_receipts(value)
    assert decode_receipts(encode_receipts(found)) == found, found
    for receipt in found.receipts:
        assert 0 <= receipt.source_from <= receipt.source_to, receipt
    for one, other in pairwise(found.receipts):
        assert 0 <= one.target_offset <= one.target_next <= other.target_offset, (one, other)
    return found


@lru_cache
def _rights() -> tuple[bytes, ...]:
    acl = Acl(2, "orders", 3, "User:u", "*", 3, 3)
    name = QuotaName((("user", "u"), ("client-id", None)), "producer_byte_rate")
    user = CredentialName("u", "SCRAM-SHA-512")
    records = (
        acl_record(acl),
        quota_record(name, WrittenQuota(None, 1024.0)),
        user_record(user, WrittenCredential(None, "g")),
    )
    return tuple(joined(key, value or b"") for key, value in records)


def read_rights(pair: bytes) -> object:
    rights, again = WrittenRights(), WrittenRights()
    rights.replay(*split(pair))
    for acl in rights.acls:
        again.replay(*acl_record(acl))
    for name, written in rights.quotas.items():
        again.replay(*quota_record(name, written))
    for user, credential in rights.users.items():
        again.replay(*user_record(user, credential))
    assert (again.acls, again.quotas) == (rights.acls, rights.quotas)
    assert again.users == rights.users
    return rights


MM2_READERS: Final[tuple[Callable[[bytes, bytes], object], ...]] = (
    decode_offset_sync,
    decode_checkpoint,
    decode_heartbeat,
    decode_source_position,
)


@lru_cache
def _mm2_pairs() -> tuple[bytes, ...]:
    """Return records of MirrorMaker 2, each behind the number of its reader."""
    place = b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'
    records = (
        encode_offset_sync(OffsetSync("t", 0, 5, 7)),
        encode_checkpoint(Checkpoint("g", "A.t", 0, 5, 7, "")),
        encode_heartbeat(Heartbeat("A", "B", NOW_MS)),
        (place, b'{"offset":42}'),
    )
    return tuple(bytes((number,)) + joined(*record) for number, record in enumerate(records))


def read_mm2_record(content: bytes) -> object:
    key, value = split(content[1:])
    return MM2_READERS[content[0] % len(MM2_READERS) if content else 0](key, value)


MIRROR_TARGETS: Final = (
    Target(
        "map-records",
        lambda: [joined(*encode_record(each)) for each in _map_records()],
        read_map_record,
        (MapFormatError,),
    ),
    Target(
        "journal-records",
        lambda: [joined(*encode_gap(each)) for each in _gaps()],
        read_journal_record,
        (MapFormatError,),
    ),
    Target("verdict-records", _verdict_pairs, read_verdict_record, (MapFormatError,)),
    Target(
        "completeness-records",
        lambda: [encode_statement(each) for each in _statements()],
        read_statement,
        (MapFormatError,),
    ),
    Target("receipt-records", _receipt_values, read_receipts, (MapFormatError,)),
    Target("rights-records", _rights, read_rights, (MapFormatError,), 5),
    Target("mm2-records", _mm2_pairs, read_mm2_record, (Mm2FormatError,)),
)
