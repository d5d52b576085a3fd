"""Tokens are read again when their files change, and never appear in messages."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from local_cluster.client.auth.security import Secret, SecurityError
from local_cluster.http_security.decision import digest
from local_cluster.http_security.settings import HttpSecurity
from local_cluster.http_security.tokens import ValidTokens, read_token

OLD, NEW = "the-old-token-0123456789", "the-new-token-0123456789"


def replace(path: Path, text: str) -> None:
    """Write a file as `mv` does."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{OLD}\n")
    return path


def test_a_token_changes_without_a_moment_in_which_neither_counts(token: Path) -> None:
    further = token.with_name("further")
    tokens = ValidTokens(
        HttpSecurity(token=Secret(file=str(token)), accepted_tokens=Secret(file=str(further)))
    )
    old, new = digest(OLD), digest(NEW)
    assert tokens.newest().full == (old,)
    replace(further, f"{OLD}\n\n{NEW}\n")
    assert set(tokens.newest().full) == {old, new}
    replace(token, NEW)
    assert set(tokens.newest().full) == {old, new}
    further.unlink()
    assert tokens.newest().full == (new,)


@pytest.mark.parametrize(
    "text", ["", "short", f"{OLD} ", f"{OLD}\n{NEW}", "x" * 1025, "0123456789abcdeé"]
)
def test_what_is_no_token_is_refused_at_the_start_without_its_text(token: Path, text: str) -> None:
    token.write_text(text)
    with pytest.raises(SecurityError) as caught:
        ValidTokens(HttpSecurity(token=Secret(file=str(token))))
    assert str(token) in str(caught.value)
    assert not text or text not in str(caught.value)


def test_a_half_written_file_locks_nobody_out(
    token: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = ValidTokens(HttpSecurity(token=Secret(file=str(token))))
    with caplog.at_level(logging.INFO):
        replace(token, NEW[:5])
        assert tokens.newest().full == (digest(OLD),)
        token.unlink()
        assert tokens.newest().full == (digest(OLD),)
        token.write_text(NEW)
        assert tokens.newest().full == (digest(NEW),)
    assert "keeps its tokens" in caplog.text and "loaded again" in caplog.text
    assert OLD not in caplog.text and NEW[:5] not in caplog.text


def test_too_many_accepted_tokens_are_refused(token: Path) -> None:
    further = token.with_name("further")
    further.write_text("\n".join(f"{NEW}{number}" for number in range(9)))
    security = HttpSecurity(
        token=Secret(file=str(token)), accepted_tokens=Secret(file=str(further))
    )
    with pytest.raises(SecurityError, match="more than 8 tokens"):
        ValidTokens(security)


def test_a_token_may_be_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_TOKEN", OLD)
    assert read_token(Secret(env="HTTP_TOKEN")) == OLD
    monkeypatch.setenv("HTTP_TOKEN", "short")
    with pytest.raises(SecurityError, match="environment variable HTTP_TOKEN"):
        read_token(Secret(env="HTTP_TOKEN"))
