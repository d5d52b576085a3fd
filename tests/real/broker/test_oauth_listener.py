"""OAUTHBEARER: outside clients with tokens, refused tokens, keys and sessions that end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens

from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import NewTopic
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.security.authentication.oauth.settings import OauthSettings
from local_cluster.settings import Listener
from tests.support.authority import Authority
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.issuer import Issuer
from tests.support.quiet_ports import quiet_ports

pytestmark = pytest.mark.real

SECONDS_MAX = 30.0
REFUSED_MS = 4_000
TAKEN_MS = 25_000
"""Of a login that has to succeed, on a machine with other work."""
TOPIC = "t"


class Secured:
    """A broker that takes the tokens of an issuer, and their records."""

    def __init__(self, broker: BrokerProcess, issuer: Issuer, ca_file: Path, keys: Path) -> None:
        self.broker = broker
        self.issuer = issuer
        self.ca_file = ca_file
        self.keys_file = keys
        self.address = f"127.0.0.1:{broker.settings.listeners[1].port}"

    def librdkafka(self, tokens: list[tuple[str, float]], **more: Any) -> confluent_kafka.Producer:
        """Return a producer that takes the next of `tokens` at each login, the last one again."""

        def next_token(config: str) -> tuple[str, float]:
            return tokens.pop(0) if len(tokens) > 1 else tokens[0]

        return confluent_kafka.Producer(
            {
                "bootstrap.servers": self.address,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "ssl.ca.location": str(self.ca_file),
                "oauth_cb": next_token,
                **more,
            }
        )

    def produce(self, producer: confluent_kafka.Producer) -> Exception | None:
        """Produce a record; return the error if it does not arrive."""
        found: list[Any] = []
        producer.produce(TOPIC, b"x", on_delivery=lambda error, _: found.append(error))
        producer.flush(SECONDS_MAX)
        assert found, "neither written nor refused"
        return found[0] and confluent_kafka.KafkaException(found[0])

    def is_taken(self, token: str, *, within_ms: int = REFUSED_MS) -> bool:
        """Whether a new client gets in with a token: one that is refused tries again until then."""
        ends = time.time() + 600
        producer = self.librdkafka([(token, ends)], **{"message.timeout.ms": within_ms})
        return self.produce(producer) is None


@pytest.fixture
async def secured(chroot: str, tmp_path: Path) -> AsyncIterator[Secured]:
    authority, issuer, keys = Authority(tmp_path / "ca"), Issuer(), tmp_path / "keys.json"
    issuer.write_key_set(keys)
    (tmp_path / "admin").write_text("of-admin")
    ports = quiet_ports(2)
    tls = TlsSettings(keystore_file=str(authority.issue("broker").pem))
    listeners = [
        Listener(
            name="TOKENS",
            host="127.0.0.1",
            port=ports[0],
            security_protocol="SASL_SSL",
            tls=tls,
            sasl=SaslSettings(
                mechanisms=("OAUTHBEARER", "PLAIN"),
                users={"admin": Secret(file=str(tmp_path / "admin"))},
                oauth=OauthSettings(
                    keys_file=str(keys),
                    expected_issuer="issuer",
                    expected_audiences=("heliograph",),
                    clock_skew_seconds=0,
                ),
            ),
        )
    ]
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin;User:alice"}
    async with running_broker(chroot, tmp_path, listeners=listeners, config=config) as broker:
        made = Secured(broker, issuer, authority.ca_file, keys)
        security = ClientSecurity(
            protocol="SASL_SSL",
            mechanism="PLAIN",
            username="admin",
            password=Secret(file=str(tmp_path / "admin")),
            ca_file=str(authority.ca_file),
        )
        async with KafkaClient(made.address, security=security) as admin:
            assert (await admin.create_topics([NewTopic(name=TOPIC, partitions=1)]))[TOPIC] is None
        yield made


AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def good(issuer: Issuer, name: str = "alice", **more: Any) -> str:
    return issuer.token(name, **({"iss": "issuer", "aud": "heliograph"} | more))


async def test_outside_clients_with_tokens(secured: Secured) -> None:
    ends = time.time() + 600
    token = good(secured.issuer)
    refused = await asyncio.to_thread(secured.produce, secured.librdkafka([(token, ends)]))
    assert refused is None
    await through_aiokafka(secured, token)
    await asyncio.to_thread(through_kafka_python, secured, token)
    bob = secured.librdkafka([(good(secured.issuer, "bob"), ends)])
    error = await asyncio.to_thread(secured.produce, bob)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error), "bob is known, and has no right"
    assert token not in secured.broker.log_text()


async def test_tokens_that_prove_nothing(secured: Secured) -> None:
    issuer, stranger = secured.issuer, Issuer()
    for token, why in (
        (good(stranger), "no valid signature of the issuer"),
        (good(issuer, exp=1), "the token has expired"),
        (good(issuer, iss="you"), "the token is of another issuer"),
        (good(issuer, aud="others"), "the token is for another audience"),
    ):
        assert not await asyncio.to_thread(secured.is_taken, token), why
        assert why in secured.broker.log_text()
    assert await asyncio.to_thread(secured.is_taken, good(issuer), within_ms=TAKEN_MS)


async def test_a_new_key_needs_no_restart(secured: Secured) -> None:
    issuer = secured.issuer
    issuer.rotate(curve=None)
    assert not await asyncio.to_thread(secured.is_taken, good(issuer))
    issuer.write_key_set(secured.keys_file)
    assert await asyncio.to_thread(secured.is_taken, good(issuer), within_ms=TAKEN_MS)


async def test_a_session_lasts_as_long_as_its_token(secured: Secured) -> None:
    """A client that renews its token goes on; one that keeps an expired one is out."""
    now = time.time()
    short = good(secured.issuer, seconds=4)
    renewed = [(short, now + 4), (good(secured.issuer), now + 600)]
    going_on = secured.librdkafka(renewed)
    stale = secured.librdkafka([(short, now + 600)], **{"message.timeout.ms": 4_000})
    assert await asyncio.to_thread(secured.produce, going_on) is None
    assert await asyncio.to_thread(secured.produce, stale) is None
    while time.time() < now + 5:
        going_on.poll(0.1)
        stale.poll(0.1)
        await asyncio.sleep(0)
    assert await asyncio.to_thread(secured.produce, going_on) is None
    assert await asyncio.to_thread(secured.produce, stale) is not None


class AioTokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class PythonTokens(KafkaPythonTokens):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


async def through_aiokafka(secured: Secured, token: str) -> None:
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=secured.address,
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=AioTokens(token),
        ssl_context=create_ssl_context(cafile=str(secured.ca_file)),
    ) as producer:
        await producer.send_and_wait(TOPIC, b"by aiokafka")


def through_kafka_python(secured: Secured, token: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=secured.address,
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=PythonTokens(token),
        ssl_cafile=str(secured.ca_file),
    )
    producer.send(TOPIC, b"by kafka-python").get(SECONDS_MAX)
    producer.close()
