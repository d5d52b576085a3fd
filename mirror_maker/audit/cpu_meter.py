"""Does the audit's work in pieces, and counts their CPU time. Shell.

The audit shares its event loop with copying: a piece of ten milliseconds is latency of records.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from mirror_maker.audit.cpu_budget import CpuBudget
from mirror_maker.ports import Clock

PIECE_BATCHES_MAX: Final = 50
"""Batches or receipts of one piece: about half a millisecond of work."""
PIECE_NS_MAX: Final = 500_000
"""CPU time of small pieces together, after which others have their turn."""
REST_PER_CPU: Final = 2
"""Rest after a piece, in multiples of its CPU time."""

T = TypeVar("T")


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
