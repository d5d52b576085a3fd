"""Whoever lacks a right gets Apache Kafka 4.4's response, field by field, from every API.

Both brokers have the same ACLs. Each asker sends the same requests to both, in the newest version
of each API; with `--long` also in older ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from confluent_kafka import Producer

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.client.admin.acls import create_acls
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.handlers.cluster.p18_api_versions import TELEMETRY
from local_cluster.handlers.registry import advertised_apis
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import TRANSACTIONAL_BIT
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.header import read_response_header
from tests.compat.same_answers import cases_rights
from tests.compat.same_answers.asking import Ask, Side
from tests.compat.same_answers.case import Deviation, allowed, differences
from tests.compat.same_answers.cases_rights import Asker, Names
from tests.compat.same_answers.rights_deviations import RIGHTS_DEVIATIONS
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.kafka_from_maven import running_kafka

pytestmark = [
    pytest.mark.real,
    pytest.mark.oracle,
    pytest.mark.asyncio(loop_scope="module"),
]

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Kafka's own connections must work before there are ACLs.
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "false",
}
ASKERS = list(cases_rights.askers())
READY_SECONDS_MAX = 30.0
LOOKS_MAX = 300
"""Looks for an ACL that was created, LOOK_SECONDS apart."""
LOOK_SECONDS = 0.1
NOT_COMPARED = ("error_message", "last_timestamp", "size", "config_source", "partition_size")
"""Ends of paths: words, times and sizes. What counts is what is allowed, and each code."""


class Both:
    """Kafka and ours, with the same topics and ACLs."""

    def __init__(self, sides: tuple[Side, Side], broker: BrokerProcess) -> None:
        self.sides = sides
        self.broker = broker
        self.asked: set[str] = set()
        self.used: set[Deviation] = set()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Both]:
    directory = tmp_path_factory.mktemp("denials")
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(running_kafka(directory / "kafka", CONFIG))
        broker = await stack.enter_async_context(
            running_broker(zookeeper, directory, config=CONFIG)
        )
        ours = Side("ours", "127.0.0.1", broker.port, from_host=cases_rights.ADMINS_HOST)
        theirs = Side("Kafka", "127.0.0.1", kafka.port, from_host=cases_rights.ADMINS_HOST)
        for side in (ours, theirs):
            await furnish(side)
        yield Both((ours, theirs), broker)


async def furnish(side: Side) -> None:
    """Create the ACLs and the topics of every asker, and wake both coordinators."""
    async with KafkaClient(f"{side.host}:{side.port}") as client:
        acls = [
            *cases_rights.everything(cases_rights.ADMINS_HOST),
            *(acl for asker in ASKERS for acl in asker.acls),
        ]
        assert set((await create_acls(client, acls)).values()) == {None}
        names = [name for number in range(len(ASKERS)) for name in Names(number).topics]
        # The records are old and must not be deleted.
        kept = {"retention.ms": "-1"}
        created = await client.create_topics(
            [NewTopic(name=name, partitions=1, configs=kept) for name in names]
        )
        assert set(created.values()) == {None}
        async with asyncio.timeout(READY_SECONDS_MAX):
            while True:
                topics = (await client.metadata(names)).topics
                # Kafka names a leader a moment before that leader serves.
                ends = await client.list_offsets({TopicPartition(name, 0): -1 for name in names})
                if not any(each.error for each in ends.values()):
                    break
                await asyncio.sleep(0.05)
        for name, topic in topics.items():
            assert topic.topic_id is not None
            side.ids[name] = topic.topic_id
    peer = await side.connect()
    warm = {
        "transactional_id": "warm",
        "transaction_timeout": 10_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    group = {"groups": [{"group_id": "warm", "topics": None}], "require_stable": False}
    coordinators = [
        Ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": kind, "coordinator_keys": ["warm"]})
        for kind in (0, 1)
    ]
    async with asyncio.timeout(READY_SECONDS_MAX):
        while True:
            for ask in coordinators:
                await peer.ask(ask)
            one = await peer.ask(Ask(ApiKey.INIT_PRODUCER_ID, 4, warm))
            other = await peer.ask(Ask(ApiKey.OFFSET_FETCH, 8, group))
            if one["error_code"] == other["groups"][0]["error_code"] == "none":
                break
            await asyncio.sleep(0.05)
    await peer.close()


async def test_every_api_is_asked() -> None:
    asked = {int(api) for api, _, _ in cases_rights.REQUESTS}
    login = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    without_rights = login | {*TELEMETRY}
    assert asked | without_rights == {handler.api_key for handler in advertised_apis()}


@pytest.mark.parametrize("version", [3, 11, 13])
async def test_a_transactional_batch_needs_its_right(both: Both, version: int) -> None:
    """Before the topics of this asker are deleted below."""
    number = [str(asker) for asker in ASKERS].index("no WRITE on TRANSACTIONAL_ID")
    found = []
    for side in both.sides:
        asking = Side(side.name, side.host, side.port, side.ids, from_host=ASKERS[number].host)
        peer = await asking.connect()
        for fields in cases_rights.produce_transactional(Names(number), asking):
            answer = await peer.ask(Ask(ApiKey.PRODUCE, version, fields))
            found += [
                partition["error_code"]
                for topic in answer["responses"]
                for partition in topic["partition_responses"]
            ]
        await peer.close()
    assert found == ["transactional_id_authorization_failed"] * 12


def begin_transaction(side: Side, transactional_id: str, topics: Sequence[str]) -> Producer:
    """Begin a transaction in topics, as an administrator. It lasts as long as its producer."""
    producer = Producer(
        {
            "bootstrap.servers": f"{side.host}:{side.port}",
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 300_000,
        }
    )
    producer.init_transactions(READY_SECONDS_MAX)
    producer.begin_transaction()
    for topic in topics:
        producer.produce(topic, b"v")
    assert producer.flush(READY_SECONDS_MAX) == 0
    return producer


async def test_a_transaction_shows_only_topics_that_the_client_may_describe(both: Both) -> None:
    host = next(asker.host for asker in ASKERS if asker.name == "mixed")
    seen, unseen = "open", f"{cases_rights.MIXED}-open"
    found = []
    for side in both.sides:
        async with KafkaClient(f"{side.host}:{side.port}") as client:
            await client.create_topics([NewTopic(name=n, partitions=1) for n in (seen, unseen)])
        producer = await asyncio.to_thread(begin_transaction, side, "open", [seen, unseen])
        asking = Side(side.name, side.host, side.port, from_host=host)
        for each in (side, asking):
            peer = await each.connect()
            ask = Ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["open"]})
            (state,) = (await peer.ask(ask))["transaction_states"]
            found.append((state["transaction_state"], {each["topic"] for each in state["topics"]}))
            await peer.close()
        await asyncio.to_thread(producer.abort_transaction, READY_SECONDS_MAX)
    assert found == [("Ongoing", {seen, unseen}), ("Ongoing", {seen})] * 2


async def test_a_transaction_gets_only_partitions_that_the_client_may_write(both: Both) -> None:
    """Otherwise its end would write markers there. Produce v12 adds partitions (KIP-890)."""
    host = next(asker.host for asker in ASKERS if asker.name == "mixed")
    written, not_written = "written", f"{cases_rights.MIXED}-written"
    found = []
    for side in both.sides:
        async with KafkaClient(f"{side.host}:{side.port}") as client:
            names = (written, not_written)
            await client.create_topics([NewTopic(name=n, partitions=1) for n in names])
        peer = await Side(side.name, side.host, side.port, from_host=host).connect()
        begin = {
            "transactional_id": "of-mixed",
            "transaction_timeout": 300_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        peer.send_frame(Ask(ApiKey.INIT_PRODUCER_ID, 5, begin).frame(side, 1))
        frame = await peer.receive()
        assert frame is not None
        _, position = read_response_header(ApiKey.INIT_PRODUCER_ID, 5, frame)
        producer = messages.decode_response(ApiKey.INIT_PRODUCER_ID, 5, frame, position)
        batch = encode_batch(
            [NewRecord(1_000, b"k", b"v")],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            attributes=TRANSACTIONAL_BIT,
        )
        data = [{"index": 0, "records": bytes(batch)}]
        fields = {
            "transactional_id": "of-mixed",
            "acks": -1,
            "timeout": 10_000,
            "topic_data": [{"name": n, "partition_data": data} for n in (not_written, written)],
        }
        codes: dict[str, str] = {}
        async with asyncio.timeout(READY_SECONDS_MAX):
            while codes.get(written) != "none":
                answer = await peer.ask(Ask(ApiKey.PRODUCE, 12, fields))
                codes = {
                    topic["name"]: topic["partition_responses"][0]["error_code"]
                    for topic in answer["responses"]
                }
        await peer.close()
        admin = await side.connect()
        ask = Ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["of-mixed"]})
        (state,) = (await admin.ask(ask))["transaction_states"]
        await admin.close()
        found.append((codes[not_written], {each["topic"] for each in state["topics"]}))
    assert found == [("topic_authorization_failed", {written})] * 2


@pytest.mark.parametrize("number", range(len(ASKERS)), ids=lambda index: str(ASKERS[index]))
async def test_a_denial_is_kafkas(both: Both, number: int, pytestconfig: pytest.Config) -> None:
    every_version = bool(pytestconfig.getoption("--long"))
    asker = ASKERS[number]
    both.asked.add(asker.name)
    different = []
    found = await asyncio.gather(
        *(answers(side, asker, number, every_version=every_version) for side in both.sides)
    )
    for (name, ours), (_, theirs) in zip(*found, strict=True):
        for difference in differences(by_name(ours), by_name(theirs)):
            case = f"{name} ({asker})"
            if difference.path.endswith(NOT_COMPARED):
                continue
            deviation = allowed(case, difference.path, RIGHTS_DEVIATIONS)
            if deviation is None:
                different.append(f"{case}: {difference}")
            else:
                both.used.add(deviation)
    assert not different, "\n".join(different)


NAMES = (
    "name",
    "topic",
    "topic_id",
    "group_id",
    "transactional_id",
    "resource_name",
    "key",
    "api_key",
)


def by_name(answer: Any) -> Any:
    """Return an answer with every list sorted by the names of what is in it."""
    if isinstance(answer, dict):
        return {name: by_name(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return sorted((by_name(each) for each in answer), key=_name_of)
    return answer


def _name_of(each: Any) -> str:
    if not isinstance(each, dict):
        return repr(each)
    named = [str(each[name]) for name in NAMES if each.get(name) is not None]
    return repr(named or sorted(each.items(), key=lambda item: item[0]))


async def answers(
    side: Side, asker: Asker, number: int, *, every_version: bool
) -> list[tuple[str, object]]:
    """Return the name and the answer of every request of an asker."""
    asking = Side(side.name, side.host, side.port, side.ids, side.epochs, asker.host)
    found: list[tuple[str, object]] = []
    peer = await asking.connect()
    for name, ask in cases_rights.requests(Names(number), asking, every_version=every_version):
        try:
            answer = await peer.ask(ask)
            for _ in range(LOOKS_MAX):
                if not is_behind(name, answer, found):
                    break
                await asyncio.sleep(LOOK_SECONDS)
                answer = await peer.ask(ask)
        except TimeoutError:
            answer = f"no answer to {name}"
        found.append((name, answer))
        if not isinstance(answer, dict):
            await peer.close()
            peer = await asking.connect()
    await peer.close()
    return found


def is_behind(name: str, answer: Any, before: Sequence[tuple[str, Any]]) -> bool:
    """Return whether the broker does not know an ACL yet that it has just created.

    Kafka's CreateAcls answers for the controller, and the broker hears of it a little later.
    """
    if not name.startswith("DESCRIBE_ACLS") or not isinstance(answer, dict):
        return False
    if answer["error_code"] or answer["resources"]:
        return False
    told = [said for asked, said in before if asked.startswith("CREATE_ACLS")]
    created = [each for said in told if isinstance(said, dict) for each in said["results"]]
    return any(not each["error_code"] for each in created)


async def test_every_documented_deviation_is_one(both: Both) -> None:
    if both.asked != {asker.name for asker in ASKERS}:
        pytest.skip("only some of the askers asked")
    assert set(RIGHTS_DEVIATIONS) <= both.used


async def test_nothing_went_wrong_inside(both: Both) -> None:
    assert "Traceback" not in both.broker.log_text()
