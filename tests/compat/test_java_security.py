"""Kafka's own tools of 4.4 against listeners with SASL over TLS: SCRAM, tokens, certificates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from local_cluster.client.auth.oauth.java_configs import allowed_properties
from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.security.authentication.listener_security import SaslSettings, TlsSettings
from local_cluster.security.authentication.oauth.settings import OauthSettings
from local_cluster.settings import Listener
from tests.support.authority import STORE_PASSWORD, Authority
from tests.support.cluster import BrokerProcess, running_broker
from tests.support.issuer import Issuer
from tests.support.java_process import run_java
from tests.support.quiet_ports import quiet_ports
from tests.support.token_endpoint import SECRET, token_endpoint
from topology.certificates.client_properties import java_properties, properties_text

pytestmark = [pytest.mark.real, pytest.mark.oracle]

PASSWORD = "of-the-user"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def broker(
    zookeeper: str, tmp_path: Path, authority: Authority, issuer: Issuer
) -> AsyncIterator[BrokerProcess]:
    (tmp_path / "admin").write_text(PASSWORD)
    pem = str(authority.issue("broker").pem)
    issuer.write_key_set(tmp_path / "keys.json")
    ports = quiet_ports(3)
    listeners = [
        Listener(
            name="SASL",
            host="127.0.0.1",
            port=ports[0],
            security_protocol="SASL_SSL",
            sasl=SaslSettings(
                mechanisms=("SCRAM-SHA-256", "SCRAM-SHA-512"),
                users={"admin": Secret(file=str(tmp_path / "admin"))},
            ),
            tls=TlsSettings(keystore_file=pem),
        ),
        Listener(
            name="CERTIFICATES",
            host="127.0.0.1",
            port=ports[1],
            security_protocol="SSL",
            tls=TlsSettings(
                keystore_file=pem,
                truststore_file=str(authority.ca_file),
                client_auth="required",
            ),
        ),
        Listener(
            name="TOKENS",
            host="127.0.0.1",
            port=ports[2],
            security_protocol="SASL_SSL",
            sasl=SaslSettings(
                mechanisms=("OAUTHBEARER",),
                oauth=OauthSettings(keys_file=str(tmp_path / "keys.json")),
            ),
            tls=TlsSettings(keystore_file=pem),
        ),
    ]
    async with running_broker(zookeeper, tmp_path, listeners=listeners) as broker:
        yield broker


async def tool(
    port: int,
    config: Path,
    name: str,
    *arguments: str,
    lines: str = "",
    options: Sequence[str] = (),
) -> str:
    program = name if name.startswith("kafka.") else f"org.apache.kafka.tools.{name}"
    option = "--command-config"
    return await run_java(
        program,
        *("--bootstrap-server", f"127.0.0.1:{port}", option, str(config)),
        *arguments,
        lines=lines,
        options=options,
    )


def client_config(path: Path, authority: Authority, lines: list[str]) -> Path:
    trust = [
        f"ssl.truststore.location={authority.truststore}",
        "ssl.truststore.type=PKCS12",
        f"ssl.truststore.password={STORE_PASSWORD}",
    ]
    path.write_text("\n".join([*trust, *lines]) + "\n")
    return path


def scram_config(path: Path, authority: Authority, user: str, mechanism: str) -> Path:
    return client_config(
        path,
        authority,
        [
            "security.protocol=SASL_SSL",
            f"sasl.mechanism={mechanism}",
            f'sasl.jaas.config={_LOGIN} username="{user}" password="{PASSWORD}";',
        ],
    )


async def test_users_by_kafka_configs_and_records_by_the_console(
    broker: BrokerProcess, authority: Authority, tmp_path: Path
) -> None:
    port = broker.settings.listeners[1].port
    admin = scram_config(tmp_path / "admin.properties", authority, "admin", "SCRAM-SHA-512")
    users = ["--entity-type", "users", "--entity-name", "bob"]
    configs = "kafka.admin.ConfigCommand"
    # Two calls, as the tool demands, for one znode.
    for added in (
        f"SCRAM-SHA-256=[iterations=8192,password={PASSWORD}]",
        "producer_byte_rate=1048576",
    ):
        await tool(port, admin, configs, "--alter", *users, "--add-config", added)
    described = await tool(port, admin, configs, "--describe", *users)
    assert (
        "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-256=iterations=8192"
        in (described)
    )
    assert "Quota configs for user-principal 'bob' are producer_byte_rate=1048576.0" in described
    bob = scram_config(tmp_path / "bob.properties", authority, "bob", "SCRAM-SHA-256")
    lines = "".join(f"{number}\n" for number in range(1_000))
    await tool(port, bob, "ConsoleProducer", "--topic", "numbers", lines=lines)
    arguments = ["--topic", "numbers", "--from-beginning", "--max-messages", "1000"]
    told = await tool(port, bob, "consumer.ConsoleConsumer", *arguments)
    assert sorted(told.split(), key=int) == lines.split()
    await tool(port, admin, configs, "--alter", *users, "--delete-config", "SCRAM-SHA-256")
    described = await tool(port, admin, configs, "--describe", *users)
    assert "SCRAM-SHA-256" not in described
    assert "producer_byte_rate" in described


async def test_a_java_client_with_a_certificate(
    broker: BrokerProcess, authority: Authority, tmp_path: Path
) -> None:
    store = authority.issue("alice").store
    config = client_config(
        tmp_path / "alice.properties",
        authority,
        [
            "security.protocol=SSL",
            f"ssl.keystore.location={store}",
            "ssl.keystore.type=PKCS12",
            f"ssl.keystore.password={STORE_PASSWORD}",
        ],
    )
    port = broker.settings.listeners[2].port
    await tool(port, config, "TopicCommand", "--create", "--topic", "t", "--partitions", "2")
    assert "PartitionCount: 2" in await tool(port, config, "TopicCommand", "--describe")


async def test_a_java_client_with_a_token(
    broker: BrokerProcess, authority: Authority, issuer: Issuer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(issuer.token("alice"))
    oauth = "org.apache.kafka.common.security.oauthbearer"
    config = client_config(
        tmp_path / "alice.properties",
        authority,
        [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=OAUTHBEARER",
            f"sasl.jaas.config={oauth}.OAuthBearerLoginModule required;",
            f"sasl.login.callback.handler.class={oauth}.OAuthBearerLoginCallbackHandler",
            f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}",
        ],
    )
    allowed = tuple(
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{name}={value}"
        for name, value in (("urls", token.as_uri()), ("files", str(token)))
    )
    port = broker.settings.listeners[3].port
    command = ("TopicCommand", "--create", "--topic", "t", "--partitions", "2")
    await tool(port, config, *command, options=allowed)
    token.write_text(Issuer().token("alice"))
    with pytest.raises(AssertionError, match="no valid signature of the issuer"):
        await tool(port, config, "TopicCommand", "--describe", options=allowed)


async def test_a_java_client_with_the_settings_of_ours(
    broker: BrokerProcess, authority: Authority, issuer: Issuer, tmp_path: Path
) -> None:
    async with token_endpoint(tmp_path / "issuer") as endpoint:
        endpoint.issuer = issuer
        login = endpoint.security("bob").oauth
        assert login is not None
        security = ClientSecurity(
            protocol="SASL_SSL",
            mechanism="OAUTHBEARER",
            oauth=login,
            ca_file=str(authority.ca_file),
        )
        port = broker.settings.listeners[3].port
        config = tmp_path / "bob.properties"
        config.write_text(properties_text(java_properties(f"127.0.0.1:{port}", security, SECRET)))
        allowed = [f"-D{name}={value}" for name, value in allowed_properties(login).items()]
        command = ("TopicCommand", "--create", "--topic", "bobs", "--partitions", "2")
        await tool(port, config, *command, options=allowed)
        assert len(endpoint.tokens) == 1
