"""The mirror ignores records of others in its copy, and so does the audit.

The audit then compares only what the mirror wrote itself.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.planted.fault import PlantedFault


def _copy_on(module: ModuleType) -> None:
    def on_foreign(self: Any, target_from: int, target_to: int) -> None:
        """Report nothing."""

    module.CopySession._on_foreign = on_foreign


def _resume_on(module: ModuleType) -> None:
    async def settle_foreign(*arguments: Any) -> None:
        """Report nothing."""

    vars(module)["settle_foreign"] = settle_foreign


def _count_ours(module: ModuleType) -> None:
    judge: Any = module.LogCheck._judge_unexpected

    def judge_unexpected(self: Any, batch: Any, expected: Any) -> Any:
        if batch.header.producer_id != self._producer_id:
            return self._pass(batch)
        return judge(self, batch, expected)

    module.LogCheck._judge_unexpected = judge_unexpected


FAULT = PlantedFault(
    "foreign records in a copy are passed over by the mirror and by its audit",
    {
        "mirror_maker.flow.copy_session": _copy_on,
        "mirror_maker.resume.foreign_records": _resume_on,
        "mirror_maker.audit.log_check": _count_ours,
    },
)
