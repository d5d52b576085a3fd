"""Which daemons belong to this host: by its addresses, by name, by datacenter."""

from __future__ import annotations

from pathlib import Path

import pytest

from topology.deployment.deployment import (
    Deployment,
    Part,
    decode_deployment,
    encode_deployment,
)
from topology.deployment.parts_of_hosts import hosts_of, lost_hosts, part_here
from topology.deployment.removals import removed_log_dirs
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology
from topology.problems import DeployError

TOPOLOGY = """\
name: flights
http_security: {token: {file: token}, tls: {keystore_file: http.pem}}
zookeepers:
  - {name: main, port: 2181, hosts: [10.0.0.1, 10.0.0.2, 10.0.0.3], allow_insecure: true}
clusters:
  - name: ewr
    datacenter: Newark
    zookeeper: {embedded: main, chroot: /ewr}
    brokers:
      - {id: 1, host: 10.0.0.1, port: 9092}
      - {id: 2, host: 10.0.0.2, port: 9092}
  - name: nyc
    kind: aggregate
    datacenter: New York
    zookeeper: {embedded: main, chroot: /nyc}
    brokers: [{id: 1, host: 10.0.0.3, port: 9092}]
    mirror: {hosts: [10.0.0.2, 10.0.0.3], host: 0.0.0.0, port: 8083}
links:
  - {source: ewr, target: nyc, topics: [".*"]}
"""


def all_of_it(text: str = TOPOLOGY) -> Deployment:
    return render(parse_topology(text), StateDir(Path("/state")), topology_file=Path("t.yaml"))


def here(deployment: Deployment) -> set[str]:
    return {each.key for each in deployment.daemons}


FIRST = {"zookeeper-main.1", "broker-ewr-1"}
SECOND = {"zookeeper-main.2", "broker-ewr-2", "mirror-nyc.10.0.0.2"}
THIRD = {"zookeeper-main.3", "broker-nyc-1", "mirror-nyc.10.0.0.3", "aggregator-nyc"}


def test_each_daemon_belongs_to_exactly_one_host() -> None:
    whole = all_of_it()
    assert hosts_of(whole) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    for host, expected in zip(hosts_of(whole), (FIRST, SECOND, THIRD), strict=True):
        by_name = part_here(whole, Part(host=host), lambda _: False)
        by_address = part_here(whole, None, host.__eq__)
        assert here(by_name) == here(by_address) == expected
        assert {each.key for each in by_name.elsewhere} == here(whole) - expected


def test_a_datacenter_is_everything_of_its_clusters() -> None:
    newark = part_here(all_of_it(), Part(datacenter="Newark"), lambda _: False)
    york = part_here(all_of_it(), Part(datacenter="New York"), lambda _: False)
    assert here(newark) == FIRST | {"zookeeper-main.2", "broker-ewr-2"}
    assert here(newark) | here(york) == here(all_of_it())
    assert not here(newark) & here(york)


def test_a_link_has_the_worker_of_this_host() -> None:
    for host, key in (("10.0.0.3", "mirror-nyc.10.0.0.3"), ("10.0.0.1", "mirror-nyc.10.0.0.2")):
        (link,) = part_here(all_of_it(), Part(host=host), lambda _: False).links
        assert link.daemon == key
        assert link.workers == ("mirror-nyc.10.0.0.2", "mirror-nyc.10.0.0.3")


def test_workers_of_one_target_have_ids_of_their_own() -> None:
    workers = [each for each in all_of_it().daemons if each.role == "mirror"]
    texts = ["".join(each.files.values()) for each in workers]
    assert '"flights-nyc-10.0.0.2"' in texts[0]
    assert '"flights-nyc-10.0.0.3"' in texts[1]
    assert [each.address for each in workers] == [("10.0.0.2", 8083), ("10.0.0.3", 8083)]


def test_what_belongs_to_others_changes_no_digest() -> None:
    edited = TOPOLOGY.replace("{id: 2, host: 10.0.0.2", "{id: 3, host: 10.0.0.2")
    before, after = (
        part_here(all_of_it(text), Part(host="10.0.0.1"), lambda _: False)
        for text in (TOPOLOGY, edited)
    )
    assert [(each.key, each.digest) for each in before.daemons] == [
        (each.key, each.digest) for each in after.daemons
    ]


