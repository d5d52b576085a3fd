"""Samples of where a source partition ended, and until when its copy is complete. Pure.

A *sample* (T, E) states: every record that the source committed before T has an offset below E. T
is the worker's wall clock when it wrote the request whose response gave E. So a sample is true
however long the response took. These responses prove nothing:

- one that a quota throttled, or that lacks a partition which the fetch session did not hold;
- one with an error or a diverging epoch for the partition;
- one without a leader epoch. The request names the epoch, so a follower never answers instead;
- one of a new leader whose high watermark lags behind what its predecessor acknowledged. Its
  samples count after ListOffsets has returned its end, which it refuses until then (KIP-207).

A leader that is cut off from its cluster answers with an end that no longer grows. So a new leader
epoch puts the *plateau* in doubt: the samples with the largest end. Earlier samples are proved,
because the end grew after them. The first sample of the new epoch decides:

| it has             | the plateau                                       |
|--------------------|---------------------------------------------------|
| the same end       | is true: nothing was written since                |
| a larger end       | is withdrawn: it may have been written before     |
| a smaller end      | is withdrawn with all others: the log lost records |

A plateau stays in doubt for at most `DOUBT_MS_MAX`, then it is withdrawn.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from mirror_maker.metrics.lag import LastAnswer

PLATEAUS_MAX: Final = 512
"""Ends that are kept while the copy is behind them; every other one of the older half goes then."""
PLATEAU_INTERVAL_MS_MIN: Final = 100
"""Least distance of two kept ends, except for the newest."""
DOUBT_MS_MAX: Final = 5_000
"""How long a new epoch may be without a sample before the plateau is withdrawn."""


class Sample(NamedTuple):
    """Every record committed before `asked_ms` has an offset below `end`."""

    asked_ms: int
    end: int
    epoch: int


@dataclass(slots=True)
class Plateau:
    """Samples with the same end: every one from `first_ms` to `last_ms` is true."""

    epoch: int
    end: int
    first_ms: int
    last_ms: int


class EndSamples:
    """The samples of one flow, as long as they matter. Times are wall clock milliseconds."""

    def __init__(self) -> None:
        self.epoch = -1
        """The leader epoch of the last response."""
        self.stable_end: int | None = None
        """The source's last stable offset: an open transaction begins there if it is below the
        end."""
        self.stable_since_ms = 0
        """When it was first seen there."""
        self._topic_id: UUID | None = None
        self._passed: list[Plateau] = []
        """Proved samples, ascending in end and time."""
        self._current: Plateau | None = None
        self._doubted: Plateau | None = None
        """The plateau of an earlier epoch, until a sample of the present one decides."""
        self._entered_ms = 0
        """When the present epoch was first seen, or the first one that put the plateau in doubt."""
        self._session: LastAnswer | None = None
        """Each response of this session repeats the last observed end."""
        self._proves_from_ms: int | None = None
        """Requests from this time on prove an end in the present epoch; None if none does yet."""
        self._unproved_end: int | None = None
        """The end by a response that does not prove it."""

    # -- what the fetcher reports ---------------------------------------------------------------

    def observe(
        self,
        end: int,
        stable_end: int | None,
        asked_ms: int,
        *,
        epoch: int,
        topic_id: UUID | None,
        session: LastAnswer,
    ) -> None:
        """Take an end from a response without error, and follow the session.

        `epoch` is the one that the request named. Without a `stable_end` it has not moved either.
        Each further response of the session repeats the end, until another one is observed.
        """
        if topic_id == self._topic_id and epoch < self.epoch:
            return  # from the old leader's session, after the new leader has responded
        if topic_id != self._topic_id:
            self._forget()
            self._topic_id, self.epoch = topic_id, -1
        if epoch < 0:
            self._forget()
            self.epoch = -1
            return
        if epoch != self.epoch:
            self._enter(epoch, asked_ms)
        self._settle()  # before it follows: until here it may not have followed this session
        self._session = session
        if stable_end is not None and stable_end != self.stable_end:
            self.stable_end, self.stable_since_ms = stable_end, asked_ms
        if self._proves_from_ms is None or asked_ms < self._proves_from_ms:
            self._unproved_end = end
        else:
            self._take(end, asked_ms)

    def unfollow(self, session: LastAnswer) -> None:
        """Stop following: later responses of the session do not concern this partition."""
        if self._session is session:
            self._settle()
            self._session = None
            self._unproved_end = None

    def confirm(self, epoch: int, now_ms: int) -> None:
        """Note that the leader of this epoch knows every commit of its predecessors."""
        if epoch == self.epoch and self._proves_from_ms is None:
            self._proves_from_ms = now_ms

    def withdraw_doubted(self, now_ms: int) -> bool:
        """Withdraw a plateau that is in doubt for too long; return whether it was."""
        self._settle()
        if self._doubted is None or now_ms < self._entered_ms + DOUBT_MS_MAX:
            return False
        self._doubted = None
        return True

    # -- what is known --------------------------------------------------------------------------

    @property
    def needs_confirmation(self) -> bool:
        """Whether samples of the present epoch wait for `confirm`."""
        return self.epoch >= 0 and self._proves_from_ms is None

    @property
    def is_settled(self) -> bool:
        """Whether the newest end is proved: nothing changes before another response."""
        self._settle()
        return self._current is not None

    @property
    def session(self) -> LastAnswer | None:
        """The session whose responses prove the newest end; None if none does."""
        self._settle()
        return self._session if self._current is not None else None

    def sample(self) -> Sample | None:
        """Return the newest sample, also if it is in doubt; None if there is none."""
        self._settle()
        newest = self._current or self._doubted
        return None if newest is None else Sample(newest.last_ms, newest.end, newest.epoch)

    def stated_epoch(self, now_ms: int) -> int:
        """Return the epoch under which to publish what is known.

        A new one withdraws what cannot be proved. So it is -1 while a first sample is due.
        """
        sample = self.sample()
        if sample is not None:
            return sample.epoch
        return -1 if now_ms < self._entered_ms + DOUBT_MS_MAX else self.epoch

    def complete_through(self, position: int) -> int | None:
        """Return the largest T whose end is at or below `position`; None if unknown.

        Samples that `position` has passed are dropped, except for the last one.
        """
        self._settle()
        for newest in (self._current, self._doubted):
            if newest is not None and newest.end <= position:
                self._drop_passed(position)
                return newest.last_ms
        return self.proved_through(position)

    def proved_through(self, position: int) -> int | None:
        """Return the same from samples alone that stay true in any later epoch."""
        self._settle()
        self._drop_passed(position)
        first = self._passed[0] if self._passed else None
        return first.last_ms if first is not None and first.end <= position else None

    def _drop_passed(self, position: int) -> None:
        index = bisect_right(self._passed, position, key=lambda each: each.end)
        if index > 1:
            del self._passed[: index - 1]

    # -- how samples change ---------------------------------------------------------------------

    def _forget(self) -> None:
        self._passed.clear()
        self._current = self._doubted = self._session = None
        self._proves_from_ms = self._unproved_end = self.stable_end = None

    def _enter(self, epoch: int, asked_ms: int) -> None:
        self._settle()
        if self._doubted is None:
            self._doubted, self._entered_ms = self._current, asked_ms
        self._current = self._session = None
        self._proves_from_ms = self._unproved_end = None
        self.epoch = epoch

    def _settle(self) -> None:
        """Take in what the followed session has proved meanwhile."""
        asked_ms = self._session.asked_ms if self._session is not None else None
        if asked_ms is None:
            return
        if self._unproved_end is not None:
            if self._proves_from_ms is None or asked_ms < self._proves_from_ms:
                return
            self._take(self._unproved_end, asked_ms)
        elif self._current is not None:
            self._current.last_ms = max(self._current.last_ms, asked_ms)

    def _take(self, end: int, asked_ms: int) -> None:
        self._unproved_end = None
        doubted, self._doubted = self._doubted, None
        if doubted is not None:
            if end == doubted.end:
                self._current = doubted
                doubted.epoch = self.epoch
            elif end < doubted.end:
                self._passed.clear()
        current = self._current
        if current is not None and end > current.end:
            self._pass(current)
            current = None
        elif current is not None and end < current.end:
            self._passed.clear()
            current = None
        if current is None:
            self._current = Plateau(self.epoch, end, asked_ms, asked_ms)
        else:
            current.last_ms = max(current.last_ms, asked_ms)

    def _pass(self, plateau: Plateau) -> None:
        passed = self._passed
        if len(passed) > 1 and passed[-1].first_ms - passed[-2].first_ms < PLATEAU_INTERVAL_MS_MIN:
            passed[-1] = plateau
        else:
            passed.append(plateau)
        if len(passed) > PLATEAUS_MAX:
            # Each sample is true by itself. Without some of them the answer is only coarser.
            del passed[1 : PLATEAUS_MAX // 2 : 2]
