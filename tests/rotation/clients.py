"""Clients that produce and consume while their secrets change, and what they were told.

Each producer keeps a list of acknowledged records and one of failures. A client retries as its own
settings say, and this program adds no retries. A client that cannot take a new secret is replaced:
the next one produces before the last one has sent the rest of its records and closed.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Protocol

import aiokafka
import confluent_kafka
from aiokafka.helpers import create_ssl_context

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import ClientSecurity
from tests.rotation.brokers import GROUP, METADATA_AGE_MS, PARTITIONS, TOPIC
from tests.support.java_process import JavaProcess
from tests.support.python_clients import librdkafka_options
from topology.certificates.client_properties import java_properties, properties_text

RECORDS_PER_SECOND: Final = 50
WAIT_SECONDS_MAX: Final = 300.0
QUIET: Final[dict[str, Any]] = {
    "log_level": 0,
    "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
}
"""librdkafka would log every refused login."""
VERIFIABLE_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"


class Told:
    """What a producer was told about its records."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent = 0
        self.acknowledged: list[str] = []
        self.failures: list[str] = []

    def next_value(self) -> str:
        self.sent += 1
        return f"{self.name}:{self.sent}"


class Load(Protocol):
    """A client under load."""

    @property
    def told(self) -> Told: ...

    async def replace(self, bootstrap: str, security: ClientSecurity) -> None:
        """Go on with a new client, and close the present one."""
        ...

    async def stop(self) -> None:
        """Send what is left, and close."""
        ...


class LibrdkafkaProducer:
    """confluent-kafka's idempotent producer in a thread."""

    def __init__(self, name: str, bootstrap: str, security: ClientSecurity) -> None:
        self.told = Told(name)
        self._producer = self._open(bootstrap, security)
        self._swapping = threading.Lock()
        """Nobody produces with a client that is being closed."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def change_password(self, user: str, password: str) -> None:
        """Tell the client; it uses the password for its next login."""
        self._producer.set_sasl_credentials(user, password)

    async def replace(self, bootstrap: str, security: ClientSecurity) -> None:
        fresh = self._open(bootstrap, security)
        with self._swapping:
            before, self._producer = self._producer, fresh
        await asyncio.to_thread(self._close, before)

    async def stop(self) -> None:
        self._stopped.set()
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._close, self._producer)

    def _open(self, bootstrap: str, security: ClientSecurity) -> confluent_kafka.Producer:
        options = librdkafka_options(bootstrap, security)
        return confluent_kafka.Producer(
            {
                **QUIET,
                **options,
                "enable.idempotence": True,
                "linger.ms": 5,
                "error_cb": self._on_error,
            }
        )

    def _run(self) -> None:
        while not self._stopped.is_set():
            value = self.told.next_value()
            with self._swapping:
                self._producer.produce(TOPIC, value, on_delivery=self._delivered)
                self._producer.poll(0)
            self._stopped.wait(1 / RECORDS_PER_SECOND)

    def _close(self, producer: confluent_kafka.Producer) -> None:
        left = producer.flush(WAIT_SECONDS_MAX)
        if left:
            self.told.failures.append(f"{left} records are neither there nor refused")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.told.acknowledged.append(message.value().decode())
        else:
            self.told.failures.append(f"{message.value().decode()}: {error}")

    def _on_error(self, error: confluent_kafka.KafkaError) -> None:
        if error.fatal():
            self.told.failures.append(f"fatal: {error}")


class AiokafkaProducer:
    """aiokafka's idempotent producer in a task."""

    def __init__(self, name: str, bootstrap: str, security: ClientSecurity) -> None:
        self.told = Told(name)
        self._first = (bootstrap, security)
        self._producer: Any = None
        self._swapping = asyncio.Lock()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._producer = await self._open(*self._first)
        self._task = asyncio.create_task(self._run())

    async def replace(self, bootstrap: str, security: ClientSecurity) -> None:
        fresh = await self._open(bootstrap, security)
        async with self._swapping:
            before, self._producer = self._producer, fresh
        await asyncio.wait_for(before.stop(), WAIT_SECONDS_MAX)

    async def stop(self) -> None:
        task, self._task = self._task, None
        assert task is not None
        await task
        await asyncio.wait_for(self._producer.stop(), WAIT_SECONDS_MAX)
        if self._waiting:
            await asyncio.wait(self._waiting, timeout=WAIT_SECONDS_MAX)

    async def _open(self, bootstrap: str, security: ClientSecurity) -> Any:
        assert security.password is not None
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            linger_ms=5,
            metadata_max_age_ms=METADATA_AGE_MS,
            security_protocol=security.protocol,
            ssl_context=create_ssl_context(cafile=security.ca_file),
            sasl_mechanism=security.mechanism,
            sasl_plain_username=security.username,
            sasl_plain_password=read_secret(security.password),
        )
        await producer.start()
        return producer

    async def _run(self) -> None:
        while self._task is not None:
            value = self.told.next_value()
            async with self._swapping:
                sent = await self._producer.send(TOPIC, value.encode())
            self._waiting.add(sent)
            sent.add_done_callback(self._done_with(value))
            await asyncio.sleep(1 / RECORDS_PER_SECOND)

    def _done_with(self, value: str) -> Callable[[asyncio.Future[Any]], None]:
        def done(sent: asyncio.Future[Any]) -> None:
            self._waiting.discard(sent)
            if sent.cancelled() or sent.exception() is not None:
                why = "cancelled" if sent.cancelled() else repr(sent.exception())
                self.told.failures.append(f"{value}: {why}")
            else:
                self.told.acknowledged.append(value)

        return done


