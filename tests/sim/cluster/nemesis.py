"""The faults of a simulated cluster, mixed with what its operators request (operators.py).

    process     kill -9; SIGSTOP, longer than sessions and leases too; a clean stop; a rolling
                restart; a wall clock that jumps
    machine     power loss of one, of all at once; a slow disk; a full disk; a log directory whose
                disk fails, until it is replaced
    network     a broker cut off, a link cut in one direction, a slow host
    both        a leader cut off until it is alone in the ISR, and killed then
    ZooKeeper   unreachable for one broker, or for all; the controller's znode removed
    operators   replicas moved to other brokers and log directories, moves cancelled, preferred
                elections, min.insync.replicas changed, partitions added; a topic deleted and
                re-created, its znodes removed by hand, its deletion missed by a broker that is
                down; records deleted, often almost all, so that replicas that were away start over

With `flush: page_cache` one machine at a time loses its power while all others are healthy. Nothing
else happens before its replicas have left the ISR: there Kafka's promise ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from tests.sim.broker.sim_broker import SimBroker, host_of
from tests.sim.cluster.operators import Operators
from tests.sim.cluster.sim_cluster import SimCluster

PAUSE_SECONDS = 1.2
"""Mean time between two faults."""
CLOCK_JUMPS_MS = (-7_200_000, -60_000, 0, 3_600_000, 86_400_000)
ALONE_SECONDS = 4.0
"""Longer than followers may lag."""
GONE_SECONDS = 4.0
"""Longer than a session lasts."""
RECREATED_POLL_SECONDS = 0.1


class Nemesis:
    """Chooses faults by the cluster's dice; `faults` lists those that happened."""

    def __init__(self, cluster: SimCluster, operators: Operators) -> None:
        self.faults: list[str] = []
        self._cluster = cluster
        self._operators = operators
        self._random = cluster.random
        self._names = list(cluster.scenario.faults)
        self._weights = list(cluster.scenario.faults.values())
        self._faults: dict[str, Callable[[SimBroker], bool]] = {
            "kill": self._kill,
            "pause": self._pause,
            "shut_down": self._shut_down,
            "roll": self._roll,
            "clock": self._clock,
            "crash": self._crash,
            "crash_all": self._crash_all,
            "slow_disk": self._slow_disk,
            "full_disk": self._full_disk,
            "fail_directory": self._fail_directory,
            "power": self._power,
            "cut": self._cut,
            "one_way": self._one_way,
            "slow": self._slow,
            "heal": self._heal,
            "zookeeper": self._zookeeper,
            "zk_outage": self._zk_outage,
            "depose": operators.depose,
            "orphan": self._orphan,
            "move": operators.move,
            "cancel_move": operators.cancel_move,
            "move_dir": operators.move_dir,
            "elect_preferred": operators.elect_preferred,
            "min_insync": operators.min_insync,
            "add_partition": operators.add_partition,
            "delete_records": operators.delete_records,
            "recreate": operators.recreate,
            "recreate_and_crash": self._recreate_and_crash,
            "wipe": operators.wipe,
            "miss_deletion": self._miss_deletion,
        }

    async def trouble(self) -> None:
        """Cause faults, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._random.expovariate(1 / PAUSE_SECONDS))
            broker = self._cluster.brokers[self._random.choice(list(self._cluster.brokers))]
            (fault,) = self._random.choices(self._names, self._weights)
            if self._is_fragile():
                continue
            if self._faults[fault](broker):
                self.faults.append(f"{loop.time():.3f} {fault} {broker.id}")

    def heal(self) -> None:
        """End all faults, and start the brokers that are down."""
        self._heal()
        for broker in self._cluster.brokers.values():
            broker.disk.is_full = False
            self._repair(broker)
            if broker.is_stopped:
                broker.resume()
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
        self._later(self._random.uniform(0.2, 7.0), broker, broker.resume)
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
            and not broker.is_shutting_down
            and not broker.is_stopped
        )

    def _roll(self, broker: SimBroker) -> bool:
        """A rolling restart: the next broker stops when the one before is back."""
        waiting = list(self._cluster.brokers.values())

        def next_one() -> None:
            if waiting and self._cluster.is_healed:
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
        return sum(self._crash(each) for each in self._cluster.brokers.values()) > 0

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
        """The disk takes no writes until it is repaired; then the broker is restarted."""
        broker.disk.failing.add(self._random.choice(broker.settings.log_dirs))
        asyncio.get_running_loop().call_later(self._random.uniform(0.5, 6.0), self._repair, broker)
        return True

    def _repair(self, broker: SimBroker) -> None:
        failing, broker.disk.failing = sorted(broker.disk.failing), set()
        if not failing:
            return
        ran = broker.is_alive
        if ran:
            broker.kill()
        for directory in failing:
            # The operating system may have dropped pages that it could not write.
            broker.disk.lose_pages(self._random, directory + "/")
        if ran:
            self._start_later(broker)

    def _power(self, broker: SimBroker) -> bool:
        """Power loss of one machine with page_cache, where Kafka promises to lose nothing."""
        others = [each for each in self._cluster.brokers.values() if each is not broker]
        all_are_healthy = self._cluster.network.is_healed and all(
            each.is_serving
            and each.is_alive
            and not each.is_stopped
            and not each.is_shutting_down
            and each.coordination.is_healthy
            for each in others
        )
        if not broker.is_alive or not all_are_healthy or not self._others_are_in_sync(broker):
            return False
        broker.crash()
        self._cluster.without_power = broker
        self._start_later(broker)
        return True

    def _others_are_in_sync(self, broker: SimBroker) -> bool:
        for at in self._cluster.partitions_in_zookeeper():
            state = self._cluster.state_in_zookeeper(at)
            if state is None or broker.id not in state.isr:
                continue
            stays = set(state.isr) & set(state.replicas) - {broker.id}
            # A shrink in progress to the broker alone would make it the last one.
            leading = broker.replicas.get(*at)
            if not stays or (
                leading is not None and leading.in_sync and leading.in_sync.proposed_isr
            ):
                return False
        return True

    def _is_fragile(self) -> bool:
        """Return whether replicas that may have lost a tail are still in sync."""
        broker = self._cluster.without_power
        if broker is None:
            return False
        for at in self._cluster.partitions_in_zookeeper():
            state = self._cluster.state_in_zookeeper(at)
            if state is not None and broker.id in state.isr:
                return True
        self._cluster.without_power = None
        return False

    def _start_later(self, broker: SimBroker) -> None:
        if self._cluster.is_healed:
            broker.start()
            return
        self._later(
            self._random.uniform(0.05, 4.0),
            broker,
            lambda: None if broker.is_alive else broker.start(),
        )

    def _later(self, seconds: float, broker: SimBroker, act: Callable[[], None]) -> None:
        """Do it after a while, unless the process has restarted."""
        life = broker.life

        def do() -> None:
            if broker.life == life:
                act()

        asyncio.get_running_loop().call_later(seconds, do)

    # -- network and ZooKeeper --------------------------------------------------------------

    def _cut(self, broker: SimBroker) -> bool:
        for other in self._other_hosts(broker):
            self._cluster.network.cut(broker.host, other)
            self._cluster.network.cut(other, broker.host)
        return True

    def _one_way(self, broker: SimBroker) -> bool:
        self._cluster.network.cut(broker.host, self._random.choice(self._other_hosts(broker)))
        return True

    def _slow(self, broker: SimBroker) -> bool:
        self._cluster.network.slow_hosts.add(broker.host)
        return True

    def _heal(self, _: SimBroker | None = None) -> bool:
        self._cluster.network.heal()
        self._reach_zookeeper()
        return True

    def _other_hosts(self, broker: SimBroker) -> list[str]:
        return [host_of(each) for each in self._cluster.brokers if each != broker.id]

    def _zookeeper(self, broker: SimBroker) -> bool:
        if broker.is_alive:
            broker.coordination.cut_off = True
        return broker.is_alive

    def _zk_outage(self, _: SimBroker) -> bool:
        for each in self._cluster.brokers.values():
            if each.is_alive:
                each.coordination.cut_off = True
        asyncio.get_running_loop().call_later(self._random.uniform(0.5, 5.0), self._reach_zookeeper)
        return True

    def _reach_zookeeper(self) -> None:
        for broker in self._cluster.brokers.values():
            if broker.is_alive:
                broker.coordination.cut_off = False

    def _orphan(self, _: SimBroker) -> bool:
        """The leader of the unclean topic is alone in the ISR, and then gone."""
        state = self._cluster.state_in_zookeeper(self._cluster.unclean_partition)
        leader = None if state is None else self._cluster.brokers.get(state.leader)
        if leader is None or not leader.is_alive:
            return False
        self._cut(leader)

        def end() -> None:
            self._cluster.network.heal()
            leader.kill()
            self._later(GONE_SECONDS, leader, leader.start)

        self._later(ALONE_SECONDS, leader, end)
        return True

    # -- both -------------------------------------------------------------------------------

    def _recreate_and_crash(self, broker: SimBroker) -> bool:
        """All machines lose their power soon after the topic was re-created."""
        cluster, former = self._cluster, self._cluster.topic_id(self._cluster.topic)
        if not self._operators.recreate(broker):
            return False
        loop = asyncio.get_running_loop()

        def crash() -> None:
            if not cluster.is_healed:
                self._crash_all(broker)

        def look() -> None:
            if cluster.is_healed:
                return
            if cluster.living_topic_id(cluster.topic) in (None, former):
                loop.call_later(RECREATED_POLL_SECONDS, look)
            else:
                loop.call_later(self._random.uniform(0.2, 1.5), crash)

        look()
        return True

    def _miss_deletion(self, broker: SimBroker) -> bool:
        """While a broker is down, its replicas move away, and then the topic is deleted."""
        if not broker.is_alive or broker is self._cluster.controller():
            return False
        broker.kill()
        others = [each for each in self._cluster.brokers if each != broker.id]
        for at in self._cluster.partitions_in_zookeeper():
            self._operators.reassign(
                at, tuple(self._random.sample(others, self._random.randint(1, 3)))
            )

        def delete() -> None:
            self._operators.recreate(broker)

        def start() -> None:
            if not broker.is_alive:
                broker.start()

        self._later(self._random.uniform(0.5, 2.5), broker, delete)
        self._later(GONE_SECONDS, broker, start)
        return True
