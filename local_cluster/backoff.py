"""Retry delays by key: they double with each failure, up to a maximum. Pure.

    state      event            result
    well       failure          new: log it, retry after the minimum delay
    failing    same reason      counted, retry after twice the delay
    failing    another reason   new: log it with the number of attempts
    failing    success          well: log how many attempts failed

So a disk that stays full costs two log lines per partition, and one fetch per second.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Failing:
    reason: object
    attempts: int
    delay_ms: int


class Failure(NamedTuple):
    """The consequences of a failed attempt."""

    delay_ms: int
    """How long to wait before the next attempt."""
    is_new: bool
    """Whether it is the first failure, or the reason differs from the last one."""
    attempts: int
    """How many attempts failed in a row, this one included."""


class FailureBackoff(Generic[Key]):
    """The keys that fail at present. A key that does not fail costs nothing."""

    def __init__(self, delay_ms_min: int, delay_ms_max: int) -> None:
        self._delay_ms_min = delay_ms_min
        self._delay_ms_max = max(delay_ms_min, delay_ms_max)
        self._failing: dict[Key, _Failing] = {}

    def failed(self, key: Key, reason: object) -> Failure:
        """Record a failed attempt. Reasons are compared with `==`."""
        known = self._failing.get(key)
        if known is None:
            known = self._failing[key] = _Failing(reason, 1, self._delay_ms_min)
            return Failure(known.delay_ms, True, 1)
        is_new = known.reason != reason
        known.reason = reason
        known.attempts += 1
        known.delay_ms = min(2 * known.delay_ms, self._delay_ms_max)
        return Failure(known.delay_ms, is_new, known.attempts)

    def succeeded(self, key: Key) -> int:
        """Record a success. Return how many attempts failed before it."""
        known = self._failing.pop(key, None) if self._failing else None
        return 0 if known is None else known.attempts

    def forget(self, key: Key) -> None:
        """Drop a key that is not tried again."""
        self._failing.pop(key, None)
