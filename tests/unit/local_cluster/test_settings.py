"""A settings file with an unknown key, an unknown config or a bad value is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import local_cluster
from local_cluster.broker_configs import KNOWN_BROKER_CONFIGS
from local_cluster.server.process import EXIT_BAD_SETTINGS
from local_cluster.settings import (
    BrokerSettings,
    Listener,
    SettingsError,
    dump_settings,
    load_settings,
)

SETTINGS = BrokerSettings(
    cluster="c",
    broker_id=7,
    listeners=(Listener(name="PLAINTEXT", host="127.0.0.1", port=0, advertised_port=1),),
    inter_broker_listener="PLAINTEXT",
    zookeeper_connect="127.0.0.1:1/c",
    log_dirs=("log",),
    ready_file="ready.json",
    config={"log.retention.hours": "3", "log.cleaner.io.buffer.load.factor": "0.5"},
)


def write(path: Path, changes: dict[str, Any]) -> Path:
    content = json.loads(dump_settings(SETTINGS))
    for key, value in changes.items():
        *parents, last = key.split("/")
        target = content
        for each in parents:
            target = target[int(each) if each.isdecimal() else each]
        target[last] = value
    file = path / "settings.json"
    file.write_text(json.dumps(content))
    return file


def test_what_was_dumped_is_loaded(tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, {})) == SETTINGS


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        (
            {"log_dir": "x"},
            [
                "log_dir: unknown key; expected one of cluster, broker_id, listeners, "
                "inter_broker_listener, zookeeper_connect, log_dirs, ready_file, rack, "
                "zookeeper_session_timeout_ms, zookeeper_security, flush, http_host, http_port, "
                "http_security, "
                "inter_broker_security, broker_principals, internal_topic_writers, "
                "internal_types_reserved, "
                "former_inter_broker_listener, "
                "oauth_allowed_urls, "
                "log_format, config; did you mean 'log_dirs'?"
            ],
        ),
        (
            {"listeners/0/ports": 1},
            [
                "listeners.0.ports: unknown key; expected one of name, host, port, "
                "advertised_host, advertised_port, security_protocol, tls, sasl; "
                "did you mean 'port'?"
            ],
        ),
        (
            {"config/log.retention.hour": "1", "config/num.io.threads": "9", "config/zzz": "1"},
            [
                "config.log.retention.hour: unknown config; expected the name of a broker config; "
                "did you mean 'log.retention.hours'?",
                "config.num.io.threads: this broker does not use this config of Kafka; remove it",
                "config.zzz: unknown config; expected the name of a broker config",
            ],
        ),
        (
            {"config/num.partitions": "many", "config/log.cleaner.enable": "yes"},
            [
                "config.num.partitions: expected a whole number, not 'many'",
                "config.log.cleaner.enable: expected true or false, not 'yes'",
            ],
        ),
        ({"flush": "never"}, ["flush: Input should be 'fsync' or 'page_cache'"]),
    ],
    ids=["key", "key of a listener", "config", "value", "choice"],
)
def test_each_problem_names_the_file_the_key_and_what_is_expected(
    tmp_path: Path, changes: dict[str, Any], problems: list[str]
) -> None:
    file = write(tmp_path, changes)
    with pytest.raises(SettingsError) as refused:
        load_settings(file)
    assert str(refused.value).splitlines() == [f"{file}: {each}" for each in problems]


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text("{")
    with pytest.raises(SettingsError, match=r"settings\.json: the whole file: Invalid JSON"):
        load_settings(file)


def test_the_broker_does_not_start_with_an_unknown_config(tmp_path: Path) -> None:
    file = write(tmp_path, {"config/replica.lag.time.ms": "1000"})
    ended = subprocess.run(
        [sys.executable, "-m", "local_cluster", "--settings", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == EXIT_BAD_SETTINGS
    assert "did you mean 'replica.lag.time.max.ms'?" in ended.stderr


def test_every_config_that_a_broker_reads_is_known() -> None:
    reading = re.compile(
        r'(?:config_int|config_bool|config\.get|\bread)\(\s*"([a-z]+(?:\.[a-z]+)+)"'
    )
    sources = Path(local_cluster.__file__).parent.rglob("*.py")
    read = {name for path in sources for name in reading.findall(path.read_text())}
    assert len(read) > 30
    assert read <= KNOWN_BROKER_CONFIGS


TLS = {"keystore_file": "x.pem"}
INTERNAL = {"name": "PLAINTEXT", "host": "h", "port": 1, "security_protocol": "SSL", "tls": TLS}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"listeners/0/security_protocol": "SSL"}, "a listener of SSL needs `tls`"),
        ({"listeners/0/security_protocol": "SASL_PLAINTEXT"}, "SASL_PLAINTEXT needs `sasl`"),
        ({"listeners/0/tls": TLS}, "a listener of PLAINTEXT has no use for `tls`"),
        ({"listeners/0/security_protocol": "TLS"}, "Input should be 'PLAINTEXT'"),
        ({"listeners": [INTERNAL]}, "has SSL, but `inter_broker_security` has PLAINTEXT"),
        (
            {"listeners": [INTERNAL], "inter_broker_security": {"protocol": "SSL"}},
            "an inter-broker listener of SSL needs `broker_principals`",
        ),
        ({"inter_broker_listener": "X"}, "inter_broker_listener 'X' is none of PLAINTEXT"),
        (
            {"former_inter_broker_listener": "PLAINTEXT"},
            "former_inter_broker_listener 'PLAINTEXT' is the present one",
        ),
        ({"former_inter_broker_listener": "X"}, "'X' is no PLAINTEXT listener"),
        (
            {
                "listeners": [
                    {"name": "PLAINTEXT", "host": "h", "port": 1},
                    {**INTERNAL, "name": "S"},
                ],
                "former_inter_broker_listener": "S",
            },
            "'S' is no PLAINTEXT listener; only those are trusted by name",
        ),
        (
            {"listeners": [{**INTERNAL, "tls": {**TLS, "client_auth": "required"}}]},
            "client_auth required needs a `truststore_file`",
        ),
        (
            {"listeners": [{**INTERNAL, "tls": {**TLS, "principal_mapping_rules": "RULE:x"}}]},
            "expected DEFAULT or RULE:pattern/replacement/",
        ),
        (
            {"listeners": [{**INTERNAL, "tls": {**TLS, "keystore": 1}}]},
            "listeners.0.tls.keystore: unknown key; expected one of keystore_file",
        ),
        (
            {"config": {"zookeeper.set.acl": "true"}},
            "config zookeeper.set.acl needs a user in `zookeeper_security`",
        ),
        (
            {"zookeeper_security": {"username": "kafka"}},
            "`username` and `password` go together",
        ),
        (
            {"zookeeper_security": {"username": "a:b", "password": {"env": "P"}}},
            "ZooKeeper's `username` is not empty and has no colon",
        ),
        (
            {"zookeeper_security": {"user": "kafka"}},
            "zookeeper_security.user: unknown key; expected one of username, password, tls",
        ),
    ],
)
def test_security_settings_that_do_not_go_together_are_refused(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(write(tmp_path, changes))
    assert problem in str(refused.value)
