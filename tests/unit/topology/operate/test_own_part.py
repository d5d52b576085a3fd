"""This host's part by its addresses, and a state directory that keeps its part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.topology.deployment.test_parts_of_hosts import all_of_it
from topology.deployment.deployment import Part, encode_deployment
from topology.deployment.parts_of_hosts import part_here
from topology.deployment.state_dir import StateDir
from topology.operate.own_part import check_part, is_local
from topology.problems import DeployError


def test_a_host_is_local_if_its_address_can_be_bound() -> None:
    assert is_local("127.0.0.1")
    assert is_local("localhost")
    assert not is_local("192.0.2.1"), "an address for documents (RFC 5737)"


def test_a_name_that_cannot_be_resolved_is_no_other_host() -> None:
    with pytest.raises(DeployError, match=r"whether host.invalid is this host"):
        is_local("host.invalid")


def test_a_state_directory_keeps_its_part(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    first = part_here(all_of_it(), Part(host="10.0.0.1"), lambda _: False)
    second = part_here(all_of_it(), Part(host="10.0.0.2"), lambda _: False)
    check_part(first, state)
    state.deployment_file.write_text(encode_deployment(first))
    check_part(first, state)
    with pytest.raises(DeployError, match=r"runs host 10.0.0.1 of flights, not host 10.0.0.2"):
        check_part(second, state)
    by_address = part_here(all_of_it(), None, lambda host: host == "10.0.0.1")
    state.deployment_file.write_text(encode_deployment(by_address))
    with pytest.raises(DeployError, match=r"10.0.0.1 was an address of this host"):
        check_part(replace(second, part=None), state)
