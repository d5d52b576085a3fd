"""What goes wrong in a simulated cluster, and what its operators do meanwhile.

    process     kill -9; SIGSTOP, past sessions and leases too; a clean stop; a rolling restart;
                a wall clock that jumps
    machine     power loss of one, of all at once; a slow disk; a full disk; a log directory whose
                disk fails, until it was replaced
    network     one broker cut off, one link in one direction, a slow host
    both        a leader cut off until it is alone in sync, and killed then
    ZooKeeper   out of reach for one broker, or for all; the controller's znode removed
    operators   replicas moved, to other brokers and to other log directories, moves cancelled,
                preferred leaders elected, min.insync.replicas changed, partitions added; a topic
                deleted and made anew under its name, its znodes removed by hand, its deletion
                missed by a broker that had replicas and is down; records deleted, often all but
                the newest, before which replicas that were away have to begin anew

With `flush: page_cache` one machine at a time loses its power, while everybody else is well, and
nothing else happens before its replicas have left the ISR: what is promised there is no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from local_cluster.controller.decisions.reassignments import ReassignmentRequest
from local_cluster.controller.model import znodes
from local_cluster.controller.model.topic_requests import PartitionsSpec
from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.wire.errors import KafkaError
from tests.sim.broker.sim_broker import SimBroker, host_of
from tests.sim.cluster.client import SimClient
from tests.sim.cluster.deletions import delete_records
from tests.sim.cluster.names import At, Log

if TYPE_CHECKING:
    from tests.sim.cluster.world import SimWorld

PAUSE_SECONDS = 1.2
"""Between two faults, on average."""
CLOCK_JUMPS_MS = (-7_200_000, -60_000, 0, 3_600_000, 86_400_000)
MIN_INSYNC_REPLICAS = ("1", "2", "3")
PARTITIONS_MAX = 3
ALONE_SECONDS = 4.0
"""Longer than followers may lag."""
GONE_SECONDS = 4.0
"""Longer than a session lasts."""
ADMIN_TIMEOUT_MS = 10_000
REFUSALS = (KafkaError, TimeoutError, CoordinationUnavailable)
"""What an operator may be told; whatever else comes of a request is a broker's failure."""
ANEW_POLL_SECONDS = 0.1


