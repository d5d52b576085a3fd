"""No phase of a move to a secure listener is skipped, on one host or on several."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from local_cluster.controller.member.registered_access import RegisteredAccess
from tests.support.running_chapter import HOSTS, on_hosts, texts
from topology.deployment.deployment import Daemon, Deployment, Part
from topology.deployment.inter_broker_moves import access_of_daemon, move_problems, moves_of
from topology.deployment.parts_of_hosts import part_here
from topology.deployment.protocol_changes import (
    authorizer_problems,
    port_problems,
    protocol_problems,
)
from topology.deployment.render import render
from topology.deployment.state_dir import StateDir
from topology.file.load import parse_topology

PHASES: Final = texts(range(20_000, 20_008))
KEYS: Final = [f"broker-jfk-{number}" for number in (1, 2, 3)]
USER: Final = '["User:broker"]'
TRUST: Final = "set `former_inter_broker: true` at listener PLAINTEXT"


def rendered(text: str) -> Deployment:
    return render(parse_topology(text), StateDir(Path("/state")), topology_file=Path("/conf/t"))


def running(deployment: Deployment, keys: Iterable[str] = KEYS) -> dict[str, Daemon]:
    return {key: deployment.daemon(key) for key in keys}


def problems(
    before: dict[str, Daemon],
    after: Deployment,
    registered: dict[int, RegisteredAccess | None] | None = None,
) -> list[str]:
    return [
        problem
        for move in moves_of(before, after)
        for problem in move_problems(move, registered or {})
    ]


def accesses(phase: int, *ids: int) -> dict[int, RegisteredAccess | None]:
    deployment = rendered(PHASES[phase])
    return {each: access_of_daemon(deployment.daemon(f"broker-jfk-{each}")) for each in ids}


def at_host(phase: int, host: str) -> Deployment:
    """Return what one host runs, if each broker has a host of its own."""
    return part_here(rendered(on_hosts(PHASES[phase])), Part(host=host), lambda _: False)


@pytest.mark.parametrize("phase", range(len(PHASES) - 1))
def test_neighbours_of_the_chapter_are_allowed_forth_and_back(phase: int) -> None:
    one, other = rendered(PHASES[phase]), rendered(PHASES[phase + 1])
    mixed = {**running(one), KEYS[0]: other.daemon(KEYS[0])}
    for before, after in [
        (running(one), other),
        (running(other), one),
        (mixed, other),
        (mixed, one),
        (running(one), one),
    ]:
        for check in (problems, protocol_problems, port_problems, authorizer_problems):
            assert check(before, after) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (0, 2, "broker 1, 2, 3 has no listener SECURE: add it in a step of its own, on every host"),
        (1, 3, f"broker 1, 2, 3 uses listener PLAINTEXT between brokers: {TRUST} until every"),
        (1, 4, f"broker 1, 2, 3 uses listener PLAINTEXT between brokers: {TRUST} until every"),
        (2, 7, "broker 1, 2, 3 has services on listener PLAINTEXT, the first one: put another"),
        (3, 7, "broker 1, 2, 3 has services on listener PLAINTEXT, the first one: put another"),
        (4, 6, "broker 1, 2, 3 has no authorizer: start it with `dry_run: true` in a step"),
        (4, 1, f"broker 1, 2, 3 does not accept brokers on listener PLAINTEXT yet: {TRUST} in a"),
        (3, 1, f"broker 1, 2, 3 does not accept brokers on listener PLAINTEXT yet: {TRUST} in a"),
        (2, 0, "broker 1, 2, 3 uses listener SECURE between brokers: keep it until every broker"),
        (7, 3, "broker 1, 2, 3 has no listener PLAINTEXT, which services would use, as it is the"),
    ],
)
def test_a_skipped_phase_is_refused(before: int, after: int, expected: str) -> None:
    found = problems(running(rendered(PHASES[before])), rendered(PHASES[after]))
    assert any(each.startswith(f"jfk: {expected}") for each in found), found


def test_a_principal_is_accepted_before_it_is_used_and_until_nobody_uses_it() -> None:
    without = rendered(PHASES[1].replace('    broker_principals: ["User:broker"]\n', ""))
    (problem,) = problems(running(without), rendered(PHASES[2]))
    assert "does not accept brokers on listener SECURE yet: add User:broker to `bro" in problem
    renamed = rendered(PHASES[3].replace('["User:broker"]', '["User:admin"]'))
    found = problems(running(rendered(PHASES[3])), renamed)
    assert any("keep User:broker in `broker_principals` until every" in each for each in found)


def test_brokers_with_certificates_share_a_principal_at_any_time() -> None:
    """Only the others know the principal of a certificate."""

    def certified(principals: str) -> Deployment:
        text = PHASES[3].replace("security_protocol: SASL_SSL", "security_protocol: SSL")
        text = text.replace("protocol: SASL_SSL", "protocol: SSL").replace(USER, principals)
        return rendered(re.sub(r"\n *(sasl|users|mechanism|username|password): .*", "", text))

    old, both, new = map(certified, ('["User:a"]', '["User:a", "User:b"]', '["User:b"]'))
    for before, after in [(old, both), (both, new), (new, both), (both, old)]:
        assert problems(running(before), after) == []
    found = problems(running(old), new)
    assert any("keep User:a in `broker_principals`" in each for each in found), found


def test_a_single_broker_restarts_as_a_whole() -> None:
    def single(phase: int) -> Deployment:
        lines = PHASES[phase].replace("replication_factor: 3", "replication_factor: 1")
        return rendered(
            "\n".join(
                each
                for each in lines.splitlines()
                if "{id: 2," not in each and "{id: 3," not in each
            )
        )

    assert problems(running(single(0), KEYS[:1]), single(7)) == []


def test_brokers_that_do_not_run_start_as_the_file_says() -> None:
    assert problems({}, rendered(PHASES[7])) == []
    only_one = running(rendered(PHASES[1]), KEYS[:1])
    assert problems({}, rendered(PHASES[7]), accesses(1, 1, 2, 3)) == [], "their sessions end"
    assert problems(only_one, rendered(PHASES[3])), "broker 2 starts beside broker 1"


def test_hosts_wait_for_each_other() -> None:
    here = HOSTS[0]
    before = running(at_host(2, here), KEYS[:1])
    third = at_host(3, here)
    assert problems(before, third, accesses(2, 1, 2, 3)) == []
    assert problems(before, third, {**accesses(3, 2), **accesses(2, 3)}) == []
    (problem,) = problems(before, third, {**accesses(2, 1, 2), **accesses(1, 3)})
    assert problem.startswith(f"jfk: broker 3 uses listener PLAINTEXT between brokers: {TRUST}")
    (problem,) = problems(running(at_host(1, here), KEYS[:1]), at_host(2, here), accesses(0, 2, 3))
    assert problem.startswith("jfk: broker 2, 3 has no listener SECURE: add it")
    (problem,) = problems(running(at_host(5, here), KEYS[:1]), at_host(6, here), accesses(4, 2, 3))
    assert problem.startswith("jfk: broker 2, 3 has no authorizer: start it with `dry_run: true`")
    closing = running(at_host(6, here), KEYS[:1])
    found = problems(closing, at_host(7, here), {**accesses(6, 2), **accesses(3, 3)})
    assert "broker 3 has services on listener PLAINTEXT, the first one" in found[0]


def test_a_host_that_starts_late_is_checked_too() -> None:
    late = at_host(1, HOSTS[2])
    found = problems({}, late, accesses(3, 1, 2))
    assert any(
        "broker 1, 2 does not accept brokers on listener PLAINTEXT yet" in each for each in found
    )
    assert problems({}, late, accesses(2, 1, 2)) == []


def test_what_is_unknown_stops_only_what_takes_something_away() -> None:
    here = HOSTS[0]
    unknown: dict[int, RegisteredAccess | None] = {2: None, **accesses(2, 3)}
    before = running(at_host(2, here), KEYS[:1])
    (problem,) = problems(before, at_host(3, here), unknown)
    assert "broker 2 runs a version that does not say what it accepts" in problem
    (problem,) = problems(before, at_host(3, here), accesses(2, 2))
    assert "broker 3 is not registered, so nobody knows what it uses" in problem
    assert problems(running(at_host(0, here), KEYS[:1]), at_host(1, here), {2: None}) == []
    assert problems(running(at_host(3, here), KEYS[:1]), at_host(2, here), {2: None}) == []


def test_settings_of_a_newer_version_are_unknown() -> None:
    daemon = rendered(PHASES[1]).daemon(KEYS[0])
    ((path, text),) = daemon.files.items()
    newer_key = replace(daemon, files={path: text.replace("{", '{"new": 1,', 1)})
    assert access_of_daemon(newer_key) == access_of_daemon(daemon)
    newer_value = replace(daemon, files={path: text.replace('"PLAINTEXT"', '"QUIC"')})
    assert access_of_daemon(newer_value) is None


def test_count_would_give_ports_of_one_broker_to_another() -> None:
    listed = PHASES[0]
    start, end = listed.index("    brokers:\n"), listed.index("    topic_defaults")
    counted = listed[:start] + "    brokers: {count: 3, base_port: 20001}\n" + listed[end:]
    one, two = (
        rendered(counted),
        rendered(
            counted.replace("inter_broker: true}\n", "inter_broker: true}\n      - {name: OTHER}\n")
        ),
    )
    assert [each.digest for each in one.daemons] == [
        each.digest for each in rendered(listed).daemons
    ], "the same ports restart nothing"
    found = port_problems(running(one), two)
    assert found == [
        "jfk: broker 2 would have listener PLAINTEXT at port 20003, not 20002: list the brokers"
        " with their `ports` first",
        "jfk: broker 3 would have listener PLAINTEXT at port 20005, not 20003: list the brokers"
        " with their `ports` first",
    ]
