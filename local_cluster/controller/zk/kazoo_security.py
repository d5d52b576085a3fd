"""SHELL: credentials and ACLs in kazoo's terms.

The password is read for every new client. kazoo sends the credential at the start of each
connection, before any other request. ZooKeeper accepts every digest; a wrong one shows when a znode
refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kazoo.security import (
    ACL,
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    make_acl,
    make_digest_acl_credential,
)

from local_cluster.client.auth.credentials import read_secret, tls_context
from local_cluster.client.auth.security import SecurityError
from local_cluster.client.auth.zookeeper_security import ZooKeeperSecurity
from local_cluster.controller.model.znode_access import ZnodeAccess, access_of

_DIGEST: Final = "digest"
_OF_CREATOR: Final[Mapping[ZnodeAccess, Sequence[ACL]]] = {
    ZnodeAccess.OPEN: OPEN_ACL_UNSAFE,
    ZnodeAccess.WORLD_READABLE: [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE],
    ZnodeAccess.CREATOR_ONLY: CREATOR_ALL_ACL,
}


def client_options(security: ZooKeeperSecurity) -> dict[str, Any]:
    """Return the options of a new KazooClient. Raises SecurityError."""
    options: dict[str, Any] = {}
    if security.authenticates:
        options["auth_data"] = [(_DIGEST, f"{security.username}:{_password(security)}")]
    if security.tls:
        # kazoo reads the files for each connection. A thread of it ends if it cannot.
        tls_context(security.of_connection)
        key_password = security.key_password
        options |= {
            "use_ssl": True,
            "ca": security.ca_file,
            "certfile": security.certificate_file,
            "keyfile": security.key_file or security.certificate_file,
            "keyfile_password": None if key_password is None else read_secret(key_password),
            "check_hostname": security.check_hostname,
        }
    return options


def acl_of_new(path: str, *, sets_acl: bool) -> list[ACL]:
    """Return the ACL of a znode to create; ZooKeeper puts the creator's identity into it."""
    return [*_OF_CREATOR[access_of(path, sets_acl=sets_acl)]]


def acl_for(access: ZnodeAccess, security: ZooKeeperSecurity) -> list[ACL]:
    """Return the ACL as ZooKeeper shows it if this user owns the znode. Raises SecurityError."""
    if access is ZnodeAccess.OPEN:
        return [*OPEN_ACL_UNSAFE]
    assert security.authenticates, "only a user can own a znode"
    identity = make_digest_acl_credential(security.username, _password(security))
    own = [make_acl(_DIGEST, identity, all=True)]
    return own if access is ZnodeAccess.CREATOR_ONLY else [*own, *READ_ACL_UNSAFE]


def _password(security: ZooKeeperSecurity) -> str:
    assert security.password is not None, "a user has a password"
    password = read_secret(security.password)
    if not password:
        raise SecurityError(f"the password of ZooKeeper's user {security.username} is empty")
    return password
