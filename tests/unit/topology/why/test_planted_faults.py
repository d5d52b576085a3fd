"""Each planted fault, alone in a deployment that is otherwise well, is explained by `why`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from mirror_maker.formats.naming import TopicNames
from mirror_maker.rules.trouble import Trouble
from mirror_maker.settings import LinkSettings
from topology.why.facts import (
    Cause,
    ClusterFacts,
    Fate,
    LinkFacts,
    PartitionFacts,
    RecordFacts,
    TopicFacts,
)
from topology.why.group_causes import STATES, explain_group
from topology.why.link_causes import REMEDIES, explain_link
from topology.why.record_causes import explain_record
from topology.why.topic_causes import explain_topic

FLOW: dict[str, Any] = {
    "topic": "orders",
    "partition": 0,
    "target_topic": "dc1.orders",
    "state": "RUNNING",
    "trouble": None,
    "reason": None,
    "lag_records": 0,
    "lag_seconds": 0.0,
}
WORKER: dict[str, Any] = {
    "flows": [FLOW],
    "partitions": 1,
    "partitions_known": 1,
    "controls": {
        "paused": [],
        "source_bytes_per_second": None,
        "target_bytes_per_second": None,
    },
    "rights_missing": [],
    "lag_records": 0,
    "lag_seconds": 0.0,
    "map_unwritten_seconds": 0.0,
    "groups": {
        "failure": None,
        "positions": [
            {
                "group": "billing",
                "target_topic": "dc1.orders",
                "partition": 0,
                "state": "synced",
                "held_by": None,
            }
        ],
    },
}
PART = PartitionFacts(1, (1, 2), (1, 2), 0, 100)


def cluster(name: str, *topics: str) -> ClusterFacts:
    return ClusterFacts(
        name=name,
        brokers=frozenset({1, 2}),
        topics={topic: TopicFacts(partitions={0: PART}) for topic in topics},
        groups={"billing": "Stable"},
    )


SETTINGS = LinkSettings(
    name="dc1-all",
    source_alias="dc1",
    source_bootstrap="h:1",
    topics=("orders", r"shop\..*"),
    sync_group_offsets=True,
    groups=("billing", "web-.*"),
)
WELL = LinkFacts(
    settings=SETTINGS,
    target_alias="all",
    source=cluster("dc1", "orders", "shop.carts"),
    target=cluster("all", "dc1.orders", "dc1.shop.carts"),
    state="running",
    worker=WORKER,
)


class Fault(NamedTuple):
    """A fault, the question, and the first answer."""

    subject: str
    """`topic NAME`, `group NAME`, `link`, or `record FATE`."""
    link: LinkFacts
    code: str
    words: str


def settings(**values: Any) -> LinkFacts:
    return replace(WELL, settings=replace(SETTINGS, **values))


def worker(**values: Any) -> LinkFacts:
    return replace(WELL, worker={**WORKER, **values})


def flow(**values: Any) -> LinkFacts:
    return worker(flows=[{**FLOW, **values}])


def side(name: str, **values: Any) -> LinkFacts:
    return replace(WELL, **{name: replace(getattr(WELL, name), **values)})


def topic(side_name: str, name: str, **values: Any) -> LinkFacts:
    facts = getattr(WELL, side_name)
    changed = replace(facts.topics[name], **values)
    return side(side_name, topics={**facts.topics, name: changed})


def without(side_name: str, name: str) -> LinkFacts:
    left = {key: value for key, value in getattr(WELL, side_name).topics.items() if key != name}
    return side(side_name, topics=left)


def paused(topic_name: str | None, partition: int | None) -> LinkFacts:
    parts = [{"topic": topic_name, "partition": partition}]
    return worker(controls={**WORKER["controls"], "paused": parts})


def position(state: str, **values: Any) -> LinkFacts:
    (known,) = WORKER["groups"]["positions"]
    positions = [{**known, "state": state, **values}]
    return worker(groups={"failure": None, "positions": positions})


def throttled(**values: int) -> LinkFacts:
    return worker(lag_records=50, controls={**WORKER["controls"], **values})


def silent(side_name: str, why: str) -> LinkFacts:
    return side(side_name, silent=f"cluster x does not answer: {why}")


T = "topic orders"
NO_LEADER = {0: PART._replace(leader=None, isr=())}
ONE_IN_SYNC = {0: PART._replace(isr=(1,))}
FAULTS: dict[str, Fault] = {
    # The naming rules and patterns.
    "a pattern that misses by one character": Fault(
        "topic orders", settings(topics=("order",)), "not_included", "matches only 'order' of it"
    ),
    "a pattern with one character too many": Fault(
        "topic orders", settings(topics=("orderss",)), "not_included", "'orderss' is similar"
    ),
    "a pattern that differs in case": Fault(
        "topic orders", settings(topics=("Orders",)), "not_included", "differs in case only"
    ),
    "a pattern of the middle of the name": Fault(
        "topic eu.orders.v1", settings(topics=("orders",)), "not_included", "'.*orders.*' does"
    ),
    "an unescaped prefix": Fault(
        "topic shops.carts", WELL, "not_included", "no pattern of link dc1-all matches"
    ),
    "no pattern at all": Fault("topic payments", WELL, "not_included", "add it to `topics`"),
    "an exclusion": Fault(
        T, settings(topics_exclude=("ord.*",)), "excluded", "`exclude` has 'ord.*'"
    ),
    "a name of Kafka's": Fault(
        "topic __consumer_offsets", settings(topics=(".*",)), "internal_name", "never copy"
    ),
    "a name that ends with -internal": Fault(
        "topic orders-internal", settings(topics=(".*",)), "internal_name", "rename the topic"
    ),
    "a topic that came from the target": Fault(
        "topic all.orders", settings(topics=(".*",)), "came_from_target", "would make a loop"
    ),
    "heartbeats of MirrorMaker 2": Fault(
        "topic heartbeats", WELL, "heartbeats_off", "`mm2_topics` is off"
    ),
    "two topics with one copy": Fault(
        T,
        settings(names=TopicNames(map={"orders": "sales", "shop.carts": "sales"})),
        "name_collision",
        "shop.carts have the same name, sales",
    ),
    "the name of the copy": Fault("topic dc1.orders", WELL, "is_copy", "is the copy of orders"),
    # The source topic.
    "a mistyped topic": Fault(
        "topic shop.carst", WELL, "unknown_topic", "did you mean 'shop.carts'?"
    ),
    "a deleted topic": Fault(
        T,
        replace(
            without("source", "orders"),
            worker={
                **WORKER,
                "deletions": {
                    "gone": [
                        {
                            "topic": "orders",
                            "copy": "dc1.orders",
                            "fate": "waiting",
                            "reason": "5 min are left",
                        }
                    ]
                },
            },
        ),
        "deleted",
        "its copy dc1.orders is waiting: 5 min are left",
    ),
    "no right to describe the source topic": Fault(
        T,
        topic("source", "orders", error="TOPIC_AUTHORIZATION_FAILED"),
        "right_missing",
        "grant DESCRIBE and READ",
    ),
    "an internal topic under another name": Fault(
        T, topic("source", "orders", is_internal=True), "kafka_internal", "belongs to Kafka"
    ),
    "a source partition without a leader": Fault(
        T,
        side(
            "source",
            brokers=frozenset(),
            topics={"orders": TopicFacts(partitions=NO_LEADER)},
        ),
        "no_leader",
        "broker 1, 2 does not run",
    ),
    # The copy.
    "a copy that was not created": Fault(
        T, without("target", "dc1.orders"), "copy_missing", "grant CREATE"
    ),
    "no right to describe the copy": Fault(
        T,
        topic("target", "dc1.orders", error="TOPIC_AUTHORIZATION_FAILED"),
        "right_missing",
        "DESCRIBE and WRITE",
    ),
    "a copy with fewer partitions": Fault(
        T,
        topic("source", "orders", partitions={0: PART, 1: PART}),
        "copy_too_narrow",
        "has 1 partitions, the source has 2",
    ),
    "a copy without a leader": Fault(
        T, topic("target", "dc1.orders", partitions=NO_LEADER), "no_leader", "has no leader"
    ),
    "a copy with too few replicas in sync": Fault(
        T,
        topic(
            "target",
            "dc1.orders",
            partitions=ONE_IN_SYNC,
            configs={"min.insync.replicas": "2"},
        ),
        "under_min_isr",
        "min.insync.replicas is 2",
    ),
    "a full disk at the target": Fault(
        T, side("target", log_dirs=((1, "/data", None, 4096),)), "disk_full", "4096 bytes left"
    ),
    "a failed disk at the target": Fault(
        T,
        side("target", log_dirs=((2, "/data", "KAFKA_STORAGE_ERROR", None),)),
        "log_dir_offline",
        "replace the disk",
    ),
    # What an operator did.
    "a paused topic": Fault(T, paused("orders", None), "paused", "--topic orders"),
    "a paused partition": Fault(T, flow(state="HELD"), "paused", "has paused orders-0"),
    "a paused link": Fault(T, paused(None, None), "paused", "mirror resume --link dc1-all"),
    "a throttle by the command": Fault(
        "link", throttled(source_bytes_per_second=1000), "throttled", "1000 bytes per second at the"
    ),
    "a throttle by the file": Fault(
        "link",
        replace(throttled(), settings=replace(SETTINGS, target_bytes_per_second=7)),
        "throttled",
        "7 bytes per second at the target",
    ),
    "a lag without a throttle": Fault(
        "link", replace(throttled(), state="catching_up"), "catching_up", "50 records"
    ),
    # Clusters and workers.
    "an expired certificate": Fault(
        T,
        silent("source", "certificate verify failed: certificate has expired"),
        "certificate_expired",
        "renew the certificate",
    ),
    "a certificate of another host": Fault(
        T,
        silent("source", "Hostname mismatch, certificate is not valid for 'h'"),
        "certificate_name",
        "name this host",
    ),
    "a certificate of an unknown authority": Fault(
        T,
        silent("target", "unable to get local issuer certificate"),
        "certificate_unknown",
        "set `ca_file`",
    ),
    "no certificate of our own": Fault(
        T,
        silent("target", "tlsv13 alert certificate required"),
        "certificate_missing",
        "set `certificate_file`",
    ),
    "a wrong password": Fault(
        T, silent("source", "SASL_AUTHENTICATION_FAILED: wrong"), "credentials", "correct user"
    ),
    "a wrong secret of a client ID": Fault(
        T,
        silent(
            "source",
            "SASL_AUTHENTICATION_FAILED: token endpoint https://i/t refuses client c or its secret",
        ),
        "no_token",
        "correct `oauth`",
    ),
    "a secret of a client ID that is nowhere": Fault(
        T,
        silent("source", "client c gets no token: environment variable PW is not set"),
        "no_token",
        "that `oauth` names",
    ),
    "a token that has expired": Fault(
        T, silent("source", "token in /t: it has expired"), "no_token", "renew the token"
    ),
    "a password that is nowhere": Fault(
        T, silent("source", "environment variable PW is not set"), "secret_missing", "set the"
    ),
    "a host that does not exist": Fault(
        T, silent("source", "[Errno -2] Name or service not known"), "unknown_host", "DNS"
    ),
    "brokers that do not run": Fault(
        T, silent("target", "Connect call failed ('h', 1)"), "not_listening", "start its brokers"
    ),
    "a cluster that hangs": Fault(
        T, silent("source", "not within 10 s"), "cluster_silent", "the network"
    ),
    "a worker that was killed": Fault(
        T, replace(WELL, worker=None, state="restarting", log="/w.log"), "worker_down", "/w.log"
    ),
    "a worker that does not report": Fault(
        T, replace(WELL, worker=None, state="unknown"), "worker_unknown", "no worker reports"
    ),
    "a missing right": Fault(
        T,
        worker(rights_missing=["User:m lacks WRITE on topic dc1.orders"]),
        "right_missing",
        "lacks WRITE",
    ),
    "a link that has failed as a whole": Fault(
        "link",
        replace(WELL, state="failed", reason="the map is of a newer version"),
        "link_failed",
        "newer version",
    ),
    "a link that selects nothing": Fault(
        "link", worker(flows=[], partitions=0, partitions_known=0), "no_topics", "matches: orders"
    ),
    # Doubts.
    "a finding of the audit": Fault(
        "link",
        worker(audit={"first_findings": ["orders-0: LOST at target offset 4: x"]}),
        "doubted",
        "LOST",
    ),
    "an audit that fails": Fault(
        "link", worker(audit={"failure": "no right"}), "audit_failing", "no right"
    ),
    "a map that cannot be written": Fault(
        "link", worker(map_unwritten_seconds=90.0), "map_unwritten", "for 90 s"
    ),
    "a config sync that fails": Fault(
        "link", worker(topic_sync={"failure": "refused"}), "topic_sync_failing", "refused"
    ),
    "a rights sync that fails": Fault(
        "link", worker(rights_sync={"failure": "refused"}), "rights_sync_failing", "refused"
    ),
    "a user who cannot log in on the target": Fault(
        "link",
        worker(rights_sync={"failure": None, "users_without_credentials": ["alice"]}),
        "user_without_credentials",
        "alice",
    ),
    # Groups.
    "groups that are not synced": Fault(
        "group billing", settings(sync_group_offsets=False), "sync_off", "groups: {sync: true}"
    ),
    "a group that no pattern matches": Fault(
        "group bill", WELL, "group_not_included", "'billing' is similar"
    ),
    "an excluded group": Fault(
        "group billing", settings(groups_exclude=("b.*",)), "group_excluded", "`exclude` has 'b.*'"
    ),
    "a mistyped group": Fault(
        "group web-bling",
        side("source", groups={"web-billing": "Empty"}),
        "unknown_group",
        "did you mean 'web-billing'?",
    ),
    "a group sync that fails": Fault(
        "group billing",
        worker(groups={"failure": "no right", "positions": []}),
        "groups_failing",
        "no right",
    ),
    "a group without commits in mirrored topics": Fault(
        "group billing",
        worker(groups={"failure": None, "positions": []}),
        "no_positions",
        "no committed offset",
    ),
    "a group that is active on the target": Fault(
        "group billing", position("active"), "position_active", "has members on the target"
    ),
    "a later position on the target": Fault(
        "group billing", position("ahead"), "position_ahead", "rewind: true"
    ),
    "a commit that the target refuses": Fault(
        "group billing", position("refused"), "position_refused", "grant READ on the group"
    ),
    "a position that another link holds back": Fault(
        "group billing",
        position("partial", held_by="link dc2-all"),
        "position_partial",
        "(link dc2-all)",
    ),
    # Records; the offset is 42.
    "a record in a gap": Fault("record gap", WELL, "in_gap", "a gap of link dc1-all (too_large)"),
    "a record before the start": Fault("record before_start", WELL, "before_start", "offset 50 on"),
    "a record that is left out": Fault("record left_out", WELL, "left_out", "aborted transaction"),
    "a record where the map is incomplete": Fault("record unknown", WELL, "unknown", "incomplete"),
    "a record whose copies were trimmed": Fault(
        "record trimmed", WELL, "copy_deleted", "retention"
    ),
    "a record that retention took first": Fault(
        "record pending",
        topic("source", "orders", partitions={0: PART._replace(start=60)}),
        "deleted_at_source",
        "begins at 60",
    ),
    "a record that does not exist yet": Fault(
        "record pending",
        topic("source", "orders", partitions={0: PART._replace(end=42)}),
        "not_written_yet",
        "the partition ends at 42",
    ),
    "a record behind a stopped partition": Fault(
        "record pending", flow(state="FAILED", trouble="corrupt", reason="CRC"), "corrupt", "CRC"
    ),
    "a record that waits": Fault("record pending", WELL, "pending", "copied up to 40"),
    "a record of a partition that is not there": Fault(
        "record pending", topic("source", "orders", partitions={}), "unknown_partition", "has 0"
    ),
    "a record whose copy was deleted": Fault(
        "record copied",
        topic("target", "dc1.orders", partitions={0: PART._replace(start=30)}),
        "copy_deleted",
        "the copy begins at 30",
    ),
    "a record that the audit doubts": Fault("record doubted", WELL, "doubted", "ALTERED"),
    **{
        f"trouble {trouble}": Fault(
            T, flow(state="PAUSED", trouble=trouble.value, reason="so"), trouble.value, "so"
        )
        for trouble in Trouble
    },
}


def record(name: str) -> RecordFacts:
    gap = {"reason": "too_large", "detail": "2 MB"} if name == "gap" else None
    finding = "ALTERED at target offset 20: x" if name == "doubted" else None
    fate = Fate.COPIED if finding else Fate.PENDING if gap else Fate(name)
    return RecordFacts(
        topic="orders",
        partition=0,
        offset=42,
        fate=fate,
        target_topic="dc1.orders",
        target_offset=20 if fate is Fate.COPIED else None,
        mapped_to=40,
        starts_at=50,
        gap=gap,
        finding=finding,
    )


def answer(subject: str, link: LinkFacts) -> list[Cause]:
    kind, _, name = subject.partition(" ")
    explain: dict[str, Callable[[], list[Cause]]] = {
        "topic": lambda: explain_topic(link, name),
        "group": lambda: explain_group(link, name),
        "link": lambda: explain_link(link),
        "record": lambda: explain_record(link, record(name)),
    }
    return explain[kind]()


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_the_first_answer(name: str) -> None:
    fault = FAULTS[name]
    first = answer(fault.subject, fault.link)[0]
    assert first.code == fault.code, first
    assert fault.words in f"{first.sentence}; {first.remedy}"


def test_there_are_enough_faults() -> None:
    assert len(FAULTS) >= 50


@pytest.mark.parametrize("subject", ["topic orders", "group billing", "link", "record copied"])
def test_what_is_well_has_no_fault(subject: str) -> None:
    assert [cause for cause in answer(subject, WELL) if cause.is_fault] == []


@pytest.mark.parametrize("name", FAULTS)
def test_every_answer_is_short_and_says_what_to_do(name: str) -> None:
    fault = FAULTS[name]
    for cause in answer(fault.subject, fault.link):
        assert cause.sentence
        if cause.is_fault and cause.code not in PASSES_BY_ITSELF:
            assert cause.remedy, cause


PASSES_BY_ITSELF = {
    *("deleted", "kafka_internal", "unknown_partition", "not_written_yet", "unknown"),
    *("catching_up", "position_mixed"),
}
"""Codes without a remedy: time, or nothing, changes it."""


def test_every_trouble_and_every_position_has_an_explanation() -> None:
    from mirror_maker.group_sync.position_rules import SyncState

    assert REMEDIES.keys() == {trouble.value for trouble in Trouble}
    assert STATES.keys() | {"synced"} == {state.value for state in SyncState}
