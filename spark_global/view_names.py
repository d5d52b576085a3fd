"""The names of views, and which of them a query mentions.

`global_<topic>`, `decoded_<topic>` and `rejects_<topic>` belong to a topic, as
`global_<topic>_<question>` does. `heliograph_<table>` belongs to none.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_maker.formats.mm2 import HEARTBEATS_TOPIC
from spark_global.catalogue.offsets import HEARTBEAT_MATRIX, OFFSET_QUESTIONS
from spark_global.catalogue.question import Question
from spark_global.catalogue.records import RECORD_QUESTIONS
from spark_global.catalogue.windows import WINDOW_QUESTIONS
from spark_global.cut.offsets import CutRefusedError
from spark_global.source.tables import (
    AUDIT_TABLE,
    COMPLETENESS_TABLE,
    END_OFFSETS_TABLE,
    GROUPS_TABLE,
    JOURNAL_TABLE,
    LAG_TABLE,
    OFFSET_MAP_TABLE,
    PROGRESS_TABLE,
    RECORDS_TABLE,
    SOURCE_END_OFFSETS_TABLE,
    TOPIC_CONFIGS_TABLE,
)
from spark_global.values.declaring import Decoding
from spark_global.values.not_decodable import SchemaFileError

VIEW_PREFIX: Final = "global_"
DECODED_PREFIX: Final = "decoded_"
REJECTS_PREFIX: Final = "rejects_"
BOOKKEEPING_VIEWS: Final[Mapping[str, str]] = {
    "heliograph_offset_map": OFFSET_MAP_TABLE,
    "heliograph_end_offsets": END_OFFSETS_TABLE,
    "heliograph_source_end_offsets": SOURCE_END_OFFSETS_TABLE,
    "heliograph_groups": GROUPS_TABLE,
    "heliograph_lag": LAG_TABLE,
    "heliograph_topic_configs": TOPIC_CONFIGS_TABLE,
    "heliograph_completeness": COMPLETENESS_TABLE,
    "heliograph_audit": AUDIT_TABLE,
    "heliograph_journal": JOURNAL_TABLE,
    "heliograph_progress": PROGRESS_TABLE,
}
"""The tables of the views that belong to no topic."""
_HAVE_A_PAST: Final = frozenset({RECORDS_TABLE, JOURNAL_TABLE})


def view_names(topics: Iterable[str]) -> dict[str, str]:
    """Return topic by view name. Topics with the same view name get a number at the end."""
    names: dict[str, str] = {}
    for topic in sorted(topics):
        plain = VIEW_PREFIX + re.sub(r"\W", "_", topic.lower())
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}_{number}"
        names[name] = topic
    return names


def question_names(topics: Mapping[str, str]) -> dict[str, tuple[Question, str | None]]:
    """Return question and topic by view name; `topics` has the topic by view name.

    `global_flights_conflicts` is the question `conflicts` of the topic `flights`. A topic's own
    view has precedence.
    """
    of_topics: dict[str, tuple[Question, str | None]] = {
        f"{view}_{question.name}": (question, topic)
        for view, topic in topics.items()
        for question in (*RECORD_QUESTIONS, *WINDOW_QUESTIONS)
    }
    of_offsets: dict[str, tuple[Question, str | None]] = {
        f"heliograph_{question.name}": (question, None) for question in OFFSET_QUESTIONS
    }
    of_offsets[f"heliograph_{HEARTBEAT_MATRIX.name}"] = HEARTBEAT_MATRIX, HEARTBEATS_TOPIC
    every = of_topics | of_offsets
    return {name: asked for name, asked in every.items() if name not in topics}


def decoded_names(topics: Mapping[str, str], decoding: Decoding | None) -> dict[str, str]:
    """Return topic by view name of what is decoded; `topics` has the topic by view name.

    Raises SchemaFileError if the decoding has a topic that the aggregate does not have.
    """
    wanted = {} if decoding is None else decoding.topics
    if unknown := sorted(wanted.keys() - set(topics.values())):
        near = difflib.get_close_matches(unknown[0], topics.values(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise SchemaFileError(f"the topic {unknown[0]} to decode has no mirror here{hint}")
    return {
        prefix + view.removeprefix(VIEW_PREFIX): topic
        for view, topic in topics.items()
        if topic in wanted
        for prefix in (DECODED_PREFIX, REJECTS_PREFIX)
    }


@dataclass(frozen=True, slots=True)
class Mentioned:
    """The views to create, and what views there are."""

    wanted: list[str]
    topics: Mapping[str, str]
    questions: Mapping[str, tuple[Question, str | None]]
    decoded: Mapping[str, str]
    decoding: Decoding | None
    is_by_name: bool
    """Whether the query mentions them; otherwise all views are created."""


def mention(
    source_topics: Iterable[str], query: str, decoding: Decoding | None, *, has_past: bool
) -> Mentioned:
    """Return the views to create for a query over the topics of an aggregate.

    Raises SchemaFileError as `decoded_names`, and CutRefusedError if a view has no past.
    """
    topics = view_names(source_topics)
    questions = question_names(topics)
    decoded = decoded_names(topics, decoding)
    words = set(re.findall(r"\w+", query.lower()))
    plain = [*topics, *decoded, *BOOKKEEPING_VIEWS]
    named = [name for name in (*plain, *questions) if name in words]
    wanted = named or plain
    if has_past:
        of_records = {*topics, *decoded}
        wanted = [name for name in wanted if name in words or name in of_records]
        _check_past(wanted, of_records, questions)
    return Mentioned(wanted, topics, questions, decoded, decoding, bool(named))


def _check_past(
    wanted: Iterable[str],
    of_topics: Iterable[str],
    questions: Mapping[str, tuple[Question, str | None]],
) -> None:
    """Raise CutRefusedError if a view is not of the records of a topic."""
    for name in wanted:
        # An entry of the journal is about offsets, so it holds in every cut.
        of_records = name in questions and set(questions[name][0].inputs) <= _HAVE_A_PAST
        if name not in of_topics and not of_records:
            raise CutRefusedError(
                f"{name} has no past: only the views {VIEW_PREFIX}<topic> answer as of a time"
            )
