"""Topology files: valid ones, and every problem with its position."""

from __future__ import annotations

from pathlib import Path

import pytest

from topology.file.load import load_topology, parse_topology
from topology.file.yaml_document import BRACKETS_MAX, DOCUMENT_BYTES_MAX
from topology.model import BrokerCount, TopicFilter, ZooKeeperChroot
from topology.problems import InvalidTopology

CONFIGS = Path(__file__).resolve().parents[4] / "configs"

SMALL = """\
name: small
clusters:
  - name: ewr
    brokers: [{id: 1, port: 9092}]
"""


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(text, file="t.yaml")
    return caught.value.lines()


def test_the_quickstart_is_three_datacenters_and_an_aggregate() -> None:
    topology = load_topology(CONFIGS / "quickstart.yaml")
    assert topology.name == "quickstart"
    kinds = {each.name: each.effective_kind for each in topology.clusters}
    assert kinds == {"ewr": "local", "jfk": "local", "lga": "local", "nyc": "aggregate"}
    assert [link.effective_name for link in topology.links] == ["ewr-nyc", "jfk-nyc", "lga-nyc"]
    places = [each.zookeeper for each in topology.clusters]
    assert places == [
        ZooKeeperChroot(embedded="zookeeper", chroot=f"/{name}")
        for name in ("ewr", "jfk", "lga", "nyc")
    ]
    for cluster in topology.clusters:
        assert cluster.topic_defaults.config["retention.ms"] == "-1"
    aggregate = topology.cluster("nyc")
    assert len(aggregate.broker_list) == aggregate.topic_defaults.replication_factor == 3
    assert aggregate.topic_defaults.config["min.insync.replicas"] == "2"


def test_one_broker_is_where_clients_look_first_and_set_for_development() -> None:
    topology = load_topology(CONFIGS / "one-broker.yaml")
    (cluster,) = topology.clusters
    (broker,) = cluster.broker_list
    assert (broker.host, broker.ports) == ("127.0.0.1", {"PLAINTEXT": 9092})
    assert cluster.topic_defaults.partitions == 4
    assert cluster.config == {
        "auto.create.topics.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
    }


def test_defaults_of_a_small_topology() -> None:
    topology = parse_topology(SMALL)
    (cluster,) = topology.clusters
    assert cluster.effective_datacenter == "ewr"
    assert cluster.zookeeper == "embedded"
    assert cluster.broker_list[0].rack == "127.0.0.1"
    assert topology.effective_zookeepers[0].port == 2181


def test_a_count_of_brokers_takes_consecutive_ports_for_every_listener() -> None:
    topology = parse_topology(
        """\
name: counted
clusters:
  - name: ewr
    listeners: [{name: CLIENT}, {name: INTERNAL, inter_broker: true}]
    brokers: {count: 2, base_port: 9100, host: b1.example, rack: r1}
"""
    )
    cluster = topology.clusters[0]
    assert isinstance(cluster.brokers, BrokerCount)
    assert [tuple(each) for each in cluster.broker_list] == [
        (1, "b1.example", "r1", {"CLIENT": 9100, "INTERNAL": 9101}, ()),
        (2, "b1.example", "r1", {"CLIENT": 9102, "INTERNAL": 9103}, ()),
    ]


def test_topics_of_a_link_are_a_list_or_includes_and_excludes() -> None:
    topology = parse_topology(
        SMALL
        + """\
  - {name: nyc, kind: aggregate, external: "k1:9092,[::1]:9093"}
links:
  - {source: ewr, target: nyc, topics: {include: ["orders.*"], exclude: [".*-dlq"]}}
""".replace("kind: aggregate, ", "")
    )
    expected = TopicFilter(include=["orders.*"], exclude=[".*-dlq"])
    assert topology.links[0].topic_filter == expected
    assert topology.links[0].effective_name == "ewr-nyc"
    assert topology.cluster("nyc").effective_kind == "external"


