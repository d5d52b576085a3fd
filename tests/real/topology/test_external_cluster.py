"""The status of an external cluster: its brokers, or why it does not respond."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tests.support.cluster import running_broker
from topology.deployment.deployment import ClusterView, Deployment
from topology.status.liveness import check_liveness

pytestmark = pytest.mark.real


def deployment(**ports: int) -> Deployment:
    clusters = tuple(
        ClusterView(name=name, kind="external", datacenter=name, bootstrap=f"127.0.0.1:{port}")
        for name, port in ports.items()
    )
    return Deployment(name="outside", topology_file="outside.yaml", clusters=clusters)


async def test_an_existing_cluster_tells_its_brokers(zookeeper: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    async with running_broker(zookeeper, tmp_path, broker_id=7) as broker:
        clusters = deployment(theirs=broker.port, gone=nobody)
        answers = await asyncio.to_thread(check_liveness, clusters, None)
    assert set(answers.silent_clusters) == {"gone"}
    assert answers.silent_clusters["gone"].startswith("cluster gone does not answer: ")
    assert answers.external_brokers == {
        "theirs": [
            {
                "id": 7,
                "host": "127.0.0.1",
                "port": broker.port,
                "pid": None,
                "state": "registered",
                "reason": None,
                "url": None,
            }
        ]
    }
