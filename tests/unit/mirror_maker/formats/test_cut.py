"""Where sources ended at a time: the sample that counts, and what refuses it later."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_maker.formats.completeness.cut import (
    SAMPLE_AGE_MS_MAX,
    CutRefusal,
    CutSample,
    PartitionCut,
)
from mirror_maker.formats.completeness.statement import (
    NO_HOLD,
    Entry,
    SourceSession,
    Statement,
    encode_statement,
)
from tests.support.listed_statements import ProvedCutReader

TOPIC_ID, NEW_TOPIC_ID = uuid.UUID(int=5), uuid.UUID(int=6)
START_MS = 1_700_000_000_000


def entry(sampled_ms: int | None, end: int, partition: int = 0, **changed: Any) -> Entry:
    found = Entry(
        topic="flights",
        topic_id=TOPIC_ID,
        partition=partition,
        generation=0,
        position=end,
        session=0,
        epoch=3,
        sampled_ms=None if sampled_ms is None else START_MS + sampled_ms,
        end=None if sampled_ms is None else end,
        complete_through_ms=None,
        proved_through_ms=None,
        gaps=0,
        hold=NO_HOLD,
    )
    return found._replace(**changed)


def rounds(*entries: tuple[int, tuple[Entry, ...]], worker: str = "w") -> list[Statement]:
    """Return one statement per (time of the session, entries); the first one is a vector."""
    return [
        Statement(
            is_vector=number == 0,
            worker_id=worker,
            run=1,
            round=number,
            part=0,
            parts=1,
            written_ms=START_MS + asked_ms + 5,
            sessions=(SourceSession(4, START_MS + asked_ms),),
            entries=named,
        )
        for number, (asked_ms, named) in enumerate(entries)
    ]


def cut_at(as_of_ms: int, statements: list[Statement], partition: int = 0) -> PartitionCut:
    reader = ProvedCutReader(START_MS + as_of_ms)
    for each in statements:
        reader.replay(encode_statement(each))
    return reader.cuts()["flights", partition]


def sample(sampled_ms: int, end: int, epoch: int = 3) -> CutSample:
    return CutSample(START_MS + sampled_ms, end, epoch)


def test_a_source_without_leader_epochs_has_cuts() -> None:
    log = rounds((10, (entry(9, 100, epoch=-1),)), (1_000, ()), (2_000, ()))
    assert cut_at(1_500, log).sample == sample(1_000, 100, epoch=-1)


def test_a_time_is_rounded_down_to_a_sample_of_an_idle_or_a_busy_partition() -> None:
    log = rounds((10, (entry(9, 100),)), (1_000, ()), (2_000, (entry(1_900, 130),)), (3_000, ()))
    assert [cut_at(at, log).sample for at in (9, 999, 1_000, 1_899, 1_900, 2_999)] == [
        sample(9, 100),
        sample(10, 100),
        sample(1_000, 100),
        sample(1_000, 100),
        sample(1_900, 130),
        sample(2_000, 130),
    ]
    assert cut_at(1_500, log).is_proved
    assert not cut_at(2_500, log).is_proved


def test_before_all_samples_and_after_them_nothing_is_known() -> None:
    log = rounds((10, (entry(9, 100),)), (1_000, ()))
    assert cut_at(8, log).refusal is CutRefusal.NO_SAMPLE
    late = cut_at(1_000, log)
    assert (late.refusal, late.earlier) == (CutRefusal.NOT_SETTLED, sample(1_000, 100))
    silent = cut_at(1_001 + SAMPLE_AGE_MS_MAX, log)
    assert (silent.refusal, silent.earlier) == (CutRefusal.NO_SAMPLE, sample(1_000, 100))


def test_a_source_that_answers_again_does_not_tell_what_it_had_in_between() -> None:
    log = rounds((10, (entry(9, 100),)), (500_000, (entry(499_000, 170),)))
    assert cut_at(400_000, log).refusal is CutRefusal.NO_SAMPLE
    assert cut_at(60_000, log).sample == sample(10, 100)


def test_a_new_leader_confirms_or_withdraws_what_its_predecessor_said_last() -> None:
    def then(end: int) -> list[Statement]:
        later = entry(2_000, end, epoch=4)
        return rounds((10, (entry(9, 80),)), (900, (entry(800, 100),)), (2_100, (later,)))

    assert (cut_at(1_000, then(100)).sample, cut_at(1_000, then(100)).is_proved) == (
        sample(900, 100),
        True,
    )
    grown = cut_at(1_000, then(120))
    assert (grown.refusal, grown.earlier) == (CutRefusal.EPOCH, sample(10, 80))
    assert cut_at(700, then(120)).sample == sample(10, 80)
    for at in (700, 1_000):
        lost = cut_at(at, then(90))
        assert (lost.refusal, lost.earlier) == (CutRefusal.TRUNCATED, None)
    assert cut_at(2_050, then(90)).sample == sample(2_000, 90, epoch=4)


def test_another_topic_or_another_copy_is_not_the_one_that_was_cut() -> None:
    before = (10, (entry(9, 100),))
    for changed, why in (
        ({"topic_id": NEW_TOPIC_ID}, CutRefusal.OLD_TOPIC_ID),
        ({"generation": 1, "position": 0}, CutRefusal.STARTED_OVER),
    ):
        log = rounds(before, (1_000, ()), (2_000, (entry(1_990, 5, **changed),)), (3_000, ()))
        assert cut_at(500, log).refusal is why
        assert cut_at(1_995, log).sample == sample(1_990, 5)


def test_a_lost_round_ends_what_a_worker_repeats() -> None:
    log = rounds((10, (entry(9, 100),)), (1_000, ()), (2_000, ()), (3_000, ()))
    assert cut_at(1_500, log).sample == sample(1_000, 100)
    assert cut_at(1_500, [log[0], *log[2:]]).refusal is CutRefusal.NOT_SETTLED


def test_a_worker_that_takes_over_settles_what_the_other_one_repeated() -> None:
    first = rounds((10, (entry(9, 100),)), (1_000, ()))
    second = rounds((2_500, (entry(2_400, 100),)), worker="v")
    assert cut_at(1_700, first + second).sample == sample(1_000, 100)
    zombie = rounds((10, (entry(9, 100),)), (1_000, ()), (1_600, (entry(1_600, 101),)))[2:]
    assert cut_at(1_700, first + second + zombie).sample == sample(1_000, 100)


@dataclass(frozen=True)
class Growth:
    """One round of a source without faults: who grew by how much."""

    grown: dict[int, int]
    passed_ms: int


growths = st.lists(
    st.builds(
        Growth,
        st.dictionaries(st.integers(0, 2), st.integers(1, 9), max_size=3),
        st.integers(1, 2_000),
    ),
    max_size=12,
)


@given(growths, st.integers(0, 25_000))
def test_without_faults_the_cut_is_the_last_published_sample(
    history: list[Growth], as_of_ms: int
) -> None:
    ends, now_ms = dict.fromkeys(range(3), 10), 100
    named = [(now_ms, tuple(entry(now_ms, 10, each) for each in ends))]
    published = [(now_ms, dict(ends))]
    for step in history:
        now_ms += step.passed_ms
        for each, more in step.grown.items():
            ends[each] += more
        named.append((now_ms, tuple(entry(now_ms, ends[each], each) for each in step.grown)))
        published.append((now_ms, dict(ends)))
    known = [each for each in published if each[0] <= as_of_ms]
    for partition in ends:
        found = cut_at(as_of_ms, rounds(*named), partition)
        if not known:
            assert found.refusal is CutRefusal.NO_SAMPLE
        elif as_of_ms >= now_ms:
            assert found.refusal is CutRefusal.NOT_SETTLED
        else:
            assert found.sample == sample(known[-1][0], known[-1][1][partition])


faulty = st.tuples(
    st.sampled_from("vw"),
    st.integers(0, 12),
    st.integers(0, 4),
    st.sampled_from((3, 3, 3, 4)),
    st.sampled_from((0, 0, 0, 1)),
    st.sampled_from((TOPIC_ID, TOPIC_ID, TOPIC_ID, NEW_TOPIC_ID)),
    st.booleans(),
)


@settings(max_examples=300)
@given(st.lists(faulty, min_size=1, max_size=10), st.integers(0, 12), st.integers(0, 10))
def test_an_answer_stays_or_is_refused_whatever_follows(
    story: list[tuple[str, int, int, int, int, uuid.UUID, bool]], as_of_ms: int, seen: int
) -> None:
    log: list[Statement] = []
    numbers = {"v": 0, "w": 0}
    claimed: set[tuple[int, int]] = set()
    ends: dict[str, int] = {}
    for worker, asked_ms, end, epoch, generation, topic_id, is_named in story:
        is_first = numbers[worker] == 0
        named = entry(asked_ms, end, epoch=epoch, generation=generation, topic_id=topic_id)
        entries = (named,) if is_named or is_first else ()
        if entries:
            ends[worker] = end
        claimed.add((asked_ms, ends[worker]))
        (each,) = rounds((asked_ms, entries), worker=worker)
        log.append(each._replace(is_vector=is_first, round=numbers[worker]))
        numbers[worker] += 1
    before = cut_at(as_of_ms, log[: max(1, seen)])
    after = cut_at(as_of_ms, log)
    for found in (before, after):
        assert (found.sample is None) == (found.refusal is not None)
        if found.sample is not None:
            sampled_ms = found.sample.sampled_ms - START_MS
            assert sampled_ms <= as_of_ms
            assert (sampled_ms, found.sample.end) in claimed
    if before.sample is not None:
        assert after.sample in (before.sample, None)
