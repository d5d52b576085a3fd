"""Reads a new password from a file, a variable, or standard input; never from the command line.

Functions import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from topology.cli.command_line import EXIT_USAGE, fail

PasswordFileOption = Annotated[
    str | None,
    typer.Option("--password-file", help="File with the password.", show_default=False),
]
PasswordEnvOption = Annotated[
    str | None,
    typer.Option("--password-env", help="Variable with the password.", show_default=False),
]
SOURCES: Final = "--password-file, --password-env or standard input"


def new_password(file: str | None, env: str | None) -> str:
    """Return the password from exactly one place; end the command with 2 without a usable one."""
    if file is not None and env is not None:
        fail("name one of --password-file and --password-env", code=EXIT_USAGE)
    password = _typed() if file is env is None else _stored(file, env)
    if not password or "\n" in password:
        fail(f"the password is one line that is not empty, from {SOURCES}", code=EXIT_USAGE)
    return password


def _stored(file: str | None, env: str | None) -> str:
    from local_cluster.client.auth.credentials import read_secret
    from local_cluster.client.auth.security import Secret, SecurityError

    try:
        return read_secret(Secret(file=file, env=env))
    except SecurityError as error:
        fail(f"cannot read the password: {error}", code=EXIT_USAGE)


def _typed() -> str:
    """Ask on a terminal; else read standard input."""
    from local_cluster.client.auth.credentials import SECRET_BYTES_MAX

    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    try:
        text = sys.stdin.read(SECRET_BYTES_MAX)
    except UnicodeDecodeError as error:
        fail(f"cannot read the password: {error}", code=EXIT_USAGE)
    return text.removesuffix("\n").removesuffix("\r")
