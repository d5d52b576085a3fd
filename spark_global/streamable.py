"""Which views a stream can fill, and why it cannot fill the others."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from spark_global.catalogue.question import Question
from spark_global.catalogue.records import LATEST_PER_KEY, TOP_KEYS
from spark_global.catalogue.windows import WINDOW_QUESTIONS
from spark_global.values.declaring import Decoding
from spark_global.view_names import decoded_names, question_names, view_names
from spark_global.views import Aggregate, global_topics
from spark_global.windowing.closed_questions import CLOSED_QUESTIONS
from spark_global.windowing.closing import WindowKind

LATE_SECONDS: Final = 600
"""Default of the seconds that a window waits for late records."""


class UnknownViewError(ValueError):
    """There is no such view, or it has no rows that are final."""


class FoundView(NamedTuple):
    """What a view is made of."""

    topic: str
    question: Question | None = None
    is_decoded: bool = False
    windows: WindowKind | None = None
    """Windows that wait for datacenters; see `windowing/`."""
    closed: str | None = None
    """Name of a question that is asked of such windows."""

    @property
    def is_streamed(self) -> bool:
        """Whether an operator with a state closes the windows of its rows."""
        return self.windows is not None or self.closed == TOP_KEYS.name

    @property
    def is_direct(self) -> bool:
        """Whether the view is a stream of rows; others have their rows per batch."""
        return self.is_streamed or self.closed is None or self.question is not None


@dataclass(frozen=True, slots=True)
class StreamableViews:
    """The views of an aggregate that a stream can fill."""

    aggregate: str
    topics: Mapping[str, str]
    """Topic by view name."""
    found: Mapping[str, FoundView]

    @classmethod
    def of(cls, aggregate: Aggregate, decoding: Decoding | None = None) -> Self:
        """Ask an aggregate for its topics. Raises KafkaError, and SchemaFileError."""
        topics = view_names(global_topics(aggregate))
        return cls(aggregate.name, topics, _found(topics, decoding))

    def find(self, view: str) -> FoundView:
        """Raises UnknownViewError."""
        if view in self.found:
            return self.found[view]
        questions = question_names(self.topics)
        if view in questions:
            raise UnknownViewError(_why_no_stream(view, *questions[view], self.topics))
        near = difflib.get_close_matches(view, [*self.topics, *self.found], n=1)
        raise UnknownViewError(
            f"{self.aggregate} has no view {view} that a stream can fill"
            + (f"; did you mean {near[0]}?" if near else "")
        )


def find_view(aggregate: Aggregate, view: str, decoding: Decoding | None = None) -> FoundView:
    """Find a view that a stream can fill.

    Raises KafkaError, UnknownViewError and SchemaFileError.
    """
    return StreamableViews.of(aggregate, decoding).find(view)


def _found(topics: Mapping[str, str], decoding: Decoding | None) -> dict[str, FoundView]:
    found: dict[str, FoundView] = {}
    for name, (question, topic) in question_names(topics).items():
        if topic is None:
            continue
        if question in WINDOW_QUESTIONS:
            found[name] = FoundView(topic, windows=WindowKind(question.name))
        elif question.name in CLOSED_QUESTIONS:
            streamed = question if question.is_streamable else None
            found[name] = FoundView(topic, streamed, closed=question.name)
        elif question.is_streamable:
            found[name] = FoundView(topic, question)
    decoded = decoded_names(topics, decoding)
    found |= {name: FoundView(topic, is_decoded=True) for name, topic in decoded.items()}
    return found | {name: FoundView(topic) for name, topic in topics.items()}


def _why_no_stream(
    view: str, question: Question, topic: str | None, topics: Mapping[str, str]
) -> str:
    """Return why no table keeps a question, and what to use instead."""
    if question == LATEST_PER_KEY:
        records = next(name for name, each in topics.items() if each == topic)
        return (
            f"the rows of {view} change with every record, so it is kept by key: keep {records} "
            "with --to iceberg --upsert key"
        )
    return (
        f"{view} is asked of all records at once, so no stream can fill it; ask it by "
        "`heliograph sql`"
    )
