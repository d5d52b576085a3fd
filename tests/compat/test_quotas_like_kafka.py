"""Quotas beside Apache Kafka 4.4: the admin APIs over a table, and the throttle times of clients.

A throttle time is a function of the bytes that were counted and the time between two requests. The
first request of a client has no time before it, so both brokers must answer the same number.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
import pytest_asyncio

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.header import encode_request_header, read_response_header
from tests.compat.same_answers.asking import Ask, Peer, Side, converse
from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import running_kafka

pytestmark = [
    pytest.mark.real,
    pytest.mark.oracle,
    pytest.mark.asyncio(loop_scope="module"),
]

SECONDS_MAX: Final = 20.0
Names = Sequence[tuple[str, str | None]]
Quotas = Sequence[tuple[str, float | None]]
Entries = Sequence[tuple[Names, Quotas]]

USER: Final[Names] = [("user", "a")]
ADDRESS: Final[Names] = [("ip", "127.0.0.1")]
P, C, R, M = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
RATE: Final = "connection_creation_rate"

ALTERATIONS: Final[Sequence[Entries]] = [
    [(USER, [(P, 1000.0)])],
    [(USER, [(P, 1000.5)])],
    [(USER, [(C, 999.9999999)])],
    [(USER, [(R, 12.5), (M, 3.0)])],
    [(USER, [("moon", 12.5)])],
    [(USER, [("moon", None)])],
    [(USER, [(RATE, 12.0)])],
    *([(USER, [(P, value)])] for value in (0.0, -1.0, math.inf, 1e19, 2.0**63, 2.0**62)),
    *([(USER, [(R, value)])] for value in (0.0, -1.0, math.nan, -math.inf, 1e-9, 1e12)),
    [(ADDRESS, [(RATE, 12.0)])],
    *([(ADDRESS, [(RATE, value)])] for value in (12.5, -1.0, 0.0, 1e12, 2.0**31)),
    [([("ip", None)], [(RATE, 13.0)])],
    [([("ip", "not an address")], [(RATE, 12.0)])],
    [([("ip", "::1")], [(RATE, 14.0)])],
    [(ADDRESS, [(P, 12.0)])],
    [([("ip", "127.0.0.1"), ("user", "a")], [(P, 12.0)])],
    [([], [(P, 12.0)])],
    [([("user", "")], [(P, 12.0)])],
    [([("ip", "")], [(RATE, 12.0)])],
    [([("moon", "a")], [(P, 12.0)])],
    [([("", "a")], [(P, 12.0)])],
    [([("user", "a"), ("user", "b")], [(P, 12.0)])],
    [(USER, [(P, 12.0), (P, 13.0)])],
    [(USER, [(P, 14.0)]), (USER, [(C, 15.0)])],
    [(USER, [(P, 16.0), (P, 16.0)]), (USER, [(P, 17.0)])],
    [(USER, [])],
    [],
    [([("user", "z")], [(P, 12.0), ("moon", 13.0)])],
    [([("user", "y")], [("moon", 13.0), (P, 12.0)])],
    [([("user", "x")], [(P, 12.0)]), ([("moon", "x")], [(P, 12.0)])],
    [([("user", None)], [(P, 12.0)])],
    [([("client-id", "c")], [(P, 18.0)])],
    [([("client-id", None)], [(P, 19.0)])],
    [([("client-id", "c"), ("user", "u")], [(P, 20.0)])],
    [([("client-id", None), ("user", "u")], [(P, 21.0)])],
    [([("client-id", "c"), ("user", None)], [(P, 22.0)])],
    [([("client-id", None), ("user", None)], [(P, 23.0)])],
    [([("user", "a b*/<default>"), ("client-id", "%2F \u00fc")], [(P, 24.0)])],
    [([("user", "<default>")], [(P, 25.0)])],
    [([("user", "x")], [(P, None)])],
    [([("user", "absent")], [(P, None)])],
]

FILTERS: Final[list[list[Any]]] = [
    [],
    *(
        [(kind, 0, name)]
        for kind in ("user", "client-id")
        for name in ("a", "u", "c", "absent", "")
    ),
    [("ip", 0, "127.0.0.1")],
    [("ip", 0, "not an address")],
    [("user", 0, "<default>")],
    *([(kind, match, None)] for kind in ("user", "client-id", "ip") for match in (1, 2)),
    *(
        [("user", *first), ("client-id", *second)]
        for first in ((0, "u"), (1, None), (2, None))
        for second in ((0, "c"), (1, None), (2, None))
    ),
    [("ip", 2, None), ("user", 2, None)],
    [("user", 2, None), ("user", 1, None)],
    [("moon", 2, None)],
    [("", 2, None)],
    [("user", 3, None)],
    [("user", 0, None)],
    [("user", 1, "a")],
    [("user", 2, "a")],
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Side, Side]]:
    directory = tmp_path_factory.mktemp("quotas")
    async with AsyncExitStack() as stack:
        kafka = await stack.enter_async_context(running_kafka(directory / "kafka"))
        broker = await stack.enter_async_context(running_broker(zookeeper, directory))
        sides = (Side("ours", "127.0.0.1", broker.port), Side("Kafka", "127.0.0.1", kafka.port))
        yield sides
        for side in sides:
            await ADMINS.pop(side.name).close()


def alteration(entries: Entries, *, validate_only: bool = False) -> Ask:
    return Ask(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": kind, "entity_name": name} for kind, name in names],
                    "ops": [
                        {"key": key, "value": value or 0.0, "remove": value is None}
                        for key, value in quotas
                    ],
                }
                for names, quotas in entries
            ],
            "validate_only": validate_only,
        },
    )


def description(components: list[Any], *, strict: bool = False) -> Ask:
    fields = [
        {"entity_type": kind, "match_type": match, "match": name}
        for kind, match, name in components
    ]
    return Ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": fields, "strict": strict})


def names_of(entry: Any) -> Any:
    return sorted(((each["entity_type"], each["entity_name"]) for each in entry["entity"]), key=str)


ADMINS: Final[dict[str, Peer]] = {}
"""One connection to each side, which no quota throttles."""


async def administer(side: Side, request: Ask) -> Any:
    if side.name not in ADMINS:
        ADMINS[side.name] = await side.connect()
    return await ADMINS[side.name].ask(request)


async def alter(side: Side, entries: Entries, **options: bool) -> Any:
    """Return the error of each entity; both sides name each once, in their own order."""
    answer = await administer(side, alteration(entries, **options))
    return sorted(((names_of(each), each["error_code"]) for each in answer["entries"]), key=str)


async def describe(side: Side, components: list[Any], *, strict: bool = False) -> Any:
    answer = await administer(side, description(components, strict=strict))
    entries = [
        (names_of(each), sorted((value["key"], value["value"]) for value in each["values"]))
        for each in answer["entries"] or ()
    ]
    return answer["error_code"], answer["entries"] is None, sorted(entries, key=str)


async def settled(both: tuple[Side, Side]) -> Any:
    """Return what both sides describe. Kafka applies a change after it has answered."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            ours, kafkas = [await describe(side, []) for side in both]
            if ours == kafkas:
                return ours
            await asyncio.sleep(0.02)


