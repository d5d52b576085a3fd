"""When what could not be followed is tried again, and what of it is worth saying. Pure.

    well     failed      failing: said
    failing  the same    failing: counted, tried again after twice the time
    failing  otherwise   failing: said, with how often it failed before
    failing  succeeded   well: said, with how often it failed

So a disk that stays full costs two lines of log per partition and a fetch a second.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from local_cluster.wire.errors import ErrorCode

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Failing:
    code: ErrorCode
    attempts: int
    delay_ms: int


class Failed(NamedTuple):
    """What a failed attempt means."""

    delay_ms: int
    """How long to wait before the next one."""
    is_news: bool
    """Whether it fails for the first time, or for another reason than before."""
    attempts: int
    """How many failed in a row, this one included."""


class Retries(Generic[Key]):
    """Of one source; what is not failing costs nothing."""

    def __init__(self, delay_ms_min: int, delay_ms_max: int) -> None:
        self._delay_ms_min = delay_ms_min
        self._delay_ms_max = max(delay_ms_min, delay_ms_max)
        self._failing: dict[Key, _Failing] = {}

    def failed(self, key: Key, code: ErrorCode) -> Failed:
        """Note a failed attempt."""
        known = self._failing.get(key)
        if known is None:
            known = self._failing[key] = _Failing(code, 1, self._delay_ms_min)
            return Failed(known.delay_ms, True, 1)
        is_news = known.code != code
        known.code = code
        known.attempts += 1
        known.delay_ms = min(2 * known.delay_ms, self._delay_ms_max)
        return Failed(known.delay_ms, is_news, known.attempts)

    def succeeded(self, key: Key) -> int:
        """Note that it went well; how many attempts had failed before that."""
        known = self._failing.pop(key, None) if self._failing else None
        return 0 if known is None else known.attempts

    def forget(self, key: Key) -> None:
        """It is not tried any more."""
        self._failing.pop(key, None)
