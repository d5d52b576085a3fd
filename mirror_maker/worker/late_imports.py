"""The HTTP modules of a worker, imported when they are needed.

They are nearly half of all that a worker imports, and copying should begin before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cluster.http_security.settings import HttpSecurity

if TYPE_CHECKING:
    from local_cluster.http_security.guard import HttpGuard
    from mirror_maker.worker.http import StatusServer


def http_server_type() -> type[StatusServer]:
    from mirror_maker.worker.http import StatusServer

    return StatusServer


def http_guard(security: HttpSecurity) -> HttpGuard:
    """Read tokens and certificates. Raises SecurityError."""
    from local_cluster.http_security.guard import HttpGuard

    return HttpGuard(security)
