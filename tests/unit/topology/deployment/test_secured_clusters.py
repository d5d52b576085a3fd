"""Security of our own clusters, from the file to the settings of daemons, without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.settings import parse_settings as parse_aggregator
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.auth.zookeeper_security import NO_ZOOKEEPER_USER, ZooKeeperSecurity
from local_cluster.settings import load_settings as load_broker
from mirror_maker.settings import load_settings as load_mirror
from topology.deployment.aggregate_view import aggregate_view
from topology.deployment.declared_rights import ScramUser
from topology.deployment.deployment import Daemon, Deployment, decode_deployment, encode_deployment
from topology.deployment.protocol_changes import (
    authorizer_problems,
    changed_zookeeper_users,
    protocol_problems,
    zookeeper_problems,
)
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.deployment.zookeeper_access import access_of_broker
from topology.file.load import parse_topology

SECURED = """\
name: secured
clusters:
  - &secured
    name: jfk
    listeners:
      - name: CLIENTS
        security_protocol: SASL_SSL
        tls: {keystore_file: secrets/broker.pem, key_file: secrets/broker.key}
        sasl: {mechanisms: [PLAIN], users: {alice: {env: ALICE}}}
      - name: BROKERS
        inter_broker: true
        security_protocol: SSL
        tls: {keystore_file: secrets/broker.pem, truststore_file: /ca.pem, client_auth: required}
    broker_principals: ["User:CN=broker"]
    inter_broker_security:
      {protocol: SSL, ca_file: /ca.pem, certificate_file: b.pem, key_password: {file: secrets/b}}
    security:
      protocol: SASL_SSL
      mechanism: PLAIN
      username: alice
      password: {env: ALICE}
      ca_file: /ca.pem
    principals:
      mirror: {username: alice, password: {file: secrets/mirror}}
      spark: {username: alice, password: {file: secrets/spark}}
    authorizer: {super_users: ["User:alice", "User:bob"]}
    acls: [{principal: "User:carol", operations: [READ], topics: [t, t]}]
    brokers: {count: 2, base_port: 9100}
  - <<: *secured
    name: nyc
    kind: aggregate
    brokers: {count: 1, base_port: 9200}
links:
  - {source: jfk, target: nyc, topics: [t]}
