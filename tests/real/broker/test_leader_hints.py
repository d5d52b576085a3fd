"""KIP-951: a response that refuses a partition names the leader and its endpoint."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.wire import fetch, messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.real.broker.test_broker_protocol import Peer
from tests.support.cluster import BrokerProcess, running_broker

pytestmark = pytest.mark.real


async def fetched(broker: BrokerProcess, version: int, entry: fetch.FetchPartition) -> Any:
    """Fetch, and decode the response with kio, as a check of the codec by hand."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    request = fetch.FetchRequest(-1, 0, 1, 1 << 20, 0, 0, -1, [entry], [], "")
    peer = Peer(reader, writer)
    peer.send(ApiKey.FETCH, version, fetch.encode_request(version, request))
    answer = messages.decode_response(ApiKey.FETCH, version, await peer.receive(), 5)
    writer.close()
    return answer


@pytest.mark.parametrize("version", [12, 15, 16, 18])
async def test_fetch_names_the_leader(zookeeper: str, tmp_path: Path, version: int) -> None:
    chroot = f"{zookeeper}/t{uuid.uuid4().hex[:8]}"
    async with (
        running_broker(chroot, tmp_path, broker_id=1) as one,
        running_broker(chroot, tmp_path, broker_id=2) as two,
        KafkaClient(one.bootstrap) as client,
    ):
        made = await client.create_topics([NewTopic(name="a", assignments={0: (2,)})])
        assert made == {"a": None}
        known = (await client.metadata(["a"])).topics["a"]
        epoch = known.partitions[0].leader_epoch
        named = ("a", None) if version < 13 else ("", known.topic_id)
        entry = fetch.FetchPartition(named[0], 0, -1, 0, -1, -1, 1 << 20, named[1])
        answer = await fetched(one, version, entry)
        refused = answer.responses[0].partitions[0]
        assert refused.error_code == ErrorCode.not_leader_or_follower
        hint = (refused.current_leader.leader_id, refused.current_leader.leader_epoch)
        if version < 16:
            assert hint == (-1, -1)
            return
        assert hint == (2, epoch)
        (endpoint,) = answer.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "127.0.0.1", two.port)
        await two.stop()
        await two.start()
        answer = await fetched(two, version, entry._replace(current_leader_epoch=epoch))
        fenced = answer.responses[0].partitions[0]
        assert fenced.error_code == ErrorCode.fenced_leader_epoch
        assert fenced.current_leader.leader_id == 2
        assert fenced.current_leader.leader_epoch > epoch
        assert [endpoint.node_id for endpoint in answer.node_endpoints] == [2]
