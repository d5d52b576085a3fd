"""message.timestamp.{before,after}.max.ms: which records of a batch are refused, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from local_cluster.records.batch import Record
from local_cluster.wire.errors import ErrorCode, KafkaError


class RecordsRefusedError(KafkaError):
    """A batch that is refused for some of its records: (index, why) of each of them."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]]
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class TimestampLimits(NamedTuple):
    """message.timestamp.{before,after}.max.ms at a time; no limit where `now_ms` is None."""

    now_ms: int | None
    before_ms_max: int
    after_ms_max: int

    def excludes(self, timestamp_ms: int) -> bool:
        """Whether a record of that time is refused; one without a time never is."""
        now_ms = self.now_ms
        return (
            now_ms is not None
            and timestamp_ms >= 0
            and (
                timestamp_ms - now_ms > self.after_ms_max
                or now_ms - timestamp_ms > self.before_ms_max
            )
        )


def out_of_range(records: Sequence[Record], times: TimestampLimits) -> RecordsRefusedError:
    """The refusal of a batch, with every record whose time is out of range."""
    now_ms = times.now_ms or 0
    allowed = f"[{now_ms - times.before_ms_max}, {now_ms + times.after_ms_max}]"
    return RecordsRefusedError(
        ErrorCode.invalid_timestamp,
        "One or more records have been rejected due to invalid timestamp",
        [
            (index, f"timestamp {record.timestamp_ms} is out of range {allowed}")
            for index, record in enumerate(records)
            if times.excludes(record.timestamp_ms)
        ],
    )
