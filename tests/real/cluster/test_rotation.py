"""Every certificate, password, user and listener changes under load, and no request fails.

    alice     librdkafka, SCRAM: is told its new password, and becomes another user
    bob       aiokafka, SCRAM: a new client for each password
    carol     librdkafka with a certificate
    dave      Kafka's VerifiableProducer in Java, SCRAM: a new process for each password
    reader    librdkafka, a group of one: is told its new password

Three brokers with TLS on every listener, SCRAM, ACLs that are enforced, and sessions that end. All
producers are idempotent and retry as their defaults say. In the end a reader that knows only what
they were told finds every acknowledged record once. Nobody was told of a failure, and no secret
that is gone gets anybody in. `tests/rotation` has the steps.

`make rotation` runs it for longer: each thing once a minute for ten minutes, or as ROUNDS says.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from local_cluster.wire.errors import KafkaError
from tests.rotation.brokers import SecuredBrokers, secured_brokers
from tests.rotation.campaign import Campaign
from tests.rotation.clients import read_all
from tests.support.kafka_from_maven import tool_jars

pytestmark = pytest.mark.real

ROUNDS = int(os.environ.get("ROTATION_ROUNDS", "1"))
ROUND_SECONDS = float(os.environ.get("ROTATION_SECONDS", "0"))
SESSION_MS = 10_000
"""So that clients and brokers renew their sessions while secrets change."""
RECORDS_MIN = 20
SETTLE_SECONDS_MAX = 60.0


def java_is_here() -> bool:
    try:
        tool_jars()
    except pytest.skip.Exception:
        return False
    return True


@pytest.mark.timeout(900 + ROUNDS * 300)
async def test_everything_is_rotated_under_load(chroot: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(secured_brokers(chroot, tmp_path, SESSION_MS))
        campaign = Campaign(world, tmp_path, with_java=java_is_here())
        try:
            await campaign.start(stack)
            for _ in range(ROUNDS):
                ends = time.monotonic() + ROUND_SECONDS
                await campaign.round()
                await asyncio.sleep(max(0.0, ends - time.monotonic()))
            await check(campaign, world)
        except (AssertionError, KafkaError, TimeoutError) as error:
            logs = [each.log_text()[-3000:] for each in world.brokers.values()]
            error.add_note("\n".join(logs))
            raise


async def check(campaign: Campaign, world: SecuredBrokers) -> None:
    """Compare what clients were told with the topic."""
    told = await campaign.stop()
    assert {each.name: each.failures[:5] for each in told if each.failures} == {}
    reader = world.secrets.user("reader")
    found = await asyncio.to_thread(read_all, world.bootstrap("USERS"), reader)
    for each in told:
        assert len(each.acknowledged) > RECORDS_MIN, each.name
        counts = {found[value] for value in each.acknowledged}
        assert counts == {1}, f"{each.name}: lost or doubled"
    assert set(found.values()) == {1}
    async with asyncio.timeout(SETTLE_SECONDS_MAX):
        while found.keys() - campaign.reader.read.keys():
            await asyncio.sleep(0.1)
    await campaign.reader.stop()
    assert campaign.reader.failures == []
    for broker in world.brokers.values():
        assert "Traceback" not in broker.log_text()
    for name, seconds in campaign.steps.items():
        print(f"{name}: {len(seconds)} times, {max(seconds):.1f} s at most")
    records = {each.name: len(each.acknowledged) for each in told}
    print(f"{ROUNDS} rounds, acknowledged {records}, none failed, lost or doubled")
