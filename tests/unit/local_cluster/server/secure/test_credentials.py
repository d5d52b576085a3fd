"""Own users of a listener: their passwords are derived once, and again when they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.auth.scram import ScramClient
from local_cluster.client.auth.security import Secret
from local_cluster.clock import SystemClock
from local_cluster.security.authentication.exchanges import AuthenticationError
from local_cluster.security.authentication.listener_security import SaslSettings
from local_cluster.security.authentication.scram_credentials import ScramCredential
from local_cluster.server.secure.credentials import Credentials

MECHANISM = "SCRAM-SHA-512"


class NoUsers:
    """A ZooKeeper without users."""

    def find(self, mechanism: str, username: str) -> ScramCredential | None:
        return None


def credentials(secret: Secret) -> Credentials:
    return Credentials(SaslSettings(users={"broker": secret}), NoUsers(), SystemClock())


def log_in(to: Credentials, password: str, username: str = "broker") -> str:
    """Log in, and return the salt. Raises AuthenticationError."""
    exchange = to.exchange(MECHANISM)
    client = ScramClient(MECHANISM, username, password, "nonce")
    challenge = exchange.respond(client.first())
    client.verify(exchange.respond(client.final(challenge)))
    return challenge.decode().split(",")[1]


def test_a_password_is_derived_again_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "broker"
    file.write_text("first\n")
    users = credentials(Secret(file=str(file)))
    salt = log_in(users, "first")
    assert log_in(users, "first") == salt
    fresh = tmp_path / "fresh"
    fresh.write_text("other\n")
    fresh.replace(file)
    with pytest.raises(AuthenticationError):
        log_in(users, "first")
    assert log_in(users, "other") != salt
    file.unlink()
    with pytest.raises(AuthenticationError):
        log_in(users, "other")
    file.write_text("third\n")
    log_in(users, "third")


def test_a_password_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_BROKER", "first")
    users = credentials(Secret(env="OF_BROKER"))
    salt = log_in(users, "first")
    assert log_in(users, "first") == salt
    monkeypatch.delenv("OF_BROKER")
    with pytest.raises(AuthenticationError):
        log_in(users, "first")


def test_an_unknown_user_has_a_salt_that_stays(tmp_path: Path) -> None:
    file = tmp_path / "broker"
    file.write_text("first")
    users = credentials(Secret(file=str(file)))
    challenges = set()
    for _ in range(2):
        exchange = users.exchange(MECHANISM)
        client = ScramClient(MECHANISM, "nobody", "first", "nonce")
        challenge = exchange.respond(client.first())
        challenges.add(challenge.decode().split(",")[1])
        with pytest.raises(AuthenticationError):
            exchange.respond(client.final(challenge))
    assert len(challenges) == 1
