"""How Prometheus authenticates itself to the HTTP ports of a deployment. Pure."""

from __future__ import annotations

from typing import Any

from local_cluster.client.auth.security import Secret
from local_cluster.http_security.settings import HttpClientSecurity


def scrape_access(http: HttpClientSecurity, metrics_token: Secret | None) -> dict[str, Any]:
    """Return the keys of a `scrape_config`; they name the file of the token and never hold it.

    A token in an environment variable has to be put there by hand: Prometheus reads only files.
    """
    token = metrics_token or http.token
    access: dict[str, Any] = {}
    if token is not None and token.file is not None:
        access["authorization"] = {"credentials_file": token.file}
    if not http.tls.uses_tls:
        return access
    tls = {
        "ca_file": http.tls.ca_file,
        "cert_file": None if token is not None else http.tls.certificate_file,
        "key_file": None if token is not None else http.tls.key_file or http.tls.certificate_file,
    }
    access |= {"scheme": "https", "tls_config": {k: v for k, v in tls.items() if v is not None}}
    return access
