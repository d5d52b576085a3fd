"""What an offset map and a journal say about one source offset. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mirror_maker.formats import OffsetMap
from mirror_maker.formats.offset_map import TranslationState
from topology.why.facts import Fate, RecordFacts


def record_facts(
    at: tuple[str, int, int],
    target_topic: str | None,
    offsets: OffsetMap | None,
    gaps: Iterable[Mapping[str, Any]],
    findings: Iterable[Mapping[str, Any]] = (),
) -> RecordFacts:
    """Return the facts about (topic, partition, offset) of a source."""
    topic, partition, offset = at
    fate, target_offset = _fate(offsets, offset)
    gap = next((each for each in gaps if _covers(each, offset)), None)
    finding = None
    if target_offset is not None:
        for each in findings:
            if each["target_from"] <= target_offset < each["target_to"]:
                finding = f"{each['verdict']} at target offset {target_offset}: {each['detail']}"
    return RecordFacts(
        topic=topic,
        partition=partition,
        offset=offset,
        fate=fate,
        target_topic=target_topic,
        target_offset=target_offset,
        mapped_to=None if offsets is None else offsets.source_next,
        starts_at=None if offsets is None else offsets.source_start,
        gap=gap,
        finding=finding,
    )


def _fate(offsets: OffsetMap | None, offset: int) -> tuple[Fate, int | None]:
    """Return the fate of a source offset, and the target offset of its copy."""
    if offsets is None:
        return Fate.NO_MAP, None
    if offset >= offsets.source_next:
        return Fate.PENDING, None
    copied = offsets.next_mapped(offset)
    if copied is not None and copied[0] == offset:
        return Fate.COPIED, copied[1]
    state = offsets.translate(offset).state
    if state is TranslationState.PENDING:
        return Fate.TRIMMED, None
    if state is TranslationState.INEXACT:
        return Fate.UNKNOWN, None
    return (Fate.BEFORE_START if offset < offsets.source_start else Fate.LEFT_OUT), None


def _covers(gap: Mapping[str, Any], offset: int) -> bool:
    return bool(gap["source_from"] <= offset and (gap["source_to"] or offset + 1) > offset)
