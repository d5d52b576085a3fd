"""Regular expressions over topic names, in time linear in the name: RE2's promise and its syntax.

A pattern is compiled to a nondeterministic automaton, which is run as a set of states; the sets
are remembered as a deterministic automaton as they come up, in a bounded cache. So no pattern can
hang the coordinator; what would take long is refused. As in RE2 there are no back references and
no look-around; counts are at most 1,000. Beyond RE2's syntax nothing is read; of it are left out:
flags other than (?i) at the start, Unicode classes (topic names are ASCII) and word boundaries.

Names must match as a whole (Java's `matches`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from local_cluster.groups.consumer.topic_regex_parser import (
    ALL,
    Alternatives,
    Characters,
    Edge,
    Node,
    Repeated,
    Sequence,
    parse,
)

STATES_MAX: Final = 10_000
"""States of one pattern's automaton; RE2 bounds the memory of its program likewise."""
WORK_MAX: Final = 300_000
"""States visited outside the cache while the topics of a cluster are matched; about 0.2 s."""
CACHED_SETS_MAX: Final = 2_000
CACHED_PATTERNS_MAX: Final = 256

__all__ = ["InvalidRegexError", "TopicRegex", "compile_regex"]

_BEGIN: Final = "begin"
_END: Final = "end"


class InvalidRegexError(ValueError):
    """The pattern is not one of RE2, or too large."""


class TopicRegex:
    """One compiled pattern."""

    def __init__(self, pattern: str) -> None:
        try:
            tree = parse(pattern)
        except (ValueError, RecursionError) as error:
            raise InvalidRegexError(str(error)) from error
        self._characters: list[tuple[frozenset[str], bool, int]] = []
        """(characters, negated, next) of each consuming state"""
        self._epsilon: list[list[tuple[str | None, int]]] = []
        """(edge or None, next) of each state"""
        self._work = 0
        self._accept = self._state()
        self._start = self._compile(tree, self._accept)
        self._sets: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def select(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names that match, sorted. Raises InvalidRegexError where that is too much work."""
        self._work = 0
        return tuple(sorted(name for name in names if self._matches(name)))

    # -- inside -----------------------------------------------------------------------------

    def _matches(self, name: str) -> bool:
        at_begin = True
        states = self._closure({self._start}, at_begin, not name)
        for position, character in enumerate(name):
            at_end = position == len(name) - 1
            key = (states, character + ("$" if at_end else ""))
            after = self._sets.get(key)
            if after is None:
                if len(self._sets) >= CACHED_SETS_MAX:
                    self._sets.clear()
                self._work += len(states)
                if self._work > WORK_MAX:
                    raise InvalidRegexError("the pattern takes too much work")
                moved = set()
                for state in states:
                    characters, negated, target = self._characters[state]
                    if target >= 0 and (character in characters) is not negated:
                        moved.add(target)
                after = self._sets[key] = self._closure(moved, False, at_end)
            states = after
            if not states:
                return False
        return self._accept in states

    def _state(
        self,
        epsilon: list[tuple[str | None, int]] | None = None,
        characters: frozenset[str] = frozenset(),
        *,
        negated: bool = False,
        target: int = -1,
    ) -> int:
        if len(self._epsilon) >= STATES_MAX:
            raise InvalidRegexError("the pattern is too large")
        self._epsilon.append(epsilon or [])
        self._characters.append((characters, negated, target))
        return len(self._epsilon) - 1

    def _compile(self, node: Node, target: int) -> int:
        """The state from which the node leads to the target."""
        match node:
            case Characters(characters, negated):
                return self._state(None, characters, negated=negated, target=target)
            case Edge(name):
                return self._state([(name, target)])
            case Sequence(nodes):
                for item in reversed(nodes):
                    target = self._compile(item, target)
                return target
            case Alternatives(nodes):
                return self._state([(None, self._compile(item, target)) for item in nodes])
            case Repeated(item, low, high):
                if high == ALL:
                    loop = self._state()
                    self._epsilon[loop] = [(None, self._compile(item, loop)), (None, target)]
                    target = loop
                else:
                    end = target
                    for _ in range(high - low):
                        target = self._state([(None, self._compile(item, target)), (None, end)])
                for _ in range(low):
                    target = self._compile(item, target)
                return target

    def _closure(self, states: set[int], at_begin: bool, at_end: bool) -> frozenset[int]:
        seen = set(states)
        waiting = list(states)
        while waiting:
            for edge, target in self._epsilon[waiting.pop()]:
                passes = edge is None or (at_begin if edge == _BEGIN else at_end)
                if passes and target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return frozenset(seen)


@lru_cache(maxsize=CACHED_PATTERNS_MAX)
def compile_regex(pattern: str) -> TopicRegex:
    """The compiled pattern. Raises InvalidRegexError."""
    return TopicRegex(pattern)
