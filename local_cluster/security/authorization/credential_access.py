"""Who reads and sets stored SCRAM credentials for links, and of which users.

| request | needs, besides an authorizer and TLS |
|---|---|
| descriptions | DESCRIBE on the cluster |
| keys | an entry in `heliograph.scram.credential.readers`; no ACL and no super user replaces it |
| changes | ALTER on the cluster, as AlterUserScramCredentials does |

Users of brokers, services and administrators are guarded: nobody gets their keys, and no link
changes them. So a link can neither pass on who rules a cluster, nor lock anybody out.
The readers are a broker config that no request changes. So a right to alter the cluster does not
become one to read keys. A dry run of the authorizer does not loosen that either.
"""

from __future__ import annotations

from typing import Final

from local_cluster.broker_configs import principals_of
from local_cluster.security.authentication.listener_security import uses_tls
from local_cluster.security.authorization.authorizer import (
    AskingContext,
    Authorizer,
    request_of,
)
from local_cluster.security.authorization.decision import Decision, Rule
from local_cluster.security.authorization.denials import note_use
from local_cluster.settings import BrokerSettings
from local_cluster.wire.constants import CLUSTER_NAME

READERS: Final = "heliograph.scram.credential.readers"
CREDENTIAL: Final = "SCRAM_CREDENTIAL"
"""In place of a resource type, in lines of the log."""
ANY: Final = "(any)"
READ_KEYS: Final = "READ_KEYS"
WRITE_KEYS: Final = "WRITE_KEYS"
ANONYMOUS: Final = "User:ANONYMOUS"
USER: Final = "User:"


class CredentialAccess:
    """The rules of one broker."""

    def __init__(self, settings: BrokerSettings, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._encrypted = frozenset(
            each.name for each in settings.listeners if uses_tls(each.security_protocol)
        )
        self._readers = frozenset(principals_of(settings.config.get(READERS, ""))) - {ANONYMOUS}
        services = (settings.internal_topic_writers or {}).values()
        principals = (
            self._readers.union(principals_of(settings.config.get("super.users", "")))
            | set(settings.broker_principals)
            | {each for names in services for each in names}
        )
        own = {user for each in settings.listeners if each.sasl for user in each.sasl.users}
        self._guarded = own | {each.removeprefix(USER) for each in principals}

    def is_served_on(self, listener: str) -> bool:
        """Return whether a listener has TLS."""
        return listener in self._encrypted

    def guards(self, user: str) -> bool:
        """Return whether links never touch a user."""
        return user in self._guarded

    def may_describe(self, context: AskingContext) -> bool:
        """Return whether the client may learn which credentials there are."""
        return self._has_tls(context, READ_KEYS) and self._authorizer.authorize(
            context, "DESCRIBE", "CLUSTER", CLUSTER_NAME
        )

    def may_read(self, context: AskingContext) -> bool:
        """Return whether the client may get keys."""
        if not self._has_tls(context, READ_KEYS):
            return False
        if context.principal in self._readers:
            return True
        self._deny(context, READ_KEYS, ANY, Rule.CREDENTIAL_READERS)
        return False

    def may_write(self, context: AskingContext) -> bool:
        """Return whether the client may set and delete credentials."""
        return self._has_tls(context, WRITE_KEYS) and self._authorizer.authorize(
            context, "ALTER", "CLUSTER", CLUSTER_NAME
        )

    def note_read(self, context: AskingContext, user: str) -> None:
        """Log that a client gets the keys of a user."""
        note_use(request_of(context, READ_KEYS, CREDENTIAL, user))

    def note_written(self, context: AskingContext, user: str) -> None:
        """Log that a client has replaced or deleted a credential of a user."""
        note_use(request_of(context, WRITE_KEYS, CREDENTIAL, user))

    def note_guarded(self, context: AskingContext, user: str, *, is_read: bool) -> None:
        """Log and count that a client wants a user whom links never touch."""
        self._deny(context, READ_KEYS if is_read else WRITE_KEYS, user, Rule.GUARDED_USER)

    def _has_tls(self, context: AskingContext, operation: str) -> bool:
        if context.listener in self._encrypted:
            return True
        self._deny(context, operation, ANY, Rule.NO_TLS)
        return False

    def _deny(self, context: AskingContext, operation: str, name: str, rule: Rule) -> None:
        request = request_of(context, operation, CREDENTIAL, name)
        self._authorizer.denials.note(request, Decision(False, rule), is_enforced=True)
