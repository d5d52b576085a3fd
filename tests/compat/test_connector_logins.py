"""Spark's Kafka connector on our broker by OAUTHBEARER and by GSSAPI: a stream and a read.

On a local master, and on a standalone cluster, whose executors log in too.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
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
from tests.support.connector_stream_job import MASTER
from tests.support.kafka_from_maven import connector_jars
from tests.support.kdc import running_kdc
from tests.support.quiet_ports import quiet_ports
from tests.support.spark_cluster import WORKERS, SparkCluster
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


@pytest.fixture(params=["local", "cluster"])
def spark_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkCluster | None]:
    if request.param == "local":
        yield None
        return
    cluster = SparkCluster(tmp_path_factory.mktemp("spark-cluster"))
    try:
        yield cluster
    finally:
        cluster.stop()


async def check(
    bootstrap: str,
    links: str,
    security: ClientSecurity,
    out: Path,
    cluster: SparkCluster | None,
) -> str:
    """Stream and read all records by the connector; return all that Spark showed and wrote."""
    on_cluster = {} if cluster is None else {"PYSPARK_PYTHON": str(cluster.python)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.connector_stream_job"),
        *(bootstrap, links, str(connector_jars()), TOPIC, str(out), encode_security(security)),
        MASTER if cluster is None else cluster.master,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **on_cluster, "SPARK_LOCAL_IP": "127.0.0.1"},
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
    if cluster is not None:
        logs = [list(cluster.work(number).rglob("stderr")) for number in range(WORKERS)]
        assert all(logs), "both workers had an executor"
        written += [path.read_bytes() for of_worker in logs for path in of_worker]
    return said + "".join(each.decode(errors="replace") for each in written)


async def test_by_tokens_of_an_endpoint(
    zookeeper: str, tmp_path: Path, spark_cluster: SparkCluster | None
) -> None:
    chroot = f"{zookeeper}/{tmp_path.name}"
    async with token_endpoint(tmp_path / "issuer", tls=True) as endpoint:
        listener = endpoint.listener(quiet_ports(1)[0])
        async with running_broker(chroot, tmp_path / "broker", listeners=[listener]) as broker:
            links = await fill(broker.bootstrap)
            shown = await check(
                f"127.0.0.1:{listener.port}",
                links,
                endpoint.security(),
                tmp_path / "out",
                spark_cluster,
            )
        assert endpoint.tokens and SECRET not in shown
        assert not any(token in shown for token in endpoint.tokens)


async def test_by_tickets(
    zookeeper: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark_cluster: SparkCluster | None,
) -> None:
    chroot = f"{zookeeper}/{tmp_path.name}"
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
            await check(
                f"localhost:{listener.port}", links, security, tmp_path / "out", spark_cluster
            )
