"""SHELL: the ACLs of a cluster's znodes: counts them, and changes them to Kafka's or back.

As Kafka's zookeeper-security-migration does, it visits the chroot and the roots of Kafka, and what
is below them. A znode that has its ACL already is left alone. So a migration that was killed is
continued by the next one, and nothing is kept about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import InvalidACLError, NoAuthError, NoNodeError

from local_cluster.client.auth.zookeeper_security import ZooKeeperSecurity
from local_cluster.controller.model.znode_access import SECURE_ROOTS, ZnodeAccess, access_of
from local_cluster.controller.zk.kazoo_security import acl_for
from topology.deployment.zookeeper_access import ZooKeeperAccess
from topology.operate.zookeeper_client import connected
from topology.problems import DeployError

CONNECT_TIMEOUT_S: Final = 15.0
RESPONSE_TIMEOUT_S: Final = 30.0
REQUESTS_MAX: Final = 200
"""Znodes whose requests are sent at once."""
CHROOT: Final = "/"

Acls = frozenset[Any]
"""kazoo's ACL tuples, in no order."""


@dataclass(slots=True)
class Counts:
    """What a visit of the znodes found, and changed."""

    open: int = 0
    """Znodes that anybody may change."""
    secured: int = 0
    """Znodes with the ACL that Kafka gives them, of this user."""
    other: int = 0
    """Znodes with any other ACL, or that this user may not read."""
    changed: int = 0
    """Znodes that had another ACL before."""

    @property
    def total(self) -> int:
        return self.open + self.secured + self.other


OnProgress = Callable[[Counts], None]
"""Called after every REQUESTS_MAX znodes."""


def _ignore(_: Counts) -> None:
    return


def count_acls(access: ZooKeeperAccess) -> Counts:
    """Count the ACLs of a cluster's znodes, as its user sees them. Raises DeployError."""
    with connected(access, access.connect, timeout_s=CONNECT_TIMEOUT_S) as client:
        visit = _Visit(client, access.security)
        visit.run(None, _ignore)
        return visit.counts


def migrate_acls(
    access: ZooKeeperAccess, *, secure: bool, on_progress: OnProgress = _ignore
) -> Counts:
    """Give the znodes Kafka's ACLs, or open them all; return what they have then.

    Raises DeployError. What was changed until then stays changed.
    """
    with connected(access, access.connect, timeout_s=CONNECT_TIMEOUT_S) as client:
        visit = _Visit(client, access.security)
        visit.run(secure, on_progress)
        return visit.counts


class _Visit:
    """One visit of the znodes of a cluster, level by level."""

    def __init__(self, client: KazooClient, security: ZooKeeperSecurity) -> None:
        self.counts = Counts()
        self._client = client
        self._acls = {ZnodeAccess.OPEN: frozenset(acl_for(ZnodeAccess.OPEN, security))}
        if security.authenticates:
            self._acls |= {each: frozenset(acl_for(each, security)) for each in ZnodeAccess}

    def run(self, secure: bool | None, on_progress: OnProgress) -> None:
        """Visit every znode; `secure` says which ACL they get, None changes nothing."""
        self._visit([CHROOT], secure)
        level: list[str] = [*SECURE_ROOTS]
        while level:
            following: list[str] = []
            for first in range(0, len(level), REQUESTS_MAX):
                following += self._visit(level[first : first + REQUESTS_MAX], secure)
                on_progress(self.counts)
            level = following

    def _visit(self, paths: Sequence[str], secure: bool | None) -> list[str]:
        """Visit znodes; return their children. Raises DeployError if an ACL cannot be set."""
        acls = {
            path: None if answer is None else frozenset(answer[0])
            for path, answer in self._ask(self._client.get_acls_async, paths)
        }
        if secure is not None:
            wrong = [path for path, has in acls.items() if not self._is_right(path, has, secure)]
            changed = self._set(wrong, secure)
            acls |= {path: self._wanted(path, secure) for path in changed}
        for path, has in acls.items():
            self._count(path, has)
        answers = self._ask(
            self._client.get_children_async, [each for each in acls if each != CHROOT]
        )
        return [f"{path}/{name}" for path, names in answers for name in names or ()]

    def _ask(
        self, request: Callable[[str], Any], paths: Iterable[str]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the answer for each path that exists; None if ZooKeeper denies it."""
        sent = [(path, request(path)) for path in paths]
        for path, result in sent:
            try:
                yield path, result.get(timeout=RESPONSE_TIMEOUT_S)
            except NoNodeError:
                continue
            except NoAuthError:
                yield path, None

    def _set(self, paths: Sequence[str], secure: bool) -> list[str]:
        """Set ACLs; return the znodes that still exist."""
        sent = [
            (path, self._client.set_acls_async(path, [*self._wanted(path, secure)]))
            for path in paths
        ]
        changed = []
        for path, result in sent:
            try:
                result.get(timeout=RESPONSE_TIMEOUT_S)
            except NoNodeError:
                continue  # it was deleted meanwhile
            except (NoAuthError, InvalidACLError) as error:
                raise DeployError(
                    f"ZooKeeper denies access to {path}",
                    ["its ACL names another user or password than `zookeeper_security`"],
                ) from error
            self.counts.changed += 1
            changed.append(path)
        return changed

    def _is_right(self, path: str, has: Acls | None, secure: bool) -> bool:
        wanted = self._acls.get(access_of(path, sets_acl=secure))
        if has is None or wanted is None:
            return False
        # A creator with a client certificate owns its znode by that as well.
        return wanted <= has and all(each.id.scheme == "x509" for each in has - wanted)

    def _wanted(self, path: str, secure: bool) -> Acls:
        return self._acls[access_of(path, sets_acl=secure)]

    def _count(self, path: str, has: Acls | None) -> None:
        if self._is_right(path, has, secure=False):
            self.counts.open += 1
        elif self._is_right(path, has, secure=True):
            self.counts.secured += 1
        else:
            self.counts.other += 1
