"""SHELL: the Kerberos service of one listener: its keys, and a thread for what blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from local_cluster.client.auth.kerberos.gss_library import gss_library
from local_cluster.client.auth.kerberos.security_context import GssError
from local_cluster.client.auth.security import SecurityError
from local_cluster.security.authentication.kerberos.gss_exchange import GssExchange
from local_cluster.security.authentication.kerberos.settings import KerberosSettings
from local_cluster.security.authentication.kerberos.short_names import ShortNames

THREADS_MAX: Final = 2
"""Of a listener, for the steps of its authentications; others wait."""


class GssAcceptor:
    """Takes tickets for the service of a listener."""

    def __init__(self, listener: str, settings: KerberosSettings) -> None:
        """Raises SecurityError that names the listener and the keytab."""
        try:
            self._library = gss_library()
            if settings.principal is not None:
                name = self._library.principal(settings.principal)
            else:
                name = self._library.service(settings.service_name)
            self._credential = self._library.acceptor(name, settings.keytab_file)
        except GssError as error:
            raise SecurityError(
                f"listener {listener}, GSSAPI with keytab {settings.keytab_file}: {error}"
            ) from error
        self._names = ShortNames(settings.principal_to_local_rules, self._library.default_realm())
        self.threads: Final = ThreadPoolExecutor(THREADS_MAX, f"gssapi-{listener}")

    def exchange(self) -> GssExchange:
        """Begin an authentication; its `respond` belongs into `threads`."""
        return GssExchange(self._library.accept(self._credential), self._names)

    def close(self) -> None:
        """Start no further step."""
        self.threads.shutdown(wait=False, cancel_futures=True)
