"""SHELL: what only some listeners need, imported when one does.

The libraries for certificates and tokens take 13 MB and a fifth of the time to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.security.authentication.listener_security import TlsSettings
from local_cluster.security.authentication.oauth.settings import OauthSettings

if TYPE_CHECKING:
    from local_cluster.server.secure.tls_acceptor import TlsAcceptor
    from local_cluster.server.secure.token_acceptor import TokenAcceptor


def tls_acceptor(listener: str, settings: TlsSettings) -> TlsAcceptor:
    """Load the certificates. Raises SecurityError that names the listener and the file."""
    from local_cluster.server.secure.tls_acceptor import TlsAcceptor

    return TlsAcceptor(listener, settings)


def token_acceptor(listener: str, settings: OauthSettings) -> TokenAcceptor:
    """Load the keys of a file. Raises SecurityError that names the listener and the file."""
    from local_cluster.server.secure.token_acceptor import TokenAcceptor

    return TokenAcceptor(listener, settings)
