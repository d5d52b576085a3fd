"""Rules that known vulnerabilities of Kafka and its libraries teach, if no other test holds them.

docs/guarantees/security.md lists each rule with its test.
"""

from __future__ import annotations

import ast
import hashlib
import hmac
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from local_cluster.client.auth.scram import ScramClient
from local_cluster.controller.decisions.config_requests import (
    CLIENT_METRICS_RULES,
    ConfigChange,
    ConfigRules,
    broker_rules,
    changed_configs,
    group_rules,
    topic_rules,
)
from local_cluster.kafka_configs.definition import ConfigType
from local_cluster.kafka_configs.table import kafka_configs
from local_cluster.records.compress import Codec, CompressionError, decompress
from local_cluster.security.authentication.exchanges import (
    AuthenticationError,
    PlainExchange,
    ScramExchange,
)
from local_cluster.security.authentication.scram_credentials import (
    credential_of,
    decode_credential,
    encode_credential,
)
from local_cluster.security.authorization.decision import Decision, Rule
from local_cluster.security.authorization.denials import TEXT_LENGTH_MAX, Denials, Request
from local_cluster.settings import BrokerSettings
from local_cluster.wire.constants import AlterOperation
from local_cluster.wire.errors import KafkaError

ROOT = Path(__file__).parents[4]
PACKAGES = ("local_cluster", "mirror_maker", "aggregator", "spark_global", "topology")
RULES: Mapping[str, ConfigRules] = {
    "one broker": broker_rules(for_all=False),
    "all brokers": broker_rules(for_all=True),
    "topic": topic_rules({}),
    "group": group_rules({}),
    "client metrics": CLIENT_METRICS_RULES,
}
PLACES = ("", "listener.name.external.", "listener.name.external.plain.")
"""The prefixes under which Kafka looks up configs of a listener."""
WORDS_OF_PLACES = ("jaas", ".url", "urls", ".class", ".location", ".file", "provider", "command")
"""Words in the names of configs that name code, a file or an address."""


def configs_that_name_places() -> list[str]:
    """Return the broker configs of Kafka that name a class, a file, a URL or a login module."""
    return sorted(
        name
        for name, config in kafka_configs("broker").items()
        if config.type is ConfigType.CLASS or any(word in name for word in WORDS_OF_PLACES)
    )


