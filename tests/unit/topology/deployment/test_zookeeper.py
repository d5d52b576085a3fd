"""The files and the command of the embedded ZooKeeper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from topology.deployment import zookeeper
from topology.deployment.zookeeper import (
    EmbeddedZooKeeper,
    Node,
    QuorumTls,
    ZooKeeperUnavailable,
    files_of_config,
    find_jars,
    find_java,
)


def server(tmp_path: Path, *, fsync: bool = True) -> EmbeddedZooKeeper:
    return EmbeddedZooKeeper(
        directory=tmp_path, data_directory=tmp_path / "data", port=2181, fsync=fsync
    )


def test_the_config_binds_one_address_and_has_no_admin_server(tmp_path: Path) -> None:
    each = server(tmp_path)
    lines = each.files[each.config_file].splitlines()
    assert {"clientPort=2181", "clientPortAddress=127.0.0.1", "admin.enableServer=false"} <= set(
        lines
    )
    assert f"dataDir={tmp_path / 'data'}" in lines
    assert each.connect == "127.0.0.1:2181"


def test_the_nodes_of_an_ensemble_check_certificates(tmp_path: Path) -> None:
    tls = QuorumTls(keystore_file="/s/node.pem", ca_file="/s/ca.pem")
    nodes = tuple(Node("127.0.0.1", 1 + number, 11 + number) for number in range(3))
    each = replace(server(tmp_path), ensemble=nodes, quorum_tls=tls)
    text = each.files[each.config_file]
    assert files_of_config(text) == ("/s/node.pem", "/s/ca.pem")
    assert {"sslQuorum=true", "ssl.quorum.hostnameVerification=true"} <= set(text.splitlines())
    without = replace(each, quorum_tls=None)
    assert "ssl" not in without.files[without.config_file]


def test_the_command_names_its_config_last(tmp_path: Path) -> None:
    argv = server(tmp_path).argv
    assert argv[-2:] == (zookeeper.MAIN_CLASS, str(tmp_path / "zookeeper.cfg"))
    assert f"-Xmx{zookeeper.HEAP_MIB}m" in argv


@pytest.mark.parametrize(("fsync", "word"), [(True, "yes"), (False, "no")])
def test_acknowledged_writes_are_synced_unless_told(tmp_path: Path, fsync: bool, word: str) -> None:
    assert f"-Dzookeeper.forceSync={word}" in server(tmp_path, fsync=fsync).argv


def test_the_jars_are_pysparks() -> None:
    names = [path.name for path in find_jars()]
    assert any(name.startswith("zookeeper-jute-") for name in names)
    assert len(names) == len(set(names))


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = tmp_path / "bin" / "java"
    launcher.parent.mkdir()
    launcher.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == str(launcher)


def test_without_java_there_is_a_plain_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ZooKeeperUnavailable, match="Java 17"):
        find_java()
