"""SHELL: TLS on one listener: its newest certificates, and whose the clients' are."""

from __future__ import annotations

import ssl
from typing import Final

from local_cluster.security.authentication.distinguished_name import subject_of
from local_cluster.security.authentication.listener_security import TlsSettings
from local_cluster.security.authentication.principal_rules import PrincipalRules
from local_cluster.security.authentication.tls_contexts import TlsContexts
from local_cluster.server.request_dispatch import ANONYMOUS


class TlsAcceptor:
    """The certificates of a listener, and the rules that name the principals of clients."""

    def __init__(self, listener: str, settings: TlsSettings) -> None:
        """Load the files. Raises SecurityError that names the listener and the file."""
        self.contexts: Final = TlsContexts(listener, settings)
        self._rules = PrincipalRules(settings.principal_mapping_rules)

    def principal_of(self, session: ssl.SSLObject) -> str:
        """Return the principal of the client's certificate.

        Raises ValueError if no rule has one.
        """
        certificate = session.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        subject = subject_of(certificate)
        name = self._rules.name_of(subject)
        if name is None:
            raise ValueError(f"no rule of ssl.principal.mapping.rules matches {subject!r}")
        return f"User:{name}"
