"""The steps from the daemons that run to the wanted ones."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from topology.deployment.deployment import (
    BrokerView,
    ClusterView,
    Daemon,
    Deployment,
    LinkView,
    decode_daemon,
    decode_deployment,
    encode_deployment,
)
from topology.deployment.plan import REASONS_MAX, Running, Step, plan


def daemon(key: str, **settings: object) -> Daemon:
    return Daemon(
        key=key,
        role="broker",
        label=f"broker {key}",
        argv=("python", "-m", "x", key),
        files={f"/{key}.json": json.dumps(settings)},
    )


def running(*daemons: Daemon) -> dict[str, Running]:
    return {each.key: Running.of(each) for each in daemons}


def test_nothing_runs_everything_starts_in_order() -> None:
    steps = plan([daemon("b"), daemon("a")], {})
    assert [(step.action, step.key) for step in steps] == [("start", "b"), ("start", "a")]


def test_what_runs_as_wanted_is_in_no_step() -> None:
    assert plan([daemon("a", x=1)], running(daemon("a", x=1))) == []


def test_what_is_gone_is_stopped_and_what_changed_says_what() -> None:
    before = daemon("a", config={"num.partitions": "1", "k": True}, list=[1, 2])
    after = daemon("a", config={"num.partitions": "4"}, list=[1, 3])
    assert plan([after], running(before, daemon("z"))) == [
        Step(action="stop", key="z", label="broker z", reasons=("no longer in the topology",)),
        Step(
            action="restart",
            key="a",
            label="broker a",
            reasons=(
                "config.k: true -> not set",
                "config.num.partitions: 1 -> 4",
                "list[1]: 2 -> 3",
            ),
        ),
    ]


def test_many_changes_are_cut_short() -> None:
    before, after = daemon("a"), daemon("a", **{f"k{i:02}": i for i in range(REASONS_MAX + 3)})
    (step,) = plan([after], running(before))
    assert len(step.reasons) == REASONS_MAX + 1
    assert step.reasons[-1] == "and 3 more"
    assert step.sentence().startswith("restart broker a (k00: not set -> 0; ")


def test_a_changed_command_is_a_restart() -> None:
    before = daemon("a")
    after = replace(before, argv=("other",))
    (step,) = plan([after], running(before))
    assert (step.action, step.reasons) == ("restart", ("command changed",))


def test_a_label_or_an_order_is_no_reason_to_restart() -> None:
    before = daemon("a")
    after = replace(before, label="renamed", after=("z",))
    assert plan([after], running(before)) == []


def test_a_deployment_reads_back_as_it_was_written() -> None:
    original = Deployment(
        name="d",
        topology_file="/d.yaml",
        daemons=(
            daemon("a", x=1),
            Daemon(
                key="zk",
                role="zookeeper",
                label="ZooKeeper",
                argv=("java",),
                ready_zookeeper=("127.0.0.1", 2181),
                ports=(("127.0.0.1", 2181),),
                after=("a",),
            ),
        ),
    )
    assert decode_deployment(encode_deployment(original)) == original


def test_another_version_restarts_what_runs_our_code() -> None:
    before, after = (replace(daemon("a"), version=version) for version in ("0.1", "0.2"))
    (step,) = plan([after], running(before))
    assert (step.action, step.reasons) == ("restart", ("version: 0.1 -> 0.2",))
    (unknown,) = plan([after], running(daemon("a")))
    assert unknown.reasons == ("version: an older one -> 0.2",)
    assert plan([before], running(before)) == []


def test_an_older_version_reads_what_a_newer_one_wrote() -> None:
    """A downgrade finds processes and deployments with fields that it does not know."""
    written = {**asdict(daemon("a")), "field_of_a_later_version": 1}
    assert decode_daemon(written) == daemon("a")
    cluster = ClusterView(
        name="c",
        kind="local",
        datacenter="c",
        bootstrap="h:1",
        brokers=(BrokerView(id=1, host="h", port=1, daemon="a"),),
    )
    link = LinkView(name="l", source="c", target="c", daemon="m", workers=("m",))
    original = Deployment(
        name="d",
        topology_file="/d.yaml",
        daemons=(daemon("a"),),
        clusters=(cluster,),
        links=(link,),
    )
    document = json.loads(encode_deployment(original))
    for each in (document, *document["clusters"], *document["links"]):
        each["field_of_a_later_version"] = 1
    document["clusters"][0]["brokers"][0]["field_of_a_later_version"] = 1
    assert decode_deployment(json.dumps(document)) == original


def worker(*links: str, **settings: object) -> Daemon:
    text = json.dumps({"links": [{"name": each} for each in links], **settings})
    return replace(daemon("mirror-b"), role="mirror", files={"/m.json": text})


def test_an_edit_of_links_reloads_a_worker_and_nothing_else_does() -> None:
    before = worker("a-b", "c-b")
    (step,) = plan([worker("a-b", "d-b")], running(before))
    assert (step.action, step.reasons) == ("reload", ("links[1].name: c-b -> d-b",))
    assert step.sentence() == "reload broker mirror-b (links[1].name: c-b -> d-b)"
    aggregators = [replace(each, role="aggregator") for each in (before, worker("a-b", "d-b"))]
    (step,) = plan(aggregators[1:], running(aggregators[0]))
    assert step.action == "reload"
    moved = replace(worker("a-b"), files={"/n.json": worker("a-b").files["/m.json"]})
    for after in (
        worker("a-b", "d-b", http_port=1),
        replace(worker("a-b"), version="2"),
        replace(worker("a-b"), argv=("other",)),
        replace(worker("a-b"), role="aggregator"),
        replace(worker("a-b"), files={"/m.json": "no JSON"}),
        replace(worker("a-b"), files={"/m.json": "{}"}),
        moved,
    ):
        assert [each.action for each in plan([after], running(before))] == ["restart"]
    assert plan([worker("a-b", "c-b")], running(before)) == []
