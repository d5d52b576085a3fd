"""Our client in a fetch session (KIP-227) with any broker: only what changed goes either way."""

from __future__ import annotations

import asyncio
import copy

from local_cluster.client.client import KafkaClient
from local_cluster.client.fetch_session import FetchSession
from local_cluster.client.model import FetchedPartition, FetchPosition, NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from tests.support.producing import produce_once

A0, A1, B0 = TopicPartition("sa", 0), TopicPartition("sa", 1), TopicPartition("sb", 0)


async def fetch_in_a_session(client: KafkaClient) -> None:
    """Makes the topics `sa` and `sb`, led by the one broker of the cluster."""
    topics = [NewTopic(name="sa", partitions=2), NewTopic(name="sb", partitions=1)]
    assert set((await client.create_topics(topics)).values()) == {None}
    async with asyncio.timeout(60):
        # A topic is there before its leader is.
        while any(e.error for e in (await client.list_offsets({A0: -1, A1: -1, B0: -1})).values()):
            await asyncio.sleep(0.05)
    leader = (await client.metadata(["sb"])).topics["sb"].partitions[0].leader

    async def append(at: TopicPartition) -> None:
        answer = await produce_once(
            client, leader, at, encode_batch([NewRecord(1_000, b"k", b"v")])
        )
        assert not answer.error

    async def poll(session: FetchSession) -> dict[TopicPartition, FetchedPartition]:
        return (await client.fetch_in_session(leader, session, wait_ms_max=0)).partitions

    session = FetchSession()
    for at in (A0, A1, B0):
        session.add(at, FetchPosition(0))
    first = await poll(session)
    assert {at: each.high_watermark for at, each in first.items()} == {A0: 0, A1: 0, B0: 0}
    assert await poll(session) == {}

    await append(A0)
    news = await poll(session)
    assert list(news) == [A0]
    assert (news[A0].high_watermark, session.high_watermark(A1)) == (1, 0)
    assert list(await poll(session)) == [A0], "nobody has said that it was taken"

    session.add(A0, FetchPosition(1))
    session.remove(B0)
    await append(B0)
    assert await poll(session) == {}
    session.add(B0, FetchPosition(0))
    assert list(await poll(session)) == [B0]

    # Another client continues the session: this one loses it and opens a new one.
    assert list(await poll(copy.deepcopy(session))) == [B0]
    assert {at: each.high_watermark for at, each in (await poll(session)).items()} == {
        A0: 1,
        A1: 0,
        B0: 1,
    }
    session.add(B0, FetchPosition(1))
    assert await poll(session) == {}

    # Once it was closed nobody can go on with it.
    ended = copy.deepcopy(session)
    await client.close_fetch_session(leader, session)
    assert set(await poll(ended)) == {A0, A1, B0}
    assert set(await poll(session)) == {A0, A1, B0}
    assert await poll(session) == {}
