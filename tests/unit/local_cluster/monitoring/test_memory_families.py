"""The metrics of queued.max.request.bytes."""

from __future__ import annotations

from local_cluster.monitoring.broker_families import memory_families
from local_cluster.wire.request_memory import RequestMemory


def values(memory: RequestMemory) -> dict[str, float]:
    return {head.name: found.value for head, (found,) in memory_families(memory)}


def test_the_memory_of_requests_and_the_wait_for_it() -> None:
    now_ns = [1]
    memory = RequestMemory(100, lambda: now_ns[0])
    assert memory.take(150)
    memory.wait("a", 1, 1, lambda: None)
    now_ns[0] += 3_000_000
    assert values(memory) == {
        "kafka_network_socketserver_memorypoolavailable": -50,
        "kafka_network_socketserver_memorypoolused": 150,
        "heliograph_requests_waiting_for_memory": 1,
        "kafka_server_socket_server_metrics_memorypooldepletedtime_total": 3,
    }


def test_without_a_limit_there_is_nothing_left_to_show() -> None:
    memory = RequestMemory(-1, lambda: 1)
    assert memory.take(150)
    assert values(memory)["kafka_network_socketserver_memorypoolused"] == 150
    assert "kafka_network_socketserver_memorypoolavailable" not in values(memory)