class JavaProducer:
    """Kafka's VerifiableProducer: idempotent, with Java's retries. A process for each secret."""

    def __init__(
        self, name: str, bootstrap: str, security: ClientSecurity, directory: Path
    ) -> None:
        self._name = name
        self._directory = directory
        self._runs = 0
        self.told = Told(name)
        self._process = self._started(bootstrap, security)

    async def start(self) -> None:
        await self._acknowledged(self._process)

    async def replace(self, bootstrap: str, security: ClientSecurity) -> None:
        before, self._process = self._process, self._started(bootstrap, security)
        await self._acknowledged(self._process)
        await self._close(before)

    async def stop(self) -> None:
        await self._close(self._process)

    async def kill(self) -> None:
        await self._process.kill()

    def _started(self, bootstrap: str, security: ClientSecurity) -> JavaProcess:
        assert security.password is not None
        self._runs += 1
        config = self._directory / f"{self._name}-{self._runs}.properties"
        properties = {
            **java_properties(bootstrap, security, read_secret(security.password)),
            "enable.idempotence": "true",
            "metadata.max.age.ms": str(METADATA_AGE_MS),
            "retries": str(2**31 - 1),
        }
        config.write_text(properties_text(properties))
        process = JavaProcess(
            VERIFIABLE_PRODUCER,
            (
                *("--bootstrap-server", bootstrap, "--topic", TOPIC),
                *("--throughput", str(RECORDS_PER_SECOND), "--value-prefix", str(self._runs)),
                *("--command-config", str(config)),
            ),
            self._directory / f"{self._name}-{self._runs}.out",
        )
        process.start()
        return process

    async def _acknowledged(self, process: JavaProcess) -> None:
        """Wait until a process has produced."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while "producer_send_success" not in process.text():
                process.check_running()
                await asyncio.sleep(0.1)

    async def _close(self, process: JavaProcess) -> None:
        process.check_running()
        await process.terminate(WAIT_SECONDS_MAX)
        for line in process.text().splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("name") == "producer_send_success":
                self.told.acknowledged.append(f"java {event['value']}")
            elif event.get("name") == "producer_send_error" and not _was_closing(event):
                self.told.failures.append(line)


def _was_closing(event: Mapping[str, str]) -> bool:
    """Return whether the tool offered a record to its producer when it had closed that itself."""
    return event["exception"] == "class java.lang.IllegalStateException" and (
        "after producer has been closed" in event["message"]
    )


class LibrdkafkaConsumer:
    """A member of a group in a thread; it never closes."""

    def __init__(self, bootstrap: str, security: ClientSecurity) -> None:
        self.read: Counter[str] = Counter()
        self.failures: list[str] = []
        self._credentials: SimpleQueue[tuple[str, str]] = SimpleQueue()
        self._stopped = threading.Event()
        self._begin(bootstrap, security)

    def _begin(self, bootstrap: str, security: ClientSecurity) -> None:
        options = librdkafka_options(bootstrap, security)
        self._consumer = confluent_kafka.Consumer(
            {
                **QUIET,
                **options,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([TOPIC])
        self._thread = threading.Thread(target=self._run, name="consumer", daemon=True)
        self._thread.start()

    async def replace(self, bootstrap: str, security: ClientSecurity) -> None:
        """Commit and leave, and go on with a new member."""
        await self.stop()
        self._stopped.clear()
        self._begin(bootstrap, security)

    def change_password(self, user: str, password: str) -> None:
        """Tell the client.

        The consumer of confluent-kafka 2.16.1 must be told by the thread that consumes. Told by
        another one, that thread and this one wait for each other, and so does all of Python.
        """
        self._credentials.put((user, password))

    async def stop(self) -> None:
        self._stopped.set()
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._consumer.close)

    def _run(self) -> None:
        while not self._stopped.is_set():
            while not self._credentials.empty():
                self._consumer.set_sasl_credentials(*self._credentials.get())
            for message in self._consumer.consume(500, timeout=0.1):
                if (error := message.error()) is not None:
                    self.failures.append(str(error))
                else:
                    self.read[_text(message)] += 1


def read_all(bootstrap: str, security: ClientSecurity) -> Counter[str]:
    """Read the topic from its start to its end, and count each value."""
    options = librdkafka_options(bootstrap, security)
    consumer = confluent_kafka.Consumer(
        {**QUIET, **options, "group.id": GROUP, "enable.partition.eof": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
    found: Counter[str] = Counter()
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(WAIT_SECONDS_MAX)
        assert message is not None, "the topic cannot be read to its end"
        if (error := message.error()) is None:
            found[_text(message)] += 1
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
    consumer.close()
    return found


def _text(message: Any) -> str:
    text = message.value().decode()
    return text if ":" in text else f"java {text}"
