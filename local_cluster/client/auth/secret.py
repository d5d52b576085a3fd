"""Where a secret is, and the error of one that cannot be used. Pure; credentials.py reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict


class SecurityError(Exception):
    """A secret, a token or a certificate cannot be read. The message does not contain it."""


class ProofUnavailableError(SecurityError):
    """There is no token or ticket now, because who gives them does not answer; a later one may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Where a secret is: in a file or in an environment variable."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    file: str | None = None
    """Path of a file that holds it. One line end after it does not count."""
    env: str | None = None
    """Name of an environment variable that holds it."""

    def __post_init__(self) -> None:
        if (self.file is None) == (self.env is None):
            raise ValueError("a secret is either in `file` or in `env`")
