"""Rows about a controller of 10,000 partitions that goes: killed, paused, its session ended.

Two moments are measured from the fault on:

- one of the other brokers answers a request that needs a controller (CreateTopics, validated only);
- each of the other brokers knows a living leader of every partition.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from kazoo.client import KazooClient

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.controller.zk.session_file import SESSION_FILE
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.bench.bench import Bench
from tests.bench.model import (
    ANSWERED_SECONDS,
    CPU_CORE,
    CPU_SECONDS,
    KAFKA,
    LED_SECONDS,
    MEMORY_ALL_MB,
    Figures,
    Side,
    Wanted,
    Work,
)
from tests.bench.systems import System
from tests.support.cluster import BrokerProcess
from tests.support.java_process import run_java

PARTITIONS_PER_TOPIC: Final = 100
TOPICS_PER_REQUEST: Final = 10
ANSWERED_SECONDS_MAX: Final = 2.0
"""What a new controller may take at 10,000 partitions, from the end of the session on."""
LEFT_SECONDS_MAX: Final = 300.0
SETTLED_SECONDS_MAX: Final = 900.0
POLL_SECONDS: Final = 0.02
REQUEST_TIMEOUT_MS: Final = 60_000
CREATE_TIMEOUT_MS: Final = 300_000
QUORUM_TOOL: Final = "org.apache.kafka.tools.MetadataQuorumCommand"

Fault = Callable[[System, int], Awaitable[None]]
"""Done to the broker with this id, which controls; what is measured begins when it returns."""


def works() -> list[Work]:
    """The rows, in the order of the table."""
    return [
        Work(
            name="controller-idle",
            title="Idle, nothing is written or read",
            measure=_idle,
            wanted={MEMORY_ALL_MB: [Wanted(1.0)]},
            repeats=1,
        ),
        _failover(
            "controller-expired",
            "The controller's ZooKeeper session is over",
            _end_session,
            left_out=[KAFKA],
            limit=Wanted(ANSWERED_SECONDS_MAX, "absolute"),
        ),
        _failover("controller-paused", "The controller is stopped (SIGSTOP)", _pause),
        _failover(
            "controller-killed",
            "The controller is killed (-9)",
            _kill,
            limit=Wanted(1.0),
        ),
    ]


async def create_topics(bench: Bench, system: System) -> float:
    """Make the partitions; the seconds until every broker knows leaders of all."""
    names = _topics(bench)
    start = time.monotonic()
    for first in range(0, len(names), TOPICS_PER_REQUEST):
        new = [
            NewTopic(
                name=name,
                partitions=_partitions_per_topic(bench),
                replication_factor=system.replicas,
            )
            for name in names[first : first + TOPICS_PER_REQUEST]
        ]
        async with _client(system.bootstrap) as client:
            for name, error in (
                await client.create_topics(new, timeout_ms=CREATE_TIMEOUT_MS)
            ).items():
                if error is not None and error.code != ErrorCode.topic_already_exists:
                    raise RuntimeError(f"{name} is not created: {error}")
    await _until_led(system, range(1, len(system.ports) + 1), bench)
    return time.monotonic() - start


def _topics(bench: Bench) -> list[str]:
    return [
        f"t{n}" for n in range(max(1, bench.scale.controller_partitions // PARTITIONS_PER_TOPIC))
    ]


def _partitions_per_topic(bench: Bench) -> int:
    return min(PARTITIONS_PER_TOPIC, bench.scale.controller_partitions)


def _client(bootstrap: str) -> KafkaClient:
    return KafkaClient(bootstrap, client_id="bench", request_timeout_ms=REQUEST_TIMEOUT_MS)


async def _idle(bench: Bench, system: System) -> Figures:
    await asyncio.sleep(bench.scale.idle_seconds)
    with system.cost() as cost:
        await asyncio.sleep(bench.scale.idle_seconds)
    return {
        MEMORY_ALL_MB: system.memory_mb(with_helpers=True),
        CPU_CORE: cost.cpu_seconds / cost.seconds * 100,
    }


def _failover(
    name: str,
    title: str,
    fault: Fault,
    *,
    left_out: Sequence[Side] = (),
    limit: Wanted | None = None,
) -> Work:
    async def measure(bench: Bench, system: System) -> Figures:
        controller_id = await _controller(system)
        others = [b for b in range(1, len(system.ports) + 1) if b != controller_id]
        async with _ended(system, controller_id):
            await fault(system, controller_id)
            start = time.monotonic()
            with system.cost() as cost:
                async with asyncio.timeout(LEFT_SECONDS_MAX):
                    answered = asyncio.create_task(_until_answered(system, others))
                    led = asyncio.create_task(_until_led(system, others, bench))
                    answered_at, led_at = await asyncio.gather(answered, led)
        await _until_settled(system, bench)
        return {
            ANSWERED_SECONDS: answered_at - start,
            LED_SECONDS: led_at - start,
            CPU_SECONDS: cost.cpu_seconds,
        }

    wanted = {} if limit is None else {ANSWERED_SECONDS: [limit]}
    return Work(
        name=name,
        title=title,
        measure=measure,
        wanted=wanted,
        left_out=dict.fromkeys(left_out, ""),
    )


# -- faults ----------------------------------------------------------------------------------------


async def _kill(system: System, broker_id: int) -> None:
    await system.brokers[broker_id - 1].kill()


async def _pause(system: System, broker_id: int) -> None:
    process = system.brokers[broker_id - 1].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)


async def _end_session(system: System, broker_id: int) -> None:
    """End the broker's session as the server does at a timeout, while the broker hangs.

    A broker that continues may be elected again.
    """
    await _pause(system, broker_id)
    broker = system.brokers[broker_id - 1]
    assert isinstance(broker, BrokerProcess), "Kafka's controllers have no session"
    saved = json.loads((broker.log_dir / SESSION_FILE).read_bytes())
    session = saved["session_id"], bytes.fromhex(saved["password"])

    def end() -> None:
        thief = KazooClient(broker.settings.zookeeper_connect, client_id=session)
        thief.start()
        thief.stop()
        thief.close()

    await asyncio.to_thread(end)


@contextlib.asynccontextmanager
async def _ended(system: System, broker_id: int) -> AsyncIterator[None]:
    """Run the broker again afterwards, after any fault."""
    broker = system.brokers[broker_id - 1]
    try:
        yield
    finally:
        process = broker.process
        assert process is not None
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
        else:
            await broker.start()


# -- what is waited for ----------------------------------------------------------------------------


async def _controller(system: System) -> int:
    """The id of the broker that controls."""
    if system.side == KAFKA:
        # Kafka's Metadata names any broker as the controller.
        said = await run_java(
            QUORUM_TOOL, "--bootstrap-server", system.bootstrap, "describe", "--status"
        )
        found = re.search(r"LeaderId:\s+(\d+)", said)
        assert found is not None, said
        return int(found[1])
    async with _client(system.bootstrap) as client:
        while True:
            controller_id = (await client.metadata([])).controller_id
            if controller_id > 0:
                return controller_id
            await asyncio.sleep(POLL_SECONDS)


async def _until_answered(system: System, brokers: Sequence[int]) -> float:
    """When a request for the controller was answered through one of the brokers."""
    spec = NewTopic(name="only-asked", partitions=1, replication_factor=1)
    bootstrap = ",".join(f"127.0.0.1:{system.ports[broker - 1]}" for broker in brokers)
    while True:
        with contextlib.suppress(KafkaError, OSError):
            async with KafkaClient(
                bootstrap, client_id="bench", request_timeout_ms=1_000
            ) as client:
                cluster = await client.metadata([])
                node_id = cluster.controller_id if system.side != KAFKA else brokers[0]
                if node_id in brokers:
                    fields = {
                        "topics": [
                            {
                                "name": spec.name,
                                "num_partitions": spec.partitions,
                                "replication_factor": spec.replication_factor,
                            }
                        ],
                        "timeout": 1_000,
                        "validate_only": True,
                    }
                    answer = await client.call(ApiKey.CREATE_TOPICS, fields, node_id=node_id)
                    if answer.topics[0].error_code == ErrorCode.none:
                        return time.monotonic()
        await asyncio.sleep(POLL_SECONDS)


async def _until_led(system: System, brokers: Sequence[int], bench: Bench) -> float:
    """When each of the brokers knew leaders of all partitions, among themselves."""
    return max(
        await asyncio.gather(
            *(_until(system, broker, bench, frozenset(brokers)) for broker in brokers)
        )
    )


async def _until(
    system: System, broker: int, bench: Bench, leaders: frozenset[int], *, in_sync: int = 1
) -> float:
    """When that broker told so of every partition.

    One topic is asked for until it is so, then the next: to ask for all of them again and again
    would be most of what the brokers do meanwhile.
    """
    names = _topics(bench)
    while names:
        with contextlib.suppress(KafkaError, OSError):
            async with _client(f"127.0.0.1:{system.ports[broker - 1]}") as client:
                while names:
                    topic = (await client.metadata(names[-1:])).topics[names[-1]]
                    if len(topic.partitions) >= _partitions_per_topic(bench) and all(
                        p.leader in leaders and len(p.isr) >= in_sync
                        for p in topic.partitions.values()
                    ):
                        names.pop()
                    else:
                        await asyncio.sleep(POLL_SECONDS)
        await asyncio.sleep(POLL_SECONDS)
    return time.monotonic()


async def _until_settled(system: System, bench: Bench) -> None:
    """All replicas in sync again, and every leader the preferred one."""
    brokers = range(1, len(system.ports) + 1)
    async with asyncio.timeout(SETTLED_SECONDS_MAX):
        for broker in brokers:
            await _until(system, broker, bench, frozenset(brokers), in_sync=system.replicas)
        async with _client(system.bootstrap) as client:
            fields = {"election_type": 0, "topic_partitions": None, "timeout": CREATE_TIMEOUT_MS}
            await client.call_controller(ApiKey.ELECT_LEADERS, fields, timeout_ms=CREATE_TIMEOUT_MS)
