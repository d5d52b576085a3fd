"""Rules on the security of our own clusters: each names the line, the key and what was expected."""

from __future__ import annotations

import pytest

from topology.file.load import parse_topology
from topology.problems import InvalidTopology

SECURED = """\
name: secured
clusters:
  - name: jfk
    listeners:
      - name: SECURE
        security_protocol: SASL_SSL
        tls: {keystore_file: broker.pem}
        sasl: {mechanisms: [PLAIN], users: {broker: {env: B}, admin: {file: a}, mirror: {file: m}}}
    inter_broker_security:
      {protocol: SASL_SSL, mechanism: PLAIN, username: broker, password: {env: B}, ca_file: ca.pem}
    security:
      {protocol: SASL_SSL, mechanism: PLAIN, username: admin, password: {file: a}, ca_file: ca.pem}
    principals:
      mirror: {username: mirror, password: {file: m}}
    authorizer: {super_users: ["User:admin"]}
    brokers: [{id: 1, port: 9092}]
    config: {num.partitions: 1}
"""
ZOOKEEPER = "zookeeper_security: {username: k, password: {env: p}"
CERTIFICATES = """\
name: secured
clusters:
  - name: jfk
    listeners:
      - name: SECURE
        security_protocol: SSL
        tls: {keystore_file: broker.pem, truststore_file: ca.pem, client_auth: required}
    broker_principals: ["User:CN=broker"]
    inter_broker_security: {protocol: SSL, ca_file: ca.pem, certificate_file: broker.pem}
    security: {protocol: SSL, ca_file: ca.pem, certificate_file: admin.pem}
    brokers: [{id: 1, port: 9092}]
"""


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(text, file="t.yaml")
    return caught.value.lines()


