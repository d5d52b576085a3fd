"""OAUTHBEARER of our own clients: commands, librdkafka, sessions that go on, failing endpoints."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from local_cluster.client.auth.oauth.token_source import token_source
from local_cluster.client.auth.security import ClientSecurity, OauthLogin
from local_cluster.client.auth.session import NoProofError
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import Connection, connect
from local_cluster.client.model import NewTopic
from local_cluster.wire.errors import ErrorCode, KafkaError
from spark_global.addresses import ClusterAddress
from spark_global.serving.clients import librdkafka_config
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.heliograph_command import COMMAND_TIMEOUT_S
from tests.support.quiet_ports import quiet_ports
from tests.support.token_endpoint import SECRET, TokenEndpoint, token_endpoint

pytestmark = pytest.mark.real

TOPIC = "t"
TIMEOUT_MS = 20_000
SHORT_SECONDS = 6
ROOT = Path(__file__).parents[3]


@dataclass
class Secured:
    """A broker that takes tokens only, and the endpoint that gives them."""

    broker: BrokerProcess
    endpoint: TokenEndpoint

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.broker.settings.listeners[1].port}"

    async def connect(self, security: ClientSecurity | None = None) -> Connection:
        host, port = self.address.split(":")
        return await connect(
            host,
            int(port),
            client_id="test",
            timeout_ms=TIMEOUT_MS,
            security=security or self.endpoint.security(),
        )

    async def command(
        self, *arguments: str, security: ClientSecurity | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        file = self.endpoint.directory / "security.yaml"
        settings = {k: v for k, v in asdict(security or self.endpoint.security()).items() if v}
        settings["oauth"] = {k: v for k, v in settings["oauth"].items() if v}
        settings["oauth"]["client_secret"].pop("env")
        settings["oauth"]["extensions"] = dict(settings["oauth"]["extensions"])
        file.write_text(json.dumps(settings))
        at = ("--bootstrap", self.address, "--security", str(file))
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "topology", *arguments, *at],
            cwd=ROOT,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )


@pytest.fixture
async def secured(chroot: str, tmp_path: Path) -> AsyncIterator[Secured]:
    async with token_endpoint(tmp_path / "issuer", tls=True) as endpoint:
        listener = endpoint.listener(quiet_ports(1)[0])
        async with running_broker(chroot, tmp_path, listeners=[listener]) as broker:
            async with KafkaClient(broker.bootstrap) as admin:
                made = await admin.create_topics([NewTopic(name=TOPIC, partitions=1)])
                assert made[TOPIC] is None
            yield Secured(broker, endpoint)
            log_text = broker.log_text()
            assert not any(token in log_text for token in endpoint.tokens)


async def test_commands_produce_and_consume_by_tokens(secured: Secured) -> None:
    done = await secured.command("produce", TOPIC, stdin="one\ntwo\n")
    assert done.returncode == 0, done.stderr
    done = await secured.command("consume", TOPIC, "--format", "{value}")
    assert (done.returncode, done.stdout.split()) == (0, ["one", "two"]), done.stderr
    done = await secured.command("topic", "list", "-o", "json")
    assert TOPIC in done.stdout, done.stderr
    assert len(secured.endpoint.tokens) == 3, "aiokafka and our own client share a token"


async def test_a_wrong_secret_is_named_and_not_shown(secured: Secured) -> None:
    wrong = secured.endpoint.directory / "wrong"
    wrong.write_text("of-somebody-else")
    security = secured.endpoint.security("writer", wrong)
    done = await secured.command("produce", TOPIC, security=security, stdin="one\n")
    assert done.returncode == 1
    why = "refuses client writer or its secret (invalid_client, HTTP status 401)"
    assert f"token endpoint {secured.endpoint.url} {why}" in done.stderr
    assert "of-somebody-else" not in done.stderr + done.stdout
    with pytest.raises(KafkaError, match="refuses client writer") as caught:
        await secured.connect(security)
    assert caught.value.code == ErrorCode.sasl_authentication_failed
    wrong.write_text(SECRET)
    await asyncio.sleep(1.1)  # the endpoint is left alone for a second after a failure
    await (await secured.connect(security)).close()


async def test_connections_outlive_their_tokens(secured: Secured) -> None:
    """KIP-368: requests of a connection go on over several tokens, in their order."""
    secured.endpoint.lifetime_s = SHORT_SECONDS
    connection = await secured.connect()
    calls = 0

    async def call_until_renewed() -> None:
        nonlocal calls
        while len(secured.endpoint.tokens) < 4:
            await connection.negotiate()
            calls += 1

    async with asyncio.timeout(120):
        await asyncio.gather(*(call_until_renewed() for _ in range(5)))
        # The session by the last but one token has ended when the last one has been given for long.
        await asyncio.sleep(SHORT_SECONDS)
        await connection.negotiate()
    assert calls > 100
    assert not connection.is_closed
    assert "has ended" not in secured.broker.log_text()
    assert "authentication by OAUTHBEARER failed" not in secured.broker.log_text()
    await connection.close()


async def test_librdkafka_renews_its_tokens(secured: Secured) -> None:
    secured.endpoint.lifetime_s = SHORT_SECONDS
    address = ClusterAddress(secured.address, secured.endpoint.security())
    errors: list[Any] = []

    def produce() -> None:
        producer = confluent_kafka.Producer(librdkafka_config(address) | {"log_level": 6})
        while len(secured.endpoint.tokens) < 3:
            producer.produce(TOPIC, b"x", on_delivery=lambda error, _: errors.append(error))
            producer.flush(30)

    await asyncio.wait_for(asyncio.to_thread(produce), 120)
    assert errors
    assert not any(errors)
    assert "has ended" not in secured.broker.log_text()


async def test_an_endpoint_that_is_away_ends_nothing_before_its_time(secured: Secured) -> None:
    secured.endpoint.lifetime_s = 10
    security = secured.endpoint.security("patient")
    connection = await secured.connect(security)
    secured.endpoint.status = 503
    await (await secured.connect(security)).close()
    with pytest.raises(NoProofError, match="HTTP status 503") as caught:
        await secured.connect(secured.endpoint.security("another"))
    assert caught.value.code == ErrorCode.network_exception
    await connection.close()
    # A renewal fails, and succeeds before the token ends.
    secured.endpoint.status = 200
    connection = await secured.connect(secured.endpoint.security("third"))
    secured.endpoint.status, secured.endpoint.failures = 503, 0
    given = len(secured.endpoint.tokens)
    async with asyncio.timeout(60):
        while len(secured.endpoint.tokens) == given:
            await connection.negotiate()
            if secured.endpoint.failures:
                secured.endpoint.status = 200
    await connection.negotiate()
    assert not connection.is_closed
    await connection.close()


async def test_a_token_that_the_broker_refuses(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(secured.endpoint.issuer.token("alice", aud="others"))
    security = ClientSecurity(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        oauth=OauthLogin(token_file=str(file)),
        ca_file=str(secured.endpoint.authority.ca_file),
    )
    with pytest.raises(KafkaError, match="the token is for another audience") as caught:
        await secured.connect(security)
    assert caught.value.code == ErrorCode.sasl_authentication_failed
    file.write_text(secured.endpoint.issuer.token("alice", aud="heliograph"))
    await (await secured.connect(security)).close()
    assert security.oauth is not None
    assert token_source(security.oauth).token().value == file.read_text()
