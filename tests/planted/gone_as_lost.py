"""Copies that a killed worker had not mapped, and whose source is gone, are journalled as lost."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.planted.fault import PlantedFault


def _change(module: ModuleType) -> None:
    align: Any = module.align

    async def align_what_is_left(context: Any, base: Any, tail: Any, source: Any, gaps: Any) -> Any:
        aligned = await align(context, base, tail, source, gaps)
        begins_at = await context.source_logs.first(source)
        left = tuple(each for each in aligned.pieces if _source_to(each) > begins_at)
        gone = [each for each in aligned.pieces if _source_to(each) <= begins_at]
        if not gone:
            return aligned
        return aligned._replace(pieces=left, lost=(gaps.behind(base.source_next), begins_at))

    vars(module)["align"] = align_what_is_left


def _source_to(piece: Any) -> int:
    return int(getattr(piece, "source_to", None) or piece.source_next)


FAULT = PlantedFault(
    "copies of records that the source lost before they were mapped are journalled as lost",
    {"mirror_maker.resume.prove": _change},
)
