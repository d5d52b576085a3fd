"""The scenario of a seed: the number of brokers, their settings, the faults.

    seed % 10  scenario
    0          three brokers, fsync: the default
    1          brokers with two log directories, one of which fails now and then; replicas move
               between them
    2          four brokers; reassignments to any number of replicas, one included; a consumer
               group, whose coordinator moves from broker to broker. One seed in five instead
               (12, 62, 112, ...): three brokers, and two groups whose members change between the
               classic and the consumer protocol
    3          page_cache: processes die, and now and then one machine loses its power
    4          a topic that allows unclean elections beside one that does not
    5          three brokers; reassignments, and disks that are full for a while
    6          page_cache, and reassignments
    7          min.insync.replicas changes and partitions are added while it runs
    8          a topic that is deleted and re-created under its name, on any of four brokers, with
               other partitions
    9          transactions by a producer that is replaced now and then, and read_committed readers;
               two partitions and the coordinator move among four brokers

In 1, 2, 5, 6 and 9 an operator deletes records now and then. Topics have three replicas until they
are reassigned; most have one partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

SCENARIOS: Final = 10
GROUP_SCENARIOS: Final = 5
MEMBER_SEEDS: Final = SCENARIOS * GROUP_SCENARIOS
"""Between two seeds with groups of mixed members; the first is 12."""

PROCESS_FAULTS: Final = {"kill": 2, "pause": 2, "shut_down": 1, "roll": 0.4, "clock": 0.7}
NETWORK_FAULTS: Final = {"cut": 1, "one_way": 1, "slow": 1, "heal": 2.5}
ZOOKEEPER_FAULTS: Final = {"zookeeper": 1, "zk_outage": 0.8, "depose": 1}
DISK_FAULTS: Final = {"crash": 1.5, "crash_all": 0.8, "slow_disk": 1}
MOVES: Final = {"move": 4, "cancel_move": 0.7, "elect_preferred": 0.7}
DELETIONS: Final = {"delete_records": 3}
"""Faults by their relative frequency."""

USUAL: Final = PROCESS_FAULTS | NETWORK_FAULTS | ZOOKEEPER_FAULTS | DISK_FAULTS
WITH_PAGE_CACHE: Final = PROCESS_FAULTS | NETWORK_FAULTS | ZOOKEEPER_FAULTS | {"power": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The settings of one play."""

    faults: Mapping[str, float]
    brokers: int = 3
    flush: Literal["fsync", "page_cache"] = "fsync"
    log_dirs: tuple[str, ...] = ("/data",)
    partitions: int = 1
    min_insync_replicas: int = 2
    has_unclean_topic: bool = False
    ends_a_session_when_idle: bool = False
    """Whether, at the end, the session of a broker ends while the cluster is idle."""
    has_transactions: bool = False
    """Whether the topic is written in transactions only."""
    has_members: bool = False
    """Whether groups have members of both protocols (tests/sim/members)."""
    has_group: bool = False
    """Whether a group commits offsets; the offsets topic is reassigned as well."""


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    partitions = 2 if Random(seed).random() < 0.3 else 1
    match seed % SCENARIOS:
        case 1:
            return Scenario(
                faults=USUAL | {"fail_directory": 3, "move_dir": 6} | DELETIONS,
                log_dirs=("/data", "/more"),
                partitions=2,
            )
        case 2 if seed // SCENARIOS % GROUP_SCENARIOS == 1:
            faults = PROCESS_FAULTS | NETWORK_FAULTS | ZOOKEEPER_FAULTS | MOVES | {"crash": 1}
            return Scenario(faults=faults, has_members=True)
        case 2:
            return Scenario(faults=USUAL | MOVES | DELETIONS, brokers=4, has_group=True)
        case 3:
            return Scenario(faults=WITH_PAGE_CACHE, flush="page_cache", partitions=partitions)
        case 4:
            return Scenario(
                faults=USUAL | {"elect_preferred": 1, "orphan": 5}, has_unclean_topic=True
            )
        case 5:
            faults = USUAL | MOVES | DELETIONS | {"full_disk": 1}
            return Scenario(faults=faults, partitions=partitions)
        case 6:
            faults = WITH_PAGE_CACHE | MOVES | DELETIONS
            return Scenario(faults=faults, flush="page_cache", brokers=4)
        case 7:
            changes = {"min_insync": 1.5, "add_partition": 0.7}
            return Scenario(faults=USUAL | changes)
        case 8:
            recreations = {
                "recreate": 3,
                "recreate_and_crash": 3,
                "miss_deletion": 2,
                "wipe": 1,
                "move": 2,
            }
            return Scenario(faults=USUAL | recreations, brokers=4, partitions=partitions)
        case 9:
            # Transaction timeouts go by the wall clock of the coordinator.
            faults = {name: weight for name, weight in USUAL.items() if name != "clock"}
            return Scenario(
                faults=faults | MOVES | DELETIONS, brokers=4, partitions=2, has_transactions=True
            )
        case _:
            return Scenario(faults=USUAL, partitions=partitions, ends_a_session_when_idle=True)
