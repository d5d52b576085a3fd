"""A real Apache Kafka as a peer of tests: its jars by Maven, one broker as a process.

Broker and clients are of the newest release; tools, Streams and Connect may be of an older one. The
jars are fetched once into the user's cache directory. `HELIOGRAPH_KAFKA_JARS`,
`HELIOGRAPH_KAFKA_TOOL_JARS` and `HELIOGRAPH_SPARK_CONNECTOR_JARS` name directories that have them.
Where neither works, the tests that ask are skipped, and say why.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.wire.errors import KafkaError
from spark_global.jvm.class_archive import archive_of, archive_options
from tests.support.quiet_ports import quiet_ports

_COMPAT = Path(__file__).parents[1] / "compat"
BROKER_POM = _COMPAT / "broker" / "pom.xml"
BROKER_JARS_VARIABLE = "HELIOGRAPH_KAFKA_JARS"
TOOLS_POM = _COMPAT / "pom.xml"
TOOL_JARS_VARIABLE = "HELIOGRAPH_KAFKA_TOOL_JARS"
CONNECTOR_POM = _COMPAT / "spark_connector" / "pom.xml"
CONNECTOR_JARS_VARIABLE = "HELIOGRAPH_SPARK_CONNECTOR_JARS"
TOOL_PACKAGES = ("org.apache.kafka.tools.", "org.apache.kafka.connect.", "kafka.admin.")
FETCH_SECONDS_MAX = 600.0
START_SECONDS_MAX = 240.0
# Java of tests lives for seconds: what it does not compile it need not wait for.
SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
BROKER_OPTIONS = ("-Xmx512m", "-Xms256m", *SHORT_LIFE)
TOOL_OPTIONS = ("-Xmx256m", *SHORT_LIFE)
LOG_WARNINGS = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)


def broker_jars() -> Path:
    """The directory of Kafka's broker and clients; skips the test where they cannot be had."""
    return _jars(BROKER_JARS_VARIABLE, "kafka_2.13-*.jar", BROKER_POM)


def tool_jars() -> Path:
    """The directory of its tools, Streams and Connect, with the clients of their release."""
    return _jars(TOOL_JARS_VARIABLE, "kafka-tools-*.jar", TOOLS_POM)


def connector_jars() -> Path:
    """The directory of Spark's Kafka connector and what PySpark lacks of its dependencies."""
    return _jars(CONNECTOR_JARS_VARIABLE, "spark-sql-kafka-0-10_2.13-*.jar", CONNECTOR_POM)


def _jars(variable: str, pattern: str, pom: Path) -> Path:
    if shutil.which("java") is None:
        pytest.skip("no java on this machine")
    named = os.environ.get(variable)
    if named:
        if any(Path(named).glob(pattern)):
            return Path(named)
        pytest.skip(f"{variable} names a directory without {pattern}")
    return fetched_jars(pom)


def fetched_jars(pom: Path, *properties: str) -> Path:
    """The directory of what a POM lists, with "-Dname=value"s; skips where mvn cannot fetch it."""
    # A changed list of jars is another directory.
    listed = hashlib.sha256(b"".join((pom.read_bytes(), *map(str.encode, properties))))
    jars = Path(platformdirs.user_cache_dir("heliograph")) / f"kafka-{listed.hexdigest()[:12]}"
    if jars.is_dir():
        return jars
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip(f"no mvn and java to fetch {pom.parent.name} with")
    partial = jars.with_name(f"{jars.name}.{os.getpid()}")
    fetched = subprocess.run(
        [
            "mvn",
            "-q",
            "-f",
            str(pom),
            *properties,
            "dependency:copy-dependencies",
            f"-DoutputDirectory={partial}",
        ],
        capture_output=True,
        text=True,
        timeout=FETCH_SECONDS_MAX,
        check=False,
    )
    if fetched.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        pytest.skip(f"mvn could not fetch Kafka: {fetched.stdout[-300:]}{fetched.stderr[-300:]}")
    try:
        partial.rename(jars)
    except OSError:  # another test process was first
        shutil.rmtree(partial, ignore_errors=True)
    return jars


def classes_of(jars: Path) -> Path:
    """Where the archive of Kafka's loaded classes is (`make_class_archives`), or would be."""
    return archive_of(jars, "classes-")