def test_what_goes_together_is_taken() -> None:
    cluster = parse_topology(SECURED).clusters[0]
    assert cluster.effective_broker_principals == ["User:broker"]
    assert parse_topology(CERTIFICATES).clusters[0].effective_broker_principals == [
        "User:CN=broker"
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "{num.partitions: 1}",
            "{num.partitions: 1}\n    zookeeper_security: {username: k, set_acl: true}",
            "18:5: clusters[0].zookeeper_security.password: this key is required",
        ),
        (
            "{num.partitions: 1}",
            "{num.partitions: 1}\n    zookeeper_security: {username: k, password: {}}",
            "18:5: clusters[0].zookeeper_security: a secret is either in `file` or in `env`",
        ),
        (
            "{num.partitions: 1}",
            "{num.partitions: 1}\n    zookeeper_security: {username: 'a:b', password: {file: p}}",
            "18:36: clusters[0].zookeeper_security.username: a name without colons and spaces, not"
            " 'a:b'",
        ),
        (
            "{num.partitions: 1}",
            f"{{num.partitions: 1}}\n    {ZOOKEEPER}, tls: true}}",
            "18:64: clusters[0].zookeeper_security.tls: false, or `client_tls` in zookeepers"
            " entry 'zookeeper'",
        ),
        (
            "{num.partitions: 1}",
            f"{{num.partitions: 1}}\n    {ZOOKEEPER}, ca_file: c}}",
            "18:5: clusters[0].zookeeper_security: certificates and keys need `tls: true`",
        ),
        (
            "{num.partitions: 1}",
            "{zookeeper.set.acl: true}",
            "17:14: clusters[0].config.zookeeper.set.acl: absent; `set_acl` in"
            " `zookeeper_security` sets it, as it needs a user",
        ),
        (
            "security_protocol: SASL_SSL",
            "security_protocol: SASL_SLL",
            "6:28: clusters[0].listeners[0].security_protocol: one of PLAINTEXT, SSL,"
            " SASL_PLAINTEXT, SASL_SSL; did you mean 'SASL_SSL'?",
        ),
        (
            "keystore_file: broker.pem",
            "keystore_file: broker.pem, truststore_fil: ca.pem",
            "7:42: clusters[0].listeners[0].tls.truststore_fil: unknown key; expected one of"
            " client_auth, enabled_protocols, key_file, keystore_file, keystore_password,"
            " keystore_type, principal_mapping_rules, truststore_file, truststore_password,"
            " truststore_type; did you mean 'truststore_file'?",
        ),
        (
            "        tls: {keystore_file: broker.pem}\n",
            "",
            "5:9: clusters[0].listeners[0]: a listener of SASL_SSL needs `tls`",
        ),
        (
            "{keystore_file: broker.pem}",
            "{keystore_file: broker.pem, client_auth: required}",
            "7:9: clusters[0].listeners[0].tls: client_auth required needs a `truststore_file`",
        ),
        (
            "[PLAIN]",
            "[PLAIN, SCRAM-SHA-265]",
            "8:36: clusters[0].listeners[0].sasl.mechanisms[1]: one of PLAIN, SCRAM-SHA-256,"
            " SCRAM-SHA-512, OAUTHBEARER, GSSAPI; did you mean 'SCRAM-SHA-256'?",
        ),
        (
            "[PLAIN]",
            "[PLAIN, GSSAPI]",
            "8:9: clusters[0].listeners[0].sasl: GSSAPI needs `kerberos`, and no other mechanism"
            " has use for it",
        ),
        (
            "[PLAIN]",
            "[PLAIN, GSSAPI], kerberos: {keytab_file: k, principal_to_local_rules: ['RULE:1']}",
            "8:9: clusters[0].listeners[0].sasl: expected DEFAULT or"
            " RULE:[n:format](match)s/from/to/g/L, not 'RULE:1'",
        ),
        (
            "[PLAIN]",
            "[PLAIN, OAUTHBEARER]",
            "8:9: clusters[0].listeners[0].sasl: OAUTHBEARER needs `oauth`, and no other mechanism"
            " has use for it",
        ),
        (
            "[PLAIN]",
            "[PLAIN, OAUTHBEARER], oauth: {keys_url: 'http://i/k'}",
            "8:68: clusters[0].listeners[0].sasl.oauth.keys_url: an address such as"
            " https://issuer.example/keys, not 'http://i/k'",
        ),
        (
            "[PLAIN]",
            "[PLAIN, OAUTHBEARER], oauth: {keys_url: 'https://i/k'}",
            "8:68: clusters[0].listeners[0].sasl.oauth.keys_url: one of the cluster's"
            " `oauth_allowed_urls`: none",
        ),
        (
            "broker: {env: B}",
            "broker: {env: B, file: b}",
            "8:45: clusters[0].listeners[0].sasl.users.broker: a secret is either in `file` or in"
            " `env`",
        ),
        (
            "username: broker",
            "username: brokr",
            "10:56: clusters[0].inter_broker_security.username: one of the `users` of listener"
            " SECURE: admin, broker, mirror; did you mean 'broker'?",
        ),
        (
            "username: mirror",
            "username: miror",
            "14:26: clusters[0].principals.mirror.username: one of the `users` of listener SECURE:"
            " admin, broker, mirror; did you mean 'mirror'?",
        ),
        (
            "username: mirror, ",
            "",
            "14:7: clusters[0].principals.mirror: SASL_SSL needs `mechanism`, `username` and"
            " `password`",
        ),
        (
            "mirror: {username",
            "miror: {username",
            "14:7: clusters[0].principals.miror: unknown key; expected one of aggregator, mirror,"
            " spark; did you mean 'mirror'?",
        ),
        (
            "    security:\n      {protocol: SASL_SSL, ",
            "    security:\n      {protocol: SASL_PLAINTEXT, ",
            "11:5: clusters[0].security: protocol SASL_SSL, as listener SECURE has, not"
            " SASL_PLAINTEXT",
        ),
        (
            "mechanism: PLAIN, username: admin",
            "mechanism: SCRAM-SHA-256, username: admin",
            "12:39: clusters[0].security.mechanism: a mechanism of listener SECURE: PLAIN",
        ),
        (
            '["User:admin"]',
            "[admin]",
            "15:32: clusters[0].authorizer.super_users[0]: a principal such as User:admin, not"
            " 'admin'",
        ),
        (
            "User:admin",
            "User:admim",
            "15:18: clusters[0].authorizer.super_users: User:admin, as which `heliograph up`"
            " connects (`security`), among them; did you mean 'User:admim'?",
        ),
        (
            "num.partitions: 1",
            "super.users: User:x",
            "17:14: clusters[0].config.super.users: absent; `authorizer` sets it as well",
        ),
    ],
)
def test_what_does_not_is_named(old: str, new: str, expected: str) -> None:
    assert old in SECURED
    assert problems(SECURED.replace(old, new, 1)) == [f"t.yaml:{expected}"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            ", certificate_file: admin.pem",
            "",
            "10:5: clusters[0].security.certificate_file: a certificate, which listener SECURE"
            " requires",
        ),
        (
            '    broker_principals: ["User:CN=broker"]\n',
            "",
            "3:5: clusters[0].broker_principals: the principals of the brokers' certificates, such"
            " as [User:broker]",
        ),
    ],
)
def test_what_certificates_need(old: str, new: str, expected: str) -> None:
    assert old in CERTIFICATES
    assert problems(CERTIFICATES.replace(old, new, 1)) == [f"t.yaml:{expected}"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("broker: {env: B}, admin", "broker: hunter2, admin"),
        ("{broker: {env: B}, admin: {file: a}, mirror: {file: m}}", "hunter2"),
        (
            "{mechanisms: [PLAIN], users: {broker: {env: B}, admin: {file: a}, mirror: {file: m}}}",
            "hunter2",
        ),
        ("{username: mirror, password: {file: m}}", "hunter2"),
        ("{username: mirror, password: {file: m}}", "{username: mirror, password: hunter2}"),
        ("{keystore_file: broker.pem}", "{keystore_file: b, keystore_password: hunter2}"),
    ],
)
def test_a_secret_in_the_wrong_place_is_not_repeated(old: str, new: str) -> None:
    assert old in SECURED
    lines = problems(SECURED.replace(old, new, 1))
    assert not any("hunter2" in line for line in lines), lines


