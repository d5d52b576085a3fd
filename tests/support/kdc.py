"""A key distribution centre of one test: Apache Kerby by Maven, with keytabs of its principals."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from local_cluster.client.auth.kerberos.gss_library import GssUnavailableError, gss_library
from tests.support.kafka_from_maven import SHORT_LIFE, fetched_jars
from tests.support.quiet_ports import quiet_port

REALM: Final = "EXAMPLE.COM"
WAIT_SECONDS: Final = 60.0
_KERBEROS: Final = Path(__file__).parents[1] / "compat" / "kerberos"
_CONFIG: Final = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  {more}
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
"""


@dataclass
class Kdc:
    """The centre, and the files of its clients."""

    directory: Path
    port: int
    process: asyncio.subprocess.Process

    def keytab(self, principal: str) -> str:
        return str(self.directory / f"{principal.replace('/', '_')}.keytab")

    def config(self, name: str = "krb5.conf", *, port: int = 0, more: str = "") -> str:
        """Write a krb5.conf, and return its path.

        `more` is in its libdefaults. The centre is said to be at another `port`, if one is given.
        """
        path = self.directory / name
        path.write_text(_CONFIG.format(realm=REALM, port=port or self.port, more=more))
        return str(path)

    async def new_key(self, principal: str) -> None:
        """Give a principal another key; its keytab has only that."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"new {principal}\n".encode())
        await self.read_line("done")

    async def read_line(self, wanted: str) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            while (line := await self.process.stdout.readline()).decode().strip() != wanted:
                assert line, (self.directory / "kdc.log").read_text()


@contextlib.asynccontextmanager
async def running_kdc(directory: Path, principals: Sequence[str]) -> AsyncIterator[Kdc]:
    """A centre on a free port; skips the test where it, or the GSSAPI library, cannot be had."""
    try:
        gss_library()
    except GssUnavailableError as error:
        pytest.skip(str(error))
    jars = await asyncio.to_thread(fetched_jars, _KERBEROS / "pom.xml")
    directory.mkdir(parents=True, exist_ok=True)
    port = quiet_port()
    with (directory / "kdc.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("java", *SHORT_LIFE, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
            *("-cp", f"{jars}/*", str(_KERBEROS / "RunKdc.java")),
            *(str(directory), REALM, str(port), *principals),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        kdc = Kdc(directory, port, process)
        await kdc.read_line("ready")
        yield kdc
    finally:
        process.kill()
        await process.wait()