def test_every_problem_is_reported_at_once_with_its_position() -> None:
    text = """\
name: x y
zookeper: 1
zookeepers: [{name: zk, port: 9092}]
clusters:
  - name: ewr
    broker: []
    brokers: [{id: 1, port: "9092"}, {id: 1, port: 9092, hots: a}]
  - name: jfk
    kind: agregate
    brokers: {count: 2, base_port: 9092, rak: 1}
    zookeeper: foo bar
links:
  - {source: ewr, target: jfkk, topics: [f, "("], setings: {}}
  - 7
"""
    assert problems(text) == [
        "t.yaml:1:7: name: a name of letters, digits, - and _, at most 63 of them, not 'x y'",
        "t.yaml:2:1: zookeper: unknown key; expected one of clusters, http_security, links,"
        " log_format, name, supervisors, zookeepers;"
        " did you mean 'zookeepers'?",
        "t.yaml:6:5: clusters[0].broker: unknown key; expected one of acls, aggregator, authorizer,"
        " broker_principals, brokers, config, datacenter, external, flush, http,"
        " inter_broker_security, kind, listeners, mirror, name, oauth_allowed_urls, principals,"
        " quotas, security, topic_defaults, users, zookeeper, zookeeper_security;"
        " did you mean 'brokers'?",
        "t.yaml:7:29: clusters[0].brokers[0].port: a whole number, not '9092'",
        "t.yaml:7:43: clusters[0].brokers[1].id: a unique broker id; 1 is taken by"
        " clusters[0].brokers[0].id",
        "t.yaml:7:52: clusters[0].brokers[1].port: a port of its own; 9092 is taken by"
        " zookeepers[0].port",
        "t.yaml:7:58: clusters[0].brokers[1].hots: unknown key; expected one of host, id,"
        " log_dirs, port, ports, rack; did you mean 'host'?",
        "t.yaml:9:11: clusters[1].kind: one of local, aggregate, external;"
        " did you mean 'aggregate'?",
        "t.yaml:10:36: clusters[1].brokers.base_port: a port of its own; 9092 is taken by"
        " zookeepers[0].port",
        "t.yaml:10:42: clusters[1].brokers.rak: unknown key; expected one of base_port, count,"
        " first_id, host, log_dirs, rack, racks; did you mean 'rack'?",
        "t.yaml:11:16: clusters[1].zookeeper: 'embedded' or a connect string such as"
        " zk1:2181,zk2:2181/chroot, not 'foo bar'",
        "t.yaml:13:27: links[0].target: the name of a cluster, not 'jfkk'; did you mean 'jfk'?",
        "t.yaml:13:45: links[0].topics[1]: a topic name or a regular expression; missing ),"
        " unterminated subpattern at position 0, not '('",
        "t.yaml:13:51: links[0].setings: unknown key; expected one of acls, configs, deletions,"
        " filter, groups, leads, merge, name, names, on, origin, probe, quotas, settings, source,"
        " target, topics, transform, users; did you mean 'settings'?",
        "t.yaml:14:5: links[1]: a mapping, not 7",
    ]


