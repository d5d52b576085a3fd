"""The configs of client metrics subscriptions (KIP-714): which values are valid. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.wire.errors import ErrorCode, KafkaError

INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
NO_EFFECT: Final = "heliograph.client.metrics.enable is false"
_MATCHED: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Raise KafkaError: invalid_request for an unknown name or interval, else invalid_config."""
    known = kafka_configs("client_metrics")
    for name, value in configs.items():
        if name not in known:
            raise KafkaError(
                ErrorCode.invalid_request, f"Unknown client metrics configuration: {name}"
            )
        known[name].require(value, name)
    interval = configs.get("interval.ms")
    if interval is not None and not INTERVAL_MS_MIN <= int(interval) <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Invalid value {interval} for interval.ms, interval must be between "
            f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)",
        )
    for pattern in filter(None, configs.get("match", "").split(",")):
        name, _, regex = pattern.strip().partition("=")
        if name.strip() not in _MATCHED or not _is_regex(regex.strip()):
            raise KafkaError(
                ErrorCode.invalid_config, f"Illegal client matching pattern: {pattern.strip()}"
            )


def _is_regex(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return bool(pattern)
