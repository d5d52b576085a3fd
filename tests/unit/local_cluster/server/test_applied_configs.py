"""What the log says of configs that change at run time."""

from __future__ import annotations

import logging

import pytest

from local_cluster.controller.member.current_configs import CurrentConfigs
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.server.applied_configs import AppliedConfigs
from tests.unit.local_cluster.controller.samples import SETTINGS

RETENTION = "log.retention.ms"
PASSWORD = "listener.name.l.ssl.keystore.password"
CHANGED = Changes(broker_configs=True)


def test_each_change_is_logged_once_and_no_value_that_is_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    metadata = MetadataCache(1)
    applied = AppliedConfigs(CurrentConfigs(SETTINGS, metadata), metadata, ())
    metadata.broker_configs = {
        "1": {RETENTION: "5", PASSWORD: "hush"},
        "2": {"log.roll.ms": "7"},
        "<default>": {"log.roll.ms": "soon"},
    }
    applied.apply(CHANGED)
    applied.apply(CHANGED)
    metadata.broker_configs = {"1": {PASSWORD: "hush"}}
    applied.apply(CHANGED)
    assert [record.getMessage() for record in caplog.records] == [
        f"{RETENTION} is 5, was the default",
        f"ZooKeeper has dynamic configs that this broker cannot use: {PASSWORD}, log.roll.ms",
        f"{RETENTION} is the default, was 5",
    ]
