"""Regular expressions of RE2 that must match a whole name: SubscribedTopicRegex (KIP-848) and the
pattern of ListTransactions (KIP-1152).

Kafka uses RE2/J, the Java port of RE2; this module uses RE2 itself. Both match in time linear in
the name, without back references and look-around. `tests/golden/topic_regexes.txt` holds the
answers of RE2/J 1.8; the README lists the few patterns for which RE2 answers differently.

Matching runs on the event loop, so patterns and the CPU time of one search are bounded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, Protocol

import re2

PATTERN_CHARACTERS_MAX: Final = 1_024
MEMORY_BYTES_MAX: Final = 2 * 1024 * 1024
"""For the program of one pattern and its cached states. The package caches 128 patterns."""
CPU_SECONDS_MAX: Final = 1.0
"""For one search. An ordinary pattern needs a few microseconds per name."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MEMORY_BYTES_MAX
# Capturing groups would cost more than the match, and no caller reads them.
_OPTIONS.never_capture = True

_REASONS_OF_RE2J: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""RE2's reason for a refusal -> the words of RE2/J, which Kafka sends to clients."""


class InvalidRegexError(ValueError):
    """The pattern is not valid in RE2, or exceeds a limit."""


class _CompiledPattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


class TopicRegex:
    """One compiled pattern. The constructor raises InvalidRegexError."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_CHARACTERS_MAX:
            raise InvalidRegexError(f"longer than {PATTERN_CHARACTERS_MAX} characters")
        try:
            self._compiled: _CompiledPattern = re2.compile(pattern, _OPTIONS)
        except re2.error as error:
            (reason,) = error.args
            # RE2 names the place behind the reason; RE2/J leaves it out.
            text = reason.decode(errors="replace").split(": ", 1)[0]
            raise InvalidRegexError(_REASONS_OF_RE2J.get(text, text)) from error

    def select(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names that match, sorted. Raises InvalidRegexError beyond CPU_SECONDS_MAX."""
        deadline = time.thread_time() + CPU_SECONDS_MAX
        matching = []
        for name in names:
            if self._compiled.fullmatch(name) is not None:
                matching.append(name)
            if time.thread_time() > deadline:
                raise InvalidRegexError("the search takes too much CPU time")
        return tuple(sorted(matching))
