"""A batch with a log cleaner's delete horizon is copied as bytes: its bit is cleared, the horizon
stays as its base timestamp, and the target refuses it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from local_cluster.records import header as h
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.planted.fault import PlantedFault


def _copy_bytes(module: ModuleType) -> None:
    path_type: Any = module.CopyPath

    def path(header: h.BatchHeader, source_first: int) -> Any:
        if source_first > header.base_offset:
            return path_type.STRADDLES_START
        if header.is_log_append_time:
            return path_type.LOG_APPEND_TIME
        if header.records_count != header.last_offset_delta + 1:
            return path_type.HOLES
        return path_type.PASSTHROUGH

    vars(module)["_path"] = path


def _refuse(module: ModuleType) -> None:
    check: Any = module.check_produced

    def check_produced(*arguments: Any, **options: Any) -> Any:
        headers = check(*arguments, **options)
        for header in headers:
            if header.max_timestamp < header.base_timestamp:
                raise KafkaError(
                    ErrorCode.invalid_timestamp,
                    f"largest timestamp {header.max_timestamp} lies before the first,"
                    f" {header.base_timestamp}",
                )
        return headers

    vars(module)["check_produced"] = check_produced


FAULT = PlantedFault(
    "a batch with a delete horizon is copied with the horizon as its base timestamp",
    {
        "mirror_maker.copy.batch_selection": _copy_bytes,
        "local_cluster.log.partition.batch_checks": _refuse,
    },
)
