"""The CPU time of the audit: its share of a core, and its work in pieces. Shell.

The audit shares its event loop with copying: a piece of ten milliseconds is latency of records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from mirror_maker.ports import Clock

FETCH_NS_PER_BYTE: Final = 0.6
"""Cost of receiving and splitting a fetch, besides what is measured: 1.6 GB per CPU-second."""
CREDIT_MS_MAX: Final = 2_000
"""Unused time that may be used later, in milliseconds of the share."""
WINDOW_MS: Final = 60_000
"""The time that `share_used` covers."""
PIECE_BATCHES_MAX: Final = 50
"""Batches or receipts of one piece: about half a millisecond of work."""
PIECE_ITEMS_MAX: Final = 200
"""Flows of one piece, where each needs a microsecond or two."""
PIECE_NS_MAX: Final = 500_000
"""CPU time of small pieces together, after which others have their turn."""
REST_PER_CPU: Final = 2
"""Rest after a piece, in multiples of its CPU time."""

T = TypeVar("T")


class CpuBudget:
    """The budget that the audits of all links of a worker share."""

    def __init__(self, share: float) -> None:
        """`share` of one core; 0 turns the audit off."""
        self.share = share
        self._at_ms: int | None = None
        self._debt_ns = 0.0
        self._spent_ns: deque[tuple[int, float]] = deque()
        """By second."""

    def spend(self, now_ms: int, cpu_ns: int, fetched_bytes: int) -> None:
        """Count time that was used just now."""
        self._recover(now_ms)
        spent_ns = cpu_ns + fetched_bytes * FETCH_NS_PER_BYTE
        self._debt_ns += spent_ns
        second = now_ms // 1000
        if self._spent_ns and self._spent_ns[-1][0] == second:
            spent_ns += self._spent_ns.pop()[1]
        self._spent_ns.append((second, spent_ns))
        while self._spent_ns[0][0] * 1000 < now_ms - WINDOW_MS:
            self._spent_ns.popleft()

    def delay_ms(self, now_ms: int) -> int:
        """Return how long to wait before more is used."""
        self._recover(now_ms)
        if self._debt_ns <= 0:
            return 0
        return 1 + int(self._debt_ns / self.share / 1e6)

    def share_used(self, now_ms: int) -> float:
        """Return the share of one core that was used in the last minute."""
        recent = sum(ns for second, ns in self._spent_ns if second * 1000 >= now_ms - WINDOW_MS)
        return recent / (WINDOW_MS * 1e6)

    def _recover(self, now_ms: int) -> None:
        if self._at_ms is not None:
            gained_ns = (now_ms - self._at_ms) * 1e6 * self.share
            self._debt_ns = max(self._debt_ns - gained_ns, -CREDIT_MS_MAX * 1e6 * self.share)
        self._at_ms = now_ms


class CpuMeter:
    """Measures the CPU time of pieces of work, and counts it against a budget."""

    def __init__(self, budget: CpuBudget, cpu_ns: Callable[[], int], clock: Clock) -> None:
        """`cpu_ns` returns the CPU time used so far."""
        self._budget = budget
        self._cpu_ns = cpu_ns
        self._clock = clock
        self._unrested_ns = 0

    async def in_pieces(self, work: Generator[None, None, T], fetched_bytes: int = 0) -> T:
        """Do work that takes in `fetched_bytes`; rest where it yields. Returns its result."""
        while True:
            try:
                with self.spending(fetched_bytes):
                    next(work)
            except StopIteration as end:
                await self._rest()
                result: T = end.value
                return result
            await self._rest()
            fetched_bytes = 0

    async def for_each(
        self,
        items: Sequence[T],
        do: Callable[[T], object],
        *,
        items_max: int = PIECE_ITEMS_MAX,
    ) -> None:
        """Do something short with each item; rest after every `items_max` of them."""
        for start in range(0, len(items), items_max):
            with self.spending():
                for item in items[start : start + items_max]:
                    do(item)
            await self._rest()

    @contextmanager
    def spending(self, fetched_bytes: int = 0) -> Iterator[None]:
        """Count the work in the context, which takes in `fetched_bytes`."""
        started_ns = self._cpu_ns()
        try:
            yield
        finally:
            spent_ns = self._cpu_ns() - started_ns
            self._unrested_ns += spent_ns
            self._budget.spend(self._clock.monotonic_ms(), spent_ns, fetched_bytes)

    async def _rest(self) -> None:
        if self._unrested_ns >= PIECE_NS_MAX:
            rest_ms = 1 + self._unrested_ns * REST_PER_CPU // 1_000_000
            self._unrested_ns = 0
            await self._clock.sleep(rest_ms)
