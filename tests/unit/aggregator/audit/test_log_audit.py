"""The audit of two logs over two fake clusters."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from aggregator.audit import log_audit
from aggregator.audit.log_audit import audit_topic
from aggregator.audit.reconciliation import AuditReport, ReconciledPartition
from local_cluster.records.header import CONTROL_BIT, TRANSACTIONAL_BIT
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.unit.aggregator.fakes import FakeCluster, FakeTopic

Record = tuple[bytes | None, bytes | None]


def _records(letters: str) -> list[Record]:
    return [(b"key", letter.encode()) for letter in letters]


def _cluster(name: str, *batches: str) -> FakeCluster:
    cluster = FakeCluster()
    cluster.topics[name] = FakeTopic()
    for batch in batches:
        cluster.topics[name].append(*_records(batch))
    return cluster


async def _audit(
    source: FakeCluster,
    aggregate: FakeCluster,
    mirrored_ends: Mapping[int, int | None] | None = None,
) -> AuditReport:
    return await audit_topic(
        source,
        aggregate,
        datacenter="jfk",
        topic="flights",
        target_topic="jfk.flights",
        mirrored_ends=mirrored_ends,
    )


async def _one(
    source: FakeCluster,
    aggregate: FakeCluster,
    mirrored_ends: Mapping[int, int | None] | None = None,
) -> ReconciledPartition:
    (found,) = (await _audit(source, aggregate, mirrored_ends)).partitions
    return found


async def test_same_batches_are_never_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object) -> None:
        raise AssertionError("a batch was opened")

    monkeypatch.setattr(log_audit, "decode_batch", opened)
    source = _cluster("flights", "ab", "c", "def")
    aggregate = _cluster("jfk.flights", "ab", "c", "def")
    found = await _one(source, aggregate)
    assert (found.produced, found.mirrored, found.aggregate_records) == (6, 6, 6)
    assert found.is_faultless
    with pytest.raises(AssertionError, match="was opened"):
        await _one(source, _cluster("jfk.flights", "ab", "cdef"))


async def test_other_batching_is_no_fault() -> None:
    found = await _one(_cluster("flights", "ab", "cd"), _cluster("jfk.flights", "a", "bcd"))
    assert (found.produced, found.mirrored) == (4, 4)
    assert found.is_faultless


async def test_faults_are_found_across_batches() -> None:
    found = await _one(
        _cluster("flights", "abc", "def", "ghi"),
        _cluster("jfk.flights", "abc", "abc", "df", "xghi"),
    )
    assert found.lost == (4,)
    assert found.duplicated == (3, 4, 5)
    assert found.foreign == (8,)
    assert found.mirrored == 8


async def test_what_is_on_its_way_is_pending() -> None:
    source, aggregate = _cluster("flights", "ab", "cd", "ef"), _cluster("jfk.flights", "ab", "c")
    found = await _one(source, aggregate, mirrored_ends={0: 4})
    assert (found.lost, found.pending) == ((3,), (4, 5))
    found = await _one(source, _cluster("jfk.flights"), mirrored_ends={})
    assert (found.lost, found.pending) == ((), tuple(range(6)))


async def test_missing_copy_is_all_lost() -> None:
    found = await _one(_cluster("flights", "abc"), FakeCluster())
    assert found.lost == (0, 1, 2)
    found = await _one(FakeCluster(), _cluster("jfk.flights", "a"))
    assert found.foreign == (0,)
    assert (await _audit(FakeCluster(), FakeCluster())).partitions == ()


async def test_every_partition_is_judged() -> None:
    source, aggregate = _cluster("flights"), _cluster("jfk.flights")
    source.topics["flights"].partitions = 3
    aggregate.topics["jfk.flights"].partitions = 2
    report = await _audit(source, aggregate)
    assert [part.key.partition for part in report.partitions] == [0, 1, 2]


async def test_markers_and_aborted_records_are_not_expected() -> None:
    source = _cluster("flights", "ab")
    topic = source.topics["flights"]
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    topic.append(*_records("xy"), attributes=TRANSACTIONAL_BIT, **producer)
    topic.append(
        (b"\0\0\0\0", b"\0\0\0\0\0\0"), attributes=TRANSACTIONAL_BIT | CONTROL_BIT, **producer
    )
    topic.append(*_records("cd"), attributes=TRANSACTIONAL_BIT, **producer)
    topic.aborted = ((5, 2, 4),)
    found = await _one(source, _cluster("jfk.flights", "abcd"))
    assert found.aggregate_records == 4
    assert found.foreign == ()


async def test_corrupt_batch_is_an_error_not_a_loss() -> None:
    source = _cluster("flights", "ab")
    source.topics["flights"].log[-1] ^= 1
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        await _audit(source, _cluster("jfk.flights", "ab"))


async def test_unreachable_side_is_an_error_not_a_loss() -> None:
    aggregate = _cluster("jfk.flights", "ab")
    aggregate.down = True
    with pytest.raises(KafkaError, match="NETWORK_EXCEPTION"):
        await _audit(_cluster("flights", "ab"), aggregate)
    aggregate.down = False
    aggregate.topics["jfk.flights"].error = ErrorCode.leader_not_available
    with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE"):
        await _audit(_cluster("flights", "ab"), aggregate)


async def test_log_that_does_not_come_ends_the_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_audit, "FETCHES_WITHOUT_PROGRESS_MAX", 3)
    source = _cluster("flights", "ab")
    source.topics["flights"].next_offset = 9
    with pytest.raises(KafkaError, match="no batch at offset 2"):
        await _audit(source, _cluster("jfk.flights", "ab"))
