"""Apache Kafka brokers as existing clusters: jars by Maven, one KRaft node for each cluster."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import time
import uuid
from pathlib import Path
from typing import Final

import confluent_kafka
import platformdirs
from confluent_kafka.admin import AdminClient

from tests.referee.clients import LIBRDKAFKA

POM: Final = Path(__file__).parents[1] / "compat" / "broker" / "pom.xml"
JARS_VARIABLE: Final = "HELIOGRAPH_KAFKA_JARS"
"""Names a directory that has Kafka's jars already."""
FETCH_SECONDS_MAX: Final = 600.0
START_SECONDS_MAX: Final = 180.0
HEAP: Final = ("-Xmx400m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


class KafkaUnavailable(Exception):
    """Apache Kafka cannot be had on this machine, and why."""


def kafka_jars() -> Path:
    """The directory of Kafka's jars, fetched once. Raises KafkaUnavailable."""
    named = os.environ.get(JARS_VARIABLE)
    if named:
        return Path(named)
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    jars = Path(platformdirs.user_cache_dir("heliograph")) / f"kafka-{digest}"
    if jars.is_dir():
        return jars
    if shutil.which("mvn") is None or shutil.which("java") is None:
        raise KafkaUnavailable("there is no mvn or no java to fetch it with")
    partial = jars.with_name(f"{jars.name}.{os.getpid()}")
    command = ["mvn", "-q", "-f", str(POM), "dependency:copy-dependencies"]
    fetched = subprocess.run(
        [*command, f"-DoutputDirectory={partial}"],
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS_MAX,
        check=False,
    )
    if fetched.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        raise KafkaUnavailable(f"mvn ended with {fetched.returncode}: {fetched.stdout[-500:]}")
    try:
        partial.rename(jars)
    except OSError:  # another process was first
        shutil.rmtree(partial, ignore_errors=True)
    return jars


class KafkaNode:
    """A cluster of one Apache Kafka node, broker and controller in one."""

    def __init__(self, directory: Path, port: int, controller_port: int) -> None:
        self._directory = directory
        self._port = port
        self._properties = directory / "server.properties"
        self._jars = f"{kafka_jars()}/*"
        self.process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True)
        properties = self._settings(directory / "data", controller_port)
        self._properties.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))
        # A letter first: the tool would take a leading "-" for an option.
        cluster_id = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        self._java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c").check_returncode()

    def start(self) -> None:
        """Start the broker on the data of its last run, without waiting."""
        with (self._directory / "kafka.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["java", *HEAP, LOGGING, "-cp", self._jars, "kafka.Kafka", str(self._properties)],
                stdout=log,
                stderr=log,
            )

    def wait_answering(self) -> None:
        """Wait until it answers. Raises KafkaUnavailable."""
        client = AdminClient({**LIBRDKAFKA, "bootstrap.servers": f"127.0.0.1:{self._port}"})
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                if client.list_topics(timeout=2.0).brokers:
                    return
            except confluent_kafka.KafkaException:
                pass
            ended = self.process is None or self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                log = (self._directory / "kafka.log").read_text(errors="replace")
                raise KafkaUnavailable(f"Kafka on port {self._port} does not answer: {log[-2000:]}")
            time.sleep(0.3)

    def stop(self) -> None:
        """End it at once; its data is of no use any more."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _java(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["java", *HEAP, LOGGING, "-cp", self._jars, program, *arguments]
        return subprocess.run(
            [*command, str(self._properties)], capture_output=True, text=True, check=False
        )

    def _settings(self, data: Path, controller_port: int) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},"
            f"CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "log.cleaner.backoff.ms": "300",
            "log.retention.check.interval.ms": "500",
            # Cleaning and retention begin after half a minute otherwise.
            "log.initial.task.delay.ms": "500",
            # A node that is killed often is registered late on a busy machine.
            "initial.broker.registration.timeout.ms": str(int(START_SECONDS_MAX * 1000)),
        }
