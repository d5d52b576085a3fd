"""What ApiVersions advertises, ours against Apache Kafka 4.4's own answer.

Nothing of ours goes beyond Kafka's, and what we lack stands in a table with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.handlers.cluster.p18_api_versions import TELEMETRY
from local_cluster.handlers.registry import advertised_apis
from local_cluster.wire.api import ApiKey
from tests.compat.same_answers.asking import Ask, Side, converse
from tests.support.kafka_from_maven import running_kafka

pytestmark = [pytest.mark.real, pytest.mark.oracle]

NO_TOKENS = "delegation tokens are a non-goal (README)"
NO_SHARES = "share groups are a non-goal (README)"
NO_STREAMS = "groups of the streams protocol are not there; Kafka Streams falls back to classic"
NO_KRAFT = "KRaft is a non-goal (README): ZooKeeper holds the cluster"

NOT_SERVED: Final[Mapping[int, str]] = {
    38: NO_TOKENS,
    39: NO_TOKENS,
    40: NO_TOKENS,
    41: NO_TOKENS,
    55: NO_KRAFT,
    57: "the levels of features are fixed (local_cluster/features.py)",
    64: "a broker that is away is forgotten with its ZooKeeper session",
    **dict.fromkeys((76, 77, 78, 79), NO_SHARES),
    **dict.fromkeys((80, 81), NO_KRAFT),
    **dict.fromkeys((83, 84, 85, 86, 87), NO_SHARES),
    **dict.fromkeys((88, 89), NO_STREAMS),
    **dict.fromkeys((90, 91, 92), NO_SHARES),
    93: NO_STREAMS,
    94: NO_KRAFT,
}
"""API keys of Kafka 4.4 that we do not advertise at all."""

LOWER: Final[Mapping[int, tuple[int, str]]] = {}
"""API keys whose newest version here is an older one: (ours, why)."""

HIGHER: Final[Mapping[int, tuple[int, str]]] = {
    17: (1, "raw messages without a header follow SaslHandshake v0"),
}
"""API keys whose oldest version here is a newer one: (ours, why)."""


async def kafkas_versions(directory: Path) -> dict[int, tuple[int, int]]:
    async with running_kafka(directory) as kafka:
        side = Side("Kafka", "127.0.0.1", kafka.port)
        fields = {"client_software_name": "asking", "client_software_version": "1"}
        (answer,) = await converse(side, [Ask(ApiKey.API_VERSIONS, 4, fields)])
    return {api["api_key"]: (api["min_version"], api["max_version"]) for api in answer["api_keys"]}


async def test_what_is_advertised_is_kafkas(tmp_path: Path) -> None:
    kafkas = await kafkas_versions(tmp_path)
    # Neither has a receiver of client metrics here.
    ours = {
        int(api.api_key): (api.advertised_min_version, api.max_version)
        for api in advertised_apis()
        if api.api_key not in TELEMETRY
    }
    expected = {
        key: (
            HIGHER[key][0] if key in HIGHER else oldest,
            LOWER[key][0] if key in LOWER else newest,
        )
        for key, (oldest, newest) in kafkas.items()
        if key not in NOT_SERVED
    }
    assert ours == expected
    assert NOT_SERVED.keys() <= kafkas.keys(), "Kafka does not have it either"
