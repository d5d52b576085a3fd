"""What the topology file allows of the HTTP ports of supervisors."""

from __future__ import annotations

import pytest

from topology.deployment.supervisor_ports import SupervisorPorts
from topology.file.load import parse_topology
from topology.problems import InvalidTopology

FILE = """\
name: t
http_security: {HTTP}
supervisors: {PORTS}
zookeepers: [{name: z, host: 10.0.0.3, allow_insecure: true}]
clusters:
  - {name: jfk, brokers: [{id: 1, host: 127.0.1.1, port: 9092}]}
  - {name: nyc, brokers: [{id: 1, host: 10.0.0.1, port: 9092}], mirror: {hosts: [10.0.0.2]}}
"""
TOKEN = "token: {file: token}"
TLS = "tls: {keystore_file: http.pem}"


def problems(http: str, ports: str) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(FILE.replace("HTTP", http).replace("PORTS", ports))
    return [f"{each.key}: {each.expected}" for each in caught.value.problems]


@pytest.mark.parametrize("allows", ["", "allow_insecure: true", TLS])
def test_the_port_is_never_open(allows: str) -> None:
    (problem,) = problems(allows, "port: 7000")
    assert problem.startswith("supervisors: a `token` in `http_security` beside it")


@pytest.mark.parametrize("bind", ["", ", bind: 0.0.0.0", ", bind: '::'"])
def test_a_port_that_others_reach_needs_tls(bind: str) -> None:
    (problem,) = problems(TOKEN, f"port: 7000{bind}")
    assert problem.startswith("supervisors: `tls` in `http_security` beside it, as other hosts")
    for more in (TLS, "allow_insecure: true"):
        text = FILE.replace("HTTP", f"{TOKEN}, {more}").replace("PORTS", f"port: 7000{bind}")
        assert parse_topology(text).supervisors is not None
    text = FILE.replace("HTTP", TOKEN).replace("PORTS", "port: 7000, hosts: [127.0.1.1]")
    assert parse_topology(text).supervisors is not None, "a loopback address stays on its host"


def test_a_host_is_one_of_the_file() -> None:
    (problem,) = problems(f"{TOKEN}, {TLS}", "port: 7000, hosts: [10.0.0.2, 10.0.0.3, 10.0.0.9]")
    assert problem == "supervisors.hosts[2]: a host of this file, not '10.0.0.9'"


def test_the_port_is_free_on_each_host() -> None:
    found = problems(f"{TOKEN}, {TLS}", "port: 9092")
    assert [each.split(":")[0] for each in found] == ["supervisors.port"] * 2
    assert "taken by clusters[1].brokers[0].port" in found[1]


def test_what_is_bound_and_asked() -> None:
    ports = SupervisorPorts(port=7000)
    assert ports.addresses(["a", "b", "a"]) == (("a", 7000), ("b", 7000))
    assert ports.url("a") == "http://a:7000"
    assert ports.url("127.0.0.1") is None, "every host calls itself so"
    some = SupervisorPorts(port=7000, bind="0.0.0.0", hosts=("a", "b"))
    assert some.addresses(["a", "b", "c"]) == (("0.0.0.0", 7000),)
    assert (some.addresses(["c"]), some.url("c")) == ((), None)
    with pytest.raises(ValueError, match="needs a `token`"):
        ports.check(["127.0.1.1"])
