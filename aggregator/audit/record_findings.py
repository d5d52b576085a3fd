"""The findings of an audit record by record: counts by verdict, faults, reasons. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from local_cluster.records.batch import Record
from mirror_maker.formats.verdicts import FAULTS, Verdict

FAULTS_KEPT_MAX: Final = 1_000
"""Most faults of one partition that are kept with their records; all faults are counted."""


class RecordFault(NamedTuple):
    """A record with a fault; offsets and records of a side without it are None."""

    verdict: Verdict
    source_offset: int | None
    target_offset: int | None
    detail: str
    original: Record | None
    copy: Record | None


class RecordFindings:
    """The findings of one partition."""

    def __init__(self) -> None:
        self.counts: dict[Verdict, int] = {}
        self.faults: list[RecordFault] = []
        self.unverified: dict[str, int] = {}
        """Records that were not compared, by reason."""

    @property
    def has_faults(self) -> bool:
        return any(verdict in FAULTS for verdict in self.counts)

    def count(self, verdict: Verdict, records: int = 1) -> None:
        self.counts[verdict] = self.counts.get(verdict, 0) + records

    def add_unverified(self, reason: str) -> None:
        self.count(Verdict.UNVERIFIED)
        self.unverified[reason] = self.unverified.get(reason, 0) + 1

    def add_fault(
        self,
        verdict: Verdict,
        detail: str,
        original: Record | None,
        copy: Record | None,
        *,
        source_offset: int | None = None,
        target_offset: int | None = None,
    ) -> None:
        """Add a fault. The offsets are for sides whose record is None."""
        self.count(verdict)
        if len(self.faults) < FAULTS_KEPT_MAX:
            self.faults.append(
                RecordFault(
                    verdict,
                    original.offset if original is not None else source_offset,
                    copy.offset if copy is not None else target_offset,
                    detail,
                    original,
                    copy,
                )
            )