"""


def rendered(directory: Path, text: str = SECURED) -> Deployment:
    state = StateDir(directory / "state")
    return render(parse_topology(text), state, topology_file=directory / "conf" / "t.yaml")


def settings(deployment: Deployment, key: str, directory: Path) -> Path:
    (text,) = deployment.daemon(key).files.values()
    file = directory / f"{key}.json"
    file.write_text(text)
    return file


def as_alice(password: Secret) -> ClientSecurity:
    return ClientSecurity(
        protocol="SASL_SSL",
        mechanism="PLAIN",
        username="alice",
        password=password,
        ca_file="/ca.pem",
    )


def test_a_broker_is_told_where_everything_is(tmp_path: Path) -> None:
    found = load_broker(settings(rendered(tmp_path), "broker-jfk-1", tmp_path))
    clients, brokers = found.listeners
    secrets = tmp_path / "conf" / "secrets"
    assert clients.tls is not None and clients.sasl is not None and brokers.tls is not None
    assert clients.tls.keystore_file == str(secrets / "broker.pem")
    assert clients.sasl.users == {"alice": Secret(env="ALICE")}
    assert (brokers.tls.truststore_file, brokers.tls.client_auth) == ("/ca.pem", "required")
    assert brokers.sasl is None
    assert (found.inter_broker_listener, found.broker_principals) == (
        "BROKERS",
        ("User:CN=broker",),
    )
    assert found.inter_broker_security.key_password == Secret(file=str(secrets / "b"))
    assert found.config["super.users"] == "User:alice;User:bob"
    assert found.config["authorizer.class.name"].endswith(".StandardAuthorizer")
    assert found.config["heliograph.authorizer.dry.run"] == "false"


def test_each_service_has_its_own_principal(tmp_path: Path) -> None:
    deployment = rendered(tmp_path)
    secrets = tmp_path / "conf" / "secrets"
    mirror = load_mirror(settings(deployment, "mirror-nyc", tmp_path))
    as_mirror = as_alice(Secret(file=str(secrets / "mirror")))
    assert (mirror.target_security, mirror.links[0].source_security) == (as_mirror, as_mirror)
    (text,) = deployment.daemon("aggregator-nyc").files.values()
    aggregator = parse_aggregator(text)
    by_default = as_alice(Secret(env="ALICE"))
    assert (aggregator.security, aggregator.links[0].source_security) == (by_default, by_default)
    again = decode_deployment(encode_deployment(deployment))
    assert again == deployment
    assert again.cluster("jfk").security == by_default
    spark = aggregate_view(again, "nyc")
    as_spark = as_alice(Secret(file=str(secrets / "spark")))
    assert (spark.security, spark.links[0].security) == (as_spark, as_spark)


def test_declared_rights_name_places_of_secrets(tmp_path: Path) -> None:
    text = SECURED.replace("mechanisms: [PLAIN]", "mechanisms: [PLAIN, SCRAM-SHA-256]", 1)
    text = text.replace("    acls:", "    users: {carol: {file: secrets/carol}}\n    acls:", 1)
    deployment = rendered(tmp_path, text)
    place = Secret(file=str(tmp_path / "conf" / "secrets" / "carol"))
    (cluster, nyc) = deployment.clusters
    rights = cluster.rights
    assert rights is not None and nyc.rights is not None and rights.has_authorizer
    user = ScramUser(name="carol", mechanisms=("SCRAM-SHA-256",), password=place)
    assert rights.users == (user,)
    assert [each.resource_name for each in rights.acls] == ["t"], "the same ACL twice is one"
    assert (rights.zookeeper, nyc.rights.zookeeper) == ("127.0.0.1:2181/jfk", "127.0.0.1:2181/nyc")
    assert place in cluster.secrets
    assert decode_deployment(encode_deployment(deployment)) == deployment


def test_a_bundle_knows_every_secret(tmp_path: Path) -> None:
    cluster = rendered(tmp_path).cluster("jfk")
    secrets = tmp_path / "conf" / "secrets"
    assert set(cluster.secrets) == {
        Secret(env="ALICE"),
        *(Secret(file=str(secrets / name)) for name in ("b", "mirror", "spark")),
    }
    assert cluster.key_files == (str(secrets / "broker.key"),)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("name: secured", "name: secured", None),
        ("authorizer: {", "authorizer: {dry_run: true, ", None),
        (
            "security_protocol: SSL\n",
            "security_protocol: PLAINTEXT\n",
            "jfk: listener BROKERS from SSL to PLAINTEXT",
        ),
    ],
)
def test_brokers_that_run_keep_their_protocols(
    old: str, new: str, problem: str | None, tmp_path: Path
) -> None:
    running = {each.key: each for each in rendered(tmp_path).daemons}
    text = SECURED.replace(old, new)
    if problem is not None:
        tls = "        tls: {keystore_file: secrets/broker.pem, truststore_file: /ca.pem, "
        text = text.replace(f"{tls}client_auth: required}}\n", "")
        text = text.replace(
            "{protocol: SSL, ca_file: /ca.pem, certificate_file: b.pem, key_password: {file:"
            " secrets/b}}",
            "{protocol: PLAINTEXT}",
        ).replace('"User:bob"', '"User:bob", "User:ANONYMOUS"')
    found = protocol_problems(running, rendered(tmp_path, text))
    assert found == ([] if problem is None else [problem])


def test_an_authorizer_of_a_running_cluster_starts_with_a_dry_run(tmp_path: Path) -> None:
    enforcing = rendered(tmp_path)
    dry = rendered(tmp_path, SECURED.replace("authorizer: {", "authorizer: {dry_run: true, "))
    lines = [each for each in SECURED.splitlines() if "authorizer" not in each]
    without = rendered(tmp_path, "\n".join(each for each in lines if "acls:" not in each))

    def problems(before: Deployment, after: Deployment) -> list[str]:
        return authorizer_problems({each.key: each for each in before.daemons}, after)

    expected = "start its `authorizer` with `dry_run: true`, and remove that later"
    assert problems(without, enforcing) == [f"jfk: {expected}", f"nyc: {expected}"]
    steps = [(without, dry), (dry, enforcing), (enforcing, enforcing), (enforcing, without)]
    assert [problems(*step) for step in steps] == [[]] * len(steps)
    assert authorizer_problems({}, enforcing) == [], "a new cluster may enforce at once"


def with_zookeeper_user(directory: Path, keys: str) -> Deployment:
    user = f"    zookeeper_security: {{username: kafka, password: {{file: secrets/zk}}{keys}}}\n"
    return rendered(directory, SECURED.replace("    authorizer:", f"{user}    authorizer:", 1))


def test_zookeepers_user_reaches_brokers_and_commands(tmp_path: Path) -> None:
    deployment = with_zookeeper_user(tmp_path, ", set_acl: true")
    place = Secret(file=str(tmp_path / "conf" / "secrets" / "zk"))
    user = ZooKeeperSecurity(username="kafka", password=place)
    found = load_broker(settings(deployment, "broker-jfk-1", tmp_path))
    assert (found.zookeeper_security, found.sets_znode_acls) == (user, True)
    access = access_of_broker(deployment.daemon("broker-jfk-1").files)
    assert (access.connect, access.security, access.sets_acl) == (
        "127.0.0.1:2181/jfk",
        user,
        True,
    )
    cluster = deployment.cluster("jfk")
    assert place in cluster.secrets, "a bundle takes it out"
    assert cluster.rights is not None
    assert (cluster.rights.zookeeper_security, cluster.rights.sets_znode_acls) == (user, True)
    assert decode_deployment(encode_deployment(deployment)) == deployment
    without = access_of_broker(rendered(tmp_path).daemon("broker-jfk-1").files)
    assert (without.security, without.sets_acl) == (NO_ZOOKEEPER_USER, False)


def test_no_phase_of_zookeepers_acls_is_skipped(tmp_path: Path) -> None:
    nobody = rendered(tmp_path)
    user = with_zookeeper_user(tmp_path, "")
    acls = with_zookeeper_user(tmp_path, ", set_acl: true")

    def daemons(*deployments: Deployment) -> dict[str, Daemon]:
        """The first broker runs as in the first deployment, all others as in the last one."""
        first, last = deployments[0], deployments[-1]
        of_first = first.daemon("broker-jfk-1")
        return {**{each.key: each for each in last.daemons}, of_first.key: of_first}

    for before, after in [
        (daemons(nobody), user),
        (daemons(user, nobody), user),
        (daemons(user), acls),
        (daemons(acls, user), acls),
        (daemons(acls), user),
        (daemons(acls, user), user),
        (daemons(user), nobody),
        ({}, acls),
    ]:
        assert zookeeper_problems(before, after) == []
    text = SECURED.replace(
        "    authorizer:",
        "    zookeeper: z:2182/jfk\n    zookeeper_security: {username: kafka, password: {file:"
        " secrets/zk}, tls: true, key_password: {env: K}, certificate_file: c, set_acl: true}\n"
        "    authorizer:",
        1,
    ).replace("    name: nyc\n", "    name: nyc\n    zookeeper: z:2182/nyc\n")
    encrypted = rendered(tmp_path, text)
    assert zookeeper_problems(daemons(acls), encrypted) == [], "it is the same user"
    assert changed_zookeeper_users(daemons(acls), encrypted) == {}
    security = access_of_broker(encrypted.daemon("broker-jfk-1").files).security
    assert security.tls and security.key_password == Secret(env="K")
    assert decode_deployment(encode_deployment(encrypted)) == encrypted
    for before in (daemons(nobody), daemons(user, nobody), daemons(nobody, user)):
        (problem,) = zookeeper_problems(before, acls)
        assert "jfk: apply its `zookeeper_security` without `set_acl` first" in problem
    for before in (daemons(acls), daemons(acls, user), daemons(user, acls)):
        (problem,) = zookeeper_problems(before, nobody)
        assert "jfk: remove `set_acl` first, then run `heliograph zookeeper unsecure`" in problem
    (single,) = [each for each in nobody.daemons if each.key == "broker-nyc-1"]
    assert zookeeper_problems({single.key: single}, acls) == []


def test_a_user_that_brokers_lose_is_found(tmp_path: Path) -> None:
    nobody, user = rendered(tmp_path), with_zookeeper_user(tmp_path, "")
    running = {each.key: each for each in user.daemons}
    assert changed_zookeeper_users(running, user) == {}
    assert changed_zookeeper_users({each.key: each for each in nobody.daemons}, user) == {}
    assert changed_zookeeper_users(running, nobody) == {
        name: access_of_broker(nobody.daemon(f"broker-{name}-1").files) for name in ("jfk", "nyc")
    }
