"""The control plane against a real ZooKeeper, alone and in clusters of real broker processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.clock import SystemClock
from local_cluster.controller import znodes
from local_cluster.controller.control_plane import ControlPlane
from local_cluster.controller.coordination import (
    READ_MANY_MAX,
    CheckVersion,
    CommitConflict,
    Conflict,
    CoordinationUnavailable,
    Create,
    Delete,
    SetPayload,
    ZkOp,
)
from local_cluster.controller.metadata_cache import Changes, MetadataCache
from local_cluster.controller.session_file import SESSION_FILE, SessionFile
from local_cluster.controller.topic_requests import TopicSpec
from local_cluster.controller.zk_requests import MultiRead
from local_cluster.controller.zk_shell import KazooCoordination
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.cluster import running_broker
from tests.quiet_ports import quiet_port
from topology.zookeeper import EmbeddedZooKeeper

pytestmark = pytest.mark.real

EVENTUALLY_SECONDS = 30.0
SESSION_TIMEOUT_MS = 4_000


@pytest.fixture
def chroot(zookeeper: str) -> str:
    """Connect string with a chroot that does not exist yet."""
    return f"{zookeeper}/t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def outside(chroot: str) -> Iterator[KazooClient]:
    """An outside tool's client, under the same chroot."""
    client = KazooClient(chroot)
    client.start()
    client.ensure_path("/")
    yield client
    client.stop()
    client.close()


class Member:
    """A control plane in this process, without a server: it is told nothing by others."""

    def __init__(self, chroot: str, directory: Path, broker_id: int = 1) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.cache = MetadataCache()
        self.changes: list[Changes] = []
        listener = Listener(name="CLIENT", host="0.0.0.0", port=0, advertised_host="127.0.0.1")
        self.plane = ControlPlane(
            BrokerSettings(
                cluster="c",
                broker_id=broker_id,
                rack="r1",
                listeners=(listener,),
                inter_broker_listener="CLIENT",
                zookeeper_connect=chroot,
                zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
                log_dirs=(str(directory),),
                ready_file="unused",
            ),
            SystemClock(),
            self.cache,
            self.changes.append,
            bound_ports={"CLIENT": quiet_port()},
        )

    def session(self) -> tuple[int, bytes]:
        saved = json.loads((self.directory / SESSION_FILE).read_bytes())
        return saved["session_id"], bytes.fromhex(saved["password"])


@contextlib.asynccontextmanager
async def running(member: Member) -> AsyncIterator[Member]:
    await member.plane.start()
    try:
        yield member
    finally:
        await member.plane.stop()


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def end_session(chroot: str, session: tuple[int, bytes]) -> None:
    """Close somebody else's session, as the server does when it times out."""
    thief = KazooClient(chroot, client_id=session)
    thief.start()
    assert thief.client_id[0] == session[0]
    thief.stop()
    thief.close()


def end_the_connection(client: KazooClient) -> None:
    """The thread of the connection ends with the next packet, be it an answer to a ping."""
    client._connection._read_socket = sys.exit


def end_the_answers(client: KazooClient) -> None:
    """The thread that hands over answers ends."""
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
        owner = outside.get(znodes.broker_id_path(1))[1].ephemeralOwner
        assert owner == member.session()[0] == coordination.session_id != former[0]
        # Watches are there as well.
        outside.create(znodes.topic_path("t"), b'{"version":1,"partitions":{"0":[1]}}')
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


