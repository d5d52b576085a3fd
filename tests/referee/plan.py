"""What a seed plays: the deployment of a mode, its topics, and the timeline of faults. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tests.referee.modes import SHAPES, LinkShape, Mode, Shape, State, is_shared

BROKERS_MAX: Final = 5
"""Of our own brokers of a deployment, all clusters together: two cores carry no more."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_MS: Final = 2_000
FREEZE_SECONDS: Final = (0.5, 9.0)
"""A mirror worker's lease is 10 s, ZooKeeper's session is shorter than that."""
CALM_SECONDS: Final = (0.5, 5.0)
OVERTAKE_EVERY_SECONDS: Final = 18.0
BEHEAD_EVERY_SECONDS: Final = 12.0
INTRUDED: Final = (State.PLAIN, State.TRANSACTIONAL, State.GROWN)
"""Copies into which somebody else writes."""


class System(StrEnum):
    """Which clusters are Apache Kafka's."""

    OWN = "own"
    KAFKA_SOURCE = "kafka-source"
    KAFKA_TARGET = "kafka-target"
    KAFKA_BOTH = "kafka-both"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster of the deployment."""

    name: str
    is_external: bool
    brokers: int
    flush: str


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic, which has the same name in every cluster where outside clients write to it."""

    state: State
    partitions: Mapping[str, int]
    """By cluster."""
    config: Mapping[str, str]

    @property
    def name(self) -> str:
        return str(self.state)


@dataclass(frozen=True, slots=True)
class Victim:
    """A process that a fault may hit: its role, and which of that role."""

    role: str
    """broker, zookeeper, mirror, aggregator, kafka (a broker that is not ours) or worker (started
    by `heliograph mirror run`)."""
    name: str = ""
    """Of the cluster; of mirrors and workers that of the target."""
    number: int = 0
    """Of the brokers of a cluster, from 0."""

    def __str__(self) -> str:
        return " ".join([self.role, self.name, str(self.number) if self.role == "broker" else ""])


@dataclass(frozen=True, slots=True)
class Kill:
    """kill -9 of some processes at once."""

    victims: tuple[Victim, ...]

    def __str__(self) -> str:
        return f"kill {', '.join(str(each).strip() for each in self.victims)}"


@dataclass(frozen=True, slots=True)
class Freeze:
    """SIGSTOP of a process, and SIGCONT after some seconds."""

    victim: Victim
    seconds: float

    def __str__(self) -> str:
        return f"freeze {str(self.victim).strip()} for {self.seconds:.1f} s"


Fault = Kill | Freeze


@dataclass(frozen=True, slots=True)
class Overtake:
    """Hold a topic of a link, delete its records before they are copied, and release it."""

    link: LinkShape
    by_retention: bool
    """By a short retention.ms instead of DeleteRecords."""

    def __str__(self) -> str:
        return f"overtake {self.link.name} by {'retention' if self.by_retention else 'deletion'}"


@dataclass(frozen=True, slots=True)
class Recreate:
    """Delete a topic and create it again."""

    cluster: str

    def __str__(self) -> str:
        return f"re-create in {self.cluster}"


@dataclass(frozen=True, slots=True)
class Grow:
    """Add partitions to a topic."""

    cluster: str
    added: int

    def __str__(self) -> str:
        return f"add {self.added} partitions in {self.cluster}"


@dataclass(frozen=True, slots=True)
class Behead:
    """Kill the workers of a link right after something was written, and delete its records at the
    source: what was copied and not mapped has no source any more."""

    link: LinkShape

    def __str__(self) -> str:
        return f"behead {self.link.name}"


@dataclass(frozen=True, slots=True)
class Intrude:
    """Write into a copy that nobody shares with the link."""

    link: LinkShape
    state: State

    def __str__(self) -> str:
        return f"intrude into the copy of {self.state} by {self.link.name}"


Operation = Overtake | Recreate | Grow | Behead | Intrude


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a seed decides about the life of one deployment."""

    seed: int
    mode: Mode
    system: System
    clusters: tuple[ClusterPlan, ...]
    topics: tuple[TopicPlan, ...]
    extra_workers: tuple[str, ...]
    """Targets that get a worker more, by `heliograph mirror run`."""
    codecs: Mapping[str, tuple[str, ...]]
    """Codecs of the producers of each cluster."""
    records_per_second: float
    """Of each cluster."""
    prelude_seconds: float
    """Load before any link runs, so that something is cleaned before it is copied."""
    load_seconds: float
    """Load with links, faults included."""
    faults: tuple[tuple[float, Fault], ...]
    """By the seconds since the links run."""
    operations: tuple[tuple[float, Operation], ...]
    policies: Mapping[str, str] = field(
        default_factory=lambda: {"out_of_range": "skip", "recreated": "skip", "foreign": "skip"}
    )

    @property
    def shape(self) -> Shape:
        return SHAPES[self.mode]

    def cluster(self, name: str) -> ClusterPlan:
        """The cluster of that name. Raises StopIteration."""
        return next(each for each in self.clusters if each.name == name)


def make_plan(
    mode: Mode,
    states: Sequence[State],
    system: System,
    seed: int,
    seconds: float,
    *,
    records_per_second: float = 150.0,
) -> Plan:
    """The plan of one deployment's life with `seconds` of load; the same for the same arguments."""
    randomly = random.Random(f"{seed} {mode} {system}")
    shape = SHAPES[mode]
    played = tuple(state for state in shape.states if state in states)
    clusters = _clusters(shape, system, randomly)
    prelude_seconds = min(20.0, seconds * 0.2)
    load_seconds = seconds - prelude_seconds
    extra_workers = tuple(target for target in shape.targets if randomly.random() < 0.5)
    return Plan(
        seed=seed,
        mode=mode,
        system=system,
        clusters=clusters,
        topics=tuple(_topic(mode, state, randomly) for state in played),
        extra_workers=extra_workers,
        codecs={each.name: tuple(randomly.sample(CODECS, 3)) for each in clusters},
        records_per_second=records_per_second,
        prelude_seconds=prelude_seconds,
        load_seconds=load_seconds,
        faults=tuple(_faults(_victims(shape, clusters, extra_workers), load_seconds, randomly)),
        operations=tuple(_operations(mode, played, load_seconds, randomly)),
    )