class Nemesis:
    """Chooses by the world's dice; `faults` says what it did."""

    def __init__(self, world: SimWorld) -> None:
        self.faults: list[str] = []
        self._world = world
        self._random = world.random
        self._names = list(world.scenario.faults)
        self._weights = list(world.scenario.faults.values())
        self._do_by_name: dict[str, Callable[[SimBroker], bool]] = {
            name: getattr(self, f"_{name}") for name in self._names
        }
        self._client = SimClient(world)
        self.without_power: SimBroker | None = None
        """It lost its page cache, and its replicas may still count."""

    async def trouble(self) -> None:
        """Faults, until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._random.expovariate(1 / PAUSE_SECONDS))
            broker = self._world.brokers[self._random.choice(list(self._world.brokers))]
            (fault,) = self._random.choices(self._names, self._weights)
            if self._is_fragile():
                continue
            if self._do_by_name[fault](broker):
                self.faults.append(f"{loop.time():.3f} {fault} {broker.id}")

    def heal(self) -> None:
        """No faults any more; whoever is down starts."""
        self._heal()
        for broker in self._world.brokers.values():
            broker.disk.is_full = False
            self._mend(broker)
            if broker.is_stopped:
                broker.proceed()
            if not broker.is_alive:
                broker.start()

    # -- processes and machines -------------------------------------------------------------

    def _kill(self, broker: SimBroker) -> bool:
        if broker.is_alive:
            broker.kill()
            self._start_later(broker)
            return True
        return False

    def _pause(self, broker: SimBroker) -> bool:
        if not broker.is_serving or broker.is_stopped or not broker.is_alive:
            return False
        broker.pause()
        self._later(self._random.uniform(0.2, 7.0), broker, broker.proceed)
        return True

    def _shut_down(self, broker: SimBroker) -> bool:
        if not self._may_shut_down(broker):
            return False
        broker.shut_down(lambda: self._start_later(broker))
        return True

    def _may_shut_down(self, broker: SimBroker) -> bool:
        return (
            broker.is_alive
            and broker.is_serving
            and not broker.is_leaving
            and not broker.is_stopped
        )

    def _roll(self, broker: SimBroker) -> bool:
        """A rolling restart: the next one goes when the one before is back."""
        waiting = list(self._world.brokers.values())

        def next_one() -> None:
            if waiting and self._world.is_healed:
                return
            if self._is_fragile():
                later(next_one)
                return
            while waiting:
                each = waiting.pop()
                if self._may_shut_down(each):
                    each.shut_down(partial(back, each))
                    return

        def back(each: SimBroker) -> None:
            if not each.is_alive:
                each.start()
            later(next_one)

        def later(act: Callable[[], None]) -> None:
            asyncio.get_running_loop().call_later(self._random.uniform(0.1, 1.5), act)

        next_one()
        return True

    def _clock(self, broker: SimBroker) -> bool:
        broker.clock.skew_ms = self._random.choice(CLOCK_JUMPS_MS)
        return True

    def _crash(self, broker: SimBroker) -> bool:
        if not broker.is_alive:
            return False
        broker.crash()
        self._start_later(broker)
        return True

    def _crash_all(self, _: SimBroker) -> bool:
        return sum(self._crash(each) for each in self._world.brokers.values()) > 0

    def _slow_disk(self, broker: SimBroker) -> bool:
        if not broker.is_alive or broker.flusher is None:
            return False
        broker.flusher.is_slow = True
        return True

    def _full_disk(self, broker: SimBroker) -> bool:
        broker.disk.is_full = True

        def free() -> None:
            broker.disk.is_full = False

        asyncio.get_running_loop().call_later(self._random.uniform(0.5, 4.0), free)
        return True

    def _fail_directory(self, broker: SimBroker) -> bool:
        """Its disk takes no writes any more; somebody mends it, and starts the broker again."""
        broker.disk.failing.add(self._random.choice(broker.settings.log_dirs))
        asyncio.get_running_loop().call_later(self._random.uniform(0.5, 6.0), self._mend, broker)
        return True

    def _mend(self, broker: SimBroker) -> None:
        failing, broker.disk.failing = sorted(broker.disk.failing), set()
        if not failing:
            return
        ran = broker.is_alive
        if ran:
            broker.kill()
        for directory in failing:
            # The system may have dropped the pages that it could not write.
            broker.disk.lose_pages(self._random, directory + "/")
        if ran:
            self._start_later(broker)

    def _power(self, broker: SimBroker) -> bool:
        """One machine of a cluster with page_cache, where that is promised to lose nothing."""
        others = [each for each in self._world.brokers.values() if each is not broker]
        everybody_is_well = self._world.network.is_healed and all(
            each.is_serving
            and each.is_alive
            and not each.is_stopped
            and not each.is_leaving
            and each.coordination.is_well
            for each in others
        )
        if not broker.is_alive or not everybody_is_well or not self._others_are_in_sync(broker):
            return False
        broker.crash()
        self.without_power = broker
        self._start_later(broker)
        return True

    def _others_are_in_sync(self, broker: SimBroker) -> bool:
        for at in self._world.partitions_in_zookeeper():
            state = self._world.state_in_zookeeper(at)
            if state is None or broker.id not in state.isr:
                continue
            stays = set(state.isr) & set(state.replicas) - {broker.id}
            # A shrink to the broker itself that is under way would make it the last one.
            leading = broker.replicas.get(*at)
            if not stays or (
                leading is not None and leading.in_sync and leading.in_sync.proposed_isr
            ):
                return False
        return True

    def _is_fragile(self) -> bool:
        """Whether replicas that may have lost a tail still count as in sync."""
        broker = self.without_power
        if broker is None:
            return False
        for at in self._world.partitions_in_zookeeper():
            state = self._world.state_in_zookeeper(at)
            if state is not None and broker.id in state.isr:
                return True
        self.without_power = None
        return False

    def _start_later(self, broker: SimBroker) -> None:
        if self._world.is_healed:
            broker.start()
            return
        self._later(
            self._random.uniform(0.05, 4.0),
            broker,
            lambda: None if broker.is_alive else broker.start(),
        )

    def _later(self, seconds: float, broker: SimBroker, act: Callable[[], None]) -> None:
        """Do it, unless the process was started again since."""
        life = broker.life

        def do() -> None:
            if broker.life == life:
                act()

        asyncio.get_running_loop().call_later(seconds, do)

    # -- network and ZooKeeper --------------------------------------------------------------

    def _cut(self, broker: SimBroker) -> bool:
        for other in self._other_hosts(broker):
            self._world.network.cut(broker.host, other)
            self._world.network.cut(other, broker.host)
        return True

    def _one_way(self, broker: SimBroker) -> bool:
        self._world.network.cut(broker.host, self._random.choice(self._other_hosts(broker)))
        return True

    def _slow(self, broker: SimBroker) -> bool:
        self._world.network.slow_hosts.add(broker.host)
        return True

    def _heal(self, _: SimBroker | None = None) -> bool:
        self._world.network.heal()
        self._reach_zookeeper()
        return True

    def _other_hosts(self, broker: SimBroker) -> list[str]:
        return [host_of(each) for each in self._world.brokers if each != broker.id]

    def _zookeeper(self, broker: SimBroker) -> bool:
        if broker.is_alive:
            broker.coordination.cut_off = True
        return broker.is_alive

    def _zk_outage(self, _: SimBroker) -> bool:
        for each in self._world.brokers.values():
            if each.is_alive:
                each.coordination.cut_off = True
        asyncio.get_running_loop().call_later(self._random.uniform(0.5, 5.0), self._reach_zookeeper)
        return True

    def _reach_zookeeper(self) -> None:
        for broker in self._world.brokers.values():
            if broker.is_alive:
                broker.coordination.cut_off = False

    def _depose(self, _: SimBroker) -> bool:
        """What operators do to have another controller elected."""
        if znodes.CONTROLLER not in self._world.zookeeper.tree:
            return False
        self._world.zookeeper.remove(znodes.CONTROLLER)
        return True

    def _orphan(self, _: SimBroker) -> bool:
        """A leader of the topic that allows unclean elections is alone in sync, and then gone."""
        state = self._world.state_in_zookeeper(self._world.unclean_partition)
        leader = None if state is None else self._world.brokers.get(state.leader)
        if leader is None or not leader.is_alive:
            return False
        self._cut(leader)

        def end() -> None:
            self._world.network.heal()
            leader.kill()
            self._later(GONE_SECONDS, leader, leader.start)

        self._later(ALONE_SECONDS, leader, end)
        return True

    # -- operators --------------------------------------------------------------------------

    def _move(self, _: SimBroker) -> bool:
        """Any number of replicas, on any of the brokers that there are."""
        brokers = list(self._world.brokers)
        # With page_cache a single replica has nobody to learn from what it lost.
        least = 1 if self._world.scenario.flush == "fsync" else 3
        target = self._random.sample(brokers, self._random.randint(least, 3))
        return self._reassign(self._some_partition(), tuple(target))

    def _cancel_move(self, _: SimBroker) -> bool:
        return self._reassign(self._some_partition(), None)

    def _reassign(self, at: At | None, target: tuple[int, ...] | None) -> bool:
        controller = self._world.controller()
        if controller is None or at is None:
            return False
        self._ask(
            controller,
            controller.control_plane.alter_reassignments(
                [ReassignmentRequest(*at, target)],
                may_change_factor=True,
                timeout_ms=ADMIN_TIMEOUT_MS,
            ),
        )
        return True

    def _move_dir(self, broker: SimBroker) -> bool:
        """A replica goes to another of its broker's log directories, or stays after all."""
        directories = broker.log_directories
        replicas = list(broker.replicas) if broker.is_alive and broker.is_serving else []
        if not replicas or len(directories.live) < len(directories.all):
            return False
        partition = self._random.choice(replicas)
        at = At(partition.topic, partition.partition)
        target = self._random.choice(directories.live)

        async def move() -> None:
            if target is directories.of(*at):
                broker.log_dir_moves.cancel(*at)
            else:
                broker.log_dir_moves.begin(partition, target)

        self._ask(broker, move())
        return True

    def _elect_preferred(self, _: SimBroker) -> bool:
        controller = self._world.controller()
        if controller is None:
            return False
        self._ask(
            controller,
            controller.control_plane.elect_leaders(
                self._world.partitions_in_zookeeper(), unclean=False, timeout_ms=ADMIN_TIMEOUT_MS
            ),
        )
        return True

    def _min_insync(self, broker: SimBroker) -> bool:
        if not broker.is_alive or not broker.is_serving:
            return False
        value = self._random.choice(MIN_INSYNC_REPLICAS)
        self._ask(
            broker,
            broker.control_plane.alter_topic_configs(
                self._world.topic, lambda configs: {**configs, "min.insync.replicas": value}
            ),
        )
        return True

    def _add_partition(self, _: SimBroker) -> bool:
        controller = self._world.controller()
        count = len(self._world.producers) + 1
        if controller is None or count > PARTITIONS_MAX:
            return False
        self._ask(
            controller,
            controller.control_plane.create_partitions(
                [PartitionsSpec(topic=self._world.topic, count=count)]
            ),
        )
        return True

    def _delete_records(self, _: SimBroker) -> bool:
        """Asks the leader to delete records before an offset, within a batch as well as between."""
        world = self._world
        topic_id = world.living_topic_id(world.topic)
        candidates = [at for at in world.partitions_in_zookeeper() if at.topic == world.topic]
        if topic_id is None or not candidates:
            return False
        log = Log(self._random.choice(candidates), topic_id)
        committed = world.checks.committed_of(log)
        # What replicas lack that were away a while is near the end.
        least = self._random.choice((1, committed.end_offset - 5, committed.end_offset))
        if committed.end_offset < 1:
            return False
        offset = self._random.randint(max(least, 1), committed.end_offset)
        world.operate(delete_records(world, self._client, log, committed, offset))
        return True

    def _recreate(self, _: SimBroker) -> bool:
        """The topic is deleted; the world makes it anew when it is gone."""
        controller = self._world.controller()
        if controller is None or self._world.is_healed:
            return False
        self._ask(
            controller,
            controller.control_plane.delete_topics(
                [self._world.topic], timeout_ms=ADMIN_TIMEOUT_MS
            ),
        )
        return True

    def _recreate_and_crash(self, broker: SimBroker) -> bool:
        """All machines lose their power soon after the topic was made anew."""
        world, former = self._world, self._world.topic_id(self._world.topic)
        if not self._recreate(broker):
            return False
        loop = asyncio.get_running_loop()

        def crash() -> None:
            if not world.is_healed:
                self._crash_all(broker)

        def look() -> None:
            if world.is_healed:
                return
            if world.living_topic_id(world.topic) in (None, former):
                loop.call_later(ANEW_POLL_SECONDS, look)
            else:
                loop.call_later(self._random.uniform(0.2, 1.5), crash)

        look()
        return True

    def _wipe(self, _: SimBroker) -> bool:
        """Its znodes are removed by hand, as people did before Kafka could delete topics."""
        if self._world.living_topic_id(self._world.topic) is None:
            return False
        for path in (znodes.topic_path, znodes.topic_config_path):
            self._world.zookeeper.remove(path(self._world.topic))
        return True

    def _miss_deletion(self, broker: SimBroker) -> bool:
        """While a broker is down its replicas are moved away, and then the topic is deleted."""
        if not broker.is_alive or broker is self._world.controller():
            return False
        broker.kill()
        others = [each for each in self._world.brokers if each != broker.id]
        for at in self._world.partitions_in_zookeeper():
            self._reassign(at, tuple(self._random.sample(others, self._random.randint(1, 3))))

        def delete() -> None:
            self._recreate(broker)

        def start() -> None:
            if not broker.is_alive:
                broker.start()

        self._later(self._random.uniform(0.5, 2.5), broker, delete)
        self._later(GONE_SECONDS, broker, start)
        return True

    def _some_partition(self) -> At | None:
        partitions = self._world.partitions_in_zookeeper()
        return self._random.choice(partitions) if partitions else None

    def _ask(self, broker: SimBroker, work: Coroutine[Any, Any, Any]) -> None:
        """Whatever comes of it: an operator may be refused, or never hear of it."""

        def ended(done: asyncio.Task[Any]) -> None:
            error = None if done.cancelled() else done.exception()
            if error is not None and not isinstance(error, REFUSALS):
                broker.failure = error

        broker.as_its_own(work).add_done_callback(ended)
