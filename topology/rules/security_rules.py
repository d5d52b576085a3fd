"""Rules on the security of one cluster: listeners, brokers, services, the authorizer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from local_cluster.controller.model.znode_access import SET_ACL
from local_cluster.security.authentication.listener_security import check_listener
from topology.model import Cluster
from topology.model.cluster import Listener
from topology.model.listener_security import Authorizer, Credentials, Principals
from topology.model.security import Security
from topology.problems import Finding, Location, nearest_name

_ANYWHERE = Path()
_ANONYMOUS = "User:ANONYMOUS"


def check_security(cluster: Cluster, here: Location) -> Iterator[Finding]:
    """Yield what a listener or a connection of one of our own clusters lacks."""
    broken: set[str] = set()
    for index, listener in enumerate(cluster.listeners):
        at = (*here, "listeners", index)
        findings = [*_check_listener(listener, at), *_check_keys_url(cluster, listener, at)]
        yield from findings
        if findings:
            broken.add(listener.name)
    first, between = cluster.listeners[0], cluster.inter_broker_listener
    if first.name not in broken:
        yield from _check_connection(cluster.security, first, (*here, "security"))
        for name, it in _principals(cluster):
            at = (*here, "principals", name)
            if (finding := _connection_finding(it, at)) is None:
                if it.mechanism != cluster.security.mechanism:
                    yield from _check_mechanism(it, first, at)
                yield from _check_user(it, first, (*at, "username"))
            elif _problem(cluster.security.client) is None:
                yield finding
    for index, listener in enumerate(cluster.listeners):
        if listener.former_inter_broker:
            yield from _check_former(listener, (*here, "listeners", index))
    if between.name not in broken:
        at = (*here, "inter_broker_security")
        yield from _check_connection(cluster.inter_broker_security, between, at)
        if between.security_protocol != "PLAINTEXT" and not cluster.effective_broker_principals:
            expected = "the principals of the brokers' certificates, such as [User:broker]"
            yield Finding((*here, "broker_principals"), expected, at_key=True)
    if cluster.authorizer is not None:
        yield from _check_authorizer(cluster, cluster.authorizer, here)
    yield from _check_zookeeper(cluster, here)


def _check_former(listener: Listener, here: Location) -> Iterator[Finding]:
    at = (*here, "former_inter_broker")
    if listener.inter_broker:
        yield Finding(at, "absent; it is the present inter-broker listener", at_key=True)
    elif listener.security_protocol != "PLAINTEXT":
        expected = "absent; `broker_principals` says who is a broker on a listener with security"
        yield Finding(at, expected, at_key=True)


def _check_authorizer(
    cluster: Cluster, authorizer: Authorizer, here: Location
) -> Iterator[Finding]:
    for name in authorizer.configs():
        if name in cluster.config:
            expected = "absent; `authorizer` sets it as well"
            yield Finding((*here, "config", name), expected, at_key=True)
    yield from _check_plain_brokers(cluster, authorizer, here)
    by_name = cluster.security.oauth is None and cluster.security.kerberos is None
    if cluster.security.protocol == "SSL" or not by_name:
        return  # only a broker knows the principal of a certificate, a token or a ticket
    operator = f"User:{cluster.security.username or 'ANONYMOUS'}"
    # A rolling restart must see every partition, and a broker hides those without DESCRIBE.
    if operator not in (*authorizer.super_users, *cluster.effective_broker_principals):
        expected = f"{operator}, as which `heliograph up` connects (`security`), among them"
        nearest = nearest_name(operator, authorizer.super_users)
        yield Finding((*here, "authorizer", "super_users"), expected, nearest, at_key=True)


def _check_plain_brokers(
    cluster: Cluster, authorizer: Authorizer, here: Location
) -> Iterator[Finding]:
    """Yield an authorizer that would deny what brokers without a principal ask each other."""
    plain = cluster.former_inter_broker_listener
    if plain is None and cluster.inter_broker_security.protocol == "PLAINTEXT":
        plain = cluster.inter_broker_listener
    if plain is None or authorizer.dry_run or authorizer.allow_if_no_acl:
        return
    may_act = any(
        each.principal in (_ANONYMOUS, "User:*")
        and each.on_cluster
        and not each.deny
        and not {"ALL", "CLUSTER_ACTION"}.isdisjoint(each.operations)
        for each in cluster.acls
    )
    if not may_act and _ANONYMOUS not in (
        *authorizer.super_users,
        *cluster.effective_broker_principals,
    ):
        expected = (
            f"with `dry_run: true`, as brokers are {_ANONYMOUS} on listener {plain.name}; move them"
            f" to another listener first, or name {_ANONYMOUS} in `super_users`"
        )
        yield Finding((*here, "authorizer"), expected, at_key=True)


def _check_zookeeper(cluster: Cluster, here: Location) -> Iterator[Finding]:
    security = cluster.zookeeper_security
    if security is not None and (problem := _problem(security.client)):
        yield Finding((*here, "zookeeper_security"), problem, at_key=True)
    if SET_ACL in cluster.config:
        expected = "absent; `set_acl` in `zookeeper_security` sets it, as it needs a user"
        yield Finding((*here, "config", SET_ACL), expected, at_key=True)


def check_external_security(cluster: Cluster, here: Location) -> Iterator[Finding]:
    """Yield what a connection to an external cluster lacks."""
    finding = _connection_finding(cluster.security, (*here, "security"))
    if finding is not None:
        yield finding
        return
    for name, security in _principals(cluster):
        finding = _connection_finding(security, (*here, "principals", name))
        if finding is not None:
            yield finding


def _principals(cluster: Cluster) -> Iterator[tuple[str, Security]]:
    """Yield the services with a principal of their own, and how they connect."""
    for name in Principals.model_fields:
        credentials: Credentials = getattr(cluster.principals, name)
        if credentials != Credentials():
            yield name, credentials.replace_in(cluster.security)


def _check_listener(listener: Listener, here: Location) -> Iterator[Finding]:
    tls, sasl = listener.tls, listener.sasl
    findings = []
    if tls is not None and (problem := _problem(tls.settings)):
        findings.append(Finding((*here, "tls"), problem, at_key=True))
    if sasl is not None:
        for name, place in sasl.users.items():
            if problem := _problem(place.secret):
                findings.append(Finding((*here, "sasl", "users", name), problem, at_key=True))
        if not findings and (problem := _problem(sasl.settings)):
            findings.append(Finding((*here, "sasl"), problem, at_key=True))
    if findings:
        yield from findings
        return
    tls_settings = tls.settings(_ANYWHERE) if tls is not None else None
    sasl_settings = sasl.settings(_ANYWHERE) if sasl is not None else None
    try:
        check_listener(listener.security_protocol, tls_settings, sasl_settings)
    except ValueError as error:
        yield Finding(here, str(error))


def _check_keys_url(cluster: Cluster, listener: Listener, here: Location) -> Iterator[Finding]:
    """Yield an address that the brokers may not ask for keys of tokens."""
    oauth = listener.sasl.oauth if listener.sasl is not None else None
    allowed = cluster.oauth_allowed_urls
    if oauth is not None and oauth.keys_url not in (None, *allowed):
        expected = "one of the cluster's `oauth_allowed_urls`: " + (", ".join(allowed) or "none")
        nearest = nearest_name(oauth.keys_url, allowed)
        yield Finding((*here, "sasl", "oauth", "keys_url"), expected, nearest)


def _check_connection(security: Security, listener: Listener, here: Location) -> Iterator[Finding]:
    """Yield why clients with these settings cannot connect to the listener."""
    if security.protocol != listener.security_protocol:
        expected = (
            f"protocol {listener.security_protocol}, as listener {listener.name} has, not"
            f" {security.protocol}"
        )
        yield Finding(here, expected, at_key=True)
        return
    finding = _connection_finding(security, here)
    if finding is not None:
        yield finding
        return
    yield from _check_mechanism(security, listener, here)
    requires = listener.tls is not None and listener.tls.client_auth == "required"
    if requires and security.certificate_file is None:
        expected = f"a certificate, which listener {listener.name} requires"
        yield Finding((*here, "certificate_file"), expected, at_key=True)
    yield from _check_user(
        security, listener, (*here, "username"), only_static=here[-1] == "inter_broker_security"
    )


def _check_mechanism(security: Security, listener: Listener, here: Location) -> Iterator[Finding]:
    if listener.sasl is not None and security.mechanism not in listener.sasl.mechanisms:
        known = listener.sasl.mechanisms
        expected = f"a mechanism of listener {listener.name}: {', '.join(known)}"
        yield Finding((*here, "mechanism"), expected, nearest_name(security.mechanism, known))


def _check_user(
    security: Security, listener: Listener, here: Location, *, only_static: bool = False
) -> Iterator[Finding]:
    """Yield a user that the listener does not know.

    SCRAM also has users in ZooKeeper. With `only_static` these do not count: brokers must log in
    before ZooKeeper has any.
    """
    sasl = listener.sasl
    if sasl is None or security.username in (None, *sasl.users):
        return
    if only_static or security.mechanism == "PLAIN":
        known = sorted(sasl.users)
        expected = f"one of the `users` of listener {listener.name}: {', '.join(known) or 'none'}"
        yield Finding(here, expected, nearest_name(security.username, known))


def _connection_finding(security: Security, here: Location) -> Finding | None:
    """Return which settings of a connection do not go together, if any."""
    if security.oauth is not None and (problem := _problem(security.oauth.login)):
        return Finding((*here, "oauth"), problem, at_key=True)
    problem = _problem(security.client)
    return None if problem is None else Finding(here, problem, at_key=True)


def _problem(make: Callable[[Path], object]) -> str | None:
    """Return why settings do not go together; None if they do."""
    try:
        make(_ANYWHERE)
    except ValueError as error:
        return str(error)
    return None
