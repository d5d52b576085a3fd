"""TLS, SASL and ACL settings of a Kafka broker as keys of a topology. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from local_cluster.broker_configs import principals_of
from local_cluster.security.authentication.kerberos.short_names import (
    DEFAULT_RULE,
    NoShortNameError,
    ShortNames,
)
from topology.file.jaas import jaas_fields
from topology.importing.broker_keys import BrokerKeys

READ_BY_SECURITY: Final = frozenset(
    {"authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found"}
)
"""Broker configs that have keys of their own in a topology."""
AUTHORIZERS: Final = frozenset(
    {
        "kafka.security.authorizer.AclAuthorizer",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }
)
STORE_TYPES: Final = ("PEM", "PKCS12")
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", GSSAPI)
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


def listener_security(keys: BrokerKeys, listener: str, protocol: str) -> dict[str, Any]:
    """Return `tls` and `sasl` of a listener, as far as its protocol has them."""
    found: dict[str, Any] = {}
    if protocol.endswith("SSL"):
        found["tls"] = _tls(keys, listener)
    if protocol.startswith("SASL"):
        found["sasl"] = _sasl(keys, listener)
    return found


def _tls(keys: BrokerKeys, listener: str) -> dict[str, Any]:
    tls: dict[str, Any] = {}
    for store in ("keystore", "truststore"):
        key, location = keys.of_listener(listener, f"ssl.{store}.location")
        _, kind = keys.of_listener(listener, f"ssl.{store}.type")
        name, password = keys.of_listener(listener, f"ssl.{store}.password")
        if location is None:
            continue
        kind = (kind or "JKS").upper()
        if kind not in STORE_TYPES:
            keys.problem(key, f"{kind} stores are not read; export it as PEM or PKCS12")
            continue
        tls |= {f"{store}_file": location, f"{store}_type": kind}
        if password is not None:
            tls[f"{store}_password"] = keys.secret(name, password)
    name, password = keys.of_listener(listener, "ssl.key.password")
    if password is not None and tls.get("keystore_type") == "PEM":
        tls["keystore_password"] = keys.secret(name, password)
    if "keystore_file" not in tls and not keys.has_problems:
        keys.problem("ssl.keystore.location", f"is missing for listener {listener}")
    _, auth = keys.of_listener(listener, "ssl.client.auth")
    _, rules = keys.of_listener(listener, "ssl.principal.mapping.rules")
    key, versions = keys.of_listener(listener, "ssl.enabled.protocols")
    if auth:
        tls["client_auth"] = auth
    if rules:
        tls["principal_mapping_rules"] = rules
    if versions:
        named = [each.strip() for each in versions.split(",")]
        tls["enabled_protocols"] = [each for each in named if each in TLS_VERSIONS]
        if set(named) - set(TLS_VERSIONS):
            keys.remark(key, f"only {' and '.join(TLS_VERSIONS)} are offered")
    return tls


def _sasl(keys: BrokerKeys, listener: str) -> dict[str, Any]:
    key, given = keys.of_listener(listener, "sasl.enabled.mechanisms")
    mechanisms = [each.strip() for each in (given or "GSSAPI").split(",")]
    if wrong := [each for each in mechanisms if each not in MECHANISMS]:
        keys.problem(key, f"{', '.join(wrong)} is not supported; there are {', '.join(MECHANISMS)}")
    users: dict[str, Any] = {}
    for mechanism in mechanisms:
        key, jaas = keys.of_listener(listener, f"{mechanism.lower()}.sasl.jaas.config")
        if jaas is None:
            key, jaas = keys.of_listener(listener, "sasl.jaas.config")
        fields = jaas_fields(jaas or "")
        for name, password in fields.items():
            if name.startswith("user_"):
                user = name.removeprefix("user_")
                users[user] = keys.secret(f"{user}_password", password)
        if "username" in fields and "password" in fields:
            user = fields["username"]
            users[user] = keys.secret(f"{user}_password", fields["password"])
    if "SCRAM-SHA-256" in mechanisms or "SCRAM-SHA-512" in mechanisms:
        keys.remark(key, "SCRAM users of Kafka's ZooKeeper must be created again, or restored")
    found: dict[str, Any] = {"mechanisms": mechanisms, **({"users": users} if users else {})}
    if GSSAPI in mechanisms:
        found["kerberos"] = _kerberos(keys, listener)
    return found


def _kerberos(keys: BrokerKeys, listener: str) -> dict[str, Any]:
    """Return whose tickets a listener takes. Kafka's brokers log in by the same key."""
    _, service = keys.of_listener(listener, "sasl.kerberos.service.name")
    _, rules = keys.of_listener(listener, "sasl.kerberos.principal.to.local.rules")
    fields = _kerberos_fields(keys, listener)
    if not {"keyTab", "principal"} <= fields.keys():
        expected = "needs `keyTab` and `principal` for GSSAPI; files of java.security are not read"
        keys.problem(f"listener.name.{listener.lower()}.gssapi.sasl.jaas.config", expected)
    found: dict[str, Any] = {"keytab_file": fields.get("keyTab", "")}
    # Without this config the login module knows the name.
    found["service_name"] = service or fields.get("principal", "").split("/")[0]
    if rules:
        found["principal_to_local_rules"] = [each.strip() for each in rules.split(",")]
    return found


