"""Where the responses to askers without rights differ from Kafka 4.4's, and why."""

from __future__ import annotations

from typing import Final

from tests.compat.same_answers.case import Deviation

RIGHTS_DEVIATIONS: Final = (
    Deviation(
        "FETCH v* 1 (*: */partitions/0/*",
        "who may act as a broker, and names a replica that does not exist, gets UNKNOWN_TOPIC_ID "
        "or UNKNOWN_TOPIC_OR_PARTITION; Kafka says NOT_LEADER_OR_FOLLOWER",
    ),
)
