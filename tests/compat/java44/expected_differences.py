"""Where a Java client of Kafka 4.4 sees a difference, and why: the only ones that pass.

Patterns of paths: the scenario, then keys and indexes. The tests fail if one no longer occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NO_KRAFT: Final = "not advertised: KRaft is a non-goal, ZooKeeper holds the cluster"
NO_FEATURE_UPDATES: Final = "not advertised: the levels of features are fixed"
NO_SHARES: Final = "not advertised: share groups are a non-goal"
NO_STREAMS: Final = "not advertised: groups of the streams protocol; Streams falls back to classic"
NO_TOKENS: Final = "not advertised: delegation tokens are a non-goal"

EXPECTED: Final[Mapping[str, str]] = {
    "broker-unregistered": "not advertised: a broker that is away leaves with its session",
    "features-of-kraft/*": NO_KRAFT,
    "features-updated": NO_FEATURE_UPDATES,
    "quorum-*": NO_KRAFT,
    "share-group-offsets-listed": NO_SHARES,
    "share-groups-*": NO_SHARES,
    "streams-groups-*": NO_STREAMS,
    "tokens-refused/*": NO_TOKENS,
}
"""By path of the difference."""
