"""Samples of ends never claim more than what was committed, whatever responses come and go."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mirror_maker.metrics.end_samples import DOUBT_MS_MAX, EndSamples
from mirror_maker.metrics.lag import LastAnswer

TOPIC_ID = uuid.UUID(int=7)


class OnePartition(RuleBasedStateMachine):
    """A log with honest leaders: `ends_by_time` is its true end at each millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = EndSamples()
        self.session = LastAnswer(1)
        self.now_ms = 1_000
        self.end = 0
        self.epoch = 3
        self.commits: list[tuple[int, int]] = [(0, 0)]
        self.reported: int | None = None
        """The end that the session last reported under this epoch, if it holds the partition."""
        self.lag = 0
        """How far a new leader's high watermark is behind."""

    @rule(count=st.integers(1, 5), passed_ms=st.integers(0, 300))
    def commit(self, count: int, passed_ms: int) -> None:
        if self.lag:
            return
        self.now_ms += passed_ms
        self.end += count
        self.commits.append((self.now_ms, self.end))

    @rule(passed_ms=st.integers(1, 400), is_named=st.booleans())
    def answer(self, passed_ms: int, is_named: bool) -> None:
        """A response of the session: the partition is in it if its end has moved."""
        asked_ms = self.now_ms
        self.now_ms += passed_ms
        served = self.end - self.lag
        if self.reported is None and not is_named:
            self.session.asked_ms = asked_ms  # the session does not hold it now
            return
        if self.reported != served:
            self.reported = served
            self.ends.observe(
                *(served, served, asked_ms),
                epoch=self.epoch,
                topic_id=TOPIC_ID,
                session=self.session,
            )
        self.session.asked_ms = asked_ms

    @rule()
    def left_out(self) -> None:
        self.ends.unfollow(self.session)
        self.reported = None

    @rule(lag=st.integers(0, 4))
    def new_leader(self, lag: int) -> None:
        self.left_out()
        self.epoch += 1
        self.lag = min(lag, self.end)

    @precondition(lambda self: self.lag)
    @rule()
    def leader_learns_its_commits(self) -> None:
        self.lag = 0

    @precondition(lambda self: not self.lag)
    @rule()
    def confirm(self) -> None:
        if self.reported is not None:
            self.now_ms += 1
            self.ends.confirm(self.epoch, self.now_ms)

    @rule(passed_ms=st.integers(0, 2 * DOUBT_MS_MAX))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.ends.withdraw_doubted(self.now_ms)

    @invariant()
    def claims_are_true(self) -> None:
        for position in {0, self.end // 2, self.end - self.lag, self.end}:
            # A query drops samples that the position has passed: ask copies.
            for through_ms in (
                _copy(self.ends).complete_through(position),
                _copy(self.ends).proved_through(position),
            ):
                if through_ms is not None:
                    assert self._end_before(through_ms) <= position
        sample = self.ends.sample()
        if sample is not None:
            assert self._end_before(sample.asked_ms) <= sample.end

    def _end_before(self, time_ms: int) -> int:
        return max(end for committed_ms, end in self.commits if committed_ms < time_ms)


def _copy(ends: EndSamples) -> EndSamples:
    import copy

    session, ends._session = ends._session, None
    copied = copy.deepcopy(ends)
    ends._session = copied._session = session
    return copied


TestOnePartition = OnePartition.TestCase


def observed(*samples: tuple[int, int], epoch: int = 0) -> tuple[EndSamples, LastAnswer]:
    """Return samples (T, E) of one confirmed epoch."""
    ends, session = EndSamples(), LastAnswer(1)
    for asked_ms, end in [(0, samples[0][1]), *samples]:
        ends.observe(end, end, asked_ms, epoch=epoch, topic_id=None, session=session)
        ends.confirm(epoch, 1)
        session.asked_ms = asked_ms
    return ends, session


def enter(ends: EndSamples, session: LastAnswer, asked_ms: int, end: int, epoch: int) -> None:
    """Give the first sample of a new epoch."""
    ends.observe(end, end, asked_ms, epoch=epoch, topic_id=None, session=session)
    ends.confirm(epoch, asked_ms + 1)
    session.asked_ms = asked_ms + 2


def test_an_idle_partition_advances_with_each_response() -> None:
    ends, session = observed((10, 5))
    session.asked_ms = 900
    assert ends.complete_through(5) == 900
    assert ends.complete_through(4) is None


def test_a_new_epoch_with_the_same_end_proves_the_plateau() -> None:
    ends, session = observed((10, 5), (500, 5))
    ends.unfollow(session)
    other = LastAnswer(2)
    enter(ends, other, 1_000, 5, epoch=1)
    assert ends.complete_through(5) == 1_002


def test_a_new_epoch_with_a_larger_end_withdraws_the_plateau() -> None:
    ends, session = observed((10, 4), (200, 5), (900, 5))
    ends.unfollow(session)
    assert ends.complete_through(5) == 900, "in doubt"
    enter(ends, LastAnswer(2), 1_000, 7, epoch=1)
    assert ends.complete_through(5) == 10, "only what the end has outgrown"
    assert ends.complete_through(7) == 1_002


def test_a_new_epoch_with_a_smaller_end_withdraws_everything() -> None:
    ends, session = observed((10, 4), (200, 5))
    ends.unfollow(session)
    enter(ends, LastAnswer(2), 1_000, 3, epoch=1)
    assert ends.complete_through(2) is None


def test_a_plateau_is_withdrawn_if_the_new_epoch_gives_no_sample_for_long() -> None:
    ends, session = observed((10, 4), (200, 5))
    ends.unfollow(session)
    ends.observe(5, 5, 1_000, epoch=1, topic_id=None, session=LastAnswer(2))
    assert ends.stated_epoch(1_000) == 0
    assert not ends.withdraw_doubted(1_000 + DOUBT_MS_MAX - 1)
    assert ends.withdraw_doubted(1_000 + DOUBT_MS_MAX)
    assert (ends.complete_through(5), ends.stated_epoch(1_000 + DOUBT_MS_MAX)) == (10, 1)


def test_a_response_of_the_old_leader_that_comes_late_changes_nothing() -> None:
    ends, session = observed((10, 4))
    ends.unfollow(session)
    other = LastAnswer(2)
    enter(ends, other, 1_000, 7, epoch=1)
    ends.observe(4, 4, 1_500, epoch=0, topic_id=None, session=session)
    session.asked_ms = 2_000
    assert ends.complete_through(4) is None
    assert ends.sample() == (1_002, 7, 1)


def test_a_source_without_leader_epochs_proves_nothing() -> None:
    ends = EndSamples()
    ends.observe(5, 5, 10, epoch=-1, topic_id=None, session=LastAnswer(1))
    assert (ends.sample(), ends.needs_confirmation) == (None, False)


@given(st.lists(st.integers(0, 3), min_size=1_500, max_size=1_500), st.integers(0, 4_000))
def test_a_copy_that_stays_behind_costs_bounded_memory(steps: list[int], position: int) -> None:
    end, samples = 0, []
    for index, step in enumerate(steps):
        end += step
        samples.append((index * 150 + 1, end))
    ends, _ = observed(*samples)
    through_ms = ends.complete_through(position)
    true_ms = max((asked for asked, at in samples if at <= position), default=None)
    assert (through_ms is None) == (true_ms is None) or position < samples[0][1]
    if through_ms is not None and true_ms is not None:
        assert through_ms <= true_ms
