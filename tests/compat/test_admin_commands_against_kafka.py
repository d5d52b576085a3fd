"""The commands on one cluster, on Apache Kafka: the scenarios of our brokers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from typer.testing import Result

from local_cluster.client.admin.client_quotas import (
    QuotaChange,
    QuotaEntity,
    alter_client_quotas,
    describe_client_quotas,
)
from local_cluster.client.client import KafkaClient
from tests.support import admin_scenario, records_scenario
from tests.support.admin_scenario import Commands
from tests.support.kafka_from_maven import running_kafka
from tests.support.replicas import eventually

pytestmark = [pytest.mark.real, pytest.mark.oracle]

MARK: Final[QuotaEntity] = (("user", "mark"),)
RATE: Final = "producer_byte_rate"


@dataclass(frozen=True, slots=True)
class CommandsOnKafka(Commands):
    """After each command Kafka's broker has heard of what its controller has acknowledged."""

    marks: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        result = Commands.run(self, *arguments, stdin=stdin)
        self.with_client(self._hear)
        return result

    async def _hear(self, client: KafkaClient) -> None:
        """Wait for a change that stands in the metadata log behind all others."""
        mark = next(self.marks)
        assert await alter_client_quotas(client, [QuotaChange(MARK, RATE, mark)]) == [None]

        async def is_heard() -> bool:
            return (await describe_client_quotas(client)).get(MARK, {}).get(RATE) == mark

        await eventually(is_heard)


async def test_admin_commands_against_kafka(tmp_path: Path) -> None:
    async with running_kafka(tmp_path) as kafka:
        on = CommandsOnKafka(kafka.bootstrap)
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
