"""SHELL: log in by tickets of this process. What blocks runs in a few threads of its own.

Tickets of a principal stay in the memory of the process. The library requests new ones by the
keytab, before they end. A centre that takes a connection and says nothing holds a thread for half a
minute. So the threads are daemons: a process that ends does not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from local_cluster.client.auth.kerberos.gss_library import gss_library
from local_cluster.client.auth.kerberos.gss_login import GssLogin
from local_cluster.client.auth.kerberos.settings import KerberosLogin

THREADS_MAX: Final = 4
"""Of an event loop, for all logins by tickets; others wait."""

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_SLOTS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = WeakKeyDictionary()


async def run_beside(
    call: Callable[_Arguments, _Result], *arguments: _Arguments.args, **named: _Arguments.kwargs
) -> _Result:
    """Call what blocks, beside the loop. Who is cancelled leaves the thread to its end."""
    loop = asyncio.get_running_loop()
    slots = _SLOTS.setdefault(loop, asyncio.Semaphore(THREADS_MAX))
    result: Future[_Result] = Future()

    def work() -> None:
        with contextlib.suppress(InvalidStateError):  # cancelled
            try:
                result.set_result(call(*arguments, **named))
            except Exception as error:  # noqa: BLE001 - it is the caller's
                result.set_exception(error)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(slots.release)

    await slots.acquire()
    threading.Thread(target=work, name="kerberos", daemon=True).start()
    return await asyncio.wrap_future(result)


def begin_login(login: KerberosLogin, host: str) -> GssLogin:
    """Return an authentication with the broker on a host. Blocks. Raises GssError."""
    library = gss_library()
    name = library.principal(login.principal)
    credential = library.initiator(name, login.keytab_file, _cache_name(login))
    return GssLogin(library.initiate(credential, library.service(f"{login.service_name}@{host}")))


def fetch_ticket(login: KerberosLogin, host: str) -> None:
    """Have a ticket for the broker on a host, from now on. Blocks. Raises GssError."""
    begin_login(login, host).first()


def _cache_name(login: KerberosLogin) -> str:
    """Name the tickets of a principal and a keytab; no other process sees them."""
    whose = f"{login.principal}\n{login.keytab_file}".encode()
    return f"MEMORY:heliograph-{hashlib.sha256(whose).hexdigest()[:16]}"
