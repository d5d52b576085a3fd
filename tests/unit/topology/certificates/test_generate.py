"""`heliograph certificates`: what the file names and is missing, and nothing else."""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import ssl
import stat
from pathlib import Path

import javaproperties
import pytest
from cryptography import x509
from typer.testing import CliRunner

from topology.certificates.authority import Authority, AuthorityError
from topology.certificates.client_properties import (
    config_text,
    java_properties,
    librdkafka_properties,
    properties_text,
)
from topology.certificates.generate import generate_for
from topology.certificates.needed import needed
from topology.file.load import load_topology, parse_topology, shipped_topology
from topology.main import app
from topology.problems import DeployError

NOW = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)
USERS = {"admin", "aggregator", "boards", "broker", "mirror", "producer", "spark", "zookeeper"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A copy of configs/secure.yaml."""
    return Path(shutil.copy(shipped_topology("secure"), tmp_path / "secure.yaml"))


def test_one_call_makes_everything_and_the_next_one_nothing(file: Path) -> None:
    directory = file.parent / "secure"
    written, others = generate_for(load_topology(file), file.parent)
    assert others == ()
    assert set(written) == {path for path in directory.rglob("*") if path.is_file()}
    passwords = {path.name: path.read_text() for path in (directory / "passwords").iterdir()}
    assert passwords.keys() == USERS and len(set(passwords.values())) == len(USERS)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in written}
    assert {path for path, mode in modes.items() if mode != 0o600} == {directory / "ca.pem"}
    before = {path: path.read_bytes() for path in written}
    assert generate_for(load_topology(file), file.parent) == ([], ())
    (directory / "passwords" / "boards").unlink()
    (again,), _ = generate_for(load_topology(file), file.parent)
    assert again == directory / "passwords" / "boards"
    del before[again]
    assert all(path.read_bytes() == content for path, content in before.items())


def test_clients_have_the_password_and_the_authority(file: Path) -> None:
    generate_for(load_topology(file), file.parent)
    directory = file.parent / "secure"
    password = (directory / "passwords" / "boards").read_text().strip()
    at = directory / "clients" / "nyc"
    assert {path.stem for path in at.iterdir()} == USERS - {"broker", "zookeeper"}
    java = javaproperties.loads((at / "boards.properties").read_text())
    assert java["ssl.truststore.location"] == str(directory / "ca.pem")
    assert java["sasl.jaas.config"].endswith(f'username="boards" password="{password}";')
    found = dict(line.split("=", 1) for line in (at / "boards.librdkafka").read_text().splitlines())
    assert found["bootstrap.servers"] == "127.0.0.1:19294,127.0.0.1:19295,127.0.0.1:19296"
    assert (found["sasl.username"], found["sasl.password"]) == ("boards", password)


def test_a_foreign_authority_is_not_replaced(file: Path) -> None:
    directory = file.parent / "secure"
    directory.mkdir()
    (directory / "ca.pem").write_bytes(Authority.create("theirs", NOW).certificate_pem())
    with pytest.raises(DeployError, match=r"its key .*ca\.key does not: let your authority sign"):
        generate_for(load_topology(file), file.parent)
    assert [path.name for path in directory.iterdir()] == ["ca.pem"], "nothing was written"


def test_what_comes_from_elsewhere_is_said(file: Path) -> None:
    text = file.read_text().replace("{file: secure/passwords/spark}", "{env: SPARK}")
    store = "{keystore_file: b.p12, keystore_type: PKCS12}"
    text = text.replace("{keystore_file: secure/broker.pem}", store)
    bootstraps = dict.fromkeys(("ewr", "jfk", "lga", "nyc"), "h:1")
    found = needed(parse_topology(text), Path("/d"), bootstraps)
    named = [each.name for each in found.certificates]
    assert named == ["zookeeper", "heliograph"], "those of ZooKeeper and the HTTP ports"
    assert "environment variable SPARK holds a password" in found.others
    assert (
        "ewr: the certificate of listener SECURE is not one PEM file without a password"
        in found.others
    )
    assert Path("/d/secure/passwords/spark") not in found.password_files


def test_certificates_name_every_host_and_are_of_the_authority(tmp_path: Path) -> None:
    authority = Authority.create("ours", NOW)
    again = Authority.load(authority.certificate_pem(), authority.key_pem())
    pem = again.issue("broker", ["127.0.0.1", "kafka1.jfk"], NOW)
    certificate, ca = x509.load_pem_x509_certificates(pem)
    assert ca == authority.certificate
    certificate.verify_directly_issued_by(ca)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kafka1.jfk"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    file = tmp_path / "broker.pem"
    file.write_bytes(pem)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file)
    other = Authority.create("other", NOW)
    with pytest.raises(AuthorityError, match="the key is not that of the certificate"):
        Authority.load(authority.certificate_pem(), other.key_pem())
    with pytest.raises(AuthorityError):
        Authority.load(b"", b"")
    assert "PRIVATE" not in repr(authority)


def test_odd_passwords_reach_java_as_they_are(file: Path) -> None:
    (cluster, *_) = load_topology(file).clusters
    security = cluster.security.client(Path("/d"))
    password = 'a\\b"c= #\u00e9'
    java = java_properties("h:1", security, password)
    assert javaproperties.loads(properties_text(java)) == java
    assert 'password="a\\\\b\\"c= #\u00e9";' in java["sasl.jaas.config"]
    lines = config_text(librdkafka_properties("h:1", security, password)).splitlines()
    assert f"sasl.password={password}" in lines


def test_the_command(file: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["certificates", str(file)])
    assert done.exit_code == 0
    assert f"wrote {file.parent}/secure/broker.pem" in done.stdout
    password = (file.parent / "secure" / "passwords" / "admin").read_text().strip()
    assert password not in done.output
    assert runner.invoke(app, ["certificates", str(file)]).stdout == "nothing is missing\n"


WITH_TOKENS = """\
name: tokens
clusters:
  - name: jfk
    listeners:
      - name: SECURE
        security_protocol: SASL_SSL
        tls: {keystore_file: broker.pem}
        sasl:
          mechanisms: [OAUTHBEARER, SCRAM-SHA-256]
          users: {alice: {file: users/alice}}
          oauth: {keys_file: keys.json}
    security: &tokens
      protocol: SASL_SSL
      mechanism: OAUTHBEARER
      oauth: {token_url: "https://i/t", client_id: admin, client_secret: {file: of-admin}}
      ca_file: ca.pem
    inter_broker_security: *tokens
    broker_principals: ["User:admin"]
    authorizer: {super_users: ["User:admin"]}
    principals: {mirror: {oauth: {token_file: mirror.jwt}}}
    brokers: {count: 1, base_port: 9092}
"""


def test_the_secret_of_a_client_id_is_not_made_up(tmp_path: Path) -> None:
    found = needed(parse_topology(WITH_TOKENS), tmp_path, {"jfk": "h:1"})
    assert found.password_files == (tmp_path / "users" / "alice",)
    (client,) = found.clients
    assert (client.security.mechanism, client.security.username) == ("SCRAM-SHA-256", "alice")
    assert "jfk: the issuer of tokens gives client ID admin and its secret" in found.others
    assert "jfk: the issuer of tokens gives the file mirror.jwt" in found.others


def test_the_secret_of_a_client_id_reaches_java_as_it_is(tmp_path: Path) -> None:
    (cluster,) = parse_topology(WITH_TOKENS).clusters
    java = java_properties("h:1", cluster.security.client(tmp_path), 'a"b')
    assert java["sasl.oauthbearer.token.endpoint.url"] == "https://i/t"
    assert 'clientId="admin" clientSecret="a\\"b";' in java["sasl.jaas.config"]
    mirror = cluster.principals.mirror.replace_in(cluster.security)
    java = java_properties("h:1", mirror.client(tmp_path), "")
    token = tmp_path / "mirror.jwt"
    assert java["sasl.oauthbearer.token.endpoint.url"] == token.as_uri()
    assert "clientId" not in java["sasl.jaas.config"]
