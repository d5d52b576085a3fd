"""Read secrets, certificates and keys, for every new connection: a new one needs no restart."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final

from local_cluster.client.auth.security import ClientSecurity, Secret, SecurityError

SECRET_BYTES_MAX: Final = 64 * 1024


def read_secret(secret: Secret) -> str:
    """Return the secret itself. Raises SecurityError."""
    if secret.env is not None:
        value = os.environ.get(secret.env)
        if value is None:
            raise SecurityError(f"environment variable {secret.env} is not set")
        return value
    assert secret.file is not None
    try:
        with Path(secret.file).open("rb") as file:
            content = file.read(SECRET_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SecurityError(f"secret in {secret.file}: {error}") from error
    return content.removesuffix("\n").removesuffix("\r")


def tls_context(security: ClientSecurity) -> ssl.SSLContext | None:
    """Return the context of a new connection, None for plain text. Raises SecurityError."""
    if not security.uses_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = security.check_hostname
        if security.certificate_file is not None:
            password = read_secret(security.key_password) if security.key_password else ""
            # Without a function OpenSSL would ask for a key's password on the terminal.
            context.load_cert_chain(security.certificate_file, security.key_file, lambda: password)
    except (OSError, ValueError) as error:
        raise SecurityError(f"certificates and keys: {error}") from error
    return context