def java_command(
    program: str, *, options: Sequence[str] | None = None, jars: Path | None = None
) -> list[str]:
    """The command that runs a class of Kafka's, or the source file of a program.

    Without `jars` a class of the tools gets theirs, and everything else those of the broker.
    Without `options` the program starts fast, not as Kafka's own scripts start it.
    """
    if jars is None:
        jars = tool_jars() if program.startswith(TOOL_PACKAGES) else broker_jars()
    if options is None:
        options = (*TOOL_OPTIONS, *archive_options(classes_of(jars)))
    return ["java", *options, *LOG_WARNINGS, "-cp", f"{jars}/*", program]


def new_cluster_id() -> str:
    """An id for `KafkaProcess.cluster_id`."""
    # A letter first: the tool would take a leading "-" for an option.
    return "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


@dataclass
class ApacheKafkaBroker:
    """A broker of any release as a process: how it is reached, waited for and killed."""

    directory: Path
    port: int
    broker_id: int = field(default=1, kw_only=True)
    process: subprocess.Popen[bytes] | None = field(default=None, kw_only=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_dir(self) -> Path:
        """Where its partitions' directories are."""
        return self.directory / "data"

    async def wait_answering(self) -> None:
        """Wait until it knows itself; RuntimeError with the end of its log where it ended."""
        assert self.process is not None
        async with asyncio.timeout(START_SECONDS_MAX):
            while not await self._answers():
                if self.process.poll() is not None:
                    log_text = self._log_file.read_text(errors="replace")
                    raise RuntimeError(f"Kafka ended at once:\n{log_text[-4000:]}")
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """kill -9 and wait."""
        if self.process is not None:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._log_file.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        return self.process

    async def _answers(self) -> bool:
        with contextlib.suppress(KafkaError):
            async with KafkaClient(self.bootstrap, request_timeout_ms=2_000) as client:
                return self.broker_id in (await client.metadata([])).brokers
        return False

    @property
    def _log_file(self) -> Path:
        return self.directory / "kafka.log"

    @property
    def _properties_file(self) -> Path:
        return self.directory / "server.properties"


def properties_text(values: Mapping[str, str]) -> str:
    """What Kafka reads as its `server.properties`."""
    return "".join(f"{name}={value}\n" for name, value in values.items())


@dataclass
class KafkaProcess(ApacheKafkaBroker):
    """One Kafka in KRaft mode, broker and controller in one."""

    controller_port: int
    config: Mapping[str, str]
    java_options: Sequence[str] | None = None
    """Without them it starts fast, not as Kafka's own script starts it."""
    cluster_id: str = ""
    """Brokers of one cluster are formatted with the same; "" makes a new one."""

    async def format(self) -> None:
        """Make the directory a log directory of a new cluster, unless it is one already."""
        properties = self._properties_file
        if properties.exists():
            return
        properties.write_text(properties_text(self._properties()))
        formatted = await asyncio.to_thread(
            subprocess.run,
            [*java_command("kafka.tools.StorageTool"), "format", "-t",
             self.cluster_id or new_cluster_id(), "-c", str(properties)],
            check=False,
            capture_output=True,
            text=True,
        )  # fmt: skip
        if formatted.returncode:
            raise RuntimeError(f"not formatted: {formatted.stdout}{formatted.stderr}")

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the formatted broker, and don't wait."""
        options = self.java_options
        if options is None:
            options = (*BROKER_OPTIONS, *archive_options(classes_of(broker_jars())))
        command = java_command("kafka.Kafka", options=options)
        return self._spawn([*command, str(self._properties_file)])

    async def start(self) -> None:
        """Start and wait until it answers; on the data of an earlier start, if any."""
        await self.format()
        self.spawn()
        await self.wait_answering()

    def _properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.broker_id),
            "controller.quorum.voters": f"{self.broker_id}@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            # Kafka's own minute is not enough for a quorum on a machine that much else runs on.
            "initial.broker.registration.timeout.ms": str(int(START_SECONDS_MAX * 1000)),
            **self.config,
        }


@contextlib.asynccontextmanager
async def running_kafka(
    directory: Path, config: Mapping[str, str] | None = None
) -> AsyncIterator[KafkaProcess]:
    """A Kafka on free ports, killed at the end; skips the test where it cannot be had."""
    directory.mkdir(parents=True, exist_ok=True)
    port, controller_port = quiet_ports(2)
    kafka = KafkaProcess(directory, port, controller_port, config or {})
    try:
        await kafka.start()
        yield kafka
    finally:
        await kafka.kill()
