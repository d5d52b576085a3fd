"""The troubles that can stop one partition, and a link's policy for each. Pure.

    fail     FAILED until a worker restarts or an operator asks for a retry
    pause    PAUSED; retried after growing, bounded pauses, or when an operator asks
    skip     the journal gets an entry for the gap, then copying continues after it

Every policy stops only this partition. Some troubles cannot be skipped because there is no offset
to continue from: the target's log contradicts the map, or the mirror has a defect.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from pydantic import ConfigDict

from local_cluster.wire.errors import ErrorCode

Policy = Literal["fail", "pause", "skip"]
Halt = Literal["fail", "pause"]


class Trouble(StrEnum):
    """Why a partition is stopped, as `/status`, the metrics and the journal name it."""

    OUT_OF_RANGE = "out_of_range"
    """The source's retention took records before they were copied."""
    TRUNCATED = "truncated"
    """The source's log was truncated below what was copied."""
    RECREATED = "recreated"
    """The source topic was deleted and re-created."""
    CORRUPT = "corrupt"
    """A source batch fails its CRC, or has a format that cannot be copied."""
    TOO_LARGE = "too_large"
    """A single record is larger than the target accepts. A larger batch is only split."""
    UNSUPPORTED_CODEC = "unsupported_codec"
    """The target refuses the codec of a batch."""
    TIMESTAMP = "timestamp"
    """The target refuses the timestamp of a record."""
    REJECTED = "rejected"
    """The target refuses a record for another reason (a policy, an invalid record)."""
    UNAUTHORIZED = "unauthorized"
    """The mirror may not read the source or not write to the target."""
    FOREIGN = "foreign"
    """A copy that is not shared holds records that the link did not write."""
    TARGET = "target"
    """The target's log contradicts the map: it lost records, or has other records or timestamps."""
    INTERNAL = "internal"
    """A defect of the mirror."""


REFUSALS: Final = {
    ErrorCode.corrupt_message: Trouble.REJECTED,
    ErrorCode.message_too_large: Trouble.TOO_LARGE,
    ErrorCode.record_list_too_large: Trouble.TOO_LARGE,
    ErrorCode.invalid_record: Trouble.REJECTED,
    ErrorCode.invalid_timestamp: Trouble.TIMESTAMP,
    ErrorCode.unsupported_compression_type: Trouble.UNSUPPORTED_CODEC,
    ErrorCode.unsupported_for_message_format: Trouble.REJECTED,
    ErrorCode.policy_violation: Trouble.REJECTED,
}
"""Refusals of the batch itself: the same bytes would be refused again."""

UNAUTHORIZED: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.sasl_authentication_failed,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What a partition does in each trouble; the other partitions of the link continue. `fail`
    waits for an operator. `pause` retries by itself. `skip` continues after the gap and records it
    in the link's journal topic.
    """

    # The default is `pause` for what an operator can repair without a loss (a limit of the target,
    # a right). Everything else fails until an operator decides.
    __pydantic_config__ = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    out_of_range: Policy = "fail"
    """Retention at the source deleted records before they were copied."""
    truncated: Policy = "fail"
    """The source's log was truncated below the copied offsets."""
    recreated: Policy = "fail"
    """The source topic was deleted and re-created; `skip` continues with the new topic."""
    corrupt: Policy = "fail"
    """A source batch fails its CRC, or has a format that cannot be copied."""
    too_large: Policy = "pause"
    """A single record exceeds the target's limit. Batches above the limit are split."""
    unsupported_codec: Policy = "pause"
    """The target refuses the codec of a batch."""
    timestamp: Policy = "pause"
    """The target refuses the timestamp of a record."""
    rejected: Policy = "pause"
    """The target refuses a record for another reason of its own."""
    unauthorized: Halt = "pause"
    """The mirror may not read the source, or may not write to the target."""
    foreign: Policy = "fail"
    """Another producer wrote into a copy that belongs to the link alone; `skip` leaves the records
    there and continues."""
    target: Halt = "fail"
    """The target's log contradicts the offset map: records are missing or differ."""

    def of(self, trouble: Trouble) -> Policy:
        """Return the policy for a trouble. A defect of the mirror always fails."""
        if trouble is Trouble.INTERNAL:
            return "fail"
        policy: Policy = getattr(self, trouble.value)
        return policy
