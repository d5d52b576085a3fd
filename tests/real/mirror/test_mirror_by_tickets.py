"""A mirror that logs in by Kerberos on both sides, with sessions that end while records flow."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local_cluster.client.auth.security import ClientSecurity, KerberosLogin
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.security.authentication.kerberos.settings import KerberosSettings
from local_cluster.security.authentication.listener_security import SaslSettings
from local_cluster.settings import Listener
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.kdc import Kdc, running_kdc
from tests.support.mirror_process import check_map, mirror, read_map, read_records
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_ports

pytestmark = [pytest.mark.real, pytest.mark.long]

BROKER, MIRROR = "kafka/localhost", "mirror"
SESSION_MS = 3_000
AT, COPY = TopicPartition("t", 0), TopicPartition("a.t", 0)


def listener(kdc: Kdc, port: int) -> Listener:
    return Listener(
        name="TICKETS",
        host="127.0.0.1",
        advertised_host="localhost",
        port=port,
        security_protocol="SASL_PLAINTEXT",
        sasl=SaslSettings(
            mechanisms=("GSSAPI",), kerberos=KerberosSettings(keytab_file=kdc.keytab(BROKER))
        ),
    )


def tickets_address(broker: BrokerProcess) -> str:
    return f"localhost:{broker.settings.listeners[1].port}"


async def test_nothing_is_lost_while_sessions_end(
    zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = quiet_ports(2)
    config = {"connections.max.reauth.ms": str(SESSION_MS)}
    async with running_kdc(tmp_path / "kdc", (BROKER, MIRROR)) as kdc:
        monkeypatch.setenv("KRB5_CONFIG", kdc.config())
        async with (
            running_broker(
                *(zookeeper, tmp_path / "source"),
                cluster="source",
                listeners=[listener(kdc, ports[0])],
                config=config,
            ) as source_broker,
            running_broker(
                *(zookeeper, tmp_path / "target"),
                cluster="target",
                listeners=[listener(kdc, ports[1])],
                config=config,
            ) as target_broker,
            KafkaClient(source_broker.bootstrap) as source,
            KafkaClient(target_broker.bootstrap) as target,
        ):
            new = NewTopic(name="t", partitions=1, configs={"retention.ms": "-1"})
            assert (await source.create_topics([new]))["t"] is None
            security = ClientSecurity(
                protocol="SASL_PLAINTEXT",
                mechanism="GSSAPI",
                kerberos=KerberosLogin(principal=MIRROR, keytab_file=kdc.keytab(MIRROR)),
            )
            written = 0

            async def write() -> None:
                nonlocal written
                record = NewRecord(1_790_000_000_000 + written, b"k%d" % written, b"v")
                await produce_to(source, AT, encode_batch([record]))
                written += 1

            async def is_copied() -> bool:
                return len(await read_records(target, COPY)) >= written

            async with mirror(
                *(tmp_path, tickets_address(source_broker), tickets_address(target_broker)),
                source_security=security,
                target_security=security,
            ) as worker:
                ends = asyncio.get_running_loop().time() + 3 * SESSION_MS / 1_000
                while asyncio.get_running_loop().time() < ends:
                    await write()
                    await worker.until(is_copied)
                assert await worker.stop() == 0
                assert "not renewed" not in worker.log_text()
            originals, copies = await read_records(source, AT), await read_records(target, COPY)
            assert len(originals) == written
            assert [each[1:] for each in copies] == [each[1:] for each in originals]
            check_map(await read_map(target, AT), originals, copies)
        for broker in (source_broker, target_broker):
            assert "has ended" not in broker.log_text(), "a connection was not authenticated again"
            assert "failed:" not in broker.log_text()
