"""Spark's Kafka connector on our broker by OAUTHBEARER and by GSSAPI: a stream and a read."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

import pytest

from local_cluster.client.auth.security import ClientSecurity, KerberosLogin
from local_cluster.security.authentication.kerberos.settings import KerberosSettings
from local_cluster.security.authentication.listener_security import SaslSettings
from local_cluster.settings import Listener
from spark_global.addresses import encode_security
from spark_global.links import encode_links
from tests.support.aggregated import SHIFT, Aggregated
from tests.support.cluster import running_broker
from tests.support.kafka_from_maven import connector_jars
from tests.support.kdc import running_kdc
from tests.support.quiet_ports import quiet_ports
from tests.support.token_endpoint import SECRET, token_endpoint

pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.long, pytest.mark.timeout(600)]

BROKER: Final = "kafka/localhost"
TOPIC: Final = "flights"
RECORDS: Final = 25


async def fill(bootstrap: str) -> str:
    """Write a copy and its map; return the links."""
    nyc = Aggregated(bootstrap, asyncio.Runner())  # the runner is not needed on a loop
    await nyc.create(f"jfk.{TOPIC}")
    await nyc.publish_map("jfk", TOPIC, RECORDS)
    await nyc.copy(f"jfk.{TOPIC}", range(RECORDS))
    return encode_links(nyc.aggregate("jfk").links)


async def check(bootstrap: str, links: str, security: ClientSecurity, out: Path) -> str:
    """Stream and read all records by the connector; return all that Spark showed and wrote."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.connector_stream_job"),
        *(bootstrap, links, str(connector_jars()), TOPIC, str(out), encode_security(security)),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said = b"".join(await process.communicate()).decode()
    assert process.returncode == 0, said[-6000:]
    batches = [json.loads(path.read_text()) for path in sorted(out.glob("[0-9]*"))]
    ours = json.loads((out / "ours").read_text())
    assert len(batches) > 1 and sorted(row for rows in batches for row in rows) == ours
    assert json.loads((out / "read").read_text()) == ours
    assert [row[3] for row in ours] == [str(SHIFT + n) for n in range(RECORDS)]
    written = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    return said + "".join(each.decode(errors="replace") for each in written)


async def test_by_tokens_of_an_endpoint(zookeeper: str, tmp_path: Path) -> None:
    chroot = f"{zookeeper}/connector-tokens"
    async with token_endpoint(tmp_path / "issuer", tls=True) as endpoint:
        listener = endpoint.listener(quiet_ports(1)[0])
        async with running_broker(chroot, tmp_path / "broker", listeners=[listener]) as broker:
            links = await fill(broker.bootstrap)
            shown = await check(
                f"127.0.0.1:{listener.port}", links, endpoint.security(), tmp_path / "out"
            )
        assert endpoint.tokens and SECRET not in shown
        assert not any(token in shown for token in endpoint.tokens)


async def test_by_tickets(zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chroot = f"{zookeeper}/connector-tickets"
    async with running_kdc(tmp_path / "kdc", (BROKER, "analyst")) as kdc:
        monkeypatch.setenv("KRB5_CONFIG", kdc.config())
        listener = Listener(
            name="TICKETS",
            host="127.0.0.1",
            advertised_host="localhost",
            port=quiet_ports(1)[0],
            security_protocol="SASL_PLAINTEXT",
            sasl=SaslSettings(
                mechanisms=("GSSAPI",), kerberos=KerberosSettings(keytab_file=kdc.keytab(BROKER))
            ),
        )
        security = ClientSecurity(
            protocol="SASL_PLAINTEXT",
            mechanism="GSSAPI",
            kerberos=KerberosLogin(principal="analyst", keytab_file=kdc.keytab("analyst")),
        )
        async with running_broker(chroot, tmp_path / "broker", listeners=[listener]) as broker:
            links = await fill(broker.bootstrap)
            await check(f"localhost:{listener.port}", links, security, tmp_path / "out")
