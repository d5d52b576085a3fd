"""AlterConfigs and IncrementalAlterConfigs of a broker's loggers."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from local_cluster.handlers.configs.p33_alter_configs import alter_configs
from local_cluster.handlers.configs.p44_incremental_alter_configs import incremental_alter_configs
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import AlterOperation, ConfigResourceType
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.handlers.admin_broker import Broker, ask

LOGGER = "local_cluster.test_alter_configs"


def logger_request(**config: Any) -> dict[str, Any]:
    logging.getLogger(LOGGER).setLevel(logging.NOTSET)
    resource = {
        "resource_type": ConfigResourceType.BROKER_LOGGER,
        "resource_name": "1",
        "configs": [{"name": LOGGER, "value": "DEBUG", **config}],
    }
    return {"resources": [resource], "validate_only": False}


@pytest.mark.parametrize("version", range(3))
async def test_alter_configs_refuses_loggers(broker: Broker, version: int) -> None:
    """Kafka's ConfigAdminManager: AlterConfigs does not know the resource type BROKER_LOGGER."""
    fields = logger_request()
    response = await ask(alter_configs, ApiKey.ALTER_CONFIGS, version, broker, fields)
    (result,) = response.responses
    assert result.error_code is ErrorCode.invalid_request
    assert result.error_message == "Unknown resource type 8"
    assert logging.getLogger(LOGGER).level == logging.NOTSET


@pytest.mark.parametrize("version", range(2))
async def test_incremental_alter_configs_sets_levels(broker: Broker, version: int) -> None:
    fields = logger_request(config_operation=AlterOperation.SET)
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    response = await ask(incremental_alter_configs, api, version, broker, fields)
    (result,) = response.responses
    assert result.error_code is ErrorCode.none
    assert logging.getLogger(LOGGER).level == logging.DEBUG


async def test_the_words_of_refused_levels(broker: Broker) -> None:
    words = {
        (AlterOperation.APPEND, "INFO"): "APPEND operation is not allowed for the BROKER_LOGGER",
        (AlterOperation.SET, "LOUD"): "levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
    }
    for (operation, level), message in words.items():
        fields = logger_request(config_operation=operation, value=level)
        api = ApiKey.INCREMENTAL_ALTER_CONFIGS
        response = await ask(incremental_alter_configs, api, 1, broker, fields)
        (result,) = response.responses
        assert message in result.error_message


async def test_a_change_is_logged_with_its_principal(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    fields = logger_request(config_operation=AlterOperation.SET)
    await ask(incremental_alter_configs, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, broker, fields)
    (line,) = [each for each in caplog.messages if LOGGER in each]
    assert "-> DEBUG, set by User:" in line


async def test_the_level_of_a_package_counts_for_its_modules(broker: Broker) -> None:
    fields = logger_request(config_operation=AlterOperation.SET, name=f"{LOGGER}.package")
    module = logging.getLogger(f"{LOGGER}.package.module")
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    (result,) = (await ask(incremental_alter_configs, api, 1, broker, fields)).responses
    assert result.error_code is ErrorCode.none
    assert module.isEnabledFor(logging.DEBUG)