def test_every_node_knows_the_addresses_of_all() -> None:
    for each in all_of_it().daemons:
        if each.role == "zookeeper":
            (config,) = (text for path, text in each.files.items() if path.endswith(".cfg"))
            assert "server.2=10.0.0.2:2182:2183\n" in config
            assert f"clientPortAddress={each.host}\n" in config
            assert len(each.quorum) == 3


def test_nothing_here_is_an_error_that_names_the_hosts() -> None:
    with pytest.raises(DeployError, match="belongs to this host") as caught:
        part_here(all_of_it(), None, lambda _: False)
    assert "10.0.0.1, 10.0.0.2, 10.0.0.3" in caught.value.details[0]


def test_an_unknown_part_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(DeployError, match=r"did you mean '10.0.0.1'"):
        part_here(all_of_it(), Part(host="10.0.0.11"), lambda _: False)
    with pytest.raises(DeployError, match="did you mean 'Newark'"):
        part_here(all_of_it(), Part(datacenter="newark"), lambda _: False)


def test_a_loopback_address_cannot_stand_beside_other_hosts() -> None:
    text = TOPOLOGY.replace(
        "{name: main, port: 2181, hosts: [10.0.0.1, 10.0.0.2, 10.0.0.3], allow_insecure: true}",
        "{name: main}",
    )
    with pytest.raises(DeployError, match="every host would start") as caught:
        part_here(all_of_it(text), None, lambda host: host == "10.0.0.1")
    assert caught.value.details == ("ZooKeeper main needs the address of its host, not 127.0.0.1",)
    everything = part_here(all_of_it(text), None, lambda _: True)
    assert not everything.elsewhere, "all hosts are addresses of this one"


def test_a_host_whose_address_went_away_is_noticed() -> None:
    before = part_here(all_of_it(), None, lambda host: host != "10.0.0.3")
    after = part_here(all_of_it(), None, lambda host: host == "10.0.0.1")
    assert lost_hosts(before, after) == ["10.0.0.2"]
    assert lost_hosts(after, before) == []


def test_a_broker_that_moves_to_another_host_leaves_its_log_directories() -> None:
    before = part_here(all_of_it(), Part(host="10.0.0.2"), lambda _: False)
    moved = TOPOLOGY.replace("{id: 2, host: 10.0.0.2", "{id: 2, host: 10.0.0.1").replace(
        "{id: 1, host: 10.0.0.1, port: 9092}", "{id: 1, host: 10.0.0.1, port: 9093}"
    )
    after = part_here(all_of_it(moved), Part(host="10.0.0.2"), lambda _: False)
    (left,) = removed_log_dirs(before, after)
    assert left.broker == "broker 2 of ewr"


def test_it_survives_the_state_directory() -> None:
    part = part_here(all_of_it(), Part(host="10.0.0.1"), lambda _: False)
    assert decode_deployment(encode_deployment(part)) == part


def test_more_workers_change_nothing_of_the_first_ones() -> None:
    more = TOPOLOGY.replace("port: 8083}", "port: 8083, workers: 2}")
    before, after = (
        {each.key: each for each in all_of_it(text).daemons if each.role == "mirror"}
        for text in (TOPOLOGY, more)
    )
    added = {"mirror-nyc.10.0.0.2.w2", "mirror-nyc.10.0.0.3.w2"}
    assert after.keys() - before.keys() == added
    assert {key: after[key] for key in before} == before
    second = after["mirror-nyc.10.0.0.3.w2"]
    assert (second.host, second.address) == ("10.0.0.3", ("10.0.0.3", 8084))
    assert '"flights-nyc-10.0.0.3-w2"' in "".join(second.files.values())
    (link,) = all_of_it(more).links
    assert set(link.workers) == after.keys()


def test_an_edit_of_one_link_changes_only_the_workers_of_its_target() -> None:
    text = f"{TOPOLOGY}  - {{source: nyc, target: ewr, topics: [back.*]}}\n"
    edited = text.replace("back.*", "return.*")
    before, after = (
        {each.key: each.digest for each in all_of_it(of).daemons} for of in (text, edited)
    )
    assert {key for key in after if before[key] != after[key]} == {"mirror-ewr"}