def _clusters(shape: Shape, system: System, randomly: random.Random) -> tuple[ClusterPlan, ...]:
    external: tuple[str, ...] = ()
    first, last = shape.links[0].source, shape.links[0].target
    match system:
        case System.KAFKA_SOURCE:
            external = tuple(name for name in shape.clusters if name not in ("hub", last))
            external = external or (first,)
        case System.KAFKA_TARGET:
            external = ("hub",) if "hub" in shape.clusters else (last,)
        case System.KAFKA_BOTH:
            external = shape.clusters
    left = BROKERS_MAX - sum(name not in external for name in shape.clusters)
    clusters = []
    for name in shape.clusters:
        is_external = name in external
        more = 0 if is_external else min(left, randomly.choice((0, 0, 1, 2)))
        left -= more
        flush = "page_cache" if randomly.random() < 0.25 else "fsync"
        clusters.append(ClusterPlan(name, is_external, 1 + more, flush))
    return tuple(clusters)


def _topic(mode: Mode, state: State, randomly: random.Random) -> TopicPlan:
    shape = SHAPES[mode]
    config = {"retention.ms": "-1"}
    if state in (State.COMPACTED, State.KEPT):
        config = {
            "cleanup.policy": "compact",
            "segment.ms": str(SEGMENT_MS),
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": str(randomly.choice((100, 3_000, 600_000))),
        }
    elif state is State.RETENTION:
        config |= {"segment.ms": str(SEGMENT_MS)}
    most = 6 if mode is Mode.MERGE else 3
    if mode is Mode.MERGE and state is State.PLAIN:
        most = 12
    partitions = randomly.randint(max(2, most // 2), most)
    counts = dict.fromkeys(shape.clusters, partitions)
    if mode is Mode.MERGE:
        counts["b"] = randomly.randint(2, partitions)
    return TopicPlan(state, counts, config)


def _victims(
    shape: Shape, clusters: Sequence[ClusterPlan], extra_workers: Sequence[str]
) -> list[tuple[Victim, float]]:
    """Every process with its weight."""
    victims: list[tuple[Victim, float]] = [
        *((Victim("mirror", target), 3.0) for target in shape.targets),
        *((Victim("worker", target), 2.0) for target in extra_workers),
        *((Victim("aggregator", target), 0.7) for target in shape.targets),
    ]
    for cluster in clusters:
        if cluster.is_external:
            victims.append((Victim("kafka", cluster.name), 1.0))
        for number in range(0 if cluster.is_external else cluster.brokers):
            victims.append((Victim("broker", cluster.name, number), 1.5))
    if not all(cluster.is_external for cluster in clusters):
        victims.append((Victim("zookeeper"), 1.0))
    return victims


def _faults(
    victims: Sequence[tuple[Victim, float]], seconds: float, randomly: random.Random
) -> list[tuple[float, Fault]]:
    names = [victim for victim, _ in victims]
    weights = [weight for _, weight in victims]
    faults: list[tuple[float, Fault]] = []
    at = randomly.uniform(1.0, 3.0)
    while at < seconds - 2.0:
        victim = randomly.choices(names, weights)[0]
        if randomly.random() < 0.6:
            more = randomly.choices(names, weights)[0] if randomly.random() < 0.25 else victim
            faults.append((at, Kill(tuple(dict.fromkeys((victim, more))))))
        else:
            held = min(randomly.uniform(*FREEZE_SECONDS), seconds - at)
            faults.append((at, Freeze(victim, held)))
            at += held * randomly.random()
        at += randomly.uniform(*CALM_SECONDS)
    return faults


def _operations(
    mode: Mode, states: Sequence[State], seconds: float, randomly: random.Random
) -> list[tuple[float, Operation]]:
    shape = SHAPES[mode]
    operations: list[tuple[float, Operation]] = []
    if State.RETENTION in states:
        for number in range(max(1, int(seconds / OVERTAKE_EVERY_SECONDS))):
            at = (number + randomly.random()) * min(OVERTAKE_EVERY_SECONDS, seconds * 0.5)
            link = randomly.choice(shape.links)
            operations.append((at, Overtake(link, by_retention=randomly.random() < 0.3)))
        for number in range(max(1, int(seconds / BEHEAD_EVERY_SECONDS))):
            at = (number + randomly.random()) * min(BEHEAD_EVERY_SECONDS, seconds * 0.5)
            operations.append((at, Behead(randomly.choice(shape.links))))
    alone = [
        (link, state)
        for link in shape.links
        for state in states
        if state in INTRUDED and not is_shared(mode, link, str(state))
    ]
    if alone:
        operations.append((seconds * randomly.uniform(0.2, 0.8), Intrude(*randomly.choice(alone))))
    if State.RECREATED in states:
        at = seconds * randomly.uniform(0.3, 0.5)
        operations.append((at, Recreate(randomly.choice(shape.sources))))
    if State.GROWN in states:
        at = seconds * randomly.uniform(0.2, 0.6)
        operations.append((at, Grow(randomly.choice(shape.sources), randomly.randint(1, 3))))
    return sorted(operations, key=lambda each: each[0])
