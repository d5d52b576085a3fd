"""docs/operations/secure-a-running-cluster.md as it is written, forth and back under load."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import connect
from local_cluster.client.model import NewTopic
from local_cluster.client.reader import read_topic
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.support.authority import Authority
from tests.support.heliograph_command import HeliographCommand, pids
from tests.support.killed_up import kill_up_after_the_first_broker
from tests.support.posing_broker import act_as_broker
from tests.support.quiet_ports import quiet_ports
from tests.support.replicas import all_in_sync, eventually
from tests.support.running_chapter import texts
from tests.support.steady_clients import SteadyConsumer, SteadyLibrdkafka, SteadyProducer

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

USERS: Final = ("broker", "admin", "mirror", "app")
ENDED: Final = re.compile(r"broker \d of jfk ended")
TOPIC: Final = "flights"
PARTITIONS: Final = 3
REFUSED: Final = {ErrorCode.cluster_authorization_failed}
BROKERS: Final = {f"broker-jfk-{number}" for number in (1, 2, 3)}
SERVICES: Final = {"mirror-nyc", "aggregator-nyc"}
CONNECT_TIMEOUT_MS: Final = 20_000


class Running(HeliographCommand):
    """The deployment of the chapter, on ports of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        authority = Authority(directory / "ca")
        (directory / "secrets").mkdir(mode=0o700)
        (directory / "ca.pem").write_bytes(authority.ca_file.read_bytes())
        pem = directory / "secrets" / "broker.pem"
        pem.write_bytes(authority.issue("broker").pem.read_bytes())
        for user in USERS:
            (directory / "secrets" / user).write_text(f"secret-of-{user}\n")
        self.directory = directory
        ports = quiet_ports(8)
        self.phases = texts(ports)
        self.plain, self.secure = (
            ",".join(f"127.0.0.1:{port}" for port in group) for group in (ports[1:4], ports[4:7])
        )
        self.aggregate = f"127.0.0.1:{ports[7]}"

    def declare(self, phase: int) -> None:
        """Write the file of a phase."""
        self.file.write_text(self.phases[phase])

    def security(self, user: str) -> ClientSecurity:
        return ClientSecurity(
            protocol="SASL_SSL",
            mechanism="SCRAM-SHA-512",
            username=user,
            password=Secret(file=str(self.directory / "secrets" / user)),
            ca_file=str(self.directory / "ca.pem"),
        )

    async def roll(self, phase: int) -> set[str]:
        """Apply a phase; return the daemons that restarted."""
        before = pids(await asyncio.to_thread(self.document, "status"))
        self.declare(phase)
        after = pids(await asyncio.to_thread(self.up))
        return {key for key in after if after[key] != before.get(key)}

    async def half_roll(self, phase: int) -> None:
        """Apply a phase, but kill `up` when the first broker has ended."""
        self.declare(phase)
        await kill_up_after_the_first_broker(self, ENDED)

    def refused(self, phase: int) -> str:
        """Return why `up` refuses a phase; it changes nothing then, and `plan` says the same."""
        before = pids(self.document("status"))
        self.declare(phase)
        said = self.complain("up", str(self.file))
        planned = self.run("plan", str(self.file), "--exit-code", code=1)
        (first, *_) = planned["refusals"]
        assert said == "\n".join([f"heliograph: {first['reason']}", *first["details"], ""])
        assert "nothing was changed" in said
        assert pids(self.document("status")) == before
        return said

    async def poses(self, security: ClientSecurity = PLAINTEXT) -> set[int]:
        """Return the errors of a client that acts as a broker, towards every broker."""
        servers = self.plain if security is PLAINTEXT else self.secure
        found: set[int] = set()
        for server in servers.split(","):
            connection = await connect(
                "127.0.0.1",
                int(server.rpartition(":")[2]),
                client_id="poses",
                timeout_ms=CONNECT_TIMEOUT_MS,
                security=security,
            )
            found |= {*await act_as_broker(connection)}
        return found


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    command = Running(tmp_path)
    yield command
    if command.state_dir.exists():
        await asyncio.to_thread(command.run, "down", "--purge")


class Load:
    """Producers and a consumer: aiokafka on the plain listener, librdkafka on the secure one."""

    def __init__(self, command: Running) -> None:
        self._command = command
        self.plain = SteadyProducer(TOPIC, 0)
        self.secure = SteadyLibrdkafka(TOPIC, 1)
        self.reader = SteadyConsumer(TOPIC, "app-reader")

    async def start_plain(self, *, secured: bool = False) -> None:
        """Start aiokafka; if `secured`, it has moved to the secure listener."""
        command = self._command
        at = command.secure if secured else command.plain
        security = command.security("app") if secured else PLAINTEXT
        await self.plain.start(at, security)
        await self.reader.start(at, security)

    async def stop_plain(self) -> None:
        await self.plain.stop()
        await self.reader.stop()

    def start_secure(self) -> None:
        self.secure.start(self._command.secure, self._command.security("app"))

    async def advance(self) -> None:
        await self.plain.advance()
        if self.secure.is_running:
            await self.secure.advance()

    async def finish(self) -> list[list[bytes]]:
        """Check that no request failed, and that no record is lost or there twice.

        Return the records of both producers.
        """
        await self.plain.stop()
        await self.secure.stop()
        assert self.secure.failures == []
        expected = [self.plain.acknowledged, self.secure.acknowledged]
        await eventually(lambda: sum(map(len, self.read())) >= sum(map(len, expected)))
        await self.reader.stop()
        assert self.read() == expected
        async with KafkaClient(self._command.plain) as client:
            assert [await records(client, TOPIC, index) for index in (0, 1)] == expected
        return expected

    def read(self) -> list[list[bytes]]:
        """Return what the group has read of both producers, in the order of offsets."""
        values = sorted(self.reader.values.items())
        return [[value for (at, _), value in values if at == index] for index in (0, 1)]