PLAIN_CLIENTS = (
    "`client_tls` with `closes_plain_port: true` as well, because other hosts reach ZooKeeper"
    " without TLS at"
)
OWN_NETWORK = "or `allow_insecure: true` in a network of their own"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            "  - {name: ewr, brokers: [{id: 1, port: 9093}]}\n",
            [
                "t.yaml:5:12: clusters[1].name: a unique cluster name; ewr is taken by"
                " clusters[0].name",
                "t.yaml:5:5: clusters[1].zookeeper: a chroot that no other cluster uses;"
                " zookeeper/ewr is taken by clusters[0].zookeeper",
            ],
        ),
        (
            "  - {name: jfk, brokers: {count: 2, base_port: 9191}, http: {base_port: 9192}}\n",
            [
                "t.yaml:5:73: clusters[1].http.base_port: a port of its own; 9192 is taken by"
                " clusters[1].brokers.base_port",
            ],
        ),
        (
            "  - {name: jfk, brokers: {count: 2, base_port: 9191}, http: {base_port: 65535}}\n",
            [
                "t.yaml:5:73: clusters[1].http.base_port: a base port so that the last port,"
                " 65536, is at most 65535",
            ],
        ),
        (
            "  - {name: jfk, brokers: [{id: 1, port: 9092, host: localhost}]}\n",
            [
                "t.yaml:5:41: clusters[1].brokers[0].port: a port of its own; 9092 is taken by"
                " clusters[0].brokers[0].port"
            ],
        ),
        (
            "  - {name: jfk, brokers: [{id: 1, port: 9092, host: b2.example}]}\n",
            [],
        ),
        ("  - {name: jfk}\n", ["t.yaml:5:5: clusters[1].brokers: a list of brokers or a count"]),
        (
            "  - {name: jfk, kind: external}\n",
            [
                "t.yaml:5:23: clusters[1].kind: `external: host:port`, the bootstrap address of"
                " the existing Kafka"
            ],
        ),
        (
            "  - {name: jfk, external: 'h:1', flush: fsync}\n",
            ["t.yaml:5:34: clusters[1].flush: absent: nothing is started for an external cluster"],
        ),
        (
            "  - {name: jfk, zookeeper: {embedded: zokeeper}, brokers: [{id: 1, port: 9}]}\n",
            [
                "t.yaml:5:39: clusters[1].zookeeper.embedded: the name of an entry of zookeepers,"
                " not 'zokeeper'; did you mean 'zookeeper'?"
            ],
        ),
        (
            "  - {name: jfk, brokers: [{id: 1, port: 9}], topic_defaults: {config:"
            " {retention.mss: 1, segment.bytes: few}}, config: {num.partition: 2,"
            " num.io.threads: 9}}\n",
            [
                "t.yaml:5:72: clusters[1].topic_defaults.config.retention.mss: the name of a"
                " topic config; did you mean 'retention.ms'?",
                "t.yaml:5:105: clusters[1].topic_defaults.config.segment.bytes: Not a number of"
                " type INT, not 'few'",
                "t.yaml:5:121: clusters[1].config.num.partition: the name of a broker config;"
                " did you mean 'num.partitions'?",
                "t.yaml:5:139: clusters[1].config.num.io.threads: a config that our brokers use",
            ],
        ),
        (
            "  - {name: jfk, brokers: [{id: 1, port: 9}], config: {num.partitions: four,"
            " delete.topic.enable: no, log.retention.hours: day, log.segment.bytes: 0}}\n",
            [
                "t.yaml:5:71: clusters[1].config.num.partitions: a whole number, not 'four'",
                "t.yaml:5:98: clusters[1].config.delete.topic.enable: true or false, not 'no'",
                "t.yaml:5:123: clusters[1].config.log.retention.hours: a whole number, not 'day'",
                "t.yaml:5:147: clusters[1].config.log.segment.bytes: Value must be at least"
                " 1048576, not '0'",
            ],
        ),
        (
            "  - {name: jfk, brokers: [{id: 1, host: 0.0.0.0, port: 9}]}\n",
            [
                "t.yaml:5:41: clusters[1].brokers[0].host: an address that clients can connect to,"
                " not '0.0.0.0'; a listener may `bind` that address if it has an `advertised_host`"
            ],
        ),
        (
            "  - {name: jfk, listeners: [{name: A, advertised_host: b}],"
            " brokers: {count: 1, base_port: 9, host: 0.0.0.0}}\n",
            [],
        ),
        (
            "  - {name: jfk, listeners: [{name: A}, {name: B}], brokers: [{id: 1, port: 9}]}\n",
            [
                "t.yaml:5:17: clusters[1].listeners: one listener with inter_broker: true, not 0",
                "t.yaml:5:70: clusters[1].brokers[0].port: `ports`, with a port for each listener:"
                " A, B",
            ],
        ),
        (
            "  - {name: jfk, brokers: [{id: 1, port: 2186}]}\n"
            "zookeepers: [{name: a, port: 2181, nodes: 3}, {name: b, port: 65530, nodes: 3}]\n",
            [
                "t.yaml:5:41: clusters[1].brokers[0].port: a port of its own; 2186 is taken by"
                " zookeepers[0].port",
                "t.yaml:6:63: zookeepers[1].port: a port so that the last one of the ensemble,"
                " 65538, is at most 65535",
            ],
        ),
        (
            "zookeepers: [{name: a, port: 1, hosts: [127.0.1.1, 127.0.1.2, 10.0.0.3]}]\n",
            [
                f"t.yaml:5:33: zookeepers[0].hosts: {PLAIN_CLIENTS} 10.0.0.3:1; {OWN_NETWORK}",
                "t.yaml:5:33: zookeepers[0].hosts: `quorum_tls` as well, because other hosts reach"
                " the nodes at 10.0.0.3; or `allow_insecure: true` in a network of their own",
            ],
        ),
        (
            "zookeepers: [{name: a, port: 1, nodes: 3, host: z}]\n",
            [
                f"t.yaml:5:43: zookeepers[0].host: {PLAIN_CLIENTS} z:1; {OWN_NETWORK}",
                "t.yaml:5:43: zookeepers[0].host: `quorum_tls` as well, because other hosts reach"
                " the nodes at z; or `allow_insecure: true` in a network of their own",
            ],
        ),
        (
            "zookeepers: [{name: a, port: 1, nodes: 3, host: z, allow_insecure: true}]\n",
            [],
        ),
        (
            "zookeepers: [{name: a, port: 1, nodes: 3, host: z,"
            " quorum_tls: {keystore_file: a.pem, ca_file: b.pem}}]\n",
            [f"t.yaml:5:43: zookeepers[0].host: {PLAIN_CLIENTS} z:1; {OWN_NETWORK}"],
        ),
        (
            "zookeepers: [{name: a, port: 1, host: 10.0.0.1}]\n",
            [f"t.yaml:5:33: zookeepers[0].host: {PLAIN_CLIENTS} 10.0.0.1:1; {OWN_NETWORK}"],
        ),
        (
            "zookeepers: [{name: a, port: 1, host: 10.0.0.1, allow_insecure: true}]\n",
            [],
        ),
        (
            "zookeepers: [{name: a, port: 1, host: 0.0.0.0,"
            " client_tls: {port: 8, keystore_file: a}}]\n",
            [f"t.yaml:5:33: zookeepers[0].host: {PLAIN_CLIENTS} 0.0.0.0:1; {OWN_NETWORK}"],
        ),
        (
            "zookeepers: [{name: zookeeper, port: 1}, {name: a, port: 2, host: 10.0.0.1,"
            " client_tls: {port: 8, keystore_file: a, closes_plain_port: true}}]\n",
            [],
        ),
        (
            "zookeepers: [{name: a, port: 1, quorum_tls: {keystore_file: a, ca_file: b}}]\n",
            [],
        ),
        (
            "zookeepers: [{name: a, port: 1, nodes: 3, client_tls: {port: 8, keystore_file: a}}]\n",
            [
                "t.yaml:5:30: zookeepers[0].port: a port of its own; 8 is taken by"
                " zookeepers[0].client_tls.port",
                "t.yaml:5:30: zookeepers[0].port: a port of its own; 9 is taken by"
                " zookeepers[0].client_tls.port",
            ],
        ),
        (
            "zookeepers: [{name: a, port: 1,"
            " client_tls: {port: 8, keystore_file: a, closes_plain_port: true}}]\n",
            [
                "t.yaml:5:92: zookeepers[0].client_tls.closes_plain_port: false while cluster ewr"
                " connects without TLS",
            ],
        ),
        (
            "zookeepers: [{name: a, nodes: 2}]\n",
            ["t.yaml:5:31: zookeepers[0].nodes: one of 1, 3"],
        ),
        (
            "  - {name: jfk, brokers: [{id: 1, port: 9, log_dirs: [/d1, d2, /d1]}]}\n",
            [
                "t.yaml:5:64: clusters[1].brokers[0].log_dirs[2]: a log directory that is not"
                " listed yet; /d1 is taken by clusters[1].brokers[0].log_dirs[0]"
            ],
        ),
        (
            "  - {name: jfk, brokers: {count: 2, base_port: 9, rack: a, racks: [b, c, b]}}\n",
            [
                "t.yaml:5:51: clusters[1].brokers.rack: `rack` or `racks`, not both",
                "t.yaml:5:60: clusters[1].brokers.racks: at most as many racks as brokers, 2,"
                " not 3",
                "t.yaml:5:74: clusters[1].brokers.racks[2]: a rack named once; b is taken by"
                " clusters[1].brokers.racks[0]",
            ],
        ),
        (
            "  - {name: jfk, brokers: {count: 2, base_port: 9, log_dirs: [../d]}}\n",
            [
                "t.yaml:5:62: clusters[1].brokers.log_dirs[0]: an absolute path, a name of"
                " letters, digits, - and _, or ., not '../d'"
            ],
        ),
        (
            "links:\n  - {source: ewr, target: ewr, topics: [a]}\n",
            ["t.yaml:6:27: links[0].target: a cluster other than the source"],
        ),
        (
            "  - {name: jfk, brokers: [{id: 1, port: 9}]}\n"
            "links:\n  - {source: ewr, target: jfk, topics: [a], probe: true}\n",
            [
                "t.yaml:7:52: links[0].probe: `aggregator` in cluster jfk, which probes the links"
                " into it"
            ],
        ),
    ],
)
def test_rules_between_entries(more: str, expected: list[str]) -> None:
    if expected:
        assert problems(SMALL + more) == sorted(expected, key=_position)
    else:
        parse_topology(SMALL + more)


