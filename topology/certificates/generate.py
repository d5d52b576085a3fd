"""Writes the certificates, passwords and client files that are missing, and replaces nothing.

Every file that holds a secret is readable by its owner alone, from the moment that it exists.
"""

from __future__ import annotations

import datetime
import os
import secrets
from pathlib import Path
from typing import Final

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.security import SecurityError
from topology.certificates.authority import Authority, AuthorityError
from topology.certificates.client_properties import (
    config_text,
    java_properties,
    librdkafka_properties,
    properties_text,
)
from topology.certificates.needed import Client, Needed, ServerCertificate, needed
from topology.deployment.broker_daemons import bootstrap_of
from topology.model import Topology
from topology.problems import DeployError

PASSWORD_BYTES: Final = 24
"""Random bytes of a password, which is their text in URL-safe base64."""
SECRET_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o700
AUTHORITY_NAME: Final = "Heliograph authority for trying out"
CLIENTS: Final = "clients"
"""Directory of the client files, beside the certificate of the authority."""


def generate_for(topology: Topology, directory: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Write what a topology names and is missing; its relative paths start at `directory`.

    Returns the files that were written, and a sentence for each thing that comes from elsewhere.
    Raises DeployError.
    """
    bootstraps = {each.name: bootstrap_of(each) for each in topology.clusters}
    wanted = needed(topology, directory, bootstraps)
    return generate(wanted, datetime.datetime.now(datetime.UTC)), wanted.others


def generate(wanted: Needed, now: datetime.datetime) -> list[Path]:
    """Write every missing file; return the files that were written. Raises DeployError.

    Nothing is written if a certificate is missing and the key of its authority is somewhere else.
    """
    try:
        missing = [each for each in wanted.certificates if not each.file.exists()]
        authorities = {each.ca_file: _authority(each.ca_file, now) for each in missing}
        written: list[Path] = []
        for ca_file, authority in authorities.items():
            if not ca_file.exists():
                key_file = _key_file(ca_file)
                _write(key_file, authority.key_pem(), SECRET_MODE)
                _write(ca_file, authority.certificate_pem(), PUBLIC_MODE)
                written += [key_file, ca_file]
        for certificate in missing:
            _write(certificate.file, _issue(authorities, certificate, now), SECRET_MODE)
            written.append(certificate.file)
        for file in wanted.password_files:
            if not file.exists():
                password = secrets.token_urlsafe(PASSWORD_BYTES)
                _write(file, f"{password}\n".encode(), SECRET_MODE)
                written.append(file)
        for client in wanted.clients:
            written += _write_client(client)
    except (OSError, AuthorityError, SecurityError) as error:
        raise DeployError(f"cannot generate certificates: {error}") from error
    return written


def _authority(ca_file: Path, now: datetime.datetime) -> Authority:
    key_file = _key_file(ca_file)
    if not ca_file.exists():
        return Authority.create(AUTHORITY_NAME, now)
    if not key_file.exists():
        raise DeployError(
            f"{ca_file} exists, and its key {key_file} does not: let your authority sign"
            " the certificates that are missing"
        )
    return Authority.load(ca_file.read_bytes(), key_file.read_bytes())


def _issue(
    authorities: dict[Path, Authority], certificate: ServerCertificate, now: datetime.datetime
) -> bytes:
    return authorities[certificate.ca_file].issue(certificate.name, certificate.hosts, now)


def _write_client(client: Client) -> list[Path]:
    """Write both files of a client that are missing; nothing without an authority's file."""
    security = client.security
    if security.ca_file is None or security.password is None or security.password.env is not None:
        return []
    password = read_secret(security.password)
    at = Path(security.ca_file).parent / CLIENTS / client.cluster
    java = properties_text(java_properties(client.bootstrap, security, password))
    librdkafka = config_text(librdkafka_properties(client.bootstrap, security, password))
    files = {
        at / f"{security.username}.properties": java,
        at / f"{security.username}.librdkafka": librdkafka,
    }
    missing = {file: text for file, text in files.items() if not file.exists()}
    for file, text in missing.items():
        _write(file, text.encode(), SECRET_MODE)
    return list(missing)


def _key_file(ca_file: Path) -> Path:
    return ca_file.with_suffix(".key")


def _write(file: Path, content: bytes, mode: int) -> None:
    """Write a new file in one step. Raises OSError; FileExistsError if there is one meanwhile."""
    file.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as new:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        os.link(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
