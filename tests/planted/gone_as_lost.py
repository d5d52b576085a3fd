"""Copies that a killed worker had not mapped, and whose source is gone, are journalled as lost."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.planted.fault import PlantedFault


def _change(module: ModuleType) -> None:
    align: Any = module.align

    async def align_what_is_left(source: Any, base: Any, tail: Any, gaps: Any, clock: Any) -> Any:
        aligned = await align(source, base, tail, gaps, clock)
        begins_at = await source.first()
        left = tuple(each for each in aligned.pieces if _source_to(each) > begins_at)
        gone = [each for each in aligned.pieces if _source_to(each) <= begins_at]
        if not gone:
            return aligned
        return aligned._replace(pieces=left, lost=(gaps.first_outside(base.source_next), begins_at))

    vars(module)["align"] = align_what_is_left


def _source_to(piece: Any) -> int:
    return int(getattr(piece, "source_to", None) or piece.source_next)


FAULT = PlantedFault(
    "copies of records that the source lost before they were mapped are journalled as lost",
    {"mirror_maker.resume.tail_places": _change},
)
