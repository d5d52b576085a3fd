"""The files of a node, at its first start, later, and when it stops being the only one."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from topology.ensemble import node_files
from topology.ensemble.members import Membership, decode_membership, member_address
from topology.ensemble.node_files import needs_first_node, read_secret, write_node_files
from topology.ensemble.start_form import setting

ALONE = {1: member_address("127.0.0.1", 0, 0, "127.0.0.1", 2181)}
WANTED = {n: member_address("127.0.0.1", 10 + n, 20 + n, "127.0.0.1", 2180 + n) for n in (1, 2, 3)}


def template(data: Path) -> str:
    return f"dataDir={data}\nclientPort=2181\n"


def members(config: Path) -> Membership:
    name = setting(config.read_text(), "dynamicConfigFile")
    assert name is not None
    assert Path(name).parent == config.parent
    version = Path(name).name.removeprefix("zookeeper.cfg.dynamic").lstrip(".")
    return decode_membership(Path(name).read_text(), int(version or "0", 16))


def agree(config: Path, text: str, version: int) -> None:
    """Record members as ZooKeeper does."""
    file = config.with_name(f"zookeeper.cfg.dynamic.{version:x}")
    file.write_text(text)
    (config.parent.parent / "version-2").mkdir(exist_ok=True)
    (config.parent.parent / "version-2" / "snapshot.0").touch()
    config.write_text(f"dynamicConfigFile={file}\n")


def test_the_only_node_gets_free_ports_of_the_loopback(tmp_path: Path) -> None:
    (address,) = members(write_node_files(template(tmp_path), ALONE, None)).members.values()
    host, peer, election, _ = address.partition(";")[0].split(":")
    assert host == "127.0.0.1"
    assert int(peer) > 0 and int(election) > 0 and peer != election


def test_recorded_members_survive_and_old_records_go(tmp_path: Path) -> None:
    config = write_node_files(template(tmp_path), WANTED, None)
    assert members(config) == Membership(members=WANTED, is_weighted=True)
    agree(config, Membership(members=WANTED).text(), 0x200000005)
    write_node_files(template(tmp_path), {**WANTED, 4: WANTED[1], 5: WANTED[2]}, None)
    assert members(config) == Membership(members=WANTED, version=0x200000005)
    assert len(list(config.parent.glob("*dynamic*"))) == 1


def test_a_node_that_never_had_an_ensemble_follows_the_file(tmp_path: Path) -> None:
    write_node_files(template(tmp_path), WANTED, None)
    five = {**WANTED, 4: WANTED[1], 5: WANTED[2]}
    assert set(members(write_node_files(template(tmp_path), five, None)).members) == set(five)


def test_node_1_is_needed_until_the_weights_are_equal(tmp_path: Path) -> None:
    assert needs_first_node(tmp_path)
    config = write_node_files(template(tmp_path), WANTED, None)
    assert needs_first_node(tmp_path)
    agree(config, Membership(members=WANTED, is_weighted=True).text(), 0x100000001)
    assert needs_first_node(tmp_path)
    agree(config, Membership(members=WANTED).text(), 0x100000005)
    assert not needs_first_node(tmp_path)


def test_the_data_of_an_older_version_needs_no_node_1(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "log.1").touch()
    assert not needs_first_node(tmp_path)


def test_the_password_is_chosen_once_and_is_its_owners(tmp_path: Path) -> None:
    config = write_node_files(template(tmp_path), ALONE, None)
    secret = read_secret(tmp_path)
    digest = hashlib.sha1(f"heliograph:{secret}".encode()).digest()
    expected = f"heliograph:{base64.b64encode(digest).decode()}"
    assert setting(config.read_text(), "DigestAuthenticationProvider.superDigest") == expected
    assert config.with_name("reconfig-secret").stat().st_mode & 0o777 == 0o600
    write_node_files(template(tmp_path), ALONE, None)
    assert read_secret(tmp_path) == secret
    assert secret not in config.read_text()


def single(directory: Path, *, is_recorded: bool) -> Path:
    """Return the data of a server that was the only node."""
    former = directory / "zookeeper-main"
    if is_recorded:
        agree(write_node_files(template(former), ALONE, None), f"server.1={ALONE[1]}\n", 5)
    (former / "version-2").mkdir(parents=True, exist_ok=True)
    (former / "version-2" / "log.1").write_text("data")
    return former


@pytest.mark.parametrize("is_recorded", [False, True])
def test_node_1_takes_the_data_of_the_only_node_over(tmp_path: Path, is_recorded: bool) -> None:
    former = single(tmp_path, is_recorded=is_recorded)
    data = tmp_path / "zookeeper-main.1"
    for _ in range(2):
        config = write_node_files(template(data), WANTED, former)
        expected = Membership(members={1: WANTED[1]}, version=5 if is_recorded else 0)
        assert members(config) == expected
        assert (data / "version-2" / "log.1").read_text() == "data"
    assert not (former / "version-2").exists()


@pytest.mark.parametrize(("is_recorded", "step"), [(False, 1), (True, 1), (True, 2)])
def test_a_kill_while_it_takes_over_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_recorded: bool, step: int
) -> None:
    former = single(tmp_path, is_recorded=is_recorded)
    data = tmp_path / "zookeeper-main.1"

    class KilledPath(type(data)):  # type: ignore[misc]
        """A path of which the rename of a step never happens."""

        left = step

        def rename(self, target: Path) -> Path:
            KilledPath.left -= 1
            if KilledPath.left == 0:
                raise KeyboardInterrupt
            return Path(self).rename(target)

    with monkeypatch.context() as patch:
        patch.setattr(node_files, "Path", KilledPath)
        with pytest.raises(KeyboardInterrupt):
            write_node_files(template(data), WANTED, KilledPath(former))
    assert (former / "version-2" / "log.1").exists()
    config = write_node_files(template(data), WANTED, former)
    assert set(members(config).members) == {1}
    assert (data / "version-2" / "log.1").read_text() == "data"


def test_data_that_it_has_is_never_replaced(tmp_path: Path) -> None:
    former = single(tmp_path, is_recorded=False)
    data = tmp_path / "zookeeper-main.1"
    (data / "version-2").mkdir(parents=True)
    (data / "version-2" / "log.1").write_text("its own")
    config = write_node_files(template(data), WANTED, former)
    assert members(config) == Membership(members=WANTED)
    assert (data / "version-2" / "log.1").read_text() == "its own"
