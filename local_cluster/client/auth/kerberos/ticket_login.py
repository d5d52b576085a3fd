"""SHELL: log in by tickets of this process. What blocks runs in a few threads of its own.

Tickets of a principal stay in the memory of the process. The library requests new ones by the
keytab, before they end.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, ParamSpec, TypeVar

from local_cluster.client.auth.kerberos.gss_library import gss_library
from local_cluster.client.auth.kerberos.gss_login import GssLogin
from local_cluster.client.auth.kerberos.settings import KerberosLogin

THREADS_MAX: Final = 4
"""Of a process, for all logins by tickets; others wait."""

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


async def run_beside(
    call: Callable[_Arguments, _Result], *arguments: _Arguments.args, **named: _Arguments.kwargs
) -> _Result:
    """Call what blocks, beside the loop."""
    return await asyncio.wrap_future(_threads().submit(call, *arguments, **named))


def begin_login(login: KerberosLogin, host: str) -> GssLogin:
    """Return an authentication with the broker on a host. Blocks. Raises GssError."""
    library = gss_library()
    name = library.principal(login.principal)
    credential = library.initiator(name, login.keytab_file, _cache_name(login))
    return GssLogin(library.initiate(credential, library.service(f"{login.service_name}@{host}")))


def fetch_ticket(login: KerberosLogin, host: str) -> None:
    """Have a ticket for the broker on a host, from now on. Blocks. Raises GssError."""
    begin_login(login, host).first()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS_MAX, "kerberos")


def _cache_name(login: KerberosLogin) -> str:
    """Name the tickets of a principal and a keytab; no other process sees them."""
    whose = f"{login.principal}\n{login.keytab_file}".encode()
    return f"MEMORY:heliograph-{hashlib.sha256(whose).hexdigest()[:16]}"
