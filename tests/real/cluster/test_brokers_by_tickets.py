"""Brokers that prove to each other who they are by Kerberos."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

import pytest

from local_cluster.client.auth.security import ClientSecurity, KerberosLogin
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.security.authentication.kerberos.settings import KerberosSettings
from local_cluster.security.authentication.listener_security import SaslSettings
from local_cluster.settings import Listener
from tests.support.cluster import running_broker
from tests.support.kdc import running_kdc
from tests.support.producing import produce_to
from tests.support.quiet_ports import quiet_port

pytestmark = [pytest.mark.real, pytest.mark.long]

SERVICE, BROKER = "kafka/localhost", "broker"
SESSION_MS: Final = 2_000
RECORDS: Final = 40
WAIT_SECONDS: Final = 60.0


async def test_brokers_replicate_while_their_sessions_end(
    chroot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_kdc(tmp_path / "kdc", (SERVICE, BROKER)) as kdc:
        monkeypatch.setenv("KRB5_CONFIG", kdc.config())
        security = ClientSecurity(
            protocol="SASL_PLAINTEXT",
            mechanism="GSSAPI",
            kerberos=KerberosLogin(principal=BROKER, keytab_file=kdc.keytab(BROKER)),
        )
        kerberos = KerberosSettings(keytab_file=kdc.keytab(SERVICE))
        async with contextlib.AsyncExitStack() as stack:
            brokers = []
            for broker_id in (1, 2):
                listener = Listener(
                    name="INTERNAL",
                    host="127.0.0.1",
                    advertised_host="localhost",
                    port=quiet_port(),
                    security_protocol="SASL_PLAINTEXT",
                    sasl=SaslSettings(mechanisms=("GSSAPI",), kerberos=kerberos),
                )
                broker = running_broker(
                    chroot,
                    tmp_path,
                    broker_id=broker_id,
                    listeners=[listener],
                    settings={
                        "inter_broker_listener": "INTERNAL",
                        "inter_broker_security": security,
                        "broker_principals": (f"User:{BROKER}",),
                    },
                    config={
                        "connections.max.reauth.ms": str(SESSION_MS),
                        "min.insync.replicas": "2",
                    },
                )
                brokers.append(await stack.enter_async_context(broker))
            async with KafkaClient(brokers[0].bootstrap) as client:
                new = NewTopic(name="t", partitions=1, replication_factor=2)
                assert (await client.create_topics([new]))["t"] is None
                at = TopicPartition("t", 0)
                for number in range(RECORDS):
                    # With two in-sync replicas at least, each is replicated before the answer.
                    await produce_to(client, at, encode_batch([NewRecord(number, b"k", b"v")]))
                    await asyncio.sleep(4 * SESSION_MS / 1_000 / RECORDS)
                async with asyncio.timeout(WAIT_SECONDS):
                    while (await client.list_offsets({at: -1}))[at].offset != RECORDS:
                        await asyncio.sleep(0.1)
            for each in brokers:
                assert "has ended" not in each.log_text()
                assert "not renewed" not in each.log_text()