class TestZooKeeperShell:
    @pytest.fixture
    async def coordination(self, chroot: str) -> AsyncIterator[KazooCoordination]:
        coordination = KazooCoordination(chroot, session_timeout_ms=SESSION_TIMEOUT_MS)
        await coordination.start()
        yield coordination
        await coordination.stop()

    async def test_reads_and_commits(self, coordination: KazooCoordination) -> None:
        assert await coordination.read("/a") is None
        assert await coordination.children("/a") == ()
        assert await coordination.commit([Create("/a", b"1"), Create("/a/b")]) == (0, 0)
        changes: list[ZkOp] = [SetPayload("/a", b"2", 0), CheckVersion("/a/b", 0), Delete("/a/b")]
        assert (await coordination.commit(changes))[0] == 1
        znode = await coordination.read("/a")
        assert znode is not None
        assert (znode.payload, znode.version, znode.ephemeral_owner) == (b"2", 1, 0)
        assert 0 < znode.created_zxid < znode.modified_zxid

    async def test_many_znodes_in_one_request(self, coordination: KazooCoordination) -> None:
        await coordination.commit([Create("/a", b"1"), Create("/b"), SetPayload("/a", b"22", 0)])
        names = ["/b", "/none", *["/a"] * (READ_MANY_MAX - 2)]
        found = await coordination.read_many(names)
        one_by_one = [await coordination.read(name) for name in names[:3]]
        assert found == [*one_by_one, *[one_by_one[2]] * (READ_MANY_MAX - 3)]
        assert one_by_one[1] is None

    async def test_a_server_without_multi_read_is_read_one_by_one(
        self, coordination: KazooCoordination, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # How any server answers a request that it does not know.
        monkeypatch.setattr(MultiRead, "type", 999)
        await coordination.commit([Create("/a", b"1")])
        node = await coordination.read("/a")
        # It also closes the connection with its answer, and what is asked meanwhile is asked again.
        async with asyncio.timeout(30):
            while True:
                try:
                    found = await coordination.read_many(["/a", "/none"])
                    break
                except CoordinationUnavailable:
                    await asyncio.sleep(0.05)
        assert found == [node, None]

    @pytest.mark.parametrize(
        ("op", "conflict"),
        [
            (Create("/a"), Conflict.NODE_EXISTS),
            (Create("/no/parent"), Conflict.NO_NODE),
            (SetPayload("/a", b"", 7), Conflict.BAD_VERSION),
            (CheckVersion("/a", 7), Conflict.BAD_VERSION),
            (Delete("/none"), Conflict.NO_NODE),
            (Delete("/a"), Conflict.NOT_EMPTY),
        ],
    )
    async def test_a_conflict_names_its_operation_and_undoes_all(
        self, coordination: KazooCoordination, op: Any, conflict: Conflict
    ) -> None:
        await coordination.commit([Create("/a"), Create("/a/b")])
        with pytest.raises(CommitConflict) as refused:
            await coordination.commit([Create("/first"), op, Create("/last")])
        assert (refused.value.index, refused.value.op) == (1, op)
        assert refused.value.conflict is conflict
        assert await coordination.read("/first") is None

    async def test_watches_tell_of_creation_change_and_children(
        self, coordination: KazooCoordination, outside: KazooClient
    ) -> None:
        told: list[str | None] = []
        coordination.subscribe(told.append, lambda state: None)
        assert await coordination.read("/w", watch=True) is None
        outside.create("/w", b"1")
        await eventually(lambda: told == ["/w"])
        await coordination.read("/w", watch=True)
        outside.set("/w", b"2")
        await eventually(lambda: told == ["/w", "/w"])
        await coordination.children("/w", watch=True)
        outside.create("/w/child")
        await eventually(lambda: told == ["/w", "/w", "/w"])


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
            assert all(outside.exists(path) for path in znodes.PERSISTENT_PATHS)
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
            (created,) = await first.plane.create_topics(
                [TopicSpec(name="a", assignments={0: (1,), 1: (2,)})]
            )
            assert created.error is None
            former = first.session()
            await asyncio.to_thread(end_session, chroot, former)
            await eventually(lambda: second.plane.is_controller)
            assert second.cache.controller_epoch == 2
            # The first one comes back by itself, with another session, as a plain member.
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
        # As after kill -9: the session lives on, and nobody speaks for it.
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
                # What was asked while it was away has an answer, even if that is "unknown".
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


class TestTopics:
    async def test_created_and_deleted_topics_are_kafkas(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        async with running(Member(chroot, tmp_path)) as member:
            spec = TopicSpec(name="a", partitions=2, configs={"retention.ms": "1000"})
            (created,) = await member.plane.create_topics([spec])
            assert created.topic is not None
            assert json.loads(outside.get("/brokers/topics/a")[0]) == {
                "version": 3,
                "topic_id": znodes.encode_uuid(created.topic.topic_id),
                "partitions": {"0": [1], "1": [1]},
                "adding_replicas": {},
                "removing_replicas": {},
            }
            assert json.loads(outside.get("/config/topics/a")[0]) == {
                "version": 1,
                "config": {"retention.ms": "1000"},
            }
            for index in range(2):
                path = f"/brokers/topics/a/partitions/{index}/state"
                assert json.loads(outside.get(path)[0]) == {
                    "controller_epoch": 1,
                    "leader": 1,
                    "version": 1,
                    "leader_epoch": 0,
                    "isr": [1],
                }
            assert (await member.plane.delete_topics(["a"])) == {"a": None}
            for path in ("/brokers/topics/a", "/config/topics/a", "/admin/delete_topics/a"):
                assert not outside.exists(path)
            assert Changes(deleted={"a": created.topic.topic_id}) in member.changes

    async def test_topics_of_an_outside_tool(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        async with running(Member(chroot, tmp_path)) as member:
            outside.create("/config/topics/a", b'{"version":1,"config":{"retention.ms":"7"}}')
            outside.create("/brokers/topics/a", b'{"version":1,"partitions":{"0":[1]}}')
            await eventually(lambda: member.cache.partition("a", 0) is not None)
            assert member.cache.topics["a"].configs == {"retention.ms": "7"}
            assert json.loads(outside.get("/brokers/topics/a")[0])["version"] == 3
            outside.create("/admin/delete_topics/a")
            await eventually(lambda: not outside.exists("/brokers/topics/a"))
            assert "a" not in member.cache.topics

    async def test_a_thousand_partitions_are_led_and_deleted(
        self, chroot: str, tmp_path: Path, outside: KazooClient
    ) -> None:
        async with running(Member(chroot, tmp_path)) as member:
            (created,) = await member.plane.create_topics([TopicSpec(name="a", partitions=1_200)])
            assert created.error is None
            led = [p.leader for p in member.cache.topics["a"].partitions.values()]
            assert led == [1] * 1_200
            assert len(outside.get_children("/brokers/topics/a/partitions")) == 1_200
            assert (await member.plane.delete_topics(["a"])) == {"a": None}
            assert not outside.exists("/brokers/topics/a")


class TestClusters:
    """Real broker processes: what the controller decides reaches everybody."""

    async def test_topics_are_known_everywhere_when_created(
        self, chroot: str, tmp_path: Path
    ) -> None:
        async with (
            running_broker(chroot, tmp_path, broker_id=1) as one,
            running_broker(chroot, tmp_path, broker_id=2) as two,
            KafkaClient(one.bootstrap) as client,
            KafkaClient(two.bootstrap) as other,
        ):
            assert await client.create_topics([NewTopic(name="a", partitions=4)]) == {"a": None}
            mine = (await client.metadata(["a"])).topics["a"]
            theirs = (await other.metadata(["a"])).topics["a"]
            assert theirs == mine
            assert {p.leader for p in mine.partitions.values()} == {1, 2}
            await client.delete_topics(["a"])
            for each in (client, other):
                topics = (await each.metadata(["a"])).topics
                assert topics["a"].error is ErrorCode.unknown_topic_or_partition
            assert not list(one.log_dir.glob("a-?"))
            assert not list(two.log_dir.glob("a-?"))

    async def test_a_broker_that_does_not_control_creates_topics_on_use(
        self, chroot: str, tmp_path: Path
    ) -> None:
        async with (
            running_broker(chroot, tmp_path, broker_id=1),
            running_broker(chroot, tmp_path, broker_id=2) as two,
            KafkaClient(two.bootstrap) as client,
        ):
            cluster = await client.metadata(["used"], allow_auto_topic_creation=True)
            assert cluster.controller_id == 1
            assert cluster.topics["used"].error is ErrorCode.none
            assert len(cluster.topics["used"].partitions) == 4
            refused = await client.call(
                ApiKey.CREATE_TOPICS,
                {
                    "topics": [{"name": "b", "num_partitions": 1, "replication_factor": 1}],
                    "timeout": 1000,
                },
                node_id=2,
            )
            assert refused.topics[0].error_code is ErrorCode.not_controller

    async def test_a_killed_broker_comes_back_and_leads_again(
        self, chroot: str, tmp_path: Path
    ) -> None:
        async with (
            running_broker(chroot, tmp_path, broker_id=1) as one,
            running_broker(chroot, tmp_path, broker_id=2) as two,
            KafkaClient(one.bootstrap) as client,
        ):
            assignments = {0: (1,), 1: (2,)}
            await client.create_topics([NewTopic(name="a", assignments=assignments)])
            await two.stop()
            partitions = (await client.metadata(["a"])).topics["a"].partitions
            async with asyncio.timeout(EVENTUALLY_SECONDS):
                while partitions[1].leader != -1:
                    partitions = (await client.metadata(["a"])).topics["a"].partitions
            assert partitions[1].error is ErrorCode.leader_not_available
            assert (partitions[0].leader, partitions[0].leader_epoch) == (1, 0)
            away = partitions[1].leader_epoch
            await two.start()
            await two.kill()
            await two.start()  # its former session has not timed out
            async with asyncio.timeout(EVENTUALLY_SECONDS):
                while partitions[1].leader != 2 or partitions[1].leader_epoch < away + 2:
                    partitions = (await client.metadata(["a"])).topics["a"].partitions
            async with KafkaClient(two.bootstrap) as other:
                assert (await other.metadata(["a"])).topics["a"].partitions == partitions

    async def test_the_controller_dies_and_the_other_takes_over(
        self, chroot: str, tmp_path: Path
    ) -> None:
        async with (
            running_broker(chroot, tmp_path, broker_id=1) as one,
            running_broker(chroot, tmp_path, broker_id=2) as two,
            KafkaClient(two.bootstrap) as client,
        ):
            assert await client.create_topics([NewTopic(name="a", partitions=2)]) == {"a": None}
            await one.kill()
            async with asyncio.timeout(EVENTUALLY_SECONDS):
                while (await client.metadata()).controller_id != 2:
                    await asyncio.sleep(0.05)
            assert await client.create_topics([NewTopic(name="b", partitions=1)]) == {"b": None}
            await one.start()
            async with KafkaClient(one.bootstrap) as back:
                async with asyncio.timeout(EVENTUALLY_SECONDS):
                    while (await back.metadata(["a"])).topics["a"].partitions[0].leader == -1:
                        await asyncio.sleep(0.02)
                cluster = await back.metadata()
                assert cluster.controller_id == 2
                assert cluster.topics.keys() == {"a", "b"}