def test_an_external_cluster_has_no_brokers_to_secure() -> None:
    text = """\
name: t
clusters:
  - {name: far, external: "f:9092", authorizer: {}, broker_principals: ["User:b"]}
"""
    expected = "absent: nothing is started for an external cluster"
    assert problems(text) == [
        f"t.yaml:3:37: clusters[0].authorizer: {expected}",
        f"t.yaml:3:53: clusters[0].broker_principals: {expected}",
    ]


RUNNING = """\
name: secured
clusters:
  - name: jfk
    listeners:
      - {name: PLAINTEXT, former_inter_broker: true}
      - name: SECURE
        inter_broker: true
        security_protocol: SASL_PLAINTEXT
        sasl: {users: {broker: {file: b}}}
    inter_broker_security:
      {protocol: SASL_PLAINTEXT, mechanism: SCRAM-SHA-512, username: broker, password: {file: b}}
    authorizer: {super_users: ["User:ANONYMOUS"]}
    brokers: [{id: 1, ports: {PLAINTEXT: 9092, SECURE: 9093}}]
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "        inter_broker: true\n",
            "        inter_broker: true\n        former_inter_broker: true\n",
            "4:5: clusters[0].listeners: at most one listener with former_inter_broker: true",
        ),
        (
            "PLAINTEXT, former_inter_broker: true}",
            "PLAINTEXT, security_protocol: SASL_PLAINTEXT, sasl: {users: {broker: {file: b}}},"
            " former_inter_broker: true}",
            "5:98: clusters[0].listeners[0].former_inter_broker: absent; `broker_principals` says"
            " who is a broker on a listener with security",
        ),
        (
            'super_users: ["User:ANONYMOUS"]',
            'super_users: ["User:admin"]',
            "12:5: clusters[0].authorizer: with `dry_run: true`, as brokers are User:ANONYMOUS on"
            " listener PLAINTEXT; move them to another listener first, or name User:ANONYMOUS in"
            " `super_users`",
        ),
    ],
)
def test_what_a_move_between_listeners_needs(old: str, new: str, expected: str) -> None:
    cluster = parse_topology(RUNNING).clusters[0]
    former = cluster.former_inter_broker_listener
    assert former is not None and former.name == "PLAINTEXT"
    assert cluster.inter_broker_listener.name == "SECURE"
    assert old in RUNNING
    assert f"t.yaml:{expected}" in problems(RUNNING.replace(old, new, 1))


@pytest.mark.parametrize(
    "authorizer",
    [
        '{super_users: ["User:admin"], dry_run: true}',
        '{super_users: ["User:admin"], allow_if_no_acl: true}',
        '{super_users: ["User:admin"]}\n    acls: [{principal: "User:ANONYMOUS", operations:'
        " [CLUSTER_ACTION], on_cluster: true}]",
    ],
)
def test_plain_brokers_may_have_their_rights_in_other_ways(authorizer: str) -> None:
    text = RUNNING.replace('{super_users: ["User:ANONYMOUS"]}', authorizer)
    (problem,) = problems(text)
    assert "as which `heliograph up` connects" in problem, "that is another rule"