THROTTLED_TOPIC: Final = "throttled"
RECORD_BYTES: Final = 20_000
CLOCK_STEP_S: Final = 0.02
BYTE_RATE: Final = 1_900.0
"""A client may pass ten times as many bytes at once, so one record has to wait for some time."""


async def make_topic(side: Side) -> None:
    async with KafkaClient(f"{side.host}:{side.port}") as client:
        created = await client.create_topics([NewTopic(name=THROTTLED_TOPIC, partitions=1)])
        assert created == {THROTTLED_TOPIC: None}
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                topic = (await client.metadata([THROTTLED_TOPIC])).topics[THROTTLED_TOPIC]
                if topic.partitions and topic.partitions[0].leader > 0:
                    return
                await asyncio.sleep(0.05)


def production(acks: int, client_id: str) -> Ask:
    batch = bytes(encode_batch([NewRecord(1_000, b"k", bytes(RECORD_BYTES))]))
    partition = {"index": 0, "records": batch}
    return Ask(
        ApiKey.PRODUCE,
        11,
        {
            "transactional_id": None,
            "acks": acks,
            "timeout": 10_000,
            "topic_data": [{"name": THROTTLED_TOPIC, "partition_data": [partition]}],
        },
        header=encode_request_header(ApiKey.PRODUCE, 11, 1, client_id),
    )


