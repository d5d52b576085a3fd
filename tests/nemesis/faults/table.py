"""Every fault by its name, in the order of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.nemesis.faults import clocks, coordination, disks, partitions, processes, versions
from tests.nemesis.faults.fault import Fault


async def _nothing(_: object) -> None:
    return


NONE: Final = Fault(
    name="none", title="no fault", inject=_nothing, hold_seconds=3.0, is_mixed=False
)

FAULTS: Final[Mapping[str, Fault]] = {
    fault.name: fault
    for fault in (
        NONE,
        *processes.FAULTS,
        *partitions.FAULTS,
        *coordination.FAULTS,
        *clocks.FAULTS,
        *disks.FAULTS,
        *versions.FAULTS,
    )
}
