"""Regions of records: boxes of datacenters, topics, partitions, offsets and time. Pure.

A region is a promise about what may be left out: no record outside of it is needed. So each
operation here may return a larger region than asked, and never a smaller one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Self

NAMES: Final = frozenset({"datacenter", "topic", "aggregate_topic"})
"""Columns whose values are compared as names."""
NUMBERS: Final = frozenset({"partition", "offset", "aggregate_offset", "timestamp"})
"""Columns of whole numbers; a timestamp is in microseconds since 1970."""
LISTED_MAX: Final = 1_000
"""Most values of one column that a region lists, and most partitions of one option."""
_NAME_OPTIONS: Final = {
    "datacenter": "datacenters",
    "topic": "source_topics",
    "aggregate_topic": "aggregate_topics",
}
_SPAN_OPTIONS: Final = ("offset", "aggregate_offset")
_INT64_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US_PER_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Span:
    """Whole numbers [first, end); None for no bound."""

    first: int | None = None
    end: int | None = None

    def has(self, value: int) -> bool:
        return (self.first is None or value >= self.first) and (
            self.end is None or value < self.end
        )

    def meet(self, other: Self) -> Span:
        """Return the numbers of both."""
        firsts = [each for each in (self.first, other.first) if each is not None]
        ends = [each for each in (self.end, other.end) if each is not None]
        return Span(max(firsts, default=None), min(ends, default=None))

    def hull(self, other: Self) -> Span:
        """Return a span with the numbers of either, and those between them."""
        first = None if self.first is None or other.first is None else min(self.first, other.first)
        end = None if self.end is None or other.end is None else max(self.end, other.end)
        return Span(first, end)


@dataclass(frozen=True, slots=True)
class Region:
    """Conditions that a record fulfils together; a column without an entry has none.

    A null fulfils no condition.
    """

    values: Mapping[str, frozenset[str | int]] = field(default_factory=dict)
    """The only values of a column."""
    spans: Mapping[str, Span] = field(default_factory=dict)
    """The bounds of a column of `NUMBERS`."""

    @classmethod
    def listing(cls, column: str, values: frozenset[str | int]) -> Self:
        """Return the region of some values of a column."""
        listed = {column: values} if len(values) <= LISTED_MAX else {}
        numbers = [each for each in values if isinstance(each, int)]
        if column not in NUMBERS or not numbers:
            return cls(listed)
        return cls(listed, {column: Span(min(numbers), max(numbers) + 1)})

    def has(self, record: Mapping[str, str | int | None]) -> bool:
        """Return whether a record, a value by column, fulfils every condition."""
        for column, listed in self.values.items():
            if record[column] not in listed:
                return False
        for column, span in self.spans.items():
            value = record[column]
            if not isinstance(value, int) or not span.has(value):
                return False
        return True

    def meet(self, other: Region) -> Region:
        """Return the records of both regions."""
        values = {**self.values, **other.values}
        for column in self.values.keys() & other.values.keys():
            values[column] = self.values[column] & other.values[column]
        spans = {**self.spans, **other.spans}
        for column in self.spans.keys() & other.spans.keys():
            spans[column] = self.spans[column].meet(other.spans[column])
        return Region(values, spans)

    def hull(self, other: Region) -> Region:
        """Return the smallest region here with the records of either."""
        values = {
            column: self.values[column] | other.values[column]
            for column in self.values.keys() & other.values.keys()
        }
        spans = {
            column: self.spans[column].hull(other.spans[column])
            for column in self.spans.keys() & other.spans.keys()
        }
        return Region(
            {column: each for column, each in values.items() if len(each) <= LISTED_MAX},
            {column: span for column, span in spans.items() if span != Span()},
        )

    def from_earlier(self, span_us: int) -> Region:
        """Return a region that begins so much earlier, if timestamps bound it."""
        span = self.spans.get("timestamp")
        if span is None or span.first is None:
            return self
        earlier = Span(span.first - span_us, span.end)
        return Region(self.values, {**self.spans, "timestamp": earlier})

    def options(self) -> dict[str, str]:
        """Return options of a read that has every record of the region.

        What options cannot say is left out. That holds for conditions that no record fulfils, too.
        """
        found: dict[str, str] = {}
        for column, option in _NAME_OPTIONS.items():
            names = sorted(map(str, self.values.get(column, ())))
            if names and all(map(_is_listable, names)):
                found[option] = ",".join(names)
        if partitions := self._partitions():
            found["partitions"] = ",".join(map(str, partitions))
        for column in _SPAN_OPTIONS:
            span = self.spans.get(column, Span())
            # Kafka's offsets are not negative.
            if span.first is not None and span.first > 0:
                found[f"{column}_first"] = str(min(span.first, _INT64_MAX))
            if span.end is not None and 0 <= span.end <= _INT64_MAX:
                found[f"{column}_end"] = str(span.end)
        if (since := _time(self.spans.get("timestamp", Span()).first)) is not None:
            found["timestamp_first"] = since
        return found

    def _partitions(self) -> list[int]:
        span = self.spans.get("partition", Span())
        listed = self.values.get("partition")
        if listed is not None:
            return sorted(each for each in listed if isinstance(each, int) and span.has(each))
        first = max(0, span.first or 0)
        if span.end is None or span.end - first > LISTED_MAX:
            return []
        return list(range(first, span.end))


def _is_listable(name: str) -> bool:
    """Return whether a list with commas brings a name back as it is."""
    return bool(name) and "," not in name and name == name.strip()


def _time(first_us: int | None) -> str | None:
    """Return the whole millisecond of a first timestamp in ISO 8601; None if there is no bound.

    Brokers look up times from 0 on only, and a record without a time has -1.
    """
    if first_us is None or first_us < _US_PER_MS:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=first_us // _US_PER_MS)).isoformat()
    except OverflowError:
        return None
