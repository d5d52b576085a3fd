"""What read_committed sees of transactions, restarts and truncations, against a model."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from local_cluster.log.config.log_config import LogConfig
from local_cluster.log.partition.partition_log import PartitionLog
from local_cluster.records.committed import committed_batches
from local_cluster.records.control import EndMarker
from tests.unit.local_cluster.log.samples import NOW_MS, append, batch, create, reopen

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=150)
PRODUCERS = (1, 2, 3)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(PRODUCERS)),
        st.tuples(st.sampled_from(["commit", "abort"]), st.sampled_from(PRODUCERS)),
        st.tuples(st.just("plain"), st.just(0)),
        st.tuples(st.sampled_from(["close", "crash"]), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(1, 4)),
    ),
    max_size=40,
)


def read_committed(log: PartitionLog, bytes_max: int) -> list[int]:
    """Return the offsets that a consumer sees up to the last stable offset, fetch by fetch."""
    seen = []
    offset = 0
    limit = log.reader.last_stable_offset(log.log_end_offset)
    while offset < limit:
        piece = log.reader.read(
            offset, bytes_max=bytes_max, offset_limit=limit, at_least_one_batch=True
        )
        ended = log.reader.aborted_transactions(offset, piece.next_offset)
        firsts = [entry.first_offset for entry in ended]
        assert firsts == sorted(firsts)
        for _, header, visible in committed_batches(piece.read(), [e[:2] for e in ended]):
            if visible:
                seen.append(header.base_offset)
        offset = piece.next_offset
    return seen


def expected(events: list[tuple[str, int]]) -> list[int]:
    """Return the offsets below the first open transaction that are not aborted."""
    first_open: dict[int, int] = {}
    hidden: set[int] = set()
    for offset, (kind, producer) in enumerate(events):
        if kind == "write":
            first_open.setdefault(producer, offset)
        elif kind in ("commit", "abort"):
            hidden.add(offset)
            start = first_open.pop(producer, offset)
            if kind == "abort":
                hidden |= {at for at in range(start, offset) if events[at] == ("write", producer)}
    limit = min(first_open.values(), default=len(events))
    return [offset for offset in range(limit) if offset not in hidden]


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, bytes_max=st.sampled_from([1, 200, 100_000]))
def test_read_committed_sees_what_the_model_says(
    steps: list[tuple[str, int]], bytes_max: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="log-transactions-") as root:
        log = create(Path(root), config=CONFIG)
        events: list[tuple[str, int]] = []
        for kind, argument in steps:
            if kind == "write":
                last = [e for e in events if e == ("write", argument)]
                made = batch(1, producer=(argument, 0, len(last)), attributes=0x10)
                append(log, made)
                events.append((kind, argument))
            elif kind in ("commit", "abort"):
                log.as_leader.append_marker(
                    EndMarker(kind == "commit", 0),
                    producer_id=argument,
                    producer_epoch=0,
                    leader_epoch=0,
                    now_ms=NOW_MS,
                )
                events.append((kind, argument))
            elif kind == "plain":
                append(log, batch(1))
                events.append((kind, 0))
            elif kind == "truncate":
                offset = max(len(events) - argument, 0)
                log.truncation.truncate_to(offset, NOW_MS).run()
                del events[offset:]
            else:
                if kind == "close":
                    log.close()
                log = reopen(Path(root), config=CONFIG, is_clean=kind == "close")
            assert log.log_end_offset == len(events)
            assert read_committed(log, bytes_max) == expected(events)
