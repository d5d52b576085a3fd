"""Every workload by its name, in the order of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.nemesis.workloads.admin_churn import AdminChurn
from tests.nemesis.workloads.compaction import Compaction
from tests.nemesis.workloads.etl import Etl
from tests.nemesis.workloads.java_producer import JavaProducer
from tests.nemesis.workloads.judged_mirrors import (
    MirrorCompacted,
    MirrorDisturbed,
    MirrorFlows,
    MirrorMerged,
    MirrorWorkers,
)
from tests.nemesis.workloads.librdkafka import Librdkafka
from tests.nemesis.workloads.list_append import ListAppend
from tests.nemesis.workloads.list_offsets import ListOffsets
from tests.nemesis.workloads.mirror import Mirror
from tests.nemesis.workloads.offsets import Offsets
from tests.nemesis.workloads.queue import Queue
from tests.nemesis.workloads.retention import Retention
from tests.nemesis.workloads.rights_churn import RightsChurn
from tests.nemesis.workloads.set_full import SetFull
from tests.nemesis.workloads.workload import Workload

WORKLOADS: Final[Mapping[str, type[Workload]]] = {
    workload.name: workload
    for workload in (
        SetFull,
        Queue,
        ListAppend,
        Offsets,
        Etl,
        JavaProducer,
        Librdkafka,
        Compaction,
        Retention,
        ListOffsets,
        AdminChurn,
        RightsChurn,
        Mirror,
        MirrorMerged,
        MirrorWorkers,
        MirrorFlows,
        MirrorCompacted,
        MirrorDisturbed,
    )
}
