"""The commands on one cluster, on Apache Kafka: the scenarios of our brokers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support import admin_scenario, records_scenario
from tests.support.admin_scenario import Commands
from tests.support.kafka_from_maven import running_kafka

pytestmark = [pytest.mark.real, pytest.mark.oracle]


async def test_admin_commands_against_kafka(tmp_path: Path) -> None:
    async with running_kafka(tmp_path) as kafka:
        on = Commands(kafka.bootstrap)
        for scenario in (
            admin_scenario.topics,
            admin_scenario.trimming,
            admin_scenario.deletion,
            admin_scenario.groups,
            admin_scenario.configs,
            admin_scenario.brokers,
        ):
            await asyncio.to_thread(scenario, on)
        await asyncio.to_thread(admin_scenario.transactions, on, admin_scenario.open_transaction)
        await asyncio.to_thread(records_scenario.records, on, tmp_path)
        await asyncio.to_thread(records_scenario.transactions, on)
