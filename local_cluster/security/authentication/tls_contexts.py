"""SHELL: the TLS context of a listener, loaded again when one of its files changes.

New connections get the newest context. Files that cannot be used are logged, and the last usable
context stays: a half-written certificate must not close the listener.
"""

from __future__ import annotations

import logging
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.file_states import FileStates, file_states
from local_cluster.client.auth.security import Secret, SecurityError
from local_cluster.security.authentication.listener_security import StoreType, TlsSettings

STORE_BYTES_MAX: Final = 4 * 1024 * 1024
_VERIFY_MODES: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

log = logging.getLogger(__name__)


class TlsContexts:
    """The contexts of one listener, newest last."""

    def __init__(self, listener: str, settings: TlsSettings) -> None:
        """Load the files. Raises SecurityError that names the listener and the file."""
        self._listener = listener
        self._settings = settings
        self._states = self._file_states()
        try:
            self._context = load_context(settings)
            self._expires_s = _expiry_s(settings)
        except SecurityError as error:
            raise SecurityError(f"listener {listener}: {error}") from error

    def newest(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        states = self._file_states()
        if states != self._states:
            self._states = states
            try:
                self._context = load_context(self._settings)
                self._expires_s = _expiry_s(self._settings)
                log.info("listener %s: certificates loaded again", self._listener)
            except SecurityError as error:
                log.error("listener %s keeps its certificates: %s", self._listener, error)
        return self._context

    @property
    def expires_s(self) -> float:
        """When the first certificate of the newest chain expires, in seconds since 1970."""
        self.newest()
        return self._expires_s

    def _file_states(self) -> FileStates:
        return file_states(_files_of(self._settings))


def load_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a server's context. Raises SecurityError that names the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[each] for each in settings.enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # A client could keep the processor busy by negotiating again and again.
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Without resumption every connection is checked against the present authorities.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    with _naming(settings.keystore_file):
        _load_keystore(context, settings)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if settings.truststore_file is not None:
        with _naming(settings.truststore_file):
            context.load_verify_locations(cadata=_authorities(settings))
    return context


class _naming:
    """Turn what a library raises about a file into a SecurityError that names the file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SecurityError):
            return
        # ssl.SSLError is an OSError.
        if isinstance(error, OSError | ValueError | TypeError):
            raise SecurityError(f"{self._path}: {error}") from error


def _load_keystore(context: ssl.SSLContext, settings: TlsSettings) -> None:
    password = read_secret(settings.keystore_password) if settings.keystore_password else ""
    if settings.keystore_type == "PEM":
        # Without a function OpenSSL would ask for a key's password on the terminal.
        context.load_cert_chain(settings.keystore_file, settings.key_file, lambda: password)
        return
    store = pkcs12.load_pkcs12(_read(settings.keystore_file), password.encode())
    if store.key is None or store.cert is None:
        raise ValueError("the store has no private key with its certificate")
    chain = [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
    # OpenSSL reads keys from files only; this one is encrypted with a password that nobody keeps.
    passing = secrets.token_bytes(32).hex().encode()
    key = store.key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passing)
    )
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(b"".join([key, *(each.public_bytes(Encoding.PEM) for each in chain)]))
        file.flush()
        context.load_cert_chain(file.name, password=passing)


def _expiry_s(settings: TlsSettings) -> float:
    """Return when the first certificate of a keystore expires, in seconds since 1970.

    Raises SecurityError that names the file.
    """
    with _naming(settings.keystore_file):
        chain = _certificates(
            settings.keystore_file, settings.keystore_type, settings.keystore_password
        )
        return min(each.not_valid_after_utc.timestamp() for each in chain)


def _authorities(settings: TlsSettings) -> str:
    assert settings.truststore_file is not None
    certificates = _certificates(
        settings.truststore_file, settings.truststore_type, settings.truststore_password
    )
    if not certificates:
        raise ValueError("the truststore has no certificate")
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _certificates(path: str, kind: StoreType, password: Secret | None) -> list[x509.Certificate]:
    """Return every certificate of a PEM file or a PKCS12 store."""
    content = _read(path)
    if kind == "PEM":
        return x509.load_pem_x509_certificates(content)
    store = pkcs12.load_pkcs12(content, (read_secret(password) if password else "").encode())
    found = [*store.additional_certs, *([store.cert] if store.cert else [])]
    return [each.certificate for each in found]


def _read(path: str) -> bytes:
    with Path(path).open("rb") as file:
        content = file.read(STORE_BYTES_MAX + 1)
    if len(content) > STORE_BYTES_MAX:
        raise ValueError(f"more than {STORE_BYTES_MAX} bytes")
    return content


def _files_of(settings: TlsSettings) -> Iterator[str]:
    passwords: tuple[Secret | None, ...] = (
        settings.keystore_password,
        settings.truststore_password,
    )
    paths = (settings.keystore_file, settings.key_file, settings.truststore_file)
    for path in (*paths, *(each.file for each in passwords if each is not None)):
        if path is not None:
            yield path
