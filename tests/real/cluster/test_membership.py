"""The session of a broker: it registers, loses the session, and rejoins with a new one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from local_cluster.controller.model import znode_paths
from local_cluster.controller.model.topic_requests import TopicSpec
from local_cluster.controller.zk.kazoo_coordination import KazooCoordination
from local_cluster.controller.zk.session_file import SESSION_FILE, SessionFile
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.real.cluster.control_plane_member import Member, end_session, running
from tests.support.quiet_ports import quiet_port
from tests.support.replicas import EVENTUALLY_SECONDS, eventually
from topology.deployment.zookeeper import EmbeddedZooKeeper

pytestmark = pytest.mark.real


def end_the_connection(client: KazooClient) -> None:
    """End the connection's thread with the next packet, for example the response to a ping."""
    client._connection._read_socket = sys.exit


def end_the_answers(client: KazooClient) -> None:
    """End the thread that passes on responses."""
    client.handler.completion_queue.put(sys.exit)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("end", [end_the_connection, end_the_answers])
async def test_a_broker_whose_client_died_joins_again(
    chroot: str, outside: KazooClient, tmp_path: Path, end: Callable[[KazooClient], None]
) -> None:
    async with running(Member(chroot, tmp_path / "1")) as member:
        former, epoch = member.session(), member.cache.broker_epoch
        coordination = member.plane._coordination
        assert isinstance(coordination, KazooCoordination)
        end(coordination._client.kazoo)
        await eventually(lambda: member.cache.broker_epoch != epoch)
        await eventually(lambda: member.plane.is_controller)
        owner = outside.get(znode_paths.broker_id_path(1))[1].ephemeralOwner
        assert owner == member.session()[0] == coordination.session_id != former[0]
        # Watches are set again as well.
        outside.create(znode_paths.topic_path("t"), b'{"version":1,"partitions":{"0":[1]}}')
        await eventually(lambda: "t" in member.cache.topics)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_broker_whose_client_died_stops_without_zookeeper(
    zookeeper: str, tmp_path: Path
) -> None:
    member = Member(f"{zookeeper}/t{uuid.uuid4().hex[:8]}", tmp_path / "1")
    await member.plane.start()
    coordination = member.plane._coordination
    assert isinstance(coordination, KazooCoordination)
    coordination._hosts = f"127.0.0.1:{quiet_port()}"
    end_the_answers(coordination._client.kazoo)
    await eventually(lambda: coordination._replacing is not None)
    await member.plane.stop()


