"""Which settings go together, and which addresses they may bind."""

from __future__ import annotations

import pytest

from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.http_security.addresses import is_any, is_loopback, url_of
from local_cluster.http_security.settings import (
    OPEN,
    HttpClientSecurity,
    HttpSecurity,
    check_binding,
)
from local_cluster.security.authentication.listener_security import TlsSettings

TOKEN = Secret(file="/token")
TLS = TlsSettings(keystore_file="/http.pem")
BY_CERTIFICATE = TlsSettings(
    keystore_file="/http.pem", truststore_file="/ca.pem", client_auth="requested"
)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "::1", "localhost"])
def test_a_loopback_address_is_open_by_default(host: str) -> None:
    check_binding(host, OPEN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "ewr-3.example"])
@pytest.mark.parametrize(
    ("security", "missing"),
    [
        (OPEN, "needs a `token` and `tls`;"),
        (HttpSecurity(token=TOKEN), "needs `tls`;"),
        (HttpSecurity(tls=TLS), "needs a `token`;"),
    ],
)
def test_other_addresses_need_a_token_and_tls(
    host: str, security: HttpSecurity, missing: str
) -> None:
    with pytest.raises(ValueError, match=missing) as caught:
        check_binding(host, security)
    assert host in str(caught.value) and "allow_insecure: true" in str(caught.value)


@pytest.mark.parametrize(
    "security",
    [
        HttpSecurity(token=TOKEN, tls=TLS),
        HttpSecurity(tls=BY_CERTIFICATE),
        HttpSecurity(allow_insecure=True),
    ],
)
def test_other_addresses_are_bound_with_both_or_by_permission(security: HttpSecurity) -> None:
    check_binding("0.0.0.0", security)


def test_keys_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="`metrics_token` needs a `token`"):
        HttpSecurity(metrics_token=TOKEN)
    with pytest.raises(ValueError, match="no SASL"):
        password = Secret(file="/p")
        tls = ClientSecurity(
            protocol="SASL_SSL", mechanism="PLAIN", username="u", password=password
        )
        HttpClientSecurity(tls=tls)


def test_addresses() -> None:
    assert url_of("https", "::1", 8083) == "https://[::1]:8083"
    assert url_of("http", "h", 1) == "http://h:1"
    assert is_any("0.0.0.0") and is_any("::") and not is_any("h") and not is_any("10.0.0.1")
    assert not is_loopback("0.0.0.0") and not is_loopback("localhost.example")
