"""Changes of topic configs, and the refusals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from local_cluster.controller.decisions.config_requests import (
    ConfigChange,
    changed_configs,
    replaced_configs,
    topic_rules,
)
from local_cluster.wire.constants import AlterOperation
from local_cluster.wire.errors import ErrorCode, KafkaError

SET, DELETE = AlterOperation.SET, AlterOperation.DELETE
APPEND, SUBTRACT = AlterOperation.APPEND, AlterOperation.SUBTRACT
RULES = topic_rules({})


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (ConfigChange("segment.ms", SET, "9"), {"retention.ms": "5", "segment.ms": "9"}),
        (ConfigChange("retention.ms", SET, "6"), {"retention.ms": "6"}),
        (ConfigChange("retention.ms", DELETE, None), {}),
        (ConfigChange("segment.ms", DELETE, "whatever"), {"retention.ms": "5"}),
        (
            ConfigChange("cleanup.policy", APPEND, "compact"),
            {"retention.ms": "5", "cleanup.policy": "delete,compact"},
        ),
        (
            ConfigChange("cleanup.policy", APPEND, "delete"),
            {"retention.ms": "5", "cleanup.policy": "delete"},
        ),
    ],
)
def test_changes(change: ConfigChange, after: dict[str, str]) -> None:
    before = {"retention.ms": "5"}
    assert changed_configs(before, [change], RULES) == after
    assert before == {"retention.ms": "5"}


def test_replacing_drops_unnamed_configs() -> None:
    assert replaced_configs([ConfigChange("segment.ms", SET, "9")], RULES) == {"segment.ms": "9"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([ConfigChange("retention.ms", SET, "1")] * 2, ErrorCode.invalid_request),
        ([ConfigChange("retention.ms", SET, None)], ErrorCode.invalid_request),
        ([ConfigChange("retention.ms", 4, "1")], ErrorCode.invalid_request),
        ([ConfigChange("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
        ([ConfigChange("retention.ms", SUBTRACT, "1")], ErrorCode.invalid_config),
        ([ConfigChange("no.such", APPEND, "1")], ErrorCode.invalid_config),
        ([ConfigChange("no.such", SET, "1")], ErrorCode.invalid_config),
        ([ConfigChange("cleanup.policy", SET, "keep")], ErrorCode.invalid_config),
    ],
)
def test_refusals(changes: Sequence[ConfigChange], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        changed_configs({}, changes, RULES)
    assert refused.value.code == code