def test_a_wrong_value_hides_nothing_beside_it_and_is_told_once() -> None:
    text = """\
name: t
clusters:
  - {name: a, brokers: {count: 1, base_port: "9"}, config: {num.partition: 2}}
  - name: b
    external: "h:1"
    security: {protocol: SASL_SSL, mechanism: SCRAM-SHA-513, username: u, password: {env: P}}
"""
    assert problems(text) == [
        "t.yaml:3:46: clusters[0].brokers.base_port: a whole number, not '9'",
        "t.yaml:3:61: clusters[0].config.num.partition: the name of a broker config; did you mean"
        " 'num.partitions'?",
        "t.yaml:6:47: clusters[1].security.mechanism: one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512,"
        " OAUTHBEARER, GSSAPI; did you mean 'SCRAM-SHA-512'?",
    ]


def _position(line: str) -> list[int]:
    return [int(number) for number in line.split(":")[1:3]]


def test_two_links_need_two_names() -> None:
    text = (
        SMALL
        + """\
  - {name: jfk, brokers: [{id: 1, port: 9093}]}
  - {name: nyc, brokers: [{id: 1, port: 9094}]}
links:
  - {name: both, source: ewr, target: nyc, topics: [a]}
  - {name: both, source: jfk, target: nyc, topics: [a]}
  - {source: ewr, target: nyc, topics: [b]}
"""
    )
    assert problems(text) == [
        "t.yaml:9:12: links[1].name: a unique link name; both is taken by links[0].name",
        "t.yaml:10:5: links[2]: one link for each source and target, with all its topics;"
        " ewr to nyc is taken by links[0]",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "t.yaml:1:1: topology: a mapping with name and clusters"),
        ("- 1", "t.yaml:1:1: topology: a mapping with name and clusters"),
        ("a: [1", "t.yaml:1:6: topology: valid YAML; expected ',' or ']', but got '<stream end>'"),
        ("a: 1\na: 2", 't.yaml:2:1: topology: each key once; found duplicate key "a"'),
        ("#" * (DOCUMENT_BYTES_MAX + 1), "t.yaml:1:1: topology: at most 1048576 bytes"),
        (
            "a: " + "[" * 40 + "]" * 40,
            "t.yaml:1:1: topology: at most 100000 values, nested at most 30 deep",
        ),
        (
            "a: " + "[" * 400 + "]" * 400,
            "t.yaml:1:1: topology: at most 100000 values, nested at most 30 deep",
        ),
        (
            "# before the parser, " + "[" * (BRACKETS_MAX + 1),
            "t.yaml:1:1: topology: at most 100000 values, nested at most 30 deep",
        ),
        (
            "# for the parser, " + "[" * BRACKETS_MAX,
            "t.yaml:1:1: topology: a mapping with name and clusters",
        ),
        (
            "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
            "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
            "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]",
            "t.yaml:1:1: topology: at most 100000 values, nested at most 30 deep",
        ),
    ],
)
def test_what_is_no_usable_yaml(text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_tags_make_no_objects() -> None:
    lines = problems(SMALL.replace("small", "!!python/object/apply:os.getcwd []"))
    assert lines == ["t.yaml:1:7: name: text"]


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(b"name: a\nclusters: \xff\n")
    with pytest.raises(InvalidTopology) as caught:
        load_topology(path)
    assert caught.value.lines() == [f"{path}:2:1: topology: UTF-8 text"]


def test_the_example_of_the_reference_is_valid() -> None:
    reference = (CONFIGS.parent / "docs" / "operations" / "topology.md").read_text()
    example = reference.partition("```yaml\n")[2].partition("```")[0]
    assert [each.name for each in parse_topology(example).clusters] == ["ewr", "jfk", "lga", "nyc"]
