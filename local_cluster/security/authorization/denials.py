"""Denials: a line each in a log of their own, and counts by listener, principal and API.

The logger is "kafka.authorizer.logger", as in Kafka. What peers send is printed with %r and cut.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from local_cluster.security.authorization.decision import Decision, Rule
from local_cluster.wire.constants import Acl

DENIED: Final = "Denied"
KEYS_MAX: Final = 10_000
"""Counted combinations; further principals are counted together."""
OTHERS: Final = "(others)"
TEXT_LENGTH_MAX: Final = 300
"""Longest name in a line: a transactional id may have 32 KiB."""

log = logging.getLogger("kafka.authorizer.logger")


class Request(NamedTuple):
    """Whose request asks, from where, and for what."""

    principal: str
    client_host: str
    listener: str
    api: str
    client_id: str | None
    operation: str
    resource_type: str
    name: str

    def __str__(self) -> str:
        """In the words of the log, which writes them only if somebody wants its lines."""
        return (
            f"principal {_short(self.principal)} from host {self.client_host} on listener "
            f"{self.listener}, client id {_short(self.client_id or '')}: {self.operation} on "
            f"{self.resource_type} {_short(self.name)} for {self.api}"
        )


class DenialKey(NamedTuple):
    """What denials are counted by."""

    listener: str
    principal: str
    api: str


class Denials:
    """The denials of one broker."""

    def __init__(self, *, is_dry_run: bool) -> None:
        """In a dry run the denials are those that would be."""
        self._word = "Would be denied" if is_dry_run else DENIED
        self._counts: dict[DenialKey, int] = {}

    @property
    def counts(self) -> Mapping[DenialKey, int]:
        """The denials since the start."""
        return self._counts

    def note(self, request: Request, decision: Decision, *, is_enforced: bool = False) -> None:
        """Count and log one denial; one that is enforced holds in a dry run too."""
        assert not decision.is_allowed
        key = DenialKey(request.listener, request.principal, request.api)
        if key not in self._counts and len(self._counts) >= KEYS_MAX:
            key = key._replace(principal=OTHERS)
        self._counts[key] = self._counts.get(key, 0) + 1
        word = DENIED if is_enforced else self._word
        log.info("%s: %s, by %s", word, request, _rule_text(decision.rule))


def note_use(request: Request) -> None:
    """Log one use of a right that hands out or replaces what proves a password."""
    log.info("Allowed: %s", request)


def _rule_text(rule: Rule | Acl) -> str:
    if isinstance(rule, Acl):
        return f"ACL {_short(str(rule))}"
    if rule is Rule.DEFAULT_DENY:
        return "no ACL that matched"
    return str(rule.value)


def _short(text: str) -> str:
    cut = text if len(text) <= TEXT_LENGTH_MAX else text[:TEXT_LENGTH_MAX] + "..."
    return repr(cut)