class TestMembership:
    async def test_registration_is_kafkas(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        async with running(Member(chroot, tmp_path)) as member:
            payload, status = outside.get("/brokers/ids/1")
            body = json.loads(payload)
            address = member.cache.brokers[1].listeners["CLIENT"]
            assert address[0] == "127.0.0.1"
            assert body.pop("timestamp").isdecimal()
            assert body.pop("heliograph")["inter_broker_listener"] == "CLIENT", "Kafka skips it"
            assert body == {
                "features": {},
                "listener_security_protocol_map": {"CLIENT": "PLAINTEXT"},
                "endpoints": [f"CLIENT://127.0.0.1:{address[1]}"],
                "rack": "r1",
                "jmx_port": -1,
                "port": address[1],
                "host": "127.0.0.1",
                "version": 5,
            }
            assert status.ephemeralOwner == member.session()[0]
            assert member.cache.broker_epoch == status.czxid
            assert json.loads(outside.get("/controller")[0])["brokerid"] == 1
            assert outside.get("/controller_epoch")[0] == b"1"
            assert all(outside.exists(path) for path in znode_paths.PERSISTENT_PATHS)
            cluster_id = json.loads(outside.get("/cluster/id")[0])
            assert cluster_id == {"version": "1", "id": member.cache.cluster_id}
        assert outside.get_children("/brokers/ids") == []
        assert not outside.exists("/controller")
        assert not (tmp_path / SESSION_FILE).exists()

    async def test_the_session_file_is_private(self, chroot: str, tmp_path: Path) -> None:
        async with running(Member(chroot, tmp_path)):
            assert stat.S_IMODE((tmp_path / SESSION_FILE).stat().st_mode) == 0o600

    async def test_many_brokers_start_at_once_and_one_controls(
        self, chroot: str, tmp_path: Path
    ) -> None:
        members = [Member(chroot, tmp_path / str(i), i) for i in range(1, 6)]
        await asyncio.gather(*(member.plane.start() for member in members))
        controllers = [member for member in members if member.plane.is_controller]
        assert len(controllers) == 1
        assert len({member.cache.cluster_id for member in members}) == 1
        await eventually(lambda: len(controllers[0].cache.brokers) == 5)
        await asyncio.gather(*(member.plane.stop() for member in members))

    async def test_a_dead_session_hands_the_controller_over(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        first, second = (Member(chroot, tmp_path / str(i), i) for i in (1, 2))
        async with running(first), running(second):
            # The controller hears of a broker a moment after the broker has registered.
            await eventually(lambda: len(first.cache.brokers) == 2)
            (created,) = await first.plane.create_topics(
                [TopicSpec(name="a", assignments={0: (1,), 1: (2,)})]
            )
            assert created.error is None
            former = first.session()
            await asyncio.to_thread(end_session, chroot, former)
            await eventually(lambda: second.plane.is_controller)
            assert second.cache.controller_epoch == 2
            # The first broker rejoins by itself, with a new session, as a plain member.
            await eventually(lambda: first.cache.controller_id == 2)
            assert not first.plane.is_controller
            assert first.session()[0] != former[0]
            await eventually(lambda: second.cache.topics["a"].partitions[0].leader == 1)
            assert second.cache.topics["a"].partitions[0].leader_epoch > 0
            assert second.cache.topics["a"].partitions[1].leader_epoch == 0
            state = json.loads(outside.get("/brokers/topics/a/partitions/0/state")[0])
            assert state["controller_epoch"] == 2
            with pytest.raises(KafkaError) as refused:
                await first.plane.create_topics([TopicSpec(name="b")])
            assert refused.value.code is ErrorCode.not_controller

    async def test_a_killed_broker_ends_its_former_session_when_it_is_back(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        killed = Member(chroot, tmp_path)
        await killed.plane.start()
        kept = (tmp_path / SESSION_FILE).read_bytes()
        first_id = killed.session()[0]
        former = killed.cache.broker_epoch
        # As after kill -9: the session lives, and its client is gone.
        again = Member(chroot, tmp_path)
        assert (tmp_path / SESSION_FILE).read_bytes() == kept
        killed.plane._member._session_changed = lambda state: None  # type: ignore[method-assign]
        killed.plane._member._follow_task.cancel()  # type: ignore[union-attr]
        killed.plane._coordination._session_file = SessionFile(None)  # type: ignore[attr-defined]
        async with running(again):
            assert again.session()[0] != first_id
            assert again.cache.broker_epoch > former
            assert again.plane.is_controller
            assert outside.get("/brokers/ids/1")[1].ephemeralOwner == again.session()[0]
        await killed.plane.stop()

    async def test_producer_id_blocks_are_kafkas(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        first, second = (Member(chroot, tmp_path / str(i), i) for i in (1, 2))
        async with running(first), running(second):
            planes = [first.plane, second.plane] * 5
            blocks = await asyncio.gather(*(plane.allocate_producer_ids() for plane in planes))
            assert sorted(block.start for block in blocks) == [n * 1000 for n in range(10)]
            stored = json.loads(outside.get("/latest_producer_id_block")[0])
            assert stored.pop("broker") in (1, 2)
            assert stored == {"version": 1, "block_start": "9000", "block_end": "9999"}


class TestZooKeeperAway:
    async def test_a_restarted_zookeeper_finds_the_members_again(self, tmp_path: Path) -> None:
        server = EmbeddedZooKeeper(
            directory=tmp_path, data_directory=tmp_path / "data", port=quiet_port()
        )
        for path, text in server.files.items():
            path.write_text(text)
        process = subprocess.Popen(server.argv, stderr=subprocess.DEVNULL)
        member = Member(f"{server.connect}/c", tmp_path / "1")
        try:
            async with running(member):
                (created,) = await member.plane.create_topics([TopicSpec(name="a")])
                assert created.error is None
                before = member.cache.topics["a"]
                process.kill()
                process.wait()
                asked = asyncio.create_task(member.plane.create_topics([TopicSpec(name="b")]))
                await asyncio.sleep(0)
                process = subprocess.Popen(server.argv, stderr=subprocess.DEVNULL)
                # A request during the outage gets a response, even if that is "unknown".
                with contextlib.suppress(KafkaError):
                    await asked
                async with asyncio.timeout(EVENTUALLY_SECONDS):
                    while "c" not in member.cache.topics:
                        with contextlib.suppress(KafkaError):
                            await member.plane.create_topics([TopicSpec(name="c")])
                        await asyncio.sleep(0.05)
                after = member.cache.topics["a"]
                assert after.topic_id == before.topic_id
                assert after.partitions[0].leader == 1
                assert member.cache.controller_epoch >= 1
        finally:
            process.kill()
            process.wait()
