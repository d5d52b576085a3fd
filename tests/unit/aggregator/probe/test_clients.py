"""aiokafka's clients: their options, and that they cannot cancel their caller."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiokafka.errors import AuthenticationFailedError, LeaderNotAvailableError

from aggregator.probe.clients import StrayCancelError, check_leader, client_options, in_own_task
from local_cluster.client.auth.security import (
    PLAINTEXT,
    ClientSecurity,
    KerberosLogin,
    OauthLogin,
    Secret,
    SecurityError,
)


async def await_a_cancelled_task() -> None:
    """Behave like aiokafka when it is closed while a fetch waits for its retry."""
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def test_a_cancel_that_nobody_asked_for_is_an_error_like_any_other() -> None:
    with pytest.raises(StrayCancelError):
        await in_own_task(await_a_cancelled_task())


async def test_an_error_is_passed_on() -> None:
    async def fail() -> None:
        raise ValueError("so")

    with pytest.raises(ValueError, match="so"):
        await in_own_task(fail())
    await in_own_task(asyncio.sleep(0))


async def test_a_cancel_from_outside_ends_the_work_and_waits_for_its_end() -> None:
    steps = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            steps.append("closed")

    task = asyncio.create_task(in_own_task(work()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["closed"]


@pytest.mark.parametrize("leader", [None, -1, 0])
def test_nothing_is_given_to_a_producer_that_knows_of_no_leader(leader: int | None) -> None:
    cluster = SimpleNamespace(leader_for_partition=lambda at: leader)
    producer = SimpleNamespace(client=SimpleNamespace(cluster=cluster))
    if leader == 0:
        check_leader(producer, "t", 0)
        return
    with pytest.raises(LeaderNotAvailableError, match="partition 0 of t has no leader"):
        check_leader(producer, "t", 0)


def test_a_plain_cluster_needs_no_more_than_its_addresses() -> None:
    options = client_options("a:1,b:2", PLAINTEXT)
    assert options["bootstrap_servers"] == ["a:1", "b:2"]
    assert (options["security_protocol"], options["ssl_context"]) == ("PLAINTEXT", None)
    assert not any(name.startswith("sasl") for name in options)


def test_a_secured_cluster_gets_its_context_and_its_credentials(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("s3cret\n")
    security = ClientSecurity(
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-512",
        username="probe",
        password=Secret(file=str(password)),
        check_hostname=False,
    )
    options = client_options("a:1", security)
    assert options["ssl_context"] is not None
    assert not options["ssl_context"].check_hostname
    assert (options["sasl_mechanism"], options["sasl_plain_username"]) == ("SCRAM-SHA-512", "probe")
    assert options["sasl_plain_password"] == "s3cret"
    password.unlink()
    with pytest.raises(SecurityError, match="password"):
        client_options("a:1", security)


def test_a_cluster_of_tickets_is_refused() -> None:
    """aiokafka needs a package for GSSAPI that needs a C compiler, and Kerberos's headers."""
    kerberos = KerberosLogin(principal="alice", keytab_file="/k")
    security = ClientSecurity(protocol="SASL_SSL", mechanism="GSSAPI", kerberos=kerberos)
    with pytest.raises(SecurityError, match="another mechanism"):
        client_options("a:1", security)


async def test_a_cluster_of_tokens_gets_a_provider_of_them(tmp_path: Path) -> None:
    token = tmp_path / "token"
    security = ClientSecurity(
        protocol="SASL_PLAINTEXT",
        mechanism="OAUTHBEARER",
        oauth=OauthLogin(token_file=str(token)),
    )
    options = client_options("a:1", security)
    assert options["sasl_mechanism"] == "OAUTHBEARER"
    assert "sasl_plain_username" not in options
    provider = options["sasl_oauth_token_provider"]
    # Other errors than aiokafka's own would end its background tasks.
    with pytest.raises(AuthenticationFailedError, match="token"):
        await provider.token()
    token.write_text("opaque")
    assert await provider.token() == "opaque"
