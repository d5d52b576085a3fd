"""With which members a node starts."""

from __future__ import annotations

from topology.ensemble.members import Membership
from topology.ensemble.start_form import members_at_start, setting, start_config

WANTED = {1: "a", 2: "b", 3: "c"}


def test_a_new_only_node_starts_with_itself() -> None:
    assert members_at_start({1: "a"}, None, "nothing") == Membership(members={1: "a"})


def test_a_new_node_starts_with_all_of_them_weighted() -> None:
    assert members_at_start(WANTED, None, "nothing") == Membership(members=WANTED, is_weighted=True)


def test_data_of_a_former_version_says_who_its_members_were() -> None:
    assert members_at_start(WANTED, None, "ensemble") == Membership(members=WANTED)
    assert members_at_start({1: "a"}, None, "single") == Membership(members={1: "a"})


def test_recorded_members_stay_and_their_addresses_are_those_of_the_file() -> None:
    recorded = Membership(members={1: "old"}, version=9)
    assert members_at_start(WANTED, recorded, "ensemble") == Membership(members={1: "a"}, version=9)
    five = Membership(members={**WANTED, 4: "d", 5: "e"}, version=9)
    assert members_at_start(WANTED, five, "ensemble") == five, "addresses of others are kept"


TEMPLATE = """\
tickTime=500
dataDir=/d
clientPort=2181
clientPortAddress=10.0.0.1
initLimit=1
server.1=10.0.0.1:2182:2183
server.2=10.0.0.2:2182:2183
sslQuorum=true
"""


def test_the_config_names_a_file_with_the_members_and_has_none_itself() -> None:
    config = start_config(TEMPLATE, "/d/config/members", "heliograph:hash")
    lines = config.splitlines()
    assert not [each for each in lines if each.startswith(("server.", "clientPort"))]
    assert {"tickTime=500", "dataDir=/d", "sslQuorum=true"} <= set(lines)
    assert {"standaloneEnabled=false", "reconfigEnabled=true"} <= set(lines)
    assert setting(config, "dynamicConfigFile") == "/d/config/members"
    assert setting(config, "initLimit") == "20"
    assert "skipACL" not in config
