"""Spark and `rebalance` on a secured Apache Kafka: SASL over TLS, few rights.

One Kafka is both source and aggregate, under two names of the topology, each with its own user. So
a reader with the wrong user is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from local_cluster.client.auth.security import Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire.constants import AclOperation, PatternType, ResourceType
from mirror_maker.formats import Block, FlowKey, Run, encode_record, map_topic_name
from spark_global.audit import audit_topic
from spark_global.sql import run_sql
from spark_global.views import Aggregate, create_views
from tests.support.heliograph_command import HeliographCommand
from tests.support.producing import produce_to
from tests.support.secure_kafka import PASSWORD, SecureKafka, running_secure_kafka
from topology.deployment.aggregate_view import aggregate_view
from topology.deployment.deployment import Deployment, encode_deployment
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.timeout(600)]

RECORDS = 50
SECURITY = (
    "{{protocol: SASL_SSL, mechanism: SCRAM-SHA-512, username: {user}, "
    "password: {{file: {password_file}}}, ca_file: {ca_file}}}"
)
TOPOLOGY = """\
name: secured
clusters:
  - name: jfk
    external: {bootstrap}
    security: {auditor}
  - name: nyc
    external: {bootstrap}
    security: {analyst}
links:
  - {{name: jfk-nyc, source: jfk, target: nyc, topics: [flights]}}
"""


@dataclass(frozen=True)
class Secured:
    """The Kafka, and a deployment that names it."""

    kafka: SecureKafka
    deployment: Deployment

    def security_text(self, user: str) -> str:
        """The keys of `security` in a topology."""
        files = {"password_file": self.kafka.password_file, "ca_file": self.kafka.ca_file}
        return SECURITY.format(user=user, **files)

    @property
    def aggregate(self) -> Aggregate:
        return aggregate_view(self.deployment, "nyc")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    with asyncio.Runner() as runner:
        context = running_secure_kafka(directory / "kafka")
        kafka = runner.run(context.__aenter__())
        try:
            runner.run(fill(kafka))
            found = Secured(kafka, Deployment(name="", topology_file=""))
            users = {name: found.security_text(name) for name in ("auditor", "analyst")}
            topology = parse_topology(TOPOLOGY.format(bootstrap=kafka.bootstrap, **users))
            state = StateDir(directory / "state")
            file = directory / "topology.yaml"
            yield replace(found, deployment=render(topology, state, topology_file=file))
        finally:
            runner.run(context.__aexit__(None, None, None))


async def fill(kafka: SecureKafka) -> None:
    """Create the topic, its copy, the map between them, and the ACLs."""
    topics = {"flights", "jfk.flights", map_topic_name("jfk-nyc")}
    async with KafkaClient(kafka.plain_bootstrap) as admin:
        new = [
            NewTopic(name=name, partitions=1, replication_factor=1, configs={"retention.ms": "-1"})
            for name in topics
        ]
        assert not any((await admin.create_topics(new)).values())
        for name in ("auditor", "analyst", "mover"):
            await kafka.add_user(admin, name)
        topic, prefixed = ResourceType.TOPIC, PatternType.PREFIXED
        await kafka.allow(admin, "auditor", topic, "flights", [AclOperation.READ])
        for prefix in ("jfk.", "heliograph-offset-map."):
            await kafka.allow(admin, "analyst", topic, prefix, [AclOperation.READ], prefixed)
        describe = [AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS]
        await kafka.allow(admin, "mover", topic, "*", describe)
        await kafka.allow(admin, "mover", ResourceType.CLUSTER, "kafka-cluster", describe)
        records = [NewRecord(1_000 + n, b"k", b"%d" % n) for n in range(RECORDS)]
        for name in ("flights", "jfk.flights"):
            await produce_to(admin, TopicPartition(name, 0), encode_batch(records))
        key, value = encode_record(copied_map())
        batch = encode_batch([NewRecord(1_000, key, value)])
        await produce_to(admin, TopicPartition(map_topic_name("jfk-nyc"), 0), batch)


def copied_map() -> Block:
    return Block(
        flow=FlowKey("flights", 0, UUID(int=1), UUID(int=2)),
        producer_id=1,
        producer_epoch=0,
        nonce=1,
        target_topic="jfk.flights",
        source_start=0,
        target_start=0,
        source_next=RECORDS,
        next_sequence=RECORDS,
        runs=(Run(0, 0, RECORDS),),
    )


def test_a_view_and_the_audit_with_a_user_for_each_cluster(
    spark: SparkSession, spark_log: Path, secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "global_flights" in create_views(spark, secured.aggregate)
    frame = spark.sql("SELECT * FROM global_flights")
    rows = frame.collect()
    assert sorted(int(row.value) for row in rows) == list(range(RECORDS))
    assert all((row.datacenter, row.offset) == ("jfk", int(row.value)) for row in rows)
    report = audit_topic(spark, secured.aggregate, "flights")
    assert (report.produced, report.mirrored, report.is_clean) == (RECORDS, RECORDS, True)
    # What Spark shows of a query, its user interface included, and what its processes say.
    frame.explain(mode="extended")
    shown = capsys.readouterr().out
    assert "Physical Plan" in shown
    settings = str(spark.sparkContext.getConf().getAll())
    assert PASSWORD not in shown + settings + spark_log.read_text()


def test_whoever_is_refused_is_told_so_at_once(
    spark: SparkSession, secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guess = "a guess of somebody"
    (tmp_path / "guess").write_text(guess)
    security = replace(secured.aggregate.security, password=Secret(file=str(tmp_path / "guess")))
    aggregate = replace(secured.aggregate, security=security)
    assert run_sql("SELECT count(*) FROM global_flights", aggregate=aggregate) == 1
    said = capsys.readouterr().err
    assert "SASL_AUTHENTICATION_FAILED" in said
    assert guess not in said


def test_rebalance_of_a_cluster_that_is_in_no_deployment(secured: Secured, tmp_path: Path) -> None:
    command = HeliographCommand(tmp_path)
    file = tmp_path / "security.yaml"
    asked = ("rebalance", "--bootstrap", secured.kafka.bootstrap, "--security", str(file))
    file.write_text(secured.security_text("mover"))
    document = command.run(*asked)
    assert (document["moves"], document["done"]) == ([], True)
    assert {each["id"] for each in document["brokers"]} == {1}
    file.write_text(secured.security_text("analyst"))
    assert "CLUSTER_AUTHORIZATION_FAILED" in command.complain(*asked)
    file.write_text("protocol: TLS")
    assert "security.protocol: one of" in command.complain(*asked, code=2)


def test_rebalance_of_a_secured_cluster_of_a_deployment(secured: Secured, tmp_path: Path) -> None:
    command = HeliographCommand(tmp_path)
    text = secured.security_text("mover")
    topology = parse_topology(
        TOPOLOGY.format(bootstrap=secured.kafka.bootstrap, auditor=text, analyst=text)
    )
    state = StateDir(command.state_dir)
    state.deployment_file.parent.mkdir(parents=True, exist_ok=True)
    deployment = render(topology, state, topology_file=tmp_path / "topology.yaml")
    state.deployment_file.write_text(encode_deployment(deployment))
    document = command.run("rebalance", "nyc", "--dry-run")
    assert [each["id"] for each in document["brokers"]] == [1]
    complaint = command.complain("rebalance", "nyc", "--security", "any.yaml", code=2)
    assert "--security goes with --bootstrap" in complaint