async def records(client: KafkaClient, topic: str, partition: int) -> list[bytes | None]:
    return [each.value async for each in read_topic(client, topic, partition=partition)]


def transact(bootstrap: str, transactional_id: str) -> None:
    """Commit a transaction over all partitions: every leader gets markers."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(transactional_id, b"t", partition=partition)
    producer.commit_transaction(60)


async def create_topic(client: KafkaClient, name: str, factor: int) -> None:
    topic = NewTopic(name=name, partitions=PARTITIONS, replication_factor=factor)
    assert (await client.create_topics([topic]))[name] is None


async def brokers_work_together(command: Running, load: Load, name: str, factor: int) -> None:
    """Brokers of two phases replicate, elect, create topics and write transaction markers."""
    async with KafkaClient(command.plain) as client:
        await create_topic(client, name, factor)
        await load.advance()
        await asyncio.to_thread(transact, command.plain, name)
        for topic in (TOPIC, name):
            await eventually(partial(all_in_sync, client, topic))


@pytest.mark.timeout(300)
async def test_two_brokers_move_and_come_back_under_load(running: Running) -> None:
    """Phases 1 to 3 alone."""
    for phase, text in enumerate(running.phases):
        few = re.sub(r"      - \{id: 3, .*\n", "", text.partition("  - name: nyc\n")[0])
        two = "{replication_factor: 2}"
        running.phases[phase] = re.sub(r"\{replication_factor: 3, .*\}", two, few)
    running.plain, running.secure = (
        at.rpartition(",")[0] for at in (running.plain, running.secure)
    )
    running.declare(1)
    await asyncio.to_thread(running.up)
    async with KafkaClient(running.plain) as client:
        await create_topic(client, TOPIC, 2)
    load = Load(running)
    await load.start_plain()
    load.start_secure()
    await running.half_roll(2)
    await brokers_work_together(running, load, "forth", 2)
    assert "former_inter_broker: true" in running.refused(3)
    assert len(await running.roll(2)) == 1
    assert not REFUSED & await running.poses(), "it is trusted until all have moved"
    assert len(await running.roll(3)) == 2
    assert await running.poses() == REFUSED
    assert not REFUSED & await running.poses(running.security("broker"))
    await load.advance()

    assert "former_inter_broker: true" in running.refused(1)
    assert len(await running.roll(2)) == 2
    await running.half_roll(1)
    await brokers_work_together(running, load, "back", 2)
    assert len(await running.roll(1)) == 1
    await load.advance()
    await load.finish()


@pytest.mark.long
async def test_the_chapter_there_and_back_under_load(running: Running) -> None:
    running.declare(0)
    await asyncio.to_thread(running.up)
    async with KafkaClient(running.plain) as client:
        await create_topic(client, TOPIC, 3)
    load = Load(running)
    await load.start_plain()
    await load.advance()

    assert "has no listener SECURE" in running.refused(2)
    assert await running.roll(1) == BROKERS
    load.start_secure()
    await load.advance()
    assert "former_inter_broker: true" in running.refused(3)
    await running.half_roll(2)
    await brokers_work_together(running, load, "forth", 3)
    assert "former_inter_broker: true" in running.refused(3)
    assert len(await running.roll(2)) == 2
    assert not REFUSED & await running.poses(), "it is trusted until all have moved"
    assert await running.roll(3) == BROKERS
    assert await running.poses() == REFUSED
    assert not REFUSED & await running.poses(running.security("broker"))
    await load.advance()
    assert await running.roll(4) == BROKERS | SERVICES
    await load.advance()
    assert "`dry_run: true`" in running.refused(6)
    assert await running.roll(5) == BROKERS
    before = len(denials(running))  # ACLs come when a broker with an authorizer runs
    await load.advance()
    assert denials(running)[before:] == [], "clients and services have the rights that they use"
    assert await running.roll(6) == BROKERS
    await load.advance()
    assert denials(running)[before:] == []
    assert await running.poses() == REFUSED
    await load.stop_plain()
    await load.start_plain(secured=True)
    assert await running.roll(7) == BROKERS
    await load.advance()
    with pytest.raises(KafkaError):
        await running.poses()

    assert await running.roll(6) == BROKERS
    await load.stop_plain()
    await load.start_plain()
    for phase in (5, 4):
        assert await running.roll(phase) == BROKERS
        await load.advance()
    assert await running.roll(3) == BROKERS | SERVICES
    await load.advance()
    assert "former_inter_broker: true" in running.refused(1)
    assert await running.roll(2) == BROKERS
    assert "uses listener SECURE between brokers" in running.refused(0)
    await running.half_roll(1)
    await brokers_work_together(running, load, "back", 3)
    assert len(await running.roll(1)) == 2
    await load.secure.stop()
    assert await running.roll(0) == BROKERS
    await load.advance()
    expected = await load.finish()
    async with KafkaClient(running.aggregate) as client:
        for partition, values in enumerate(expected):
            await eventually(partial(copied, client, partition, values))


async def copied(client: KafkaClient, partition: int, values: list[bytes]) -> bool:
    return await records(client, f"jfk.{TOPIC}", partition) == values


def denials(command: Running) -> list[str]:
    """Return what the logs of the brokers have about denials."""
    logs = [path.read_text() for path in (command.state_dir / "logs").glob("broker-jfk-*.log")]
    assert len(logs) == len(BROKERS)
    return sorted(line for log in logs for line in log.splitlines() if "enied: principal" in line)