def _kerberos_fields(keys: BrokerKeys, listener: str) -> dict[str, str]:
    for key in ("gssapi.sasl.jaas.config", "sasl.jaas.config"):
        fields = jaas_fields(keys.of_listener(listener, key)[1] or "")
        if "keyTab" in fields:
            return fields
    return {}


def logins(
    keys: BrokerKeys, listeners: Sequence[dict[str, Any]], super_users: Sequence[str]
) -> dict[str, Any]:
    """Return how `up` and the services log in, and how the brokers do.

    A broker's properties hold no client of their own. What is missing is named by a remark: files
    of certificates, and the password of user `admin`.
    """
    if not listeners:
        return {}
    between = next((each for each in listeners if each.get("inter_broker")), listeners[0])
    wanted = {"security": listeners[0], "inter_broker_security": between}
    own = keys.value("sasl.mechanism.inter.broker.protocol")
    found: dict[str, Any] = {}
    for name, listener in wanted.items():
        protocol = listener["security_protocol"]
        if protocol == "PLAINTEXT":
            continue
        login: dict[str, Any] = {"protocol": protocol}
        if "sasl" in listener:
            mechanisms = listener["sasl"]["mechanisms"]
            is_broker = name == "inter_broker_security"
            login["mechanism"] = own if is_broker and own in mechanisms else mechanisms[0]
            if login["mechanism"] == GSSAPI:
                found |= _ticket(keys, listener, login, is_broker=is_broker)
            else:
                login |= _user(keys, listener, "broker" if is_broker else "", super_users)
        if "tls" in listener:
            login["ca_file"] = "ca.pem"
            keys.remark("listeners", f"set `ca_file` of {name}: who signs the certificates")
            if listener["tls"].get("client_auth") == "required":
                login["certificate_file"] = "client.pem"
                keys.remark("listeners", f"set `certificate_file` of {name}")
        found[name] = login
    if between["security_protocol"] == "SSL" and super_users:
        # Kafka's brokers have no rights of their own, so their certificates are super users.
        found["broker_principals"] = list(super_users)
        keys.remark("super.users", "all of them count as brokers; set `broker_principals`")
    return found


def _ticket(
    keys: BrokerKeys, listener: dict[str, Any], login: dict[str, Any], *, is_broker: bool
) -> dict[str, Any]:
    """Complete a login by the brokers' own key; return who is a broker by that."""
    fields, kerberos = _kerberos_fields(keys, listener["name"]), listener["sasl"]["kerberos"]
    principal = fields.get("principal", "")
    login["kerberos"] = {"principal": principal, **kerberos}
    rules = login["kerberos"].pop("principal_to_local_rules", [DEFAULT_RULE])
    if not principal:
        return {}  # it is a problem of the listener
    if not is_broker:
        keys.remark("listeners", "set `kerberos` of security: the principal of `heliograph up`")
        return {}
    try:
        name = ShortNames(rules, principal.rpartition("@")[2]).name_of(principal)
    except (ValueError, NoShortNameError) as error:
        keys.problem("sasl.kerberos.principal.to.local.rules", str(error))
        return {}
    return {"broker_principals": [f"User:{name}"]}


def _user(
    keys: BrokerKeys, listener: dict[str, Any], fallback: str, super_users: Sequence[str]
) -> dict[str, Any]:
    """Return a user of a listener: its own login, a super user, or one that must be created."""
    users = listener["sasl"].setdefault("users", {})
    for mechanism in listener["sasl"]["mechanisms"]:
        for key in (f"{mechanism.lower()}.sasl.jaas.config", "sasl.jaas.config"):
            fields = jaas_fields(keys.of_listener(listener["name"], key)[1] or "")
            if fallback and fields.get("username") in users:
                return {"username": fields["username"], "password": users[fields["username"]]}
    known = [each for each in users if f"User:{each}" in super_users]
    name = known[0] if known else fallback or "admin"
    if name not in users:
        users[name] = {"env": f"HELIOGRAPH_{name.upper()}_PASSWORD"}
        keys.remark("listeners", f"user {name} is new on listener {listener['name']}")
    return {"username": name, "password": users[name]}


def authorizer(keys: BrokerKeys) -> dict[str, Any]:
    """Return the `authorizer` of the cluster, if it has one."""
    name = keys.value("authorizer.class.name")
    allow = keys.value("allow.everyone.if.no.acl.found") == "true"
    if not name:
        return {}
    if name not in AUTHORIZERS:
        keys.problem("authorizer.class.name", f"{name} cannot be loaded")
    keys.remark("authorizer.class.name", "ACLs of Kafka must be created again, or restored")
    return {"authorizer": {"super_users": super_users(keys), "allow_if_no_acl": allow}}


def super_users(keys: BrokerKeys) -> list[str]:
    return principals_of(keys.value("super.users") or "")
