"""The next broker of a rolling restart, and the settings of the others until then."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment
from topology.operate.restart_stages import (
    Decision,
    Done,
    PartitionState,
    Restart,
    Wait,
    decide,
    kept_replicas,
    rolling_brokers,
    staged,
)

ZOOKEEPER = Daemon(
    key="zk", role="zookeeper", label="zk", argv=("zk",), ports=(("127.0.0.1", 2181),)
)


def view(cluster: str, broker_id: int) -> BrokerView:
    return BrokerView(
        id=broker_id, host="h", port=9000 + broker_id, daemon=f"broker-{cluster}-{broker_id}"
    )


def daemon(cluster: str, broker_id: int, version: int = 1, port: int | None = None) -> Daemon:
    key = view(cluster, broker_id).daemon
    return Daemon(
        key=key,
        role="broker",
        label=f"broker {broker_id} of {cluster}",
        argv=("run", key, str(version)),
        after=("zk",),
        ports=(("127.0.0.1", port),) if port is not None else (),
    )


def deployment(
    *brokers: Daemon, zookeeper: Daemon = ZOOKEEPER, bootstrap: str = "h:1"
) -> Deployment:
    """Return a deployment with these clusters and brokers."""
    ids: dict[str, list[int]] = {}
    for each in brokers:
        _, name, number = each.key.split("-")
        ids.setdefault(name, []).append(int(number))
    return Deployment(
        name="d",
        topology_file="d.yaml",
        daemons=(zookeeper, *brokers),
        clusters=tuple(
            ClusterView(
                name=name,
                kind="local",
                datacenter=name,
                bootstrap=bootstrap,
                brokers=tuple(view(name, number) for number in numbers),
            )
            for name, numbers in ids.items()
        ),
    )


def running(deployment: Deployment) -> dict[str, Daemon]:
    return {each.key: each for each in deployment.daemons}


def three(version: int, bootstrap: str = "h:1") -> Deployment:
    return deployment(*(daemon("a", i, version) for i in (1, 2, 3)), bootstrap=bootstrap)


ONE, TWO, THREE = BROKERS = tuple(view("a", i) for i in (1, 2, 3))
KEYS = frozenset(broker.daemon for broker in BROKERS)


def test_changed_brokers_of_a_cluster_of_several_roll() -> None:
    before = deployment(*(daemon("a", i) for i in (1, 2, 3)), daemon("b", 1))
    after = deployment(daemon("a", 1, 2), daemon("a", 2), daemon("a", 3, 2), daemon("b", 1, 2))
    assert rolling_brokers(before, running(before)) == {}
    assert rolling_brokers(after, running(before)) == {"a": (ONE, THREE)}
    assert rolling_brokers(after, {"zk": ZOOKEEPER}) == {}, "what is down is simply started"


def test_brokers_whose_zookeeper_moves_do_not_roll() -> None:
    moved = replace(ZOOKEEPER, ports=(("127.0.0.1", 2182),))
    edited = replace(ZOOKEEPER, argv=("zk", "-Xmx1g"))
    brokers = [daemon("a", i, 2) for i in (1, 2, 3)]
    assert rolling_brokers(deployment(*brokers, zookeeper=moved), running(three(1))) == {}
    assert rolling_brokers(deployment(*brokers, zookeeper=edited), running(three(1))) == {
        "a": BROKERS
    }


def test_brokers_roll_when_their_only_zookeeper_becomes_node_1_at_its_address() -> None:
    address = ("127.0.0.1", 2181)
    alone = replace(ZOOKEEPER, ready_zookeeper=address)
    node = replace(alone, key="zk.1", quorum=("zk.1",))
    brokers = [replace(daemon("a", i, 2), after=("zk.1",)) for i in (1, 2, 3)]
    before = running(deployment(*(daemon("a", i) for i in (1, 2, 3)), zookeeper=alone))
    assert rolling_brokers(deployment(*brokers, zookeeper=node), before) == {"a": BROKERS}
    moved = replace(node, ready_zookeeper=("10.0.0.1", 2181))
    assert rolling_brokers(deployment(*brokers, zookeeper=moved), before) == {}


def test_a_broker_gives_a_port_up_before_another_has_it() -> None:
    before = deployment(*(daemon("a", i, 1, 9090 + i) for i in (1, 2, 3)))
    after = deployment(*(daemon("a", i, 2, 9091 + i) for i in (1, 2, 3)))
    assert rolling_brokers(after, running(before)) == {"a": (ONE,)}


def test_a_stage_keeps_what_comes_later_as_it_runs() -> None:
    before, after = three(1, "h:1,h:2"), three(2, "h:2,h:3")
    stage = staged(after, before, running(before), [TWO, THREE])
    assert stage.daemons == (ZOOKEEPER, daemon("a", 1, 2), daemon("a", 2, 1), daemon("a", 3, 1))
    assert stage.cluster("a").bootstrap == "h:2,h:3,h:1"
    assert staged(after, before, running(before), []) == after
    assert staged(after, None, running(before), [TWO]).cluster("a").bootstrap == "h:2,h:3"


def partition(index: int, *isr: int, leader: int | None = None) -> PartitionState:
    if leader is None:
        leader = isr[0] if isr else -1
    return PartitionState(f"t-{index}", leader, (1, 2, 3), isr)


def after_one(*partitions: PartitionState) -> Decision:
    """Return the decision after the restart of broker 1, while all brokers run."""
    return decide([TWO, THREE], [ONE], {}, KEYS, partitions)


def test_replicas_of_a_broker_that_was_abandoned_are_not_waited_for() -> None:
    partitions = [partition(0, 1, 2)]
    assert isinstance(decide([ONE, TWO], [], {}, KEYS, partitions), Wait)
    kept = kept_replicas(partitions, [ONE, TWO])
    assert decide([ONE, TWO], [], {}, KEYS, kept) == Restart(brokers=(ONE,))
    assert decide([TWO], [ONE], {}, KEYS, kept_replicas([partition(0, 2)], [ONE, TWO])) == Wait(
        reasons=("t-0 is behind on broker 1",)
    )


def test_the_next_is_restarted_when_the_last_is_in_sync() -> None:
    assert after_one(partition(0, 1, 2, 3)) == Restart(brokers=(TWO,))
    assert after_one(partition(0, 1, 2, 3), partition(1, 2, 3)) == Wait(
        reasons=("t-1 is behind on broker 1",)
    )
    assert after_one(partition(0, 1, 2, 3, leader=-1)) == Wait(reasons=("t-0 has no leader",))
    alone = PartitionState("u-0", -1, (1,), (1,))
    assert after_one(alone) == Wait(reasons=("u-0 has no leader",))
    assert after_one(alone._replace(leader=1)) == Restart(brokers=(TWO,))


def test_nothing_is_stopped_while_a_broker_of_the_cluster_does_not_run() -> None:
    states = {"broker 1 of a": "starting"}
    synced = [partition(0, 1, 2, 3)]
    waits = Wait(reasons=("broker 1 of a: starting",))
    assert decide([TWO, THREE], [ONE], states, KEYS, synced) == waits
    assert decide([TWO, THREE], [ONE], states, KEYS - {ONE.daemon}, synced) == waits
    assert isinstance(decide([TWO, THREE], [ONE], {}, KEYS, None), Wait)


def test_what_has_no_process_is_started_as_it_is_to_be_at_once() -> None:
    states = {"broker 2 of a": "restarting", "broker 3 of a": "restarting"}
    assert decide(BROKERS, [], states, {ONE.daemon}, None) == Restart(brokers=(TWO, THREE))


def test_the_one_that_is_behind_is_restarted_and_none_of_those_it_needs() -> None:
    """Its restart may bring it back in sync; another restart would leave one replica of three."""
    assert decide(BROKERS, [], {}, KEYS, [partition(0, 1, 3)]) == Restart(brokers=(TWO,))
    assert decide([ONE, THREE], [], {}, KEYS, [partition(0, 1, 3)]) == Wait(
        reasons=("t-0 is behind on broker 2",)
    )


def test_it_is_done_when_the_last_is_in_sync() -> None:
    assert decide([], BROKERS, {}, KEYS, [partition(0, 1, 2)]) == Wait(
        reasons=("t-0 is behind on broker 3",)
    )
    assert decide([], BROKERS, {}, KEYS, [partition(0, 2, 1, 3)]) == Done()


@given(st.lists(st.sampled_from([1, 2, 3, None]), min_size=1, max_size=60))
def test_no_two_are_ever_down_or_behind_by_it_and_all_are_restarted(
    events: list[int | None],
) -> None:
    """A broker that is restarted runs, and then is in sync, when its event comes; None is time."""
    waiting, restarted = list(BROKERS), list[BrokerView]()
    starting, behind = set[int](), set[int]()

    def step() -> Decision:
        decision = decide(
            waiting,
            restarted,
            {f"broker {i} of a": "starting" for i in starting},
            KEYS,
            [partition(0, *({1, 2, 3} - behind))],
        )
        if isinstance(decision, Restart):
            for broker in decision.brokers:
                waiting.remove(broker)
                restarted.append(broker)
                starting.add(broker.id)
                behind.add(broker.id)
        return decision

    for event in events:
        if event in starting:
            starting.remove(event)
        elif event is not None:
            behind.discard(event)
        step()
        assert len(behind) <= 1
    for _ in range(4):
        starting.clear()
        behind.clear()
        decision = step()
    assert decision == Done()