async def write_first(side: Side) -> None:
    """Write a record without a quota. Kafka names a leader a moment before that leader serves."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            (answer,) = await converse(side, [production(1, "unlimited")])
            (partition,) = answer["responses"][0]["partition_responses"]
            if partition["error_code"] == "none":
                return
            await asyncio.sleep(0.05)


def fetching(offset: int) -> Ask:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    return Ask(
        ApiKey.FETCH,
        12,
        {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": THROTTLED_TOPIC, "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        },
    )


async def test_throttle_times_are_those_of_kafka(both: tuple[Side, Side]) -> None:
    """Before the table, which sets quotas for everybody."""
    limited: Entries = [
        ([("client-id", "asking")], [(P, BYTE_RATE), (C, BYTE_RATE)]),
        ([("client-id", "silent")], [(P, BYTE_RATE)]),
    ]
    for side in both:
        await make_topic(side)
        await write_first(side)
        await alter(side, limited)
    await settled(both)
    produced, fetched = [], []
    loop = asyncio.get_running_loop()
    for side in both:
        peer = await side.connect()
        answer = await peer.ask(production(1, "asking"))
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none"
        produced.append(answer["throttle_time"])
        await peer.close()
        peer = await side.connect()
        answer = await peer.ask(fetching(0))
        fetched.append((answer["throttle_time"], answer["responses"]))
        await peer.close()
        peer = await side.connect()
        began = loop.time()
        # Without acknowledgement only the mute tells that there is a quota.
        peer.send_frame(production(0, "silent").frame(side, 1))
        await peer.ask(description([]))
        assert loop.time() - began >= produced[-1] / 1000 - CLOCK_STEP_S, side.name
        await peer.close()
        deleted: Entries = [(who, [(P, None), (C, None)]) for who, _ in limited]
        await alter(side, deleted)
    assert produced[0] == produced[1] > 100
    assert fetched[0] == fetched[1]
    assert fetched[0][0] > 0
    assert fetched[0][1] == []


def creation(name: str, partitions: int, version: int) -> Ask:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    fields = {"topics": [topic], "timeout": 20_000, "validate_only": False}
    header = encode_request_header(ApiKey.CREATE_TOPICS, version, 1, "creating")
    return Ask(ApiKey.CREATE_TOPICS, version, fields, header=header)


async def test_mutations_are_throttled_as_by_kafka(both: tuple[Side, Side]) -> None:
    """11 windows of 1 s hold 0.11 partitions at this rate: each debt lasts longer than the test."""
    creating: Names = [("client-id", "creating")]
    steps = [
        ("one", 2, 6, "none"),
        ("two", 1, 6, "throttling_quota_exceeded"),
        ("one", 1, 7, "topic_already_exists"),
        ("three", 0, 7, "invalid_partitions"),
        ("four", 1, 7, "throttling_quota_exceeded"),
    ]
    for side in both:
        await alter(side, [(creating, [(M, 0.01)])])
    await settled(both)
    for side in both:
        for name, partitions, version, error in steps:
            # A connection that was throttled is not read again.
            peer = await side.connect()
            peer.send_frame(creation(name, partitions, version).frame(side, 1))
            async with asyncio.timeout(SECONDS_MAX):
                frame = await peer.receive()
            assert frame is not None
            _, position = read_response_header(ApiKey.CREATE_TOPICS, version, frame)
            answer = messages.decode_response(ApiKey.CREATE_TOPICS, version, frame, position)
            await peer.close()
            assert answer.topics[0].error_code.name == error, (side.name, name)
            throttle_ms = messages.ms(answer.throttle_time)
            # (2 - 0.11) partitions of debt are refilled in 189 s.
            is_throttled = error == "throttling_quota_exceeded"
            assert 150_000 * is_throttled <= throttle_ms <= 189_000 * is_throttled, side.name
        await alter(side, [(creating, [(M, None)])])


async def test_quotas_are_those_of_kafka(both: tuple[Side, Side]) -> None:
    seen = []
    for entries in ALTERATIONS:
        ours, kafkas = [await alter(side, entries) for side in both]
        assert ours == kafkas, entries
        seen.append(await settled(both))
    before = seen[-1]
    assert len(before[2]) >= 12
    dry: Entries = [([("user", "dry")], [(P, 1.0)])]
    ours, kafkas = [await alter(side, dry, validate_only=True) for side in both]
    assert ours == kafkas
    assert await settled(both) == before
    for components in FILTERS:
        for strict in (False, True):
            ours, kafkas = [await describe(side, components, strict=strict) for side in both]
            assert ours == kafkas, (components, strict)
