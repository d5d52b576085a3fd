"""Which requests pass with which token."""

from __future__ import annotations

import base64

import pytest

from local_cluster.http_security.decision import (
    NO_TOKEN,
    ONLY_METRICS,
    WRONG_TOKEN,
    Refusal,
    Request,
    Tokens,
    decide,
    digest,
)

TOKENS = Tokens(full=(digest("present"), digest("former")), metrics=(digest("scraper"),))


def ask(
    authorization: str | None = None,
    path: str = "/status",
    method: str = "GET",
    *,
    verbose: bool = False,
    has_certificate: bool = False,
) -> Refusal | None:
    query = {"verbose": "1"} if verbose else {}
    return decide(Request(method, path, query, authorization, has_certificate), TOKENS)


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{token}".encode()).decode()


@pytest.mark.parametrize("token", ["present", "former"])
def test_every_valid_token_allows_everything(token: str) -> None:
    for path in ("/status", "/metrics", "/"):
        assert ask(f"Bearer {token}", path) is None
        assert ask(f"bearer  {token} ", path) is None, "spaces around it do not count"
    assert ask(f"Bearer {token}", "/pause", "POST") is None


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer presen",
        "Bearer ",
        "present",
        "Digest present",
        "Basic !",
        "Basic \u00e9",
        "Basic /w==",
        "Bearer \udcff",
        "Basic \udcff",
    ],
)
def test_anything_else_is_refused(authorization: str) -> None:
    assert ask(authorization) == WRONG_TOKEN
    assert ask() == NO_TOKEN


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz"])
def test_probes_pass_without_a_token_and_without_details(path: str) -> None:
    assert ask(path=path) is None
    assert ask("Bearer wrong", path) is None
    assert ask(path=path, method="POST") == NO_TOKEN
    assert ask(path=path, verbose=True) == NO_TOKEN
    assert ask("Bearer present", path, verbose=True) is None


def test_a_path_is_open_only_as_a_whole() -> None:
    for path in ("/livez/", "/livez/../status", "//livez", "/LIVEZ"):
        assert ask(path=path) == NO_TOKEN


def test_the_token_of_metrics_reads_only_metrics() -> None:
    assert ask("Bearer scraper", "/metrics") is None
    assert ask(basic("scraper"), "/metrics") is None
    assert ask("Bearer scraper", "/status") == ONLY_METRICS
    assert ask("Bearer scraper", "/metrics", "POST") == ONLY_METRICS


def test_a_browser_may_read_but_not_change() -> None:
    assert ask(basic("present"), "/") is None
    assert ask(basic("wrong"), "/") == WRONG_TOKEN
    assert ask(basic("present"), "/pause", "POST") == WRONG_TOKEN
    for broken in ("Basic", "Basic !", "Basic " + base64.b64encode(b"\xff:\xff").decode()):
        assert ask(broken) == WRONG_TOKEN


def test_a_client_certificate_counts_as_a_token() -> None:
    assert ask(has_certificate=True) is None
    assert ask(path="/pause", method="POST", has_certificate=True) is None
