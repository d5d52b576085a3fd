"""Every workload by its name, in the order of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.nemesis.workloads.queue import Queue
from tests.nemesis.workloads.set_full import SetFull
from tests.nemesis.workloads.workload import Workload

WORKLOADS: Final[Mapping[str, type[Workload]]] = {
    workload.name: workload for workload in (SetFull, Queue)
}
