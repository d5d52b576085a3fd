"""MirrorMaker 2's properties: the topology of a file, and the remarks on its keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from topology.file.mm2_properties import Mm2Reading, read_mm2
from topology.file.property_keys import InvalidProperties, Property, parse_properties
from topology.main import app

ACTIVE_ACTIVE = r"""
# two datacenters
clusters = east, west
east.bootstrap.servers = e1:9092, e2:9092
west.bootstrap.servers = w1:9093
west.security.protocol = SASL_SSL
west.sasl.mechanism = SCRAM-SHA-512
west.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="mirror" password="it's \\"secret\\"";
west.ssl.truststore.type = PEM
west.ssl.truststore.location = /etc/west.pem
west.ssl.endpoint.identification.algorithm =

east->west.enabled = true
east->west.topics = orders, returns-.*
west->east.enabled = true
west->east.sync.group.offsets.enabled = true
west->east.sync.topic.acls.enabled = false
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
replication.factor = 3
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
refresh.topics.interval.seconds = 10
east.producer.linger.ms = 5
east.consumer.isolation.level = read_uncommitted
tasks.max = 4
"""


def read(text: str) -> Mm2Reading:
    return read_mm2(text)


def test_tickets_by_the_keytab_of_java() -> None:
    jaas = 'Krb5LoginModule required useKeyTab=true keyTab="/m.keytab" principal="mm2@R"'
    text = (
        "clusters = a, b\na.bootstrap.servers = h:1\nb.bootstrap.servers = h:2\n"
        "a->b.enabled = true\nb.security.protocol = SASL_SSL\nb.sasl.mechanism = GSSAPI\n"
        f"b.sasl.jaas.config = {jaas};\nb.sasl.kerberos.service.name = brokers\n"
    )
    reading = read(text)
    assert reading.topology is not None, reading.remarks
    kerberos = reading.topology.cluster("b").security.kerberos
    assert kerberos is not None
    assert (kerberos.principal, kerberos.keytab_file) == ("mm2@R", "/m.keytab")
    assert kerberos.service_name == "brokers"
    assert not reading.secrets


def test_two_datacenters_with_identical_names() -> None:
    reading = read(ACTIVE_ACTIVE)
    topology = reading.topology
    assert topology is not None
    assert [each.external for each in topology.clusters] == ["e1:9092,e2:9092", "w1:9093"]
    security = topology.cluster("west").security
    assert (security.protocol, security.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (security.username, security.ca_file) == ("mirror", "/etc/west.pem")
    assert security.check_hostname is False
    assert security.password is not None
    variable = security.password.env
    assert variable is not None
    assert reading.secrets == {variable: 'it\'s "secret"'}
    assert topology.cluster("east").security.protocol == "PLAINTEXT"
    forth = topology.links[0]
    assert (forth.source, forth.target) == ("east", "west")
    assert forth.topic_filter.include == ["orders", "returns-.*"]
    assert [each.effective_origin for each in topology.links] == ["local", "local"]
    assert [each.topic_names.otherwise for each in topology.links] == ["identity", "identity"]
    assert [each.groups.sync for each in topology.links] == [False, True]
    assert [each.acls.sync for each in topology.links] == [True, False]
    assert [each.configs.sync for each in topology.links] == [True, True]
    assert forth.settings.replication_factor == 3
    assert forth.settings.mm2_topics == "off"
    assert "secret" not in topology.model_dump_json()


def test_each_secret_has_its_own_variable() -> None:
    jaas = 'sasl.jaas.config = X required username="u" password="{}";'
    reading = read(
        "clusters = dc-1, dc_1\nsecurity.protocol = SASL_SSL\nsasl.mechanism = PLAIN\n"
        "dc-1->dc_1.enabled = true\n"
        f"dc-1.bootstrap.servers = a:1\ndc-1.{jaas.format('one')}\n"
        f"dc_1.bootstrap.servers = b:1\ndc_1.{jaas.format('two')}\n"
        "dc_1.ssl.keystore.type = PEM\ndc_1.ssl.keystore.location = /etc/dc.pem\n"
        "dc_1.ssl.key.password = three\n"
    )
    assert reading.topology is not None, reading.remarks
    places = [each.security.password for each in reading.topology.clusters]
    places.append(reading.topology.cluster("dc_1").security.key_password)
    secrets = [reading.secrets[place.env] for place in places if place and place.env]
    assert secrets == ["one", "two", "three"]
    assert not any("ssl.key.password" in each.key for each in reading.remarks)


def test_what_is_not_done_is_said_with_its_line() -> None:
    remarks = {remark.key: remark for remark in read(ACTIVE_ACTIVE).remarks}
    lines = ACTIVE_ACTIVE.split("\n")
    assert set(remarks) == {
        "refresh.topics.interval.seconds",
        "east.producer.linger.ms",
        "east.consumer.isolation.level",
        "tasks.max",
    }
    for remark in remarks.values():
        assert not remark.is_problem
        assert lines[remark.line - 1].startswith(remark.key)
    assert "every second" in remarks["refresh.topics.interval.seconds"].text
    assert "no counterpart" in remarks["east.producer.linger.ms"].text
    assert (
        remarks["tasks.max"].sentence("f").startswith(f"f:{remarks['tasks.max'].line}: tasks.max:")
    )


MINIMAL = """\
clusters = a, b
a.bootstrap.servers = h:1
b.bootstrap.servers = h:2
a->b.enabled = true
"""


def test_defaults_are_those_of_mirror_maker_2() -> None:
    reading = read(MINIMAL)
    assert reading.remarks == []
    assert reading.topology is not None
    (link,) = reading.topology.links
    assert link.topic_names.is_prefixed
    assert link.effective_origin == "any"
    assert link.settings.mm2_topics == "source"
    assert link.settings.replication_factor == 2
    assert (link.groups.sync, link.configs.sync, link.acls.sync) == (False, True, True)
    assert link.settings.start == "earliest"


def test_a_key_of_a_flow_has_precedence() -> None:
    reading = read(MINIMAL + "topics = x\na->b.topics = y\na.consumer.auto.offset.reset = latest\n")
    assert reading.topology is not None
    (link,) = reading.topology.links
    assert link.topic_filter.include == ["y"]
    assert link.settings.start == "latest"
    assert [(remark.key, remark.is_problem) for remark in reading.remarks] == [("topics", False)]


@pytest.mark.parametrize(
    ("change", "key", "text"),
    [
        (("a.bootstrap.servers = h:1\n", ""), "a.bootstrap.servers", "missing"),
        (("a->b.enabled = true", ""), "clusters", "no flow"),
        (("= a, b", "="), "clusters", "no clusters"),
        (("h:1", "nowhere"), "clusters", "host1:9092"),
        (("= true", "= true\nreplication.policy.class = x.Y"), "replication.policy.class", "x.Y"),
        (("= true", "= true\na->b.topic.filter.class = Z"), "a->b.topic.filter.class", "patterns"),
        (
            ("= true", "= true\nreplication.policy.separator = _"),
            "replication.policy.separator",
            "_",
        ),
        (("h:2", "${env:B}"), "b.bootstrap.servers", "config providers"),
        (("= true", "= true\nreplication.factor = many"), "replication.factor", "no number"),
        (("= true", "= true\nb.security.protocol = SASL_SSL"), "b.sasl.jaas.config", "no username"),
        (
            (
                "= true",
                "= true\nb.security.protocol = SASL_SSL\nb.sasl.mechanism = GSSAPI\n"
                'b.sasl.jaas.config = X required useTicketCache=true principal="p";',
            ),
            "b.sasl.jaas.config",
            "no keyTab",
        ),
        (
            ("= true", "= true\nb.security.protocol = SSL\nb.ssl.truststore.location = x.jks"),
            "b.ssl.truststore.location",
            "PEM",
        ),
    ],
)
def test_keys_that_would_change_the_copies_are_problems(
    change: tuple[str, str], key: str, text: str
) -> None:
    reading = read(MINIMAL.replace(*change))
    assert reading.topology is None
    problems = [remark for remark in reading.remarks if remark.is_problem]
    assert any(remark.key == key and text in remark.text for remark in problems), problems


def test_entries_and_lines_as_java_reads_them() -> None:
    text = "a=1\n ! x\n\n#y\nb : 2\\\n   3\nc\\ d\tx\\u0041\\n\ne\nf=\\\\\ng=\\"
    assert parse_properties(text) == [
        Property(1, "a", "1"),
        Property(5, "b", "23"),
        Property(7, "c d", "xA\n"),
        Property(8, "e", ""),
        Property(9, "f", "\\"),
        Property(10, "g", ""),
    ]


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\r"])
def test_a_malformed_escape_is_a_problem_with_its_line(separator: str) -> None:
    """Java refuses the file: `Malformed \\uxxxx encoding`."""
    text = separator.join(["a = 1", "# c", "b = 2\\", "  3", "c = \\u12", "d = 4"])
    with pytest.raises(InvalidProperties) as caught:
        parse_properties(text)
    assert caught.value.line == 5
    (remark,) = read(text).remarks
    assert (remark.line, remark.is_problem) == (5, True)
    assert "\\u12" in remark.text


def test_check_shows_the_workers_and_the_remarks(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(ACTIVE_ACTIVE)
    arguments = ["mirror", "run", "--mm2", str(file), "--worker-id", "w", "--check"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "mm2-west-w: east-west" in result.output
    assert "mm2-east-w: west-east" in result.output
    assert "linger.ms: has no effect" in result.output
    assert "secret" not in result.output
    file.write_text(MINIMAL.replace("h:1", "${env:A}"))
    assert CliRunner().invoke(app, arguments).exit_code == 2
    assert CliRunner().invoke(app, ["mirror", "run"]).exit_code == 2