@pytest.mark.parametrize("kind", RULES)
def test_no_api_sets_a_config_that_names_code_a_file_or_a_url(kind: str) -> None:
    """CVE-2023-25194, CVE-2025-27818, CVE-2025-27819, CVE-2025-27817."""
    names = configs_that_name_places()
    assert {
        "sasl.jaas.config",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.engine.factory.class",
        "ssl.keystore.location",
    } <= set(names), "the table of Kafka's configs has them"
    for name in (place + name for name in names for place in PLACES):
        for operation in (AlterOperation.SET, AlterOperation.APPEND):
            with pytest.raises(KafkaError):
                changed_configs({}, [ConfigChange(name, operation, "x")], RULES[kind])


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("value", ["${env:HOME}", "${file:/etc/passwd:root}", "$HOME", "%(home)s"])
def test_values_that_come_by_an_api_are_never_expanded(
    kind: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CVE-2024-31141: such a value is refused, or kept as the text that it is."""
    monkeypatch.setenv("HOME", "planted")
    known = RULES[kind].known
    assert known
    for name in known:
        try:
            kept = changed_configs({}, [ConfigChange(name, AlterOperation.SET, value)], RULES[kind])
        except KafkaError as error:
            assert "planted" not in str(error)
        else:
            assert kept == {name: value}


def test_keys_of_tokens_come_only_from_listed_addresses() -> None:
    """CVE-2025-27817: the list is empty by default, and only the operator's file has it."""
    adapter, url = TypeAdapter(BrokerSettings), "https://issuer.example/keys"
    sasl = {"mechanisms": ["OAUTHBEARER"], "oauth": {"keys_url": url}}
    listener = {"name": "L", "host": "h", "port": 0, "security_protocol": "SASL_PLAINTEXT"}
    fields = {
        "cluster": "c",
        "broker_id": 1,
        "listeners": [{"name": "I", "host": "h", "port": 0}, {**listener, "sasl": sasl}],
        "inter_broker_listener": "I",
        "zookeeper_connect": "z",
        "log_dirs": ["d"],
        "ready_file": "r",
    }
    for allowed in ({}, {"oauth_allowed_urls": ["https://issuer.example/"]}):
        with pytest.raises(ValidationError, match="oauth_allowed_urls"):
            adapter.validate_python({**fields, **allowed})
    assert adapter.validate_python({**fields, "oauth_allowed_urls": [url]}).listeners[1].sasl


class _Names(ast.NodeVisitor):
    """Collects the modules that a file imports, and the functions that it calls."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        self.found |= {f"import {each.name.partition('.')[0]}" for each in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = (node.module or "").partition(".")[0]
        self.found |= {f"import {module}"} | {f"{module}.{each.name}" for each in node.names}

    def visit_Call(self, node: ast.Call) -> None:
        self.found.add(ast.unparse(node.func))
        self.generic_visit(node)


NO_CODE_FROM_DATA = {
    *(f"import {name}" for name in ("pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml")),
    *("eval", "exec", "compile", "__import__"),
    *("importlib.import_module", "importlib.__import__", "pydoc.locate"),
}
"""Ways to turn data into code or objects. PyYAML is among them: `ruamel.yaml` is what we use."""
BY_AN_ALLOW_LIST = {("spark_global/values/formats/protobuf_schema.py", "importlib.import_module")}
"""It imports one of the schemas in `_WELL_KNOWN` only."""


def names_in(source: str) -> set[str]:
    visitor = _Names()
    visitor.visit(ast.parse(source))
    return visitor.found & NO_CODE_FROM_DATA


def test_data_never_becomes_code() -> None:
    """CVE-2023-25194: nothing is imported, evaluated or unpickled by what a peer or a file says."""
    used = {
        (str(path.relative_to(ROOT)), name)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in names_in(path.read_text())
    }
    assert used == BY_AN_ALLOW_LIST


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml",
        "f(eval(x))",
        "importlib.import_module(x)",
        "from importlib import import_module",
    ],
)
def test_the_search_for_code_sees_each_form(source: str) -> None:
    assert names_in(source)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_secrets_are_compared_in_constant_time(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CVE-2021-38153: digests of one size decide, and only `hmac.compare_digest` compares them.

    With a comparison that always says no, the right password is refused, and so is every other.
    """
    sizes: set[tuple[int, int]] = set()

    def never(first: bytes, second: bytes) -> bool:
        sizes.add((len(first), len(second)))
        return False

    def is_let_in(password: str) -> bool:
        if mechanism == "PLAIN":
            plain = PlainExchange({"user": "pencil"}.get)
            plain.respond(f"\0user\0{password}".encode())
            return plain.username is not None
        known = credential_of(mechanism, "pencil", b"salt")
        exchange = ScramExchange(mechanism, "theirs", lambda name: known)
        client = ScramClient(mechanism, "user", password, "ours")
        exchange.respond(client.final(exchange.respond(client.first())))
        return exchange.username is not None

    assert is_let_in("pencil")
    monkeypatch.setattr(hmac, "compare_digest", never)
    for password in ("pencil", "p", "pencil" * 9):
        with pytest.raises(AuthenticationError):
            is_let_in(password)
    size = hashlib.new("sha512" if mechanism.endswith("512") else "sha256").digest_size
    assert sizes == {(size, size)}


def test_a_scram_credential_has_iterations_enough() -> None:
    """CVE-2024-56128 names RFC 5802's other demand: at least 4,096 iterations."""
    text = encode_credential(credential_of("SCRAM-SHA-256", "pencil", b"salt", 4096))
    assert decode_credential(text).iterations == 4096
    with pytest.raises(ValueError, match="not a SCRAM credential"):
        decode_credential(text.replace("iterations=4096", "iterations=4095"))


@pytest.mark.parametrize("claimed", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07"])
@pytest.mark.parametrize("is_xerial", [False, True])
def test_snappy_lengths_are_checked_before_memory_is_taken(claimed: bytes, is_xerial: bool) -> None:
    """CVE-2023-34455: a block of a few bytes says that it holds two or four GB."""
    block = claimed + b"\0a"
    header = b"\x82SNAPPY\0" + bytes([0, 0, 0, 1, 0, 0, 0, 1]) + len(block).to_bytes(4, "big")
    with pytest.raises(CompressionError, match="at most 1000 are allowed"):
        decompress(Codec.SNAPPY, header + block if is_xerial else block, 1000)


def test_a_denial_is_one_line_whatever_a_peer_sends(caplog: pytest.LogCaptureFixture) -> None:
    """CVE-2021-44228, CVE-2021-4104: what peers send is logged quoted, cut, and on one line."""
    hostile = (
        "x\nDenied: principal 'User:forged'\r\x1b[2J ${jndi:ldap://h/a} %s %(a)s {0.__class__}"
    )
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    denial = Request("User:" + hostile, "h", "L", "FETCH", hostile, "READ", "TOPIC", hostile)
    denials = Denials(is_dry_run=False)
    denials.note(denial, Decision(False, Rule.DEFAULT_DENY))
    denials.note(denial._replace(name="n" * 32_000), Decision(False, Rule.DEFAULT_DENY))
    first, second = (record.getMessage() for record in caplog.records)
    assert first.isprintable()
    assert first.count(repr(hostile)) == 2
    assert "n" * TEXT_LENGTH_MAX in second
    assert len(second) < 4 * TEXT_LENGTH_MAX
